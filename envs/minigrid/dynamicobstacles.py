"""MiniGrid-Dynamic-Obstacles: reach the goal among balls that move by themselves."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from envs.minigrid import cells as c
from envs.minigrid.core import MiniGrid, success_rewards
from envs.minigrid.level import Level
from envs.minigrid.world import FORWARD, GridState, put
from jaxrew.types import Fact

_BALL = c.cell(c.BALL, c.BLUE)
_NEAR_X, _NEAR_Y = np.array([-1, 0, 1] * 3), np.repeat([-1, 0, 1], 3)


@dataclasses.dataclass(frozen=True)
class DynamicObstacles(MiniGrid):
    """Get to the green goal; walking into a ball or a wall costs 1 and ends the episode. Three actions only.

    Before the agent acts, each ball in turn moves to a random free cell of the 3 x 3 around it; it stays where none is.

    Attributes:
      size: side of the grid, walls included; 5 or more.
      num_obstacles: balls; more than size / 2 + 1 become size // 2, as in Farama's.
      random_start: whether the agent starts anywhere, facing anywhere, instead of top left facing right.
    """

    size: int = 8
    num_obstacles: int = 4
    random_start: bool = False

    see_through: ClassVar[bool] = True
    num_actions: ClassVar[int] = 3
    mission: ClassVar[str] = "get to the green goal square"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size < 5:
            raise ValueError(f"size is {self.size}, but a Dynamic-Obstacles grid needs at least 5; try 5")
        if self.num_obstacles < 1:
            raise ValueError(f"num_obstacles is {self.num_obstacles}, but there must be at least 1; try 1")

    @property
    def name(self) -> str:
        return f"MiniGrid-Dynamic-Obstacles-{'Random-' if self.random_start else ''}{self.size}x{self.size}-v0"

    @property
    def shape(self) -> tuple[int, int]:
        return self.size, self.size

    @property
    def max_steps(self) -> int:
        return 4 * self.size**2

    @property
    def _count(self) -> int:
        return self.num_obstacles if self.num_obstacles <= self.size / 2 + 1 else self.size // 2

    def build(self, level: Level) -> dict[str, Any]:
        level.put(self.size - 2, self.size - 2, c.GREEN_GOAL)
        if self.random_start:
            level.place_agent()
        else:
            level.put_agent(1, 1, 0)
        return {"obstacle_pos": level.place_each(np.full(self._count, _BALL))}

    def task_facts(self) -> tuple[Fact, ...]:
        return (Fact("obstacle_pos", "cell of each ball, (x, y)", 1, self.size - 2, (self._count, 2), unit="cells"),)

    def import_task(self, world: Any) -> dict[str, Any]:
        return {"obstacle_pos": [tuple(map(int, ball.cur_pos)) for ball in world.obstacles]}

    def stir(self, key: Array, state: GridState, action: Array) -> GridState:
        def move(grid: Array, inputs: tuple[Array, Array]) -> tuple[Array, Array]:
            old, word = inputs
            near = old[:, None] + _NEAR_X + self.size * _NEAR_Y
            seen = jnp.take_along_axis(grid.reshape(grid.shape[0], -1), near, axis=1, mode="promise_in_bounds")
            free = (seen == c.EMPTY) & (near != state.agent[:, None])
            count = free.sum(axis=1)
            rank = word % jnp.maximum(count, 1).astype(jnp.uint32)
            picked = free & (jnp.cumsum(free, axis=1) == rank[:, None].astype(jnp.int32) + 1)
            new = jnp.where(count > 0, jnp.where(picked, near, 0).sum(axis=1), old)
            grid = put(grid, old, jnp.full(old.shape, c.EMPTY, jnp.uint8))
            return put(grid, new, jnp.full(old.shape, _BALL, jnp.uint8)), new

        # A loop of the program: written out, nine balls take seven seconds to compile.
        places = state.task["obstacle_pos"]
        olds = (places[..., 0] + self.size * places[..., 1]).T
        words = jax.random.bits(key, (self._count, state.agent.shape[0]))
        grid, news = lax.scan(move, state.grid, (olds, words))
        return state._replace(grid=grid, task={"obstacle_pos": self.position(news.T)})

    def outcome(self, state: GridState, action: Array, front: Array, after: GridState) -> tuple[Array, Array]:
        # What was ahead before the balls moved decides.
        forward = action == FORWARD
        success = forward & (c.kind(front) == c.GOAL)
        crash = forward & (front != c.EMPTY) & ~success
        return jnp.where(
            crash, -1.0, jnp.where(success, success_rewards(self.max_steps)[after.step_count], 0.0)
        ), success | crash
