"""Grid worlds from gymnax, in which the agent's row and column are everything."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from envs.base import State
from envs.gymnax.adapter import Gymnax, TimeLimited, check_max_steps, step_count
from jaxrew.types import Discrete, EnvSpec, Fact, unknown


def _four_rooms_features(obs: Array) -> Array:
    return obs.astype(jnp.float32) / 12.0


@dataclasses.dataclass(frozen=True)
class FourRooms(Gymnax):
    """FourRooms-misc (Sutton, Precup and Singh, 1999): +1 for reaching the goal in a 13 by 13 grid of four rooms.

    Observation: row and column of the agent, then of the goal, uint8; features divide them by 12. Actions: up, right,
    down, left. With `resample_goal_pos` alone the goal can be drawn under the agent, as in the library.

    Attributes:
      fail_prob: how often another direction than the chosen one is taken.
      resample_init_pos: start anywhere instead of at (4, 1).
      resample_goal_pos: a goal anywhere in every episode instead of at (8, 9).
      max_steps: the time limit.
    """

    fail_prob: float = 1.0 / 3.0
    resample_init_pos: bool = False
    resample_goal_pos: bool = False
    max_steps: int = 500

    def __post_init__(self) -> None:
        check_max_steps(self.max_steps)
        if not 0.0 <= self.fail_prob <= 0.75:
            raise ValueError(f"fail_prob is {self.fail_prob}; it must lie in [0, 0.75], where 0.75 is a random walk")
        super().__post_init__()

    @property
    def params(self) -> dict[str, Any]:
        return {
            "fail_prob": self.fail_prob,
            "resample_init_pos": self.resample_init_pos,
            "resample_goal_pos": self.resample_goal_pos,
            "max_steps_in_episode": self.max_steps,
        }

    @property
    def stochastic(self) -> bool:
        return self.fail_prob > 0.0

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(
            name="FourRooms-misc",
            obs_shape=(4,),
            obs_dtype="uint8",
            action_space=Discrete(4),
            max_steps=self.max_steps,
            facts=(
                Fact("position", "row and column of the agent", 1, 11, (2,)),
                Fact("goal", "row and column of the goal", 1, 11, (2,)),
            ),
            position="position",
            success=0.0,
            features=_four_rooms_features,
        )

    def facts(self, state: State) -> dict[str, Array]:
        return {"position": state.pos, "goal": state.goal}


@functools.cache  # one function per size, so that two equal specs hold the same
def _one_hot(size: int) -> Callable[[Array], Array]:
    return functools.partial(jax.nn.one_hot, num_classes=size, dtype=jnp.float32)


@dataclasses.dataclass(frozen=True)
class FrozenLake(Gymnax):
    """FrozenLake-misc, Gymnasium's FrozenLake-v1: +1 for reaching the goal over ice with holes, which end the episode.

    Observation: the cell's number, row by row, a uint8 scalar; features are one-hot. Actions: left, down, right, up.

    Attributes:
      map_name: "4x4" or "8x8".
      is_slippery: whether a move can turn into one at a right angle to it.
      success_rate: how often a move on slippery ice goes where it should.
      max_steps: the time limit; None is Gymnasium's, 100 for 4x4 and 200 for 8x8.
    """

    map_name: str = "4x4"
    is_slippery: bool = True
    success_rate: float = 1.0 / 3.0
    max_steps: int | None = None

    def __post_init__(self) -> None:
        if self.map_name not in _LAKES:
            raise ValueError(unknown("map of FrozenLake", self.map_name, _LAKES))
        if not 0.0 <= self.success_rate <= 1.0:
            raise ValueError(f"success_rate is {self.success_rate}; it is a probability, between 0 and 1")
        check_max_steps(self._limit)
        super().__post_init__()

    @property
    def settings(self) -> dict[str, Any]:
        return {"map_name": self.map_name, "is_slippery": self.is_slippery, "success_rate": self.success_rate}

    @property
    def params(self) -> dict[str, Any]:
        return {"max_steps_in_episode": self._limit}

    @property
    def stochastic(self) -> bool:
        return self.is_slippery

    @property
    def spec(self) -> EnvSpec:
        size, _ = _LAKES[self.map_name]
        return EnvSpec(
            name="FrozenLake-misc",
            obs_shape=(),
            obs_dtype="uint8",
            action_space=Discrete(4),
            max_steps=self._limit,
            facts=(Fact("position", "row and column of the agent", 0, size - 1, (2,)),),
            position="position",
            success=0.0,
            features=_one_hot(size * size),
        )

    def facts(self, state: State) -> dict[str, Array]:
        size, _ = _LAKES[self.map_name]
        return {"position": jnp.stack(jnp.divmod(state.position, size))}

    @property
    def _limit(self) -> int:
        return _LAKES[self.map_name][1] if self.max_steps is None else self.max_steps


_LAKES = {"4x4": (4, 100), "8x8": (8, 200)}  # rows and columns, Gymnasium's time limit


@dataclasses.dataclass(frozen=True)
class MetaMaze(TimeLimited):
    """MetaMaze-misc (Miconi et al., 2019): +10 each time the goal is reached, which sends the agent somewhere else.

    A 9 by 9 maze with walls in every second cell of every second row; the goal is anywhere free, for the whole episode.
    Observation: the 3 by 3 cells around the agent (1 is wall), the last action one-hot, the last reward, the steps
    taken. Actions: up, right, down, left. As in the library, an episode terminates only where the agent is sent to
    the goal by chance, one time in 65.
    """

    max_steps: int = 200

    @property
    def stochastic(self) -> bool:
        return True

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(
            name="MetaMaze-misc",
            obs_shape=(15,),
            obs_dtype="float32",
            action_space=Discrete(4),
            max_steps=self.max_steps,
            facts=(
                Fact("position", "row and column of the agent", 1, 9, (2,)),
                Fact("goal", "row and column of the goal", 1, 9, (2,)),
                step_count(self.max_steps),
            ),
            position="position",
            success=0.0,
        )

    def facts(self, state: State) -> dict[str, Array]:
        return {"position": state.pos, "goal": state.goal, "step_count": state.time.astype(jnp.int32)}
