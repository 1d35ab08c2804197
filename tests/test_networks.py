"""Networks against JAX's own operations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrew.networks import PatchConv, map_rows


def test_patch_convolution_is_a_valid_convolution():
    image = jax.random.normal(jax.random.key(0), (2, 7, 6, 3))
    network = PatchConv(features=5, kernel_size=3)
    params = network.init(jax.random.key(1), image)
    kernel = np.asarray(params["params"]["Dense_0"]["kernel"]).reshape(3, 3, 3, 5)
    expected = jax.lax.conv_general_dilated(
        image, jnp.asarray(kernel), (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"), precision="highest"
    )
    np.testing.assert_allclose(np.asarray(network.apply(params, image)), expected, atol=1e-5)


@pytest.mark.parametrize("shape", [(5, 3, 4), (7, 4), (2, 9, 4)])
def test_rows_in_pieces_are_rows_at_once(shape, monkeypatch):
    monkeypatch.setattr("jaxrew.networks.CPU_ROWS", 6)
    rows = jax.random.normal(jax.random.key(0), shape)
    expected = np.cumsum(np.asarray(rows), axis=-1)
    np.testing.assert_allclose(map_rows(lambda x: jnp.cumsum(x, axis=-1), rows, row_ndim=1), expected, atol=1e-6)
