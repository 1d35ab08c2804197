"""Classic control, DeepSea and FourRooms from gymnax, stepped raw: no auto-reset, and the true final observation.

Dynamics are the library's `step_env` and `reset_env`, bit for bit. What differs is the casing: rewards are float32,
every leaf has a strong dtype, `truncated` is set at the time limit (alone, unless the environment ends by itself on
that very step), and the quantities of the state are named facts.
"""

import abc
import dataclasses
import functools
import importlib.util
import math
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from envs.base import Environment, State
from jaxrew.types import Box, Discrete, EnvSpec, Fact, Step


@dataclasses.dataclass(frozen=True)
class Gymnax(Environment):
    """What the environments of this file share. Subclasses say which library environment, and which settings."""

    @property
    def settings(self) -> dict[str, Any]:
        """Arguments of the library's constructor."""
        return {}

    @property
    @abc.abstractmethod
    def params(self) -> dict[str, Any]:
        """What replaces the library's default parameters."""

    @property
    def stochastic(self) -> bool:
        """Whether a step draws random numbers."""
        return False

    def __post_init__(self) -> None:
        # Loaded here, outside any program: an array made inside one belongs to its mesh of devices and fails in others.
        _ = self.library

    @functools.cached_property
    def library(self) -> tuple[Any, Any]:
        """The library's environment and its parameters."""
        # The first use may be inside a trace, and arrays kept here must not be that trace's tracers.
        with jax.ensure_compile_time_eval():
            env, params = _import_gymnax().make(self.spec.name, **self.settings)
            return env, params.replace(**self.params)

    def reset(self, key: Array) -> tuple[State, Array]:
        env, params = self.library
        obs, state = env.reset_env(key, params)
        return jax.tree.map(_strong, state), self._observation(obs)

    def step(self, key: Array, state: State, action: Array) -> tuple[State, Step]:
        env, params = self.library
        # The library draws numbers it then multiplies by zero; from a constant key they cost nothing.
        key = key if self.stochastic else jax.random.key(0)
        obs, new, reward, terminated, _ = env.step_env(key, state, action, params)
        new = jax.tree.map(lambda leaf, old: jnp.asarray(leaf, old.dtype), new, state)
        reward, terminated = jnp.asarray(reward, jnp.float32), jnp.asarray(terminated, bool)
        truncated = jnp.asarray(env.is_truncated(new, params), bool)
        return new, Step(self._observation(obs), reward, terminated, truncated, self.facts(new))

    def _observation(self, obs: Array) -> Array:
        return jnp.asarray(obs, self.spec.obs_dtype)


@dataclasses.dataclass(frozen=True)
class ClassicControl(Gymnax):
    """Classic control: the only setting is the time limit."""

    max_steps: int

    def __post_init__(self) -> None:
        _check_max_steps(self.max_steps)
        super().__post_init__()

    @property
    def params(self) -> dict[str, Any]:
        return {"max_steps_in_episode": self.max_steps}


@dataclasses.dataclass(frozen=True)
class CartPole(ClassicControl):
    """CartPole-v1 (Barto, Sutton and Anderson, 1983): +1 per step until the pole falls or the cart leaves the track.

    Observation: cart position, cart velocity, pole angle, pole velocity. Actions: push left, push right.
    """

    max_steps: int = 500

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(
            name="CartPole-v1",
            obs_shape=(4,),
            obs_dtype="float32",
            action_space=Discrete(2),
            max_steps=self.max_steps,
            facts=(
                _real("cart_position", "cart's distance right of the centre; the episode ends beyond 2.4", 4.8, "m"),
                _real("cart_velocity", "cart's velocity to the right", math.inf, "m/s"),
                _real("pole_angle", "pole's angle right of upright; the episode ends beyond 0.2095", 0.4189, "rad"),
                _real("pole_velocity", "pole's angular velocity", math.inf, "rad/s"),
            ),
            success=474.0 if self.max_steps > 474 else None,
        )

    def facts(self, state: State) -> dict[str, Array]:
        return {
            "cart_position": state.x,
            "cart_velocity": state.x_dot,
            "pole_angle": state.theta,
            "pole_velocity": state.theta_dot,
        }


@dataclasses.dataclass(frozen=True)
class MountainCar(ClassicControl):
    """MountainCar-v0 (Moore, 1990): -1 per step until an underpowered car reaches the top of the right hill.

    Observation: position, velocity. Actions: accelerate left, coast, accelerate right.
    """

    max_steps: int = 200

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(
            name="MountainCar-v0",
            obs_shape=(2,),
            obs_dtype="float32",
            action_space=Discrete(3),
            max_steps=self.max_steps,
            facts=(
                Fact("car_position", "car's place along the track; the goal is at 0.5", -1.2, 0.6, (), "float32"),
                _real("car_velocity", "car's velocity to the right, per step", 0.07),
            ),
            success=-float(self.max_steps),
        )

    def facts(self, state: State) -> dict[str, Array]:
        return {"car_position": state.position, "car_velocity": state.velocity}


@dataclasses.dataclass(frozen=True)
class Acrobot(ClassicControl):
    """Acrobot-v1 (Sutton, 1996): -1 per step until the tip of a two-link pendulum swings above the bar.

    Observation: cosine and sine of both joint angles, then both velocities. Actions: torque -1, 0, +1 N m between
    the links. The library integrates one Runge-Kutta step per action.
    """

    max_steps: int = 500

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(
            name="Acrobot-v1",
            obs_shape=(6,),
            obs_dtype="float32",
            action_space=Discrete(3),
            max_steps=self.max_steps,
            facts=(
                _real("joint_angle_1", "first link's angle from hanging down", math.pi, "rad"),
                _real("joint_angle_2", "second link's angle from the first link's direction", math.pi, "rad"),
                _real("joint_velocity_1", "first joint's angular velocity", 4 * math.pi, "rad/s"),
                _real("joint_velocity_2", "second joint's angular velocity", 9 * math.pi, "rad/s"),
                _real("tip_height", "height of the free end above the pivot; the goal is above 1", 2.0, "m"),
            ),
            success=-float(self.max_steps),
        )

    def facts(self, state: State) -> dict[str, Array]:
        return {
            "joint_angle_1": state.joint_angle1,
            "joint_angle_2": state.joint_angle2,
            "joint_velocity_1": state.velocity_1,
            "joint_velocity_2": state.velocity_2,
            "tip_height": -jnp.cos(state.joint_angle1) - jnp.cos(state.joint_angle1 + state.joint_angle2),
        }


@dataclasses.dataclass(frozen=True)
class Pendulum(ClassicControl):
    """Pendulum-v1: keep a pendulum upright; the reward is -(angle^2 + 0.1 velocity^2 + 0.001 torque^2).

    Observation: cosine and sine of the angle, velocity. Action: torque between -2 and 2 N m, clipped. Never terminates.
    """

    max_steps: int = 200

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(
            name="Pendulum-v1",
            obs_shape=(3,),
            obs_dtype="float32",
            action_space=Box(-2.0, 2.0, (1,)),
            max_steps=self.max_steps,
            facts=(
                _real("angle", "angle from upright", math.pi, "rad"),
                _real("angular_velocity", "angular velocity", 8.0, "rad/s"),
                _real("torque", "torque applied on the last step, 0 at the start", 2.0, "N m"),
            ),
        )

    def facts(self, state: State) -> dict[str, Array]:
        angle = (state.theta + jnp.pi) % (2 * jnp.pi) - jnp.pi
        return {"angle": angle, "angular_velocity": state.theta_dot, "torque": state.last_u}


@dataclasses.dataclass(frozen=True)
class DeepSea(Gymnax):
    """DeepSea-bsuite (Osband et al., 2020): only the policy that goes right `size` times in a row finds the reward.

    Observation: one-hot `[size, size]` of row and column, all zeros at the end. Going right costs
    `unscaled_move_cost / size`; the last cell of the diagonal pays 1. An episode always takes `size` steps, and as in
    the library it then terminates and truncates at once.

    Attributes:
      size: rows and columns.
      deterministic: otherwise going right fails with probability 1 / size, and the two ends of the last row pay
        normal noise.
      randomize_actions: whether which action means "right" differs from cell to cell; otherwise it is always 1.
      mapping_seed: draws that table. It belongs to the environment: every episode, copy and training seed shares it.
      unscaled_move_cost: the sum of what going right costs in one episode.
    """

    size: int = 8
    deterministic: bool = True
    randomize_actions: bool = True
    mapping_seed: int = 0
    unscaled_move_cost: float = 0.01

    def __post_init__(self) -> None:
        if self.size < 2:
            raise ValueError(f"size is {self.size}; DeepSea has at least 2 rows")
        super().__post_init__()

    @property
    def settings(self) -> dict[str, Any]:
        return {"size": self.size, "action_mapping_key": jax.random.key(self.mapping_seed)}

    @property
    def params(self) -> dict[str, Any]:
        return {
            "deterministic": self.deterministic,
            "randomize_actions": self.randomize_actions,
            "unscaled_move_cost": self.unscaled_move_cost,
        }

    @property
    def stochastic(self) -> bool:
        return not self.deterministic

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(
            name="DeepSea-bsuite",
            obs_shape=(self.size, self.size),
            obs_dtype="float32",
            action_space=Discrete(2),
            max_steps=self.size,
            facts=(
                Fact("position", "row (the steps taken) and column", 0, self.size, (2,)),
                Fact("bad_episode", "1 once the agent has left the rewarding diagonal, otherwise 0", 0, 1),
            ),
            position="position",
            success=0.5,
        )

    @functools.cached_property
    def action_mapping(self) -> np.ndarray:
        """The action that means "right" in each cell, `[size, size]`."""
        env, params = self.library
        with jax.ensure_compile_time_eval():
            return np.asarray(env.reset_env(jax.random.key(0), params)[1].action_mapping)

    # The table is the same in every state, and as large as an observation: states go without it between steps.

    def reset(self, key: Array) -> tuple[State, Array]:
        state, obs = super().reset(key)
        return state.replace(action_mapping=()), obs

    def step(self, key: Array, state: State, action: Array) -> tuple[State, Step]:
        state, step = super().step(key, state.replace(action_mapping=jnp.asarray(self.action_mapping)), action)
        return state.replace(action_mapping=()), step

    def facts(self, state: State) -> dict[str, Array]:
        return {
            "position": jnp.stack([state.row, state.column]),
            "bad_episode": state.bad_episode.astype(jnp.int32),
        }


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
        _check_max_steps(self.max_steps)
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


FACTORIES: dict[str, Callable[..., Environment]] = {
    "CartPole-v1": CartPole,
    "MountainCar-v0": MountainCar,
    "Acrobot-v1": Acrobot,
    "Pendulum-v1": Pendulum,
    "DeepSea-bsuite": DeepSea,
    "FourRooms-misc": FourRooms,
}


def _real(name: str, meaning: str, bound: float, unit: str = "") -> Fact:
    """A float32 fact between -`bound` and `bound`."""
    return Fact(name, meaning, -bound, bound, (), "float32", unit)


def _check_max_steps(max_steps: int) -> None:
    if max_steps < 1:
        raise ValueError(f"max_steps is {max_steps}; an episode has at least 1 step")


def _strong(leaf: Any) -> Array:
    # Resets hold Python numbers, whose weak type would change at the first step and recompile every scan.
    return jnp.asarray(leaf, jnp.asarray(leaf).dtype)


def _import_gymnax() -> Any:
    """The library, without the plotting package that it imports for drawing only and that takes longest to load."""
    if "seaborn" not in sys.modules and (spec := importlib.util.find_spec("seaborn")) and spec.loader:
        spec.loader = importlib.util.LazyLoader(spec.loader)
        sys.modules["seaborn"] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    import gymnax

    return gymnax
