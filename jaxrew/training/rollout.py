"""Collecting experience, and the scalar statistics of the episodes in it."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrew.types import EnvSpec, Transition

if TYPE_CHECKING:
    from envs.vector import VecEnv

Act = Callable[[Array, Any], tuple[Array, dict[str, Array]]]


class Tracker(NamedTuple):
    """Statistics of task reward that outlive a rollout.

    `returns` and `lengths` `[N]` belong to the episodes under way; `covered` flags each value of the position fact
    (None without one); `first_success` is the number of frames when the first successful episode ended, -1 before.
    """

    returns: Array
    lengths: Array
    covered: Array | None
    first_success: Array


class Collector(NamedTuple):
    """Where collection stands: environment states, the observations to act on next, and the tracker."""

    env_state: Any
    obs: Array
    tracker: Tracker


def init_collector(env: "VecEnv", key: Array) -> Collector:
    """Fresh episodes in all N environments."""
    env_state, obs = env.init(key)
    tracker = Tracker(
        returns=jnp.zeros(env.num_envs, jnp.float32),
        lengths=jnp.zeros(env.num_envs, jnp.int32),
        covered=jnp.zeros(math.prod(_position_sizes(env.spec)), bool) if env.spec.position else None,
        first_success=jnp.int32(-1),
    )
    return Collector(env_state, obs, tracker)


def rollout(
    env: "VecEnv", act: Act, collector: Collector, key: Array, noise: Any, num_steps: int, step: Array
) -> tuple[Collector, Transition, dict[str, Array]]:
    """Steps N environments `num_steps` times.

    Args:
      env: the environments.
      act: `(obs [N, ...], noise_t) -> (action [N, ...], extras)`.
      collector: where to go on.
      key: randomness of the environments.
      noise: a pytree `[num_steps, ...]` whose slice `act` receives; drawn in bulk, as a key per step is slow on CPU.
      num_steps: T.
      step: frames before this rollout, for `first_success`.

    Returns:
      the collector, the transitions `[T, N, ...]`, and scalar metrics: `episodes`, `return_sum`, `length_sum` and
      `successes` of the episodes that ended in it, `first_success` and `coverage` so far.
    """

    def one_step(carry, inputs):
        env_state, obs, returns, lengths = carry
        key_t, noise_t = inputs
        facts = env.facts(env_state)
        action, extras = act(obs, noise_t)
        env_state, next_acted_obs, outcome = env.step(key_t, env_state, action)
        transition = Transition(
            obs=obs,
            action=action,
            reward=outcome.reward,
            next_obs=outcome.obs,
            terminated=outcome.terminated,
            truncated=outcome.truncated,
            facts=facts,
            next_facts=outcome.facts,
            extras=extras,
        )
        returns, lengths = returns + outcome.reward, lengths + 1
        going_on = ~transition.ended
        carry = (env_state, next_acted_obs, returns * going_on, lengths * going_on)
        return carry, (transition, returns, lengths)

    tracker = collector.tracker
    carry = (collector.env_state, collector.obs, tracker.returns, tracker.lengths)
    keys = jax.random.split(key, num_steps)
    carry, (batch, returns, lengths) = jax.lax.scan(one_step, carry, (keys, noise), num_steps)
    env_state, obs, running_returns, running_lengths = carry

    success = jnp.zeros_like(batch.ended) if env.spec.success is None else batch.ended & (returns > env.spec.success)
    tracker = Tracker(
        returns=running_returns,
        lengths=running_lengths,
        covered=_cover(env.spec, tracker.covered, batch),
        first_success=_first_success(tracker.first_success, success, step),
    )
    metrics = {
        "episodes": batch.ended.sum(dtype=jnp.int32),
        "return_sum": jnp.where(batch.ended, returns, 0.0).sum(),
        "length_sum": jnp.where(batch.ended, lengths, 0).sum(dtype=jnp.int32),
    }
    if env.spec.success is not None:
        metrics |= {"successes": success.sum(dtype=jnp.int32), "first_success": tracker.first_success}
    if tracker.covered is not None:
        metrics["coverage"] = tracker.covered.sum(dtype=jnp.int32)
    return Collector(env_state, obs, tracker), batch, metrics


def random_play(env: "VecEnv", collector: Collector, key: Array, num_steps: int) -> tuple[Collector, Transition]:
    """A rollout of uniformly random actions, as for the statistics that a module warms up on."""
    action_key, env_key = jax.random.split(key)
    actions = env.spec.action_space.sample(action_key, (num_steps, env.num_envs))
    collector, batch, _ = rollout(
        env, lambda obs, action: (action, {}), collector, env_key, actions, num_steps, jnp.int32(0)
    )
    return collector, batch


def _position_sizes(spec: EnvSpec) -> list[int]:
    fact = spec.fact(spec.position or "")
    return [int(fact.high) - int(fact.low) + 1] * math.prod(fact.shape)


def _cover(spec: EnvSpec, covered: Array | None, batch: Transition) -> Array | None:
    if spec.position is None or covered is None:
        return None
    fact, sizes = spec.fact(spec.position), _position_sizes(spec)
    strides = np.array([math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))], np.int32)
    positions = batch.next_facts[spec.position].reshape(-1, len(sizes)) - int(fact.low)
    return covered.at[(positions * strides).sum(-1)].set(True)


def _first_success(before: Array, success: Array, step: Array) -> Array:
    """Frames after the time step at which the first successful episode ended."""
    num_envs = success.shape[1]
    hit = success.any(axis=1)
    frames = step + (jnp.argmax(hit).astype(jnp.int32) + 1) * num_envs
    return jnp.where((before < 0) & hit.any(), frames, before)
