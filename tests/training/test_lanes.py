"""Law 7: a seed's result does not depend on what runs beside it; law 8: one compile per structure."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
import jaxrew
from agents.ppo import PPO
from jaxrew.rewards import NoReward
from jaxrew.training.lanes import Settings, init_lanes, make_program, place, run_chunk
from jaxrew.types import as_leaves

TINY = PPO(num_envs=4, num_steps=16, num_epochs=1, num_minibatches=2, hidden_sizes=(8,))
ENV = envs.make("CartPole-v1").vectorise(TINY.num_envs)


def compilations():
    """How many programs `run_chunk` has been compiled to in this process."""
    return run_chunk._cache_size()  # pyright: ignore


def trained(seeds, mode="map", devices=None, updates=3):
    """Seed -> its final state (as NumPy) and metrics, run in one program."""
    program = make_program(ENV, len(seeds), mode, devices)
    settings = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (len(seeds),)), Settings(as_leaves(TINY), NoReward()))
    settings = place(program, settings)
    keys = place(program, jax.vmap(jax.random.key)(jnp.asarray(seeds, jnp.uint32)))
    lanes = init_lanes(program, settings, keys)
    lanes, rows = run_chunk(program, settings, lanes, jnp.int32(updates), jnp.float32(1e4), 64)
    state = lanes.state._replace(key=jax.random.key_data(lanes.state.key))
    return {
        seed: jax.tree.map(lambda leaf, row=row: np.asarray(leaf[row]), (state, rows)) for row, seed in enumerate(seeds)
    }


def assert_equal(a, b):
    jax.tree.map(np.testing.assert_array_equal, a, b)


def test_map_is_bit_equal_in_any_batch_on_any_number_of_devices():
    one = jax.local_devices()[:1]
    assert len(jax.local_devices()) == 8
    alone = trained([3], devices=one)[3]
    assert_equal(alone, trained(range(8), devices=one)[3])
    assert_equal(alone, trained(range(8))[3])
    assert_equal(alone, trained([9, 3, 5])[3])


def test_vmap_does_not_depend_on_the_other_seeds_or_the_slot():
    one = jax.local_devices()[:1]
    first, second = trained([3, 1, 2], "vmap", one)[3], trained([7, 8, 3], "vmap", one)[3]
    assert_equal(first, second)


def test_vmap_agrees_with_map_after_one_update():
    one = jax.local_devices()[:1]
    mapped, batched = (trained([0, 1, 2], mode, one, updates=1)[1][1] for mode in ("map", "vmap"))
    for name, row in mapped.items():
        np.testing.assert_allclose(row[:1], batched[name][:1], rtol=1e-4, atol=1e-4, err_msg=name)


def test_no_collective_in_the_compiled_program():
    program = make_program(ENV, 8)
    settings = place(program, jax.tree.map(lambda x: jnp.broadcast_to(x, (8,)), Settings(as_leaves(TINY), NoReward())))
    keys = place(program, jax.vmap(jax.random.key)(jnp.arange(8)))
    lanes = init_lanes(program, settings, keys)
    text = run_chunk.lower(program, settings, lanes, jnp.int32(1), jnp.float32(1e4), 64).compile().as_text() or ""
    assert "num_partitions=8" in text
    for collective in ("all-reduce", "all-gather", "all-to-all", "collective-permute", "reduce-scatter"):
        assert collective not in text


def test_second_chunk_shorter_chunk_and_other_floats_do_not_recompile():
    trained([0, 1])
    before = compilations()
    program = make_program(ENV, 2)
    for learning_rate, updates in ((1e-3, 1), (2, 2), (np.float64(1e-4), 5)):
        agent = as_leaves(TINY.replace(learning_rate=learning_rate))
        settings = place(program, jax.tree.map(lambda x: jnp.broadcast_to(x, (2,)), Settings(agent, NoReward())))
        lanes = init_lanes(program, settings, place(program, jax.vmap(jax.random.key)(jnp.arange(2))))
        for _ in range(2):
            lanes, _ = run_chunk(program, settings, lanes, jnp.int32(updates), jnp.float32(1e4), 64)
    assert compilations() == before


def test_unknown_mode():
    with pytest.raises(ValueError, match="'auto', 'map' or 'vmap', got 'pmap'"):
        jaxrew.train(TINY, ENV, seeds=1, steps=1000, lanes="pmap")
