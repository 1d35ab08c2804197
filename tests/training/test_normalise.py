"""Running statistics against NumPy over everything seen."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrew.training.normalise import (
    filter_returns,
    init_moments,
    init_return_filter,
    update_moments,
    whiten,
)


@pytest.mark.parametrize("shape", [(), (3,), (2, 4)])
def test_moments_pool_batches_of_any_size(shape):
    rng, moments, seen = np.random.default_rng(0), init_moments(shape), []
    update = jax.jit(update_moments)
    for size in (1, 7, 64, 2):
        batch = jnp.asarray(rng.normal(3.0, 2.0, (size, 5, *shape)), jnp.float32)
        moments = update(moments, batch)
        seen.append(batch.reshape(-1, *shape))
        everything = np.concatenate(seen).astype(np.float64)
        np.testing.assert_allclose(moments.mean, everything.mean(0), rtol=1e-5)
        np.testing.assert_allclose(moments.var, everything.var(0), rtol=1e-4)
        np.testing.assert_allclose(moments.std, everything.std(0), rtol=1e-4)
        assert moments.count == len(everything)


def test_moments_of_many_small_batches_far_from_zero_stay_exact():
    """2,000 batches with a mean 1,000 times the deviation, where a sum of squares would have lost every digit."""
    rng = np.random.default_rng(0)
    batches = (1000.0 + rng.normal(size=(2000, 16))).astype(np.float32)
    moments, _ = jax.lax.scan(lambda m, batch: (update_moments(m, batch), None), init_moments(), jnp.asarray(batches))
    assert moments.mean == pytest.approx(batches.astype(np.float64).mean(), rel=1e-6)
    assert moments.var == pytest.approx(batches.astype(np.float64).var(), rel=1e-2)


def test_whiten():
    moments = update_moments(init_moments((2,)), jnp.array([[0.0, 5.0], [4.0, 5.0]]))
    np.testing.assert_allclose(moments.mean, [2.0, 5.0])
    whitened = whiten(moments, jnp.array([[4.0, 5.0], [100.0, 5.1], [-100.0, 4.9]]), 5.0)
    np.testing.assert_allclose(whitened, [[1.0, 0.0], [5.0, 5.0], [-5.0, -5.0]], rtol=1e-6)
    unseen = jnp.array([[1.5, -2.5]])
    np.testing.assert_allclose(whiten(init_moments((2,)), unseen, 5.0), unseen, rtol=1e-6)


def test_return_filter_runs_over_time_in_each_environment():
    """Worked by hand, gamma 1/2: environment 0 earns 1, 1 and then 2; environment 1 earns 4, 0 and then 0."""
    returns = filter_returns(init_return_filter(2), jnp.array([[1.0, 4.0], [1.0, 0.0]]), 0.5)
    np.testing.assert_allclose(returns.running, [1.5, 2.0])
    assert returns.moments.var == pytest.approx(np.var([1.0, 1.5, 4.0, 2.0]))
    returns = filter_returns(returns, jnp.array([[2.0, 0.0]]), 0.5)
    np.testing.assert_allclose(returns.running, [2.75, 1.0])
    assert returns.scale == pytest.approx(1.0 / np.std([1.0, 1.5, 4.0, 2.0, 2.75, 1.0]))
    assert init_return_filter(2).scale == 1.0
