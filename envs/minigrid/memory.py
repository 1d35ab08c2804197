"""MiniGrid-Memory: see an object at the start, walk to the matching one at the end of the hallway."""

import dataclasses
from typing import Any, ClassVar

import jax.numpy as jnp
from jax import Array

from envs.minigrid import cells as c
from envs.minigrid.core import MiniGrid
from envs.minigrid.level import Level
from envs.minigrid.world import PICKUP, TOGGLE, GridState
from jaxrew.types import Fact


@dataclasses.dataclass(frozen=True)
class Memory(MiniGrid):
    """Go to the object, a key or a ball, that is like the one in the starting room; the other one ends the episode.

    Picking up does nothing here, as in Farama's.

    Attributes:
      size: side of the grid, walls included; odd, 7 or more.
      random_length: whether the hallway may end early.
    """

    size: int = 7
    random_length: bool = False

    mission: ClassVar[str] = "go to the matching object at the end of the hallway"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size < 7 or self.size % 2 == 0:
            raise ValueError(f"size is {self.size}, but must be odd and 7 or more; try {max(7, self.size | 1)}")

    @property
    def name(self) -> str:
        return f"MiniGrid-MemoryS{self.size}{'Random' if self.random_length else ''}-v0"

    @property
    def shape(self) -> tuple[int, int]:
        return self.size, self.size

    @property
    def max_steps(self) -> int:
        return 5 * self.size**2

    def build(self, level: Level) -> dict[str, Any]:
        x, y, middle = level.x, level.y, self.size // 2
        end = level.between(4, self.size - 2) if self.random_length else self.size - 3
        room_wall = (x >= 1) & (x < 5) & (abs(y - middle) == 2)
        hallway_wall = (x >= 4) & ((x == 4) | (x < end)) & (abs(y - middle) == 1)
        across = ((x == end) & (y != middle)) | (x == end + 2)
        level.fill(room_wall | hallway_wall | across, c.GREY_WALL)
        level.put_agent(level.between(1, end + 1), middle, 0)
        ball_first, ball_above = level.below(2), level.below(2)
        level.put(1, middle - 1, _thing(ball_first))
        level.put(end + 1, middle - 2, _thing(ball_above))
        level.put(end + 1, middle + 2, _thing(1 - ball_above))
        side = jnp.where(ball_first == ball_above, -1, 1)
        return {
            "success_pos": jnp.stack([end + 1, middle + side]),
            "failure_pos": jnp.stack([end + 1, middle - side]),
        }

    def task_facts(self) -> tuple[Fact, ...]:
        far = self.size - 1
        return (
            Fact("success_pos", "cell beside the matching object, (x, y)", 0, far, (2,), unit="cells"),
            Fact("failure_pos", "cell beside the other one, (x, y)", 0, far, (2,), unit="cells"),
        )

    def import_task(self, world: Any) -> dict[str, Any]:
        return {"success_pos": world.success_pos, "failure_pos": world.failure_pos}

    def meant(self, action: Array) -> Array:
        return jnp.where(action == PICKUP, TOGGLE, action)

    def outcome(self, state: GridState, action: Array, front: Array, after: GridState) -> tuple[Array, Array]:
        place = self.position(after.agent)
        success = (place == state.task["success_pos"]).all(axis=-1)
        failure = (place == state.task["failure_pos"]).all(axis=-1)
        return self.pay(success, after), success | failure


def _thing(is_ball: Array) -> Array:
    return jnp.where(is_ball == 1, c.cell(c.BALL, c.GREEN), c.cell(c.KEY, c.GREEN))
