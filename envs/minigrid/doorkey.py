"""MiniGrid-DoorKey: pick up the key, unlock the door in the dividing wall, reach the goal behind it."""

import dataclasses
from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from envs.minigrid import cells as c
from envs.minigrid.core import MiniGrid
from envs.minigrid.level import Level
from envs.minigrid.world import GridState
from jaxrew.types import Fact


@dataclasses.dataclass(frozen=True)
class DoorKey(MiniGrid):
    """Use the yellow key to open the yellow door, then get to the green goal at the bottom right.

    Attributes:
      size: side of the grid, walls included; 5 or more.
    """

    size: int = 8

    landmarks: ClassVar[dict[str, int]] = {"key": c.KEY, "door": c.DOOR, "goal": c.GOAL}
    mission: ClassVar[str] = "use the key to open the door and then get to the goal"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size < 5:
            raise ValueError(f"size is {self.size}, but a DoorKey grid needs at least 5; try 5")

    @property
    def name(self) -> str:
        return f"MiniGrid-DoorKey-{self.size}x{self.size}-v0"

    @property
    def shape(self) -> tuple[int, int]:
        return self.size, self.size

    @property
    def max_steps(self) -> int:
        return 10 * self.size**2

    def build(self, level: Level) -> None:
        level.put(self.size - 2, self.size - 2, c.GREEN_GOAL)
        split = level.between(2, self.size - 2)
        level.fill(level.x == split, c.GREY_WALL)
        left = level.x < split
        level.place_agent(left)
        level.put(split, level.between(1, self.size - 2), c.cell(c.LOCKED_DOOR, c.YELLOW))
        level.place(c.cell(c.KEY, c.YELLOW), left)

    def fact_specs(self) -> tuple[Fact, ...]:
        return (*super().fact_specs(), Fact("door_state", "0 open, 1 closed, 2 locked", 0, 2))

    def facts_many(self, state: GridState) -> dict[str, Array]:
        states = c.unpack(state.grid)[..., 2]
        return super().facts_many(state) | {"door_state": states.max(axis=(1, 2)).astype(jnp.int32)}
