"""Sparse tasks for exploration. The library's own reward stays, as the fact `dense_reward`."""

import dataclasses
import math
from typing import Any

import jax.numpy as jnp
from jax import Array

from envs.brax.core import Brax, BraxState
from jaxrew.types import EnvSpec, Fact


@dataclasses.dataclass(frozen=True)
class ForwardSparse(Brax):
    """Reward 1 on every step that ends with the torso further than `threshold` metres ahead, otherwise 0.

    For the half-cheetah this is the sparse task of VIME (Houthooft et al., 2016; x > 5 in its code) and, taken in both
    directions, of EX2 (Fu et al., 2017). The observation is the library's with the x position left in, since without
    it nothing tells where the reward begins; VIME appends the whole centre of mass. Its body is rllab's and acts every
    0.01 s, where brax's acts every 0.05 s and has stronger joints, so returns do not compare with published ones.
    """

    threshold: float = 5.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.threshold < math.inf:
            raise ValueError(f"threshold is {self.threshold}; it must be a positive distance in metres, like 5.0")

    @property
    def settings(self) -> dict[str, Any]:
        return {"exclude_current_positions_from_observation": False}

    @property
    def spec(self) -> EnvSpec:
        own = super().spec
        size = self._body.obs_size + self._body.hidden_size
        return dataclasses.replace(own, name=f"{own.name}-sparse", obs_shape=(size,), success=0.0)

    def _outcome(self, facts: dict[str, Array], done: Array) -> tuple[Array, Array]:
        return (facts["torso_position"][0] > self.threshold).astype(jnp.float32), done


@dataclasses.dataclass(frozen=True)
class AntGoal(Brax):
    """An ant in an open field: reward 1, and the end, on coming within `radius` of `goal`; otherwise 0.

    The nearest relative of AntMaze (D4RL's antmaze-umaze; Fu et al., 2020) that brax's own assets allow. Taken from
    there: the observation (all positions and velocities; the goal is not in it), the goal 8 m from the start, the
    radius, the limit of 700 steps, ending at the goal, and going on after a fall. Different: there are NO WALLS, so the
    straight way is open and success rates do not compare; and it is brax's ant, with its gears and contacts.

    Attributes:
      goal: x and y in metres; the ant starts within 0.1 m of the origin, facing x.
      radius: in metres, from the goal to the torso's centre.
    """

    body: str = "ant"
    max_steps: int = 700
    goal: tuple[float, float] = (0.0, 8.0)
    radius: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.body != "ant":
            raise ValueError(f"body is {self.body!r}; this task has one body, 'ant'")
        if not 0.0 < self.radius < math.hypot(*self.goal) - 0.2:
            raise ValueError(
                f"radius is {self.radius} and goal is {self.goal}; the radius must be positive and leave the start "
                "outside, like 0.5 and (0.0, 8.0)"
            )

    @property
    def settings(self) -> dict[str, Any]:
        return {"exclude_current_positions_from_observation": False, "terminate_when_unhealthy": False}

    @property
    def spec(self) -> EnvSpec:
        own = super().spec
        return dataclasses.replace(
            own,
            name="brax/ant-goal",
            obs_shape=(self._body.obs_size + self._body.hidden_size,),
            facts=(
                *own.facts,
                Fact("goal_distance", "torso's distance to the goal", 0.0, math.inf, (), "float32", "m"),
            ),
            success=0.0,
        )

    def facts(self, state: BraxState) -> dict[str, Array]:
        facts = super().facts(state)
        to_goal = facts["torso_position"][:2] - jnp.asarray(self.goal, jnp.float32)
        return {**facts, "goal_distance": jnp.sqrt(jnp.sum(to_goal**2))}

    def _outcome(self, facts: dict[str, Array], done: Array) -> tuple[Array, Array]:
        reached = facts["goal_distance"] <= self.radius
        return reached.astype(jnp.float32), reached | done
