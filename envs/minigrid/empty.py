"""MiniGrid-Empty and MiniGrid-Empty-Random: an empty room with the goal in the far corner."""

import dataclasses
from typing import ClassVar

from envs.minigrid import cells as c
from envs.minigrid.core import MiniGrid
from envs.minigrid.level import Level


@dataclasses.dataclass(frozen=True)
class Empty(MiniGrid):
    """Reach the green goal at the bottom right.

    Attributes:
      size: side of the grid, walls included; 4 or more.
      random_start: whether the agent starts anywhere, facing anywhere, instead of top left facing right.
    """

    size: int = 8
    random_start: bool = False

    see_through: ClassVar[bool] = True
    mission: ClassVar[str] = "get to the green goal square"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size < 4:
            raise ValueError(f"size is {self.size}, but an Empty grid needs at least 4; try 4")

    @property
    def name(self) -> str:
        return f"MiniGrid-Empty-{'Random-' if self.random_start else ''}{self.size}x{self.size}-v0"

    @property
    def shape(self) -> tuple[int, int]:
        return self.size, self.size

    @property
    def max_steps(self) -> int:
        return 4 * self.size**2

    def build(self, level: Level) -> None:
        level.put(self.size - 2, self.size - 2, c.GREEN_GOAL)
        if self.random_start:
            level.place_agent()
        else:
            level.put_agent(1, 1, 0)
