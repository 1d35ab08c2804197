"""MiniGrid-MultiRoom: a chain of rooms of random sizes, a door between each two, the goal in the last."""

import dataclasses
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from envs.minigrid import cells as c
from envs.minigrid.core import MiniGrid
from envs.minigrid.level import Level, mix
from envs.minigrid.world import DONE, DROP, GridState

_NAMES = {(4, 5): "MultiRoom-N4-S5-v1", (6, 5): "MultiRoom-N4-S5-v0", (6, 10): "MultiRoom-N6-v0"}
"""Farama's names that do not follow from the numbers; its N4-S5-v0 has six rooms."""

_TRIES = 8
"""How often Farama tries to add a room before it ends the chain."""


class Chain(NamedTuple):
    """A chain of rooms being built; rooms beyond `count` have no meaning.

    Attributes:
      rooms: left, top, width and height, walls included, and the place (x, y) of the door by which one enters, int32
        `[rooms, 6]`. The first room's "door" is its top left corner.
      entry: the wall of the last room that its door is in: 0 right, 1 down, 2 left, 3 up.
      count: rooms so far.
      tries: attempts at the next room so far.
      draws: attempts ever.
    """

    rooms: Array
    entry: Array
    count: Array
    tries: Array
    draws: Array


@dataclasses.dataclass(frozen=True)
class MultiRoom(MiniGrid):
    """Open the doors of all rooms one after the other to get to the goal in the last.

    Farama draws chains of rooms until one is long enough: 44 attempts at a room for a level of N6, 1,000 for N10-S10
    and 13,000 for N12-S10, which makes their levels dear; `VecEnv(..., resets="pool")` spreads the cost.

    Attributes:
      num_rooms: rooms in the chain, 1 or more.
      room_size: largest side of a room, walls included; 4 or more, and the smallest is 4.
      side: side of the grid.
    """

    num_rooms: int = 6
    room_size: int = 10
    side: int = 25

    landmarks: ClassVar[dict[str, int]] = {"goal": c.GOAL}
    mission: ClassVar[str] = "traverse the rooms to get to the goal"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_rooms < 1:
            raise ValueError(f"num_rooms is {self.num_rooms}, but there must be at least 1; try 1")
        if self.side < 5:
            raise ValueError(f"side is {self.side}, but a grid needs 5 for the smallest room; try 5")
        if not 4 <= self.room_size <= self.side - 1:
            nearest = min(max(self.room_size, 4), self.side - 1)
            raise ValueError(f"room_size is {self.room_size}, but must be from 4 to {self.side - 1}; try {nearest}")
        # Longer chains are found once in tens of thousands of attempts, or never.
        most = min(20, self.side - 5 or 1, int(0.7 * self.side**2 / ((self.room_size + 4) / 2 - 1) ** 2))
        if self.num_rooms > most:
            raise ValueError(
                f"num_rooms is {self.num_rooms}, but chains of rooms of up to {self.room_size} in {self.side} x "
                f"{self.side} cells hardly ever get longer than {most}; try {most}"
            )

    @property
    def name(self) -> str:
        numbers = self.num_rooms, self.room_size
        if self.side != 25:
            return "MiniGrid-MultiRoom-N{}-S{}-side{}".format(*numbers, self.side)
        return f"MiniGrid-{_NAMES.get(numbers) or 'MultiRoom-N{}-S{}-v0'.format(*numbers)}"

    @property
    def shape(self) -> tuple[int, int]:
        return self.side, self.side

    @property
    def max_steps(self) -> int:
        return 20 * self.num_rooms

    def build(self, level: Level) -> None:
        rooms = self._chain(level.words(2)).rooms
        left, top, width, height, door_x, door_y = (column[:, None, None] for column in rooms.T)
        outer, inner = (
            (level.x >= left + margin)
            & (level.x < left + width - margin)
            & (level.y >= top + margin)
            & (level.y < top + height - margin)
            for margin in (0, 1)
        )
        # A door has any colour but that of the one before.
        steps = level.between(np.arange(self.num_rooms) != 0, 6)
        doors = c.cell(c.CLOSED_DOOR, jnp.cumsum(steps) % 6)[:, None, None]
        is_door = (level.x == door_x) & (level.y == door_y) & (np.arange(self.num_rooms) > 0)[:, None, None]
        level.fill(np.ones(self.shape, bool), jnp.where((outer & ~inner).any(axis=0), c.GREY_WALL, c.EMPTY))
        level.fill(is_door.any(axis=0), jnp.where(is_door, doors, 0).sum(axis=0))
        self.place_agent(level, inner[0])
        level.place(c.GREEN_GOAL, inner[-1])

    def place_agent(self, level: Level, room: Array) -> None:
        """Puts the agent in the first room, whose inside is the mask `room`."""
        level.place_agent(room)

    def _chain(self, seed: Array) -> Chain:
        """Draws chains, from two random words, until one has all its rooms."""
        zero = jnp.int32(0)
        empty = Chain(jnp.zeros((self.num_rooms, 6), jnp.int32), jnp.int32(2), zero, zero, zero)
        return lax.while_loop(
            lambda chain: chain.count < self.num_rooms, lambda chain: self._attempt(seed, chain), empty
        )

    def _attempt(self, seed: Array, chain: Chain) -> Chain:
        """Tries to add one room to the chain, by a door in a random wall of the last; starts anew after eight failures.

        Farama's recursion never takes a room back: a chain that cannot go on is a failure as a whole.
        """
        counter = chain.draws.astype(jnp.uint32) * 5 + np.arange(5, dtype=np.uint32)
        words = lax.optimization_barrier(mix(mix(counter + seed[0]) ^ seed[1]))
        wall_word, along_word, width_word, height_word, shift_word = words

        def pick(word: Array, low: Array | int, high: Array | int) -> Array:
            return low + (word % jnp.asarray(high - low).astype(jnp.uint32)).astype(jnp.int32)

        first, last = chain.count == 0, chain.count - 1
        left, top, room_width, room_height = chain.rooms[last, :4]
        exit_wall = (chain.entry + pick(wall_word, 1, 4)) % 4
        along_x, along_y = pick(along_word, 1, room_width - 1), pick(along_word, 1, room_height - 1)
        door_x = left + jnp.select([exit_wall == 0, exit_wall == 2], [room_width - 1, jnp.int32(0)], along_x)
        door_y = top + jnp.select([exit_wall == 1, exit_wall == 3], [room_height - 1, jnp.int32(0)], along_y)
        entry = (exit_wall + 2) % 4

        width, height = pick(width_word, 4, self.room_size + 1), pick(height_word, 4, self.room_size + 1)
        beside_x, beside_y = pick(shift_word, door_x - width + 2, door_x), pick(shift_word, door_y - height + 2, door_y)
        new_left = jnp.select([entry == 0, entry == 2], [door_x - width + 1, door_x], beside_x)
        new_top = jnp.select([entry == 1, entry == 3], [door_y - height + 1, door_y], beside_y)
        # The first room has its top left corner anywhere, and counts as entered from the left.
        anywhere = pick(wall_word, 0, self.side - 2), pick(along_word, 0, self.side - 2)
        new_left, new_top = jnp.where(first, anywhere[0], new_left), jnp.where(first, anywhere[1], new_top)
        entry = jnp.where(first, 2, entry)

        # Otherwise XLA works all this out anew for each of its uses, and compiles it as often.
        new = lax.optimization_barrier(jnp.stack([new_left, new_top, width, height, door_x, door_y]))
        new_left, new_top, width, height = new[:4]
        in_map = (new_left >= 0) & (new_top >= 0) & (new_left + width <= self.side) & (new_top + height < self.side)
        # The last room shares a wall with the new one; the others must keep clear of it, on two sides by one cell more.
        lefts, tops, widths, heights = chain.rooms[:, :4].T
        clear = (
            (new_left + width < lefts)
            | (lefts + widths <= new_left)
            | (new_top + height < tops)
            | (tops + heights <= new_top)
        )
        numbers = np.arange(self.num_rooms)
        fits = in_map & (clear | (numbers >= last)).all()
        gives_up = ~fits & (first | (chain.tries + 1 == _TRIES))
        return Chain(
            rooms=jnp.where(((numbers == chain.count) & fits)[:, None], new, chain.rooms),
            entry=jnp.where(fits, entry, chain.entry),
            count=jnp.where(gives_up, 0, chain.count + fits),
            tries=jnp.where(fits | gives_up, 0, chain.tries + 1),
            draws=chain.draws + 1,
        )


@dataclasses.dataclass(frozen=True)
class MultiRoomNoisyTV(MultiRoom):
    """MultiRoom with a ball in the first room, whose colour the drop action draws anew wherever the ball is.

    Dropping is all that the action does not do. From the authors' code for RIDE (Raileanu and Rocktaeschel, 2020).
    """

    @property
    def name(self) -> str:
        return f"MiniGrid-MultiRoomNoisyTV-N{self.num_rooms}-S{self.room_size}-v0"

    def place_agent(self, level: Level, room: Array) -> None:
        level.place(c.cell(c.BALL, level.colour()), room)
        level.place_agent(room)

    def stir(self, key: Array, state: GridState, action: Array) -> GridState:
        ball = c.cell(jnp.uint8(c.BALL), jax.random.bits(key, action.shape) % 6).astype(jnp.uint8)

        def recolour(cells: Array) -> Array:
            shape = (-1,) + (1,) * (cells.ndim - 1)
            changes = (c.kind(cells) == c.BALL) & (action == DROP).reshape(shape)
            return jnp.where(changes, ball.reshape(shape), cells)

        return state._replace(grid=recolour(state.grid), carrying=recolour(state.carrying))

    def meant(self, action: Array) -> Array:
        return jnp.where(action == DROP, DONE, action)
