"""MiniGrid-MultiRoom: a chain of rooms of random sizes, a door between each two, the goal in the last."""

import dataclasses
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from envs.minigrid import cells as c
from envs.minigrid.core import MiniGrid
from envs.minigrid.level import Level

_TRIES = 8
"""How often Farama tries to add a room before it ends the chain."""


class Chain(NamedTuple):
    """A chain of rooms being built; rooms beyond `count` have no meaning.

    Attributes:
      left, top, width, height: of each room, walls included, `[rooms]`.
      door_x, door_y: the door by which one enters it, `[rooms]`; of the first, its top left corner.
      entry: the wall of the last room that its door is in: 0 right, 1 down, 2 left, 3 up.
      count: rooms so far.
      tries: attempts at the next room so far.
      draws: attempts ever.
    """

    left: Array
    top: Array
    width: Array
    height: Array
    door_x: Array
    door_y: Array
    entry: Array
    count: Array
    tries: Array
    draws: Array


@dataclasses.dataclass(frozen=True)
class MultiRoom(MiniGrid):
    """Open the doors of all rooms one after the other to get to the goal in the last.

    Attributes:
      num_rooms: rooms in the chain, 1 or more.
      room_size: largest side of a room, walls included; 4 or more, and the smallest is 4.
      side: side of the grid.
      id: its name where a registered one differs from what the numbers say.
    """

    num_rooms: int = 6
    room_size: int = 10
    side: int = 25
    id: str = ""

    landmarks: ClassVar[dict[str, int]] = {"goal": c.GOAL}
    mission: ClassVar[str] = "traverse the rooms to get to the goal"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_rooms < 1:
            raise ValueError(f"num_rooms is {self.num_rooms}, but there must be at least 1; try 1")
        if not 4 <= self.room_size <= self.side - 1:
            nearest = min(max(self.room_size, 4), self.side - 1)
            raise ValueError(f"room_size is {self.room_size}, but must be from 4 to {self.side - 1}; try {nearest}")
        # Sixteen rooms of the smallest size fill what a chain can reach; beyond that almost every chain is a dead end.
        most = max((self.side // 5) ** 2 * 16 // 25, 1)
        if self.num_rooms > most:
            raise ValueError(
                f"num_rooms is {self.num_rooms}, but {self.side} x {self.side} cells hold {most}; try {most}"
            )

    @property
    def name(self) -> str:
        return self.id or f"MiniGrid-MultiRoom-N{self.num_rooms}-S{self.room_size}-v0"

    @property
    def shape(self) -> tuple[int, int]:
        return self.side, self.side

    @property
    def max_steps(self) -> int:
        return 20 * self.num_rooms

    def build(self, level: Level) -> dict[str, Any] | None:
        chain = self._chain(jax.random.wrap_key_data(jnp.stack([level.words(), level.words()]), impl="threefry2x32"))
        level.fill(level.rectangle(0, 0, self.side, self.side), c.EMPTY)
        previous = None
        for room in range(self.num_rooms):
            outer = self._inside(level, chain, room, walls=True)
            level.fill(outer & ~self._inside(level, chain, room), c.GREY_WALL)
            if room == 0:
                continue
            # Any colour but that of the door before.
            colour = level.colour() if previous is None else (previous + level.between(1, 6)) % 6
            level.put(chain.door_x[room], chain.door_y[room], c.cell(c.CLOSED_DOOR, colour))
            previous = colour
        level.place_agent(self._inside(level, chain, 0))
        level.place(c.GREEN_GOAL, self._inside(level, chain, self.num_rooms - 1))

    def _inside(self, level: Level, chain: Chain, room: int, walls: bool = False):
        """The cells of a room, without or with its walls."""
        margin = 0 if walls else 1
        sides = chain.width[room] - 2 * margin, chain.height[room] - 2 * margin
        return level.rectangle(chain.left[room] + margin, chain.top[room] + margin, *sides)

    def _chain(self, key: Array) -> Chain:
        """Draws chains until one has all its rooms."""
        nothing, zero = jnp.zeros(self.num_rooms, jnp.int32), jnp.int32(0)
        empty = Chain(*[nothing] * 6, jnp.int32(2), zero, zero, zero)
        return lax.while_loop(
            lambda chain: chain.count < self.num_rooms, lambda chain: self._attempt(key, chain), empty
        )

    def _attempt(self, key: Array, chain: Chain) -> Chain:
        """Tries to add one room to the chain, by a door in a random wall of the last; starts anew after eight failures.

        Farama's recursion never takes a room back: a chain that cannot go on is a failure as a whole.
        """
        words = jax.random.bits(jax.random.fold_in(key, chain.draws), (6,))
        wall_word, along_word, width_word, height_word, shift_word, _ = words

        def pick(word: Array, low: Array | int, high: Array | int) -> Array:
            return low + (word % jnp.asarray(high - low).astype(jnp.uint32)).astype(jnp.int32)

        last = chain.count - 1
        left, top, room_width, room_height = (side[last] for side in (chain.left, chain.top, chain.width, chain.height))
        exit_wall = (chain.entry + pick(wall_word, 1, 4)) % 4
        along_x, along_y = pick(along_word, 1, room_width - 1), pick(along_word, 1, room_height - 1)
        door_x = left + jnp.select([exit_wall == 0, exit_wall == 2], [room_width - 1, jnp.int32(0)], along_x)
        door_y = top + jnp.select([exit_wall == 1, exit_wall == 3], [room_height - 1, jnp.int32(0)], along_y)
        first = chain.count == 0
        # The first room has its top left corner anywhere, and counts as entered from the left.
        door_x = jnp.where(first, pick(wall_word, 0, self.side - 2), door_x)
        door_y = jnp.where(first, pick(along_word, 0, self.side - 2), door_y)
        entry = jnp.where(first, 2, (exit_wall + 2) % 4)

        width, height = pick(width_word, 4, self.room_size + 1), pick(height_word, 4, self.room_size + 1)
        new_left = jnp.select(
            [entry == 0, entry == 2], [door_x - width + 1, door_x], pick(shift_word, door_x - width + 2, door_x)
        )
        new_top = jnp.select(
            [entry == 1, entry == 3], [door_y - height + 1, door_y], pick(shift_word, door_y - height + 2, door_y)
        )
        new_left, new_top = jnp.where(first, door_x, new_left), jnp.where(first, door_y, new_top)

        in_map = (new_left >= 0) & (new_top >= 0) & (new_left + width <= self.side) & (new_top + height < self.side)
        # The last room shares a wall with the new one; the others must keep clear of it, on two sides by one cell more.
        clear = (
            (new_left + width < chain.left)
            | (chain.left + chain.width <= new_left)
            | (new_top + height < chain.top)
            | (chain.top + chain.height <= new_top)
        )
        fits = in_map & (clear | (np.arange(self.num_rooms) >= last)).all()

        new = np.arange(self.num_rooms) == chain.count
        fields = chain.left, chain.top, chain.width, chain.height, chain.door_x, chain.door_y
        values = new_left, new_top, width, height, door_x, door_y
        placed = [jnp.where(new & fits, value, field) for field, value in zip(fields, values, strict=True)]
        gives_up = ~fits & (first | (chain.tries + 1 == _TRIES))
        return Chain(
            *placed,
            entry=jnp.where(fits, entry, chain.entry),
            count=jnp.where(gives_up, 0, chain.count + fits),
            tries=jnp.where(fits | gives_up, 0, chain.tries + 1),
            draws=chain.draws + 1,
        )
