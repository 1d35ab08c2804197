"""MiniGrid-ObstructedMaze: the blue ball is behind locked doors, their keys in boxes, balls in the way."""

import dataclasses
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array

from envs.minigrid import cells as c
from envs.minigrid.core import MiniGrid, check_choice
from envs.minigrid.level import Words
from envs.minigrid.rooms import RIGHT, RoomLevel
from envs.minigrid.world import PICKUP, GridState

VARIANTS = ("1Dl", "1Dlh", "1Dlhb", "2Dl", "2Dlh", "2Dlhb", "1Q", "2Q", "Full")

_ROOM_SIZE = 6
_BLUE_BALL = c.cell(c.BALL, c.BLUE)
_GREEN_BALL = c.cell(c.BALL, c.GREEN)
_GREY_BOX = c.cell(c.BOX, c.GREY)

_SIDE_ROOMS = ((2, 1), (1, 2), (0, 1), (1, 0))
_CORNERS = ((2, 0), (2, 2), (0, 2), (0, 0))


@dataclasses.dataclass(frozen=True)
class ObstructedMaze(MiniGrid):
    """Pick up the blue ball.

    Attributes:
      variant: `"1Dl"`, `"1Dlh"`, `"1Dlhb"`: two rooms, one locked door (h: its key hidden in a box, b: a ball blocks
        it). `"2Dl"`, `"2Dlh"`, `"2Dlhb"`, `"1Q"`, `"2Q"`, `"Full"`: 3 x 3 rooms, of which one, two or four quarters are
        in use.
      version: 1 places the keys after all blocking balls. In version 0 a ball may take the place of a key, or of the
        box that holds it: such levels cannot be solved.
    """

    variant: str = "Full"
    version: int = 1

    boxes_hold: ClassVar[bool] = True
    mission: ClassVar[str] = "pick up the blue ball"

    @property
    def name(self) -> str:
        return f"MiniGrid-ObstructedMaze-{self.variant}-v{self.version}"

    @property
    def shape(self) -> tuple[int, int]:
        return (_ROOM_SIZE, 2 * _ROOM_SIZE - 1) if self._two_rooms else (3 * _ROOM_SIZE - 2, 3 * _ROOM_SIZE - 2)

    @property
    def max_steps(self) -> int:
        return 4 * _ROOM_SIZE**2 * (2 if self._two_rooms else {"2": 4, "1Q": 5, "2Q": 11, "Full": 25}[self._size])

    @property
    def _two_rooms(self) -> bool:
        return self.variant.startswith("1D")

    @property
    def _size(self) -> str:
        return "2" if self.variant.startswith("2D") else self.variant

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("ObstructedMaze variant", self.variant, VARIANTS)
        if self.version not in (0, 1):
            raise ValueError(f"version is {self.version}, but ObstructedMaze has versions 0 and 1; try 1")

    def blank(self, words: Words) -> RoomLevel:
        return RoomLevel(words, _ROOM_SIZE, *((1, 2) if self._two_rooms else (3, 3)))

    def build(self, level: RoomLevel) -> None:
        colours = level.permutation(6)
        if self._two_rooms:
            self._add_locked_doors(level, np.array([0]), np.array([0]), np.array([RIGHT]), colours[:1])
            level.place_in_room(1, 0, _BLUE_BALL)
            level.place_agent_in_room(0, 0)
            return
        quarters = {"2Q": 2, "Full": 4}.get(self.variant, 1)
        sides, (i, j) = np.arange(quarters), np.array(_SIDE_ROOMS[:quarters]).T
        level.each(lambda side, colour: level.add_door(1, 1, side, colour, locked=False), sides, colours[:quarters])
        # Every side room has two locked doors, in the walls next to the one it is entered by.
        turns = sides.repeat(2) + np.tile([-1, 1], quarters)
        self._add_locked_doors(level, i.repeat(2), j.repeat(2), turns % 4, colours[turns % 6])
        corner = level.below(quarters)
        i, j = jnp.asarray(_CORNERS)[corner]
        level.place_in_room(i, j, _BLUE_BALL)
        level.place_agent_in_room(*((1, 1) if self.variant in ("1Q", "Full") else (2, 1)))

    def _add_locked_doors(self, level: RoomLevel, i: np.ndarray, j: np.ndarray, sides: np.ndarray, colours: Array):
        """Locked doors in walls of the rooms (i, j), and their keys."""
        hidden, blocked = "h" in self.variant or "D" not in self.variant, "b" in self.variant or "D" not in self.variant

        def add_door(i: Array, j: Array, side: Array, colour: Array) -> None:
            level.add_door(i, j, side, colour, locked=True, blocked_by=_GREEN_BALL if blocked else None)
            if self.version == 0:
                place_key(i, j, colour)

        def place_key(i: Array, j: Array, colour: Array) -> None:
            key = c.cell(c.KEY, colour)
            level.place_in_room(i, j, *((_GREY_BOX, key) if hidden else (key,)))

        level.each(add_door, i, j, sides, colours)
        if self.version == 1:
            level.each(place_key, i, j, colours)

    def outcome(self, state: GridState, action: Array, front: Array, after: GridState) -> tuple[Array, Array]:
        success = (action == PICKUP) & (after.carrying == _BLUE_BALL)
        return self.pay(success, after), success
