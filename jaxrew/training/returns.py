"""Advantages and value targets from time-major rewards: pure functions, one per estimator."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

from jaxrew.types import Transition


def gae(
    rewards: Array,
    values: Array,
    next_values: Array,
    terminated: Array,
    truncated: Array,
    gamma: float | Array,
    lam: float | Array,
    episodic: bool = True,
) -> tuple[Array, Array]:
    """Generalised advantage estimation (Schulman et al., 2016) with both kinds of episode end kept apart.

      delta_t = r_t + gamma v(s_{t+1}) - v(s_t),   A_t = delta_t + gamma lam A_{t+1},   target_t = A_t + v(s_t).

    An episodic stream drops the bootstrap where `terminated` (it wins where both flags are set) and cuts the recursion
    where either flag is set. A non-episodic stream (Burda et al., 2018) ignores both: rewards flow across episodes.

    Args:
      rewards, values: `[T, N]`, r_t and v(s_t).
      next_values: `[T, N]`. Episodic: the value of the true successor, which matters where `truncated` and equals
        `values[t + 1]` where nothing ended. Non-episodic: the value of the observation acted on next.
      terminated, truncated: `[T, N]` bool.
      gamma, lam: discount and lambda.
      episodic: whether episode ends matter; static.

    Returns:
      `(advantages, targets)`, each `[T, N]`.
    """
    if episodic:
        next_values = jnp.where(terminated, 0.0, next_values)
        decay = gamma * lam * (1.0 - (terminated | truncated))
    else:
        decay = gamma * lam * jnp.ones_like(rewards)
    deltas = rewards + gamma * next_values - values

    def backward(advantage_tp1: Array, step: tuple[Array, Array]) -> tuple[Array, Array]:
        delta_t, decay_t = step
        advantage_t = delta_t + decay_t * advantage_tp1
        return advantage_t, advantage_t

    _, advantages = jax.lax.scan(backward, jnp.zeros_like(deltas[0]), (deltas, decay), reverse=True)
    return advantages, advantages + values


def value_truncated(
    next_values: Array, batch: Transition, bootstrap: Callable[[Array], Array], max_steps: int | None
) -> Array:
    """`next_values` `[T, N, S]` with those at truncated steps replaced by the value of the true successor.

    `bootstrap(obs [K, ...]) -> [K, S]` values observations. No environment truncates twice within `max_steps`, so of
    each stretch of that length one observation an environment is valued; where no limit is declared, all are.
    """
    num_steps, num_envs = batch.truncated.shape
    cut = batch.truncated & ~batch.terminated
    length = min(max_steps or 1, num_steps)
    stretches = math.ceil(num_steps / length)
    padded = jnp.pad(cut, ((0, stretches * length - num_steps), (0, 0))).reshape(stretches, length, num_envs)
    steps = jnp.argmax(padded, axis=1) + length * jnp.arange(stretches)[:, None]
    rows = steps * num_envs + jnp.arange(num_envs)
    observations = batch.next_obs.reshape(-1, *batch.next_obs.shape[2:])[rows.reshape(-1)]
    values = bootstrap(observations).reshape(stretches, 1, num_envs, -1)
    values = jnp.broadcast_to(values, (stretches, length, *values.shape[2:])).reshape(-1, *values.shape[2:])
    return jnp.where(cut[..., None], values[:num_steps], next_values)
