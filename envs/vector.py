"""Many copies of one environment, stepped together and restarted where an episode ended."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from envs.base import Environment, State
from jaxrew.types import EnvSpec, Step, unknown


class VecState(NamedTuple):
    """States of all environments, `[N, ...]`."""

    envs: State


@dataclasses.dataclass(frozen=True)
class VecEnv:
    """`num_envs` copies of `env`; hashable, so it is a static argument of `jit`."""

    env: Environment
    num_envs: int
    resets: str = "fresh"

    def __post_init__(self) -> None:
        if self.num_envs < 1:
            raise ValueError(f"num_envs is {self.num_envs}; it must be at least 1")
        if self.resets not in ("fresh",):
            raise ValueError(unknown("reset mode", self.resets, ("fresh",)))

    @property
    def spec(self) -> EnvSpec:
        """The specification of one environment."""
        return self.env.spec

    def init(self, key: Array) -> tuple[VecState, Array]:
        """Fresh episodes everywhere: `(state, obs [N, ...])`."""
        envs, obs = self.env.reset_many(jax.random.split(key, self.num_envs))
        return VecState(envs), obs

    def step(self, key: Array, state: VecState, action: Array) -> tuple[VecState, Array, Step]:
        """Acts everywhere: `(state, obs, step)`.

        `obs` `[N, ...]` is the observation to act on next, after resets; `step` describes the true successors.
        """
        key_step, key_reset = jax.random.split(key)
        envs, step = self.env.step_many(key_step, state.envs, action)
        envs, obs = self._restart(key_reset, step.terminated | step.truncated, (envs, step.obs))
        return VecState(envs), obs, step

    def facts(self, state: VecState) -> dict[str, Array]:
        """The facts `[N, ...]` of the observation to act on next."""
        return self.env.facts_many(state.envs)

    def _restart(self, key: Array, ended: Array, current: Any) -> Any:
        keys = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(self.num_envs))

        def restart(current: Any) -> Any:
            return jax.tree.map(lambda new, old: _where(ended, new, old), self.env.reset_many(keys), current)

        return lax.cond(ended.any(), restart, lambda current: current, current)


def _where(mask: Array, new: Array, old: Array) -> Array:
    return jnp.where(mask.reshape(mask.shape + (1,) * (new.ndim - mask.ndim)), new, old)
