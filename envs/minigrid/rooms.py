"""Levels that are a grid of equal rooms with shared walls: Farama's `RoomGrid`."""

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from envs.minigrid import cells as c
from envs.minigrid.level import Int, Level, Words
from envs.minigrid.view import STEP_X, STEP_Y

RIGHT, DOWN, LEFT, UP = range(4)
"""The walls of a room, numbered like directions."""


def beside(side: Int) -> tuple[Int, Int]:
    """One step in a direction, `(x, y)`."""
    return 1 * (side == RIGHT) - 1 * (side == LEFT), 1 * (side == DOWN) - 1 * (side == UP)


class RoomLevel(Level):
    """`columns x rows` rooms of side `room_size`, walls included. Room (i, j) is in column i and row j.

    Attributes:
      has_door: which walls between rooms have a door or are removed, bool `[E]`; see `edge`.
      locked: which rooms count as locked, bool `[rows * columns]`.
    """

    changing = (*Level.changing, "has_door", "locked")

    def __init__(self, words: Words, room_size: int, rows: int, columns: int):
        self.size, self.rows, self.columns = room_size, rows, columns
        super().__init__(words, (room_size - 1) * rows + 1, (room_size - 1) * columns + 1)
        on_wall = (self.x % (room_size - 1) == 0) | (self.y % (room_size - 1) == 0)
        self.grid = jnp.asarray(np.where(on_wall, c.GREY_WALL, c.EMPTY).astype(np.uint8))
        # Until it is placed, the agent counts as being in the middle room, and things keep their distance from there.
        middle = [n // 2 * (room_size - 1) + room_size // 2 for n in (columns, rows)]
        self.put_agent(middle[0], middle[1], RIGHT)
        self.rooms_of_edge = np.array(
            [(j * columns + i, j * columns + i + 1) for j in range(rows) for i in range(columns - 1)]
            + [(j * columns + i, (j + 1) * columns + i) for j in range(rows - 1) for i in range(columns)]
        )
        self.has_door: Array = jnp.zeros(len(self.rooms_of_edge), bool)
        self.locked: Array = jnp.zeros(rows * columns, bool)

    def edge(self, i: Int, j: Int, side: Int) -> Int:
        """The number of a wall between two rooms: first those between neighbours in a row, then in a column."""
        i, j = i - 1 * (side == LEFT), j - 1 * (side == UP)
        in_row, in_column = j * (self.columns - 1) + i, self.rows * (self.columns - 1) + j * self.columns + i
        return jnp.where(side % 2 == 0, in_row, in_column)

    def room(self, i: Int, j: Int):
        """The cells of a room, walls included."""
        return self.rectangle(i * (self.size - 1), j * (self.size - 1), self.size, self.size)

    def door_place(self, i: Int, j: Int, side: Int) -> tuple[Int, Int]:
        """A random place for a door in the wall of a room."""
        last, along = self.size - 1, self.between(1, self.size - 1)
        x = i * last + jnp.where(side % 2 == 0, last * (side == RIGHT), along)
        y = j * last + jnp.where(side % 2 == 0, along, last * (side == DOWN))
        return x, y

    def add_door(
        self, i: Int, j: Int, side: Int, colour: Int, locked: bool, blocked_by: Int | None = None
    ) -> tuple[Int, Int]:
        """A door in the wall of room (i, j), with a thing in front of it inside the room if asked: its `(x, y)`."""
        x, y = self.door_place(i, j, side)
        self.put(x, y, c.cell(c.LOCKED_DOOR if locked else c.CLOSED_DOOR, colour))
        if blocked_by is not None:
            step_x, step_y = beside(side)
            self.put(x - step_x, y - step_y, blocked_by)
        self.has_door |= np.arange(len(self.rooms_of_edge)) == self.edge(i, j, side)
        here = np.arange(self.rows * self.columns) == j * self.columns + i
        self.locked = self.locked | here if locked else self.locked & ~here
        return x, y

    def remove_wall(self, i: int, j: int, side: int) -> None:
        """Takes away the wall between two rooms, but for its ends."""
        left, top, last = i * (self.size - 1), j * (self.size - 1), self.size - 1
        if side in (RIGHT, LEFT):
            wall = self.rectangle(left + last * (side == RIGHT), top + 1, 1, last - 1)
        else:
            wall = self.rectangle(left + 1, top + last * (side == DOWN), last - 1, 1)
        self.fill(wall, c.EMPTY)
        self.has_door |= np.arange(len(self.rooms_of_edge)) == self.edge(i, j, side)

    def place_in_room(self, i: Int, j: Int, cell: Int, contents: Int | None = None) -> tuple[Array, Array]:
        """Puts a thing in a room, on a free cell that does not touch the agent's: `(x, y)`."""
        x, y = self.agent % self.width, self.agent // self.width
        apart = jnp.abs(self.x - x) + jnp.abs(self.y - y) >= 2
        return self.place(cell, self.room(i, j) & apart, contents)

    def place_agent_in_room(self, i: Int, j: Int) -> None:
        """Puts the agent in a room, facing an empty cell or a wall."""
        self.agent = jnp.int32(-1)
        here = self.free() & self.room(i, j)
        ahead = (self.grid == c.EMPTY) | (self.grid == c.GREY_WALL)
        # Rooms keep the agent off the border, so what is rolled over the edge is not looked at.
        facing = [here & jnp.roll(ahead, (-STEP_Y[d], -STEP_X[d]), (0, 1)) for d in range(4)]
        x, row = self.choose(jnp.concatenate(facing))
        self.put_agent(x, row % self.height, row // self.height)

    def connect_all(self) -> None:
        """Adds closed doors at random, none to a locked room, until every room can be reached.

        Farama draws walls until all rooms are connected, skipping those that have a door or bound a locked room: the
        same as going through all walls in random order.
        """
        edges = len(self.rooms_of_edge)
        first, second = (jnp.asarray(rooms) for rooms in self.rooms_of_edge.T)
        allowed = ~self.has_door & ~self.locked[first] & ~self.locked[second]

        def visit(_: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            """Goes to the wall with the highest number left; rooms `[rooms]` in one group are connected."""
            left, group, added = carry
            edge = jnp.argmax(left)
            here = np.arange(edges) == edge
            adds = allowed[edge] & (group != group[0]).any()
            joined = jnp.where(group == group[second[edge]], group[first[edge]], group)
            group = jnp.where(adds | self.has_door[edge], joined, group)
            return jnp.where(here, 0, left), group, added | (adds & here)

        # Walls that have a door come first.
        numbers = jnp.where(self.has_door, jnp.uint32(0xFFFFFFFF), self.words(edges))
        start = numbers, jnp.arange(self.rows * self.columns), jnp.zeros(edges, bool)
        added = lax.fori_loop(0, edges, visit, start)[2]

        across = np.arange(edges) < self.rows * (self.columns - 1)
        step, along = self.size - 1, self.between(jnp.ones(edges, int), self.size - 1)
        left, top = first % self.columns * step, first // self.columns * step
        x, y = left + jnp.where(across, step, along), top + jnp.where(across, along, step)
        doors = c.cell(c.CLOSED_DOOR, self.below(jnp.full(edges, 6)))
        here = added[:, None, None] & (x[:, None, None] == self.x) & (y[:, None, None] == self.y)
        self.grid = jnp.where(here.any(axis=0), jnp.where(here, doors[:, None, None], 0).sum(axis=0), self.grid)
        self.grid = self.grid.astype(jnp.uint8)
        self.has_door |= added
