"""Running mean and variance, the statistics behind observation whitening and reward scaling."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax


class Moments(NamedTuple):
    """Mean and (population) variance of everything seen so far; `mean` and `var` have the shape of one sample."""

    count: Array
    mean: Array
    var: Array

    @property
    def std(self) -> Array:
        return jnp.sqrt(self.var)


def init_moments(shape: tuple[int, ...] = ()) -> Moments:
    """No samples yet: mean 0 and variance 1, so that scaling by them changes nothing."""
    return Moments(jnp.zeros((), jnp.float32), jnp.zeros(shape, jnp.float32), jnp.ones(shape, jnp.float32))


def update_moments(moments: Moments, samples: Array) -> Moments:
    """Pools `samples`, `[..., *shape]`, with what was seen before (Chan, Golub and LeVeque, 1983).

    mean = m_a + delta n_b / n;  var = (n_a v_a + n_b v_b + delta^2 n_a n_b / n) / n,  delta = m_b - m_a.
    """
    axes = tuple(range(samples.ndim - moments.mean.ndim))
    batch_count = jnp.asarray(samples.size // max(moments.mean.size, 1), jnp.float32)
    # One pass over the batch, not two. Relative to one of its samples, mean square minus squared mean loses no digits.
    origin = samples[(0,) * len(axes)]
    # Over the first axis, then over the others: a CPU adds whole slices much faster than it adds the rows of a table.
    slices = (samples - origin).mean(0), jnp.square(samples - origin).mean(0)
    offset, square = (part.mean(axes[:-1]) for part in lax.optimization_barrier(slices))
    batch_mean, batch_var = origin + offset, jnp.maximum(square - jnp.square(offset), 0.0)
    count = moments.count + batch_count
    delta = batch_mean - moments.mean
    share = batch_count / count
    mean = moments.mean + delta * share
    var = moments.var * (1.0 - share) + batch_var * share + delta**2 * share * (1.0 - share)
    return Moments(count, mean, var)


def whiten(moments: Moments, samples: Array, clip: float | Array, eps: float = 1e-8) -> Array:
    """(samples - mean) / sqrt(var + eps), clipped to +-`clip`."""
    scale = 1.0 / jnp.sqrt(moments.var + eps)
    return jnp.clip((samples - moments.mean) * scale, -clip, clip)


class ReturnFilter(NamedTuple):
    """The discounted sum of rewards so far, per environment `[N]`, and the moments of all its past values."""

    running: Array
    moments: Moments

    @property
    def scale(self) -> Array:
        """1 / std of the discounted sum."""
        return 1.0 / jnp.sqrt(self.moments.var + 1e-8)


def init_return_filter(num_envs: int) -> ReturnFilter:
    """Nothing seen: sums are 0 and the scale is 1."""
    return ReturnFilter(jnp.zeros(num_envs, jnp.float32), init_moments())


def filter_returns(returns: ReturnFilter, rewards: Array, gamma: float | Array) -> ReturnFilter:
    """Runs the filter over rewards `[T, N]` (Burda et al., 2018).

    C_t = gamma C_{t-1} + r_t along time in each environment, not cut where episodes end and carried from rollout to
    rollout; the variance pools C over [T, N], these rewards included.
    """

    def accumulate(running: Array, reward: Array) -> tuple[Array, Array]:
        running = gamma * running + reward
        return running, running

    running, sums = jax.lax.scan(accumulate, returns.running, rewards)
    return ReturnFilter(running, update_moments(returns.moments, sums))
