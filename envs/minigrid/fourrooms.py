"""MiniGrid-FourRooms: four rooms joined by four gaps, agent and goal anywhere."""

import dataclasses
from typing import ClassVar

from envs.minigrid import cells as c
from envs.minigrid.core import MiniGrid
from envs.minigrid.level import Level


@dataclasses.dataclass(frozen=True)
class FourRooms(MiniGrid):
    """Reach the green goal, in any of four rooms (Sutton, Precup and Singh, 1999)."""

    landmarks: ClassVar[dict[str, int]] = {"goal": c.GOAL}
    mission: ClassVar[str] = "reach the goal"

    @property
    def name(self) -> str:
        return "MiniGrid-FourRooms-v0"

    @property
    def shape(self) -> tuple[int, int]:
        return 19, 19

    @property
    def max_steps(self) -> int:
        return 100

    def build(self, level: Level) -> None:
        middle = 9
        level.fill((level.x == middle) | (level.y == middle), c.GREY_WALL)
        for first in (1, middle + 1):
            level.put(middle, level.between(first, first + middle - 1), c.EMPTY)
            level.put(level.between(first, first + middle - 1), middle, c.EMPTY)
        level.place_agent()
        level.place(c.GREEN_GOAL)
