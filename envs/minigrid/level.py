"""Building one level: walls drawn, things placed where there is room for them, the agent put in.

A family's `build` works on a `Level` as Farama's `_gen_grid` does on its grid, one statement after the other; the
program that results is compiled for many levels at once. Where Farama draws again until a place fits, one draw among
the places that fit has the same distribution.
"""

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from envs.minigrid import cells as c

Int = int | Array
Mask = np.ndarray | Array


class Words:
    """Uniform uint32 numbers, handed out one by one. Without values it counts how many a level needs."""

    def __init__(self, values: Array | None = None):
        self.values, self.used = values, 0

    def __call__(self) -> Array:
        self.used += 1
        return jnp.uint32(0) if self.values is None else self.values[self.used - 1]


class Level:
    """An empty room with grey walls around, to be built on.

    Attributes:
      grid: cells `[height, width]`, uint8.
      contents: what boxes hold, cells likewise; None until a box holds something.
      agent: index of the agent's cell, `y * width + x`; -1 until it is placed.
      direction: where it faces.
      x, y: coordinates of every cell, `[height, width]`, to make masks of.
    """

    def __init__(self, words: Words, height: int, width: int):
        self.words, self.height, self.width = words, height, width
        self.grid: Array = jnp.asarray(walled(height, width))
        self.contents: Array | None = None
        self.agent: Array = jnp.int32(-1)
        self.direction: Array = jnp.int32(0)
        self.y, self.x = np.mgrid[:height, :width]

    # -- random numbers ------------------------------------------------------------------------------------------------

    def below(self, n: Int) -> Array:
        """Uniform in 0 .. n - 1, up to n / 2^32."""
        return (self.words() % jnp.asarray(n).astype(jnp.uint32)).astype(jnp.int32)

    def between(self, low: Int, high: Int) -> Array:
        """Uniform in low .. high - 1."""
        return low + self.below(high - low)

    def colour(self) -> Array:
        """One of the six colours."""
        return self.below(6)

    def choose(self, mask: Mask) -> tuple[Array, Array]:
        """One of the True entries of a mask `[rows, columns]`, all equally likely: `(column, row)`."""
        in_row = mask.sum(axis=1, dtype=np.int32)
        rank = self.below(in_row.sum())
        row = (_running_sum(in_row) <= rank).sum()
        rank -= jnp.where(np.arange(mask.shape[0]) < row, in_row, 0).sum()
        here = (jnp.asarray(mask) & (np.arange(mask.shape[0]) == row)[:, None]).any(axis=0)
        column = (_running_sum(here.astype(jnp.int32)) <= rank).sum()
        return column, row

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


def _running_sum(counts: Mask) -> Array:
    """Sums up to and including each entry. For a few entries faster to run and to compile than `cumsum`."""
    return jnp.where(np.tri(counts.shape[0], dtype=bool), counts, 0).sum(axis=1)
