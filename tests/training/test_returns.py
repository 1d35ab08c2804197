"""GAE against a sum written from its definition, and by hand."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrew.training.returns import gae
from tests.references.returns_loop import gae_by_sums


@pytest.mark.parametrize("episodic", [True, False])
@pytest.mark.parametrize("end_rate", [0.0, 0.15, 0.6])
def test_equals_sums_on_random_flags(episodic, end_rate):
    rng = np.random.default_rng(7)
    shape = (40, 6)
    rewards, values, next_values = (rng.normal(size=shape).astype(np.float32) for _ in range(3))
    terminated, truncated = (rng.random(shape) < end_rate for _ in range(2))
    expected = gae_by_sums(rewards, values, next_values, terminated, truncated, 0.97, 0.9, episodic)
    arrays = [jnp.asarray(x) for x in (rewards, values, next_values, terminated, truncated)]
    advantages, targets = gae(*arrays, gamma=0.97, lam=0.9, episodic=episodic)
    np.testing.assert_allclose(advantages, expected, atol=1e-5)
    np.testing.assert_allclose(targets, expected + values, atol=1e-5)


def test_by_hand():
    # Two steps, the first truncated: v(true successor) = 4 is the bootstrap and the second step does not leak back.
    rewards, values = jnp.array([[1.0], [2.0]]), jnp.array([[0.5], [1.0]])
    next_values = jnp.array([[4.0], [10.0]])
    truncated, terminated = jnp.array([[True], [False]]), jnp.array([[False], [True]])
    advantages, _ = gae(rewards, values, next_values, terminated, truncated, 0.5, 0.8)
    np.testing.assert_allclose(advantages, [[1.0 + 2.0 - 0.5], [2.0 - 1.0]], rtol=1e-6)
    # Non-episodic: both ends are ignored.
    advantages, _ = gae(rewards, values, next_values, terminated, truncated, 0.5, 0.8, episodic=False)
    second = 2.0 + 5.0 - 1.0
    np.testing.assert_allclose(advantages, [[1.0 + 2.0 - 0.5 + 0.4 * second], [second]], rtol=1e-6)


def test_terminated_wins_over_truncated():
    one = jnp.ones((1, 1))
    both = jnp.ones((1, 1), bool)
    advantages, _ = gae(one, one, 100 * one, both, both, 0.9, 0.9)
    assert advantages[0, 0] == 0.0


def test_another_gamma_does_not_recompile():
    function = jax.jit(chex.assert_max_traces(gae, n=1), static_argnames="episodic")
    x, flags = jnp.ones((4, 2)), jnp.zeros((4, 2), bool)
    for gamma in (0.9, 0.99):
        function(x, x, x, flags, flags, jnp.float32(gamma), jnp.float32(0.9), episodic=True)
