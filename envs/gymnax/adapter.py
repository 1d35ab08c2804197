"""What every environment from gymnax shares: the library's raw step in this codebase's casing."""

import abc
import dataclasses
import functools
import importlib.util
import sys
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from envs.base import Environment, State
from jaxrew.types import Discrete, Fact, Step


@dataclasses.dataclass(frozen=True)
class Gymnax(Environment):
    """An environment of gymnax. Subclasses say which, and with which settings."""

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
        # Some of the library's selects take the action beside an int32 and refuse any other dtype.
        action = jnp.asarray(action, jnp.int32 if isinstance(self.spec.action_space, Discrete) else jnp.float32)
        obs, new, reward, terminated, _ = env.step_env(key, state, action, params)
        new = jax.tree.map(lambda leaf, old: jnp.asarray(leaf, old.dtype), new, state)
        reward, terminated = jnp.asarray(reward, jnp.float32), jnp.asarray(terminated, bool)
        truncated = jnp.asarray(env.is_truncated(new, params), bool)
        return new, Step(self._observation(obs), reward, terminated, truncated, self.facts(new))

    def _observation(self, obs: Array) -> Array:
        return jnp.asarray(obs, self.spec.obs_dtype)


@dataclasses.dataclass(frozen=True)
class TimeLimited(Gymnax):
    """An environment whose time limit is a setting.

    Attributes:
      max_steps: steps after which an episode is truncated.
    """

    max_steps: int

    def __post_init__(self) -> None:
        check_max_steps(self.max_steps)
        super().__post_init__()

    @property
    def params(self) -> dict[str, Any]:
        return {"max_steps_in_episode": self.max_steps}


def check_max_steps(max_steps: int) -> None:
    """Raises ValueError unless an episode has a step."""
    if max_steps < 1:
        raise ValueError(f"max_steps is {max_steps}; an episode has at least 1 step")


def real(name: str, meaning: str, bound: float, unit: str = "", shape: tuple[int, ...] = ()) -> Fact:
    """A float32 fact between -`bound` and `bound`."""
    return Fact(name, meaning, -bound, bound, shape, "float32", unit)


def step_count(max_steps: int) -> Fact:
    """The fact that counts the steps of an episode of at most `max_steps`."""
    return Fact("step_count", "steps since the episode began", 0, max_steps, unit="steps")


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
