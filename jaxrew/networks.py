"""Encoders and heads (flax linen) for agents and for learnt rewards.

An encoder maps float features `[..., *shape]` to an embedding `[..., D]`. Kernels are orthogonal, biases zero.
"""

import math
from collections.abc import Callable, Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array

CPU_ROWS = 2048
"""Rows of a rollout that a CPU evaluates at a time: their floats stay in the cache, and fewer make matmuls slower."""

ORTHOGONAL = nn.initializers.orthogonal(math.sqrt(2))


def orthogonal_dense(size: int, scale: float, name: str | None = None) -> nn.Dense:
    """A dense layer with an orthogonal kernel of the given gain and zero bias."""
    return nn.Dense(size, kernel_init=nn.initializers.orthogonal(scale), name=name)


def map_rows(function: Callable[[Array], Array], inputs: Array, row_ndim: int) -> Array:
    """`function` over the rows of `[T, N, *row]` or `[B, *row]`: some after others on a CPU, elsewhere all at once."""
    if jax.default_backend() != "cpu":
        return function(inputs)
    rows_per_entry = math.prod(inputs.shape[1 : inputs.ndim - row_ndim])
    return jax.lax.map(function, inputs, batch_size=max(1, CPU_ROWS // rows_per_entry))


class MLP(nn.Module):
    """Dense layers of the given sizes over the flattened features, an activation after each (the last if asked)."""

    sizes: Sequence[int] = (64, 64)
    activation: Callable[[Array], Array] = nn.tanh
    feature_ndim: int = 1
    activate_last: bool = True

    @nn.compact
    def __call__(self, features: Array) -> Array:
        x = features.reshape(*features.shape[: features.ndim - self.feature_ndim], -1)
        for layer, size in enumerate(self.sizes):
            x = nn.Dense(size, kernel_init=ORTHOGONAL)(x)
            if self.activate_last or layer < len(self.sizes) - 1:
                x = self.activation(x)
        return x


class PatchConv(nn.Module):
    """A stride-1 'valid' convolution as shifted copies and one matmul.

    XLA's CPU convolution is about ten times slower inside `lax.scan` than outside; a matmul is not.
    `[..., H, W, C]` to `[..., H - k + 1, W - k + 1, features]`.
    """

    features: int
    kernel_size: int = 3

    @nn.compact
    def __call__(self, image: Array) -> Array:
        k = self.kernel_size
        height, width = image.shape[-3] - k + 1, image.shape[-2] - k + 1
        shifts = [image[..., y : y + height, x : x + width, :] for y in range(k) for x in range(k)]
        return nn.Dense(self.features, kernel_init=ORTHOGONAL)(jnp.concatenate(shifts, axis=-1))


class GridEncoder(nn.Module):
    """Two patch convolutions and a dense layer, for small grids `[..., H, W, C]` (MiniGrid views, MinAtar)."""

    channels: Sequence[int] = (16, 32)
    size: int = 64
    kernel_size: int = 3
    activation: Callable[[Array], Array] = nn.relu

    @nn.compact
    def __call__(self, features: Array) -> Array:
        x = features
        for channels in self.channels:
            x = self.activation(PatchConv(channels, self.kernel_size)(x))
        x = x.reshape(*x.shape[:-3], -1)
        return self.activation(nn.Dense(self.size, kernel_init=ORTHOGONAL)(x))
