"""Running mean and variance, the statistics behind observation whitening and reward scaling."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array


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
    batch_mean, batch_var = samples.mean(axes), samples.var(axes)
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
