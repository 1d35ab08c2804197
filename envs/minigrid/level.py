"""Building one level: walls drawn, things placed where there is room for them, the agent put in.

A family's `build` works on a `Level` as Farama's `_gen_grid` does on its grid, one statement after the other; the
program that results is compiled for many levels at once. Where Farama draws again until a place fits, one draw among
the places that fit has the same distribution.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from envs.minigrid import cells as c

Int = int | np.integer | np.ndarray | Array
Mask = np.ndarray | Array


class Words:
    """Uniform uint32 numbers, handed out in order. Without values it counts how many a level needs."""

    def __init__(self, values: Array | None = None):
        self.values, self.used = values, 0

    def __call__(self, count: int) -> Array:
        """The next `count`."""
        start, self.used = self.used, self.used + count
        return jnp.zeros(count, jnp.uint32) if self.values is None else self.values[start : self.used]


class Level:
    """An empty room with grey walls around, to be built on.

    Attributes:
      grid: cells `[height, width]`, uint8.
      contents: what boxes hold, cells likewise; None until a box holds something.
      agent: index of the agent's cell, `y * width + x`; -1 until it is placed.
      direction: where it faces.
      x, y: coordinates of every cell, `[height, width]`, to make masks of.
    """

    changing: ClassVar[tuple[str, ...]] = ("grid", "contents", "agent", "direction")

    def __init__(self, words: Words, height: int, width: int):
        self.words, self.height, self.width = words, height, width
        self.grid: Array = jnp.asarray(walled(height, width))
        self.contents: Array | None = None
        self.agent: Array = jnp.int32(-1)
        self.direction: Array = jnp.int32(0)
        self.y, self.x = np.mgrid[:height, :width]

    # -- random numbers ------------------------------------------------------------------------------------------------

    def below(self, n: Int) -> Array:
        """Uniform in 0 .. n - 1, up to n / 2^32; as many numbers as `n` has."""
        n = jnp.asarray(n)
        words = self.words(n.size).reshape(n.shape)
        return jnp.asarray(words % n.astype(jnp.uint32), jnp.int32)

    def between(self, low: Int, high: Int) -> Array:
        """Uniform in low .. high - 1."""
        return jnp.asarray(low) + self.below(jnp.asarray(high) - low)

    def colour(self) -> Array:
        """One of the six colours."""
        return self.below(6)

    def permutation(self, n: int) -> Array:
        """0 .. n - 1 in random order, for small n: counting takes n^2 steps, but a sort takes a second to compile."""
        words, numbers = self.words(n), np.arange(n)
        before = (words[:, None] > words) | ((words[:, None] == words) & (numbers[:, None] > numbers))
        rank = before.sum(axis=1)
        return jnp.where(rank[:, None] == numbers, numbers[:, None], 0).sum(axis=0).astype(jnp.int32)

    def choose(self, mask: Mask) -> tuple[Array, Array]:
        """One of the True entries of a mask `[rows, columns]`, all equally likely: `(column, row)`."""
        return choose(mask, self.words(1)[0])

    # -- building ------------------------------------------------------------------------------------------------------

    def rectangle(self, left: Int, top: Int, width: Int, height: Int) -> Mask:
        """The cells of a rectangle."""
        return (self.x >= left) & (self.x < left + width) & (self.y >= top) & (self.y < top + height)

    def fill(self, where: Mask, cell: Int) -> None:
        """Sets all cells of a mask."""
        self.grid = jnp.where(where, jnp.asarray(cell).astype(jnp.uint8), self.grid)
        if self.contents is not None:
            self.contents = jnp.where(where, jnp.uint8(c.EMPTY), self.contents)

    def put(self, x: Int, y: Int, cell: Int, contents: Int | None = None) -> None:
        """Sets one cell, whatever was there; `contents` is what a box holds."""
        here = (self.x == x) & (self.y == y)
        self.fill(here, cell)
        if contents is not None:
            if self.contents is None:
                self.contents = jnp.full_like(self.grid, c.EMPTY)
            self.contents = jnp.where(here, jnp.asarray(contents).astype(jnp.uint8), self.contents)

    def free(self) -> Array:
        """The cells with nothing on them and no agent."""
        return (self.grid == c.EMPTY) & (self.y * self.width + self.x != self.agent)

    def place(self, cell: Int, where: Mask | bool = True, contents: Int | None = None) -> tuple[Array, Array]:
        """Puts a thing on a random free cell of a mask: `(x, y)`."""
        x, y = self.choose(self.free() & where)
        self.put(x, y, cell, contents)
        # Otherwise XLA works out all placements so far anew for each that follows.
        self.grid = lax.optimization_barrier(self.grid)
        return x, y

    def place_each(self, things: np.ndarray | Array) -> Array:
        """Puts things `[K]` on random free cells, one after the other: `(x, y)`, `[K, 2]`."""
        return self.each(lambda thing: jnp.stack(self.place(thing)), jnp.asarray(things).astype(jnp.uint8))

    def each(self, work: Callable[..., Any], *rows: np.ndarray | Array) -> Any:
        """`work(*row)` on this level for every row of some arrays in turn; what it returns, stacked.

        A loop in the program, which compiles faster than as many calls.
        """

        def one(canvas: dict[str, Any], words: Words, row: tuple[Array, ...]) -> tuple[dict[str, Any], Any]:
            self.canvas, self.words = canvas, words
            result = work(*row)
            return self.canvas, result

        start, words, arrays = self.canvas, self.words, tuple(jnp.asarray(row) for row in rows)
        dry = Words()
        after, _ = jax.eval_shape(lambda: one(start, dry, tuple(array[0] for array in arrays)))
        if start["contents"] is None and after["contents"] is not None:
            start["contents"] = jnp.full_like(start["grid"], c.EMPTY)
        count = len(arrays[0])
        numbers = words(count * dry.used).reshape(count, dry.used)
        self.canvas, results = lax.scan(
            lambda canvas, inputs: one(canvas, Words(inputs[0]), inputs[1]), start, (numbers, arrays)
        )
        self.words = words
        return results

    @property
    def canvas(self) -> dict[str, Any]:
        """The attributes that building changes."""
        return {name: getattr(self, name) for name in self.changing}

    @canvas.setter
    def canvas(self, values: dict[str, Any]) -> None:
        for name, value in values.items():
            setattr(self, name, value)

    def put_agent(self, x: Int, y: Int, direction: Int) -> None:
        """Puts the agent on a cell."""
        self.agent = jnp.asarray(y * self.width + x, jnp.int32)
        self.direction = jnp.asarray(direction, jnp.int32)

    def place_agent(self, where: Mask | bool = True) -> None:
        """Puts the agent on a random free cell of a mask, facing anywhere."""
        self.agent = jnp.int32(-1)
        x, y = self.choose(self.free() & where)
        self.put_agent(x, y, self.below(4))


def walled(height: int, width: int) -> np.ndarray:
    """An empty room: cells `[height, width]` with grey walls around."""
    room = np.full((height, width), c.EMPTY, np.uint8)
    room[[0, -1], :] = room[:, [0, -1]] = c.GREY_WALL
    return room


def choose(mask: Mask, word: Array) -> tuple[Array, Array]:
    """The True entry of `mask` `[rows, columns]` that a random word picks: `(column, row)`.

    The entry with the largest hash of word and place; hashes of different places differ. Finding it takes two passes of
    a vector unit, where counting to a random rank takes a dozen small steps, each of which costs time to compile.
    """
    rows, columns = mask.shape
    place = np.arange(rows * columns, dtype=np.uint32).reshape(rows, columns)
    hashes = jnp.where(mask, mix(word + place * np.uint32(0x9E3779B9)), 0)
    index = jnp.where((hashes == hashes.max()) & mask, place.astype(np.int32), rows * columns).min()
    return index % columns, index // columns


def mix(word: Array) -> Array:
    """A bijection of uint32 in which every bit depends on all: the finaliser of MurmurHash3 (Appleby, 2011)."""
    word = (word ^ word >> 16) * jnp.uint32(0x85EBCA6B)
    word = (word ^ word >> 13) * jnp.uint32(0xC2B2AE35)
    return word ^ word >> 16
