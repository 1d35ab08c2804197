"""MiniGrid-RedBlueDoors: open the red door, then the blue one."""

import dataclasses
from typing import ClassVar

from jax import Array

from envs.minigrid import cells as c
from envs.minigrid.core import MiniGrid
from envs.minigrid.level import Level
from envs.minigrid.world import GridState


@dataclasses.dataclass(frozen=True)
class RedBlueDoors(MiniGrid):
    """Open the red door on the left, then the blue one on the right; the blue one first ends the episode.

    Attributes:
      size: height of the grid and side of the room, walls included; even or odd, 4 or more.
    """

    size: int = 8

    mission: ClassVar[str] = "open the red door then the blue door"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size < 4:
            raise ValueError(f"size is {self.size}, but a RedBlueDoors room needs at least 4; try 4")

    @property
    def name(self) -> str:
        return f"MiniGrid-RedBlueDoors-{self.size}x{self.size}-v0"

    @property
    def shape(self) -> tuple[int, int]:
        return self.size, 2 * self.size

    @property
    def max_steps(self) -> int:
        return 20 * self.size**2

    def build(self, level: Level) -> None:
        left, right = self.size // 2, self.size // 2 + self.size - 1
        level.fill((level.x == left) | (level.x == right), c.GREY_WALL)
        level.place_agent(level.rectangle(left, 0, self.size, self.size))
        level.put(left, level.between(1, self.size - 1), c.cell(c.CLOSED_DOOR, c.RED))
        level.put(right, level.between(1, self.size - 1), c.cell(c.CLOSED_DOOR, c.BLUE))

    def outcome(self, state: GridState, action: Array, front: Array, after: GridState) -> tuple[Array, Array]:
        def is_open(state: GridState, colour: int) -> Array:
            return (state.grid == c.cell(c.DOOR, colour)).any(axis=(1, 2))

        ends = is_open(after, c.BLUE)
        success = ends & is_open(state, c.RED)
        return self.pay(success, after), ends
