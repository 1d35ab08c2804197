"""MiniGrid-Playground: nine rooms, doors and twelve objects, and no task."""

import dataclasses
from typing import ClassVar

import numpy as np

from envs.minigrid import cells as c
from envs.minigrid.core import MiniGrid
from envs.minigrid.level import Level

_ROOM = 6


@dataclasses.dataclass(frozen=True)
class Playground(MiniGrid):
    """Nothing pays and nothing ends the episode but time: a place for intrinsic rewards."""

    mission: ClassVar[str] = ""

    @property
    def name(self) -> str:
        return "MiniGrid-Playground-v0"

    @property
    def shape(self) -> tuple[int, int]:
        return 19, 19

    @property
    def max_steps(self) -> int:
        return 100

    def build(self, level: Level) -> None:
        level.fill((level.x % _ROOM == 0) | (level.y % _ROOM == 0), c.GREY_WALL)
        for wall in (_ROOM, 2 * _ROOM):
            for first in (0, _ROOM, 2 * _ROOM):
                along = level.between(first + 1, first + _ROOM - 1)
                level.put(wall, along, c.cell(c.CLOSED_DOOR, level.colour()))
                along = level.between(first + 1, first + _ROOM - 1)
                level.put(along, wall, c.cell(c.CLOSED_DOOR, level.colour()))
        level.place_agent()
        level.place_each(c.cell(c.KEY + level.below(np.full(12, 3)), level.below(np.full(12, 6))))
