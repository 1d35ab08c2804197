"""Many copies of one environment, stepped together and restarted where an episode ended."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from envs.base import Environment, State
from jaxrew.types import EnvSpec, Step, unknown

RESETS = ("fresh", "pool")

# Levels are built this many at a time. Fewer waste the width of the processor's vector units, more build levels that
# nobody asked for: on two CPU cores 16 is best, or close to it, from 64 to 1,024 environments.
_CHUNK = 16

# Environment steps per level that a pool replaces. Episodes are rarely shorter than 20 steps and mostly longer than
# 100, so this makes about as many levels as are played, and it costs 5 to 10 % of a step on MiniGrid.
_STEPS_PER_LEVEL = 64

Levels = tuple[State, Array]


class Pool(NamedTuple):
    """Levels `[pool_size, ...]` to start episodes from, and the number of steps taken so far (wraps around)."""

    levels: Levels
    clock: Array


class VecState(NamedTuple):
    """States of all environments, `[N, ...]`, and the pool where there is one."""

    envs: State
    pool: Pool | None


@dataclasses.dataclass(frozen=True)
class VecEnv:
    """`num_envs` copies of `env`. Hashable, so it is a static argument of `jit`; its methods are pure.

    Attributes:
      env: the environment.
      num_envs: N.
      resets: where the first state of an episode comes from.
        `"fresh"`: generated for it alone; episodes are independent.
        `"pool"`: drawn uniformly from `pool_size` levels, of which one is replaced, oldest first, per 64 environment
        steps. Each episode by itself still starts from the environment's own distribution, because the draw does not
        look at the level; but a level stays for 64 * pool_size environment steps and may be played several times in
        that while, so episodes near in time are not independent. Novelty measured across episodes (visit counts, a
        curiosity module's loss) sees less variety than there is; of what happens within one episode nothing changes.
        A pool is part of the state: every seed has its own.
      pool_size: levels kept by `"pool"`.
    """

    env: Environment
    num_envs: int
    resets: str = "fresh"
    pool_size: int = 1024

    def __post_init__(self) -> None:
        if self.num_envs < 1:
            raise ValueError(f"num_envs is {self.num_envs}; it must be at least 1")
        if self.resets not in RESETS:
            raise ValueError(unknown("kind of resets", self.resets, RESETS))
        if self.pool_size < 1:
            raise ValueError(f"pool_size is {self.pool_size}; it must be at least 1")

    @property
    def spec(self) -> EnvSpec:
        """What agents and rewards may know of the environment."""
        return self.env.spec

    def init(self, key: Array) -> tuple[VecState, Array]:
        """Starts an episode everywhere: `(state, obs [N, ...])`."""
        if self.resets == "fresh":
            envs, obs = self.env.reset_many(jax.random.split(key, self.num_envs))
            return VecState(envs, None), obs
        levels = self.env.reset_many(jax.random.split(key, self.num_envs + self.pool_size))
        envs, obs = jax.tree.map(lambda leaf: leaf[: self.num_envs], levels)
        pool = jax.tree.map(lambda leaf: leaf[self.num_envs :], levels)
        return VecState(envs, Pool(pool, jnp.zeros((), jnp.int32))), obs

    def step(self, key: Array, state: VecState, action: Array) -> tuple[VecState, Array, Step]:
        """Acts everywhere: `(state, obs, step)`.

        `obs`, `[N, ...]`, is the observation to act on next, after resets; `step` describes the true successors,
        before any. How environment i starts anew depends on `key` and i alone.
        """
        # Folded into the key: 0 steps, 1 refreshes the pool, 2 draws from it, 3 + i restarts environment i. Each use
        # folds for itself, so that a step without randomness or resets costs no threefry: at few environments one call
        # is a third of the step.
        envs, step = self.env.step_many(jax.random.fold_in(key, 0), state.envs, action)
        ended, current = step.terminated | step.truncated, (envs, step.obs)
        if state.pool is None:
            (envs, obs), pool = self._fresh(key, ended, current), None
        else:
            # Drawing after refreshing, not before, lets the compiler update the pool in place.
            pool = self._refresh(jax.random.fold_in(key, 1), state.pool)
            draw = jax.random.bits(jax.random.fold_in(key, 2), ended.shape) % self.pool_size
            envs, obs = _select(ended, jax.tree.map(lambda leaf: leaf[draw], pool.levels), current)
        return VecState(envs, pool), obs, step

    def facts(self, state: VecState) -> dict[str, Array]:
        """The facts `[N, ...]` of the observation to act on next."""
        return self.env.facts_many(state.envs)

    def _fresh(self, key: Array, ended: Array, current: Levels) -> Levels:
        """`current` with levels of their own where `ended`, built for those alone."""

        def levels(index: Array) -> Levels:
            return self.env.reset_many(jax.vmap(jax.random.fold_in, (None, 0))(key, 3 + index))

        if self.num_envs <= _CHUNK:
            everyone = jnp.arange(self.num_envs)
            return _branch(ended.any(), lambda current: _select(ended, levels(everyone), current), current)

        padded = -(-self.num_envs // _CHUNK) * _CHUNK
        places = jnp.nonzero(ended, size=padded, fill_value=self.num_envs)[0]
        count = ended.sum()

        def restart_chunk(carry: tuple[Array, Levels]) -> tuple[Array, Levels]:
            done, current = carry
            index = lax.dynamic_slice(places, (done,), (_CHUNK,))
            # The last chunk is filled up with index N, which is out of bounds: what is built for it is dropped.
            return done + _CHUNK, jax.tree.map(
                lambda old, new: old.at[index].set(new, mode="drop"), current, levels(index)
            )

        return lax.while_loop(lambda carry: carry[0] < count, restart_chunk, (jnp.int32(0), current))[1]

    def _refresh(self, key: Array, pool: Pool) -> Pool:
        """Replaces the oldest levels, a batch at a time, whenever enough steps have passed for one."""
        batch = min(max(_CHUNK, self.num_envs // _STEPS_PER_LEVEL), self.pool_size)
        period = max(batch * _STEPS_PER_LEVEL // self.num_envs, 1)
        batches = -(-self.pool_size // batch)
        clock = (pool.clock + 1) % (period * batches)

        start = clock // period * batch
        oldest = jax.tree.map(lambda leaf: lax.dynamic_slice_in_dim(leaf, start, batch), pool.levels)
        # The branch carries the slice alone: were it to carry the pool, each step would copy it.
        newest = _branch(clock % period == 0, lambda _: self.env.reset_many(jax.random.split(key, batch)), oldest)
        levels = jax.tree.map(
            lambda leaf, new: lax.dynamic_update_slice_in_dim(leaf, new, start, 0), pool.levels, newest
        )
        return Pool(levels, clock)


def _branch(condition: Array, function: Callable[[Any], Any], operand: Any) -> Any:
    """`function(operand)` if `condition`, otherwise `operand`.

    `lax.cond`, except that under `vmap` it is skipped when no member needs it; `cond` would then always compute both.
    """

    def once(carry: tuple[Array, Any]) -> tuple[Array, Any]:
        return jnp.zeros((), bool), function(carry[1])

    return lax.while_loop(lambda carry: carry[0], once, (condition, operand))[1]


def _select(mask: Array, new: Levels, old: Levels) -> Levels:
    """`new` where `mask` `[N]`, otherwise `old`."""

    def select(new: Array, old: Array) -> Array:
        return jnp.where(mask.reshape(mask.shape + (1,) * (new.ndim - 1)), new, old)

    return jax.tree.map(select, new, old)
