"""Classic control, DeepSea and FourRooms from gymnax, stepped raw: no auto-reset, and the true final observation.

Dynamics are the library's `step_env`, bit for bit. What changes is the casing: rewards are float32, every leaf has a
strong dtype, `truncated` is set at the time limit, and the state's quantities are named facts.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, ClassVar

import gymnax
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from envs.base import Environment, State
from jaxrew.types import Discrete, EnvSpec, Fact, Step


@dataclasses.dataclass(frozen=True)
class Gymnax(Environment):
    """The adapter every environment of this file shares."""

    random_steps: ClassVar[bool] = False
    """Whether a step draws random numbers. Where none do, the key is never split: threefry is slow on CPU."""

    @property
    def settings(self) -> dict[str, Any]:
        """Arguments of the library's constructor."""
        return {}

    @property
    def params(self) -> dict[str, Any]:
        """What differs from the library's default parameters."""
        return {}

    @functools.cached_property
    def library(self) -> tuple[Any, Any]:
        """The library's environment and its parameters."""
        # Built at the first use, which may be inside a trace: its arrays must not become that trace's tracers.
        with jax.ensure_compile_time_eval():
            env, params = gymnax.make(self.spec.name, **self.settings)
            return env, params.replace(**self.params)

    def reset(self, key: Array) -> tuple[State, Array]:
        env, params = self.library
        obs, state = env.reset_env(key, params)
        return jax.tree.map(_strong, state), self._observation(obs)

    def step(self, key: Array, state: State, action: Array) -> tuple[State, Step]:
        env, params = self.library
        key = key if self.random_steps else jax.random.key(0)
        obs, new, reward, terminated, _ = env.step_env(key, state, action, params)
        new = jax.tree.map(lambda leaf, old: jnp.asarray(leaf, old.dtype), new, state)
        truncated = env.is_truncated(new, params)
        flags = jnp.asarray(terminated, bool), jnp.asarray(truncated, bool)
        return new, Step(self._observation(obs), jnp.asarray(reward, jnp.float32), *flags, self.facts(new))

    def _observation(self, obs: Array) -> Array:
        return jnp.asarray(obs, self.spec.obs_dtype)


def _strong(leaf: Any) -> Array:
    # Resets hold Python numbers, whose weak type would change at the first step and recompile every scan.
    return jnp.asarray(leaf, jnp.asarray(leaf).dtype)


@dataclasses.dataclass(frozen=True)
class CartPole(Gymnax):
    """CartPole-v1 (Barto, Sutton and Anderson, 1983): +1 per step until the pole falls or the cart leaves the track."""

    max_steps: int = 500

    @property
    def params(self) -> dict[str, Any]:
        return {"max_steps_in_episode": self.max_steps}

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(
            name="CartPole-v1",
            obs_shape=(4,),
            obs_dtype="float32",
            action_space=Discrete(2),
            max_steps=self.max_steps,
            facts=(
                Fact(
                    "cart_position", "distance of the cart from the centre of the track", -4.8, 4.8, (), "float32", "m"
                ),
                Fact("cart_velocity", "velocity of the cart", -np.inf, np.inf, (), "float32", "m/s"),
                Fact(
                    "pole_angle",
                    "angle of the pole from upright, clockwise positive",
                    -0.419,
                    0.419,
                    (),
                    "float32",
                    "rad",
                ),
                Fact("pole_velocity", "angular velocity of the pole", -np.inf, np.inf, (), "float32", "rad/s"),
            ),
            success=474.0,
        )

    def facts(self, state: State) -> dict[str, Array]:
        return {
            "cart_position": state.x,
            "cart_velocity": state.x_dot,
            "pole_angle": state.theta,
            "pole_velocity": state.theta_dot,
        }


FACTORIES: dict[str, Callable[..., Environment]] = {"CartPole-v1": CartPole}
