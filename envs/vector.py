"""Many copies of one environment, stepped together and restarted where an episode ended."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from envs.base import Environment, State
from envs.settings import check_settings
from jaxrew.types import EnvSpec, Step, unknown

RESETS = ("fresh", "pool")

# Levels are built this many at a time. Fewer waste the width of the processor's vector units, more build levels that
# nobody asked for: on two CPU cores 16 is best, or close to it, from 64 to 1,024 environments. Up to 16 environments
# are restarted as a whole, which saves looking up which of them ended.
_CHUNK = 16

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
        `"pool"`: drawn uniformly from `pool_size` levels, the oldest of which are replaced all the time. Each episode
        by itself still starts from the environment's own distribution, because the draw does not look at the level.
        But a level stays for up to `pool_size * pool_refresh` environment steps and is played `pool_refresh / episode
        length` times on average, so episodes near in time are not independent: novelty measured across episodes
        (counts, a curiosity network's loss) wears off sooner than it should. It pays where levels are dear to build
        and episodes short; on CartPole it costs more than it saves, on DoorKey about as much. Every seed has its own
        pool.
      pool_size: levels in the pool, a multiple of 16.
      pool_refresh: one level is replaced at least every so many environment steps, summed over all N.
    """

    env: Environment
    num_envs: int
    resets: str = "fresh"
    pool_size: int = 1024
    pool_refresh: int = 256

    def __post_init__(self) -> None:
        if not isinstance(self.env, Environment):
            raise ValueError(f"env is a {type(self.env).__name__}; give an environment, like envs.make('CartPole-v1')")
        check_settings(self)
        if self.num_envs < 1:
            raise ValueError(f"num_envs is {self.num_envs}; it must be at least 1")
        if self.resets not in RESETS:
            raise ValueError(unknown("kind of resets", self.resets, RESETS))
        if self.pool_size < 1 or self.pool_size % _CHUNK:
            nearest = max(round(self.pool_size / _CHUNK), 1) * _CHUNK
            raise ValueError(f"pool_size is {self.pool_size}; it must be a multiple of {_CHUNK}, like {nearest}")
        if self.pool_refresh < 1:
            raise ValueError(f"pool_refresh is {self.pool_refresh}; it must be at least 1")
        if self.pool_size * self.pool_refresh >= 2**31:
            most = (2**31 - 1) // self.pool_size
            raise ValueError(f"pool_refresh is {self.pool_refresh}; a pool of {self.pool_size} takes at most {most}")

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
        expected = (self.num_envs, *self.spec.action_space.shape)
        if jnp.shape(action) != expected:
            raise ValueError(f"actions have shape {jnp.shape(action)}; {self.num_envs} environments take {expected}")
        # Folded into the key: 0 steps, 1 refreshes the pool, 2 + i restarts environment i. Each use folds for itself:
        # a step without randomness or resets then costs no threefry, of which one call is a third of a small step.
        envs, step = self.env.step_many(jax.random.fold_in(key, 0), state.envs, action)
        # Refreshing before drawing, not after, lets the compiler update the pool in place.
        pool = None if state.pool is None else self._refresh(key, state.pool)

        def levels(index: Array) -> Levels:
            keys = jax.vmap(jax.random.fold_in, (None, 0))(key, 2 + index)
            if pool is None:
                return self.env.reset_many(keys)
            draw = jax.vmap(jax.random.bits)(keys) % self.pool_size
            return jax.tree.map(lambda leaf: leaf[draw], pool.levels)

        envs, obs = _restart(levels, step.terminated | step.truncated, (envs, step.obs))
        return VecState(envs, pool), obs, step

    def facts(self, state: VecState) -> dict[str, Array]:
        """The facts `[N, ...]` of the observation to act on next."""
        return self.env.facts_many(state.envs)

    def _refresh_plan(self) -> tuple[int, int]:
        """How many levels to replace, and every how many steps: whole fractions of the pool, at least a chunk."""
        for batch in range(_CHUNK, self.pool_size, _CHUNK):
            if self.pool_size % batch == 0 and batch * self.pool_refresh >= self.num_envs:
                return batch, batch * self.pool_refresh // self.num_envs
        return self.pool_size, max(self.pool_size * self.pool_refresh // self.num_envs, 1)

    def _refresh(self, key: Array, pool: Pool) -> Pool:
        """Replaces the oldest levels, a batch at a time, whenever enough steps have passed for one."""
        batch, period = self._refresh_plan()
        clock = (pool.clock + 1) % (period * self.pool_size // batch)

        def replace_oldest(levels: Levels) -> Levels:
            newest = self.env.reset_many(jax.random.split(jax.random.fold_in(key, 1), batch))
            start = clock // period * batch
            return jax.tree.map(lambda old, new: lax.dynamic_update_slice_in_dim(old, new, start, 0), levels, newest)

        return Pool(_branch(clock % period == 0, replace_oldest, pool.levels), clock)


def _restart(levels: Callable[[Array], Levels], ended: Array, current: Levels) -> Levels:
    """`current` with `levels(indices)` where `ended` `[N]`, computed for few more than the ended."""
    num_envs = ended.shape[0]
    everyone = jnp.arange(num_envs)

    def restart_all(current: Levels) -> Levels:
        return _select(ended, levels(everyone), current)

    def restart_chunks(current: Levels) -> Levels:
        # Loops over the members of a chunk compile a second faster than `nonzero` and a scatter for each leaf.
        def take(k: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
            left, index = carry
            first = jnp.argmax(left)
            return left.at[first].set(False), index.at[k].set(first)

        def restart_chunk(carry: tuple[Array, Levels]) -> tuple[Array, Levels]:
            left, current = carry
            count = jnp.minimum(left.sum(), _CHUNK)
            left, index = lax.fori_loop(0, count, take, (left, jnp.zeros(_CHUNK, jnp.int32)))
            started = levels(index)

            def put(k: Array, current: Levels) -> Levels:
                return jax.tree.map(
                    lambda old, new: lax.dynamic_update_index_in_dim(old, new[k], index[k], 0), current, started
                )

            return left, lax.fori_loop(0, count, put, current)

        return lax.while_loop(lambda carry: carry[0].any(), restart_chunk, (ended, current))[1]

    return _branch(ended.any(), restart_all if num_envs <= _CHUNK else restart_chunks, current)


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
