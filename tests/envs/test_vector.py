"""VecEnv against a loop over single environments."""

import dataclasses
import functools
import re
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
from envs.base import Environment
from envs.vector import VecEnv
from jaxrew.types import Discrete, EnvSpec, Fact, Step

LEVELS = 6


class WalkState(NamedTuple):
    level: jax.Array
    serial: jax.Array
    place: jax.Array
    time: jax.Array


@dataclasses.dataclass(frozen=True)
class Walk(Environment):
    """Integers only, so that every comparison is exact: action 1 terminates, 0 moves by a random amount."""

    max_steps: int = 8

    @property
    def spec(self):
        facts = (Fact("level", "the level", 0, LEVELS - 1), Fact("place", "where it is", 0, 10_000))
        return EnvSpec("Walk", (3,), "int32", Discrete(2), self.max_steps, facts)

    def reset(self, key):
        level, serial = jax.random.bits(key, (2,))
        zero = jnp.zeros((), jnp.int32)
        state = WalkState((level % LEVELS).astype(jnp.int32), serial, zero, zero)
        return state, self._observe(state)

    def step(self, key, state, action):
        place = state.place + (jax.random.bits(key) % 1000).astype(jnp.int32)
        state = state._replace(place=place, time=state.time + 1)
        reward = place.astype(jnp.float32)
        flags = action == 1, state.time >= self.max_steps
        return state, Step(self._observe(state), reward, *flags, self.facts(state))

    def facts(self, state):
        return {"level": state.level, "place": state.place}

    def _observe(self, state):
        return jnp.stack([state.level, state.place, state.time])


@functools.partial(jax.jit, static_argnums=0)
def reset(env, key):
    return env.reset(key)


@functools.partial(jax.jit, static_argnums=0)
def step(env, key, state, action):
    return env.step(key, state, action)


@functools.partial(jax.jit, static_argnums=0)
def vec_init(vec_env, key):
    return vec_env.init(key)


@functools.partial(jax.jit, static_argnums=0)
def vec_step(vec_env, key, state, action):
    return vec_env.step(key, state, action)


def loop_step(env, key, states, actions):
    """One step of `VecEnv(env, len(states))` with fresh resets, one environment after the other."""
    num_envs = len(states)
    keys = jax.random.split(jax.random.fold_in(key, 0), num_envs)
    after, acted, steps = [], [], []
    for i in range(num_envs):
        state, outcome = step(env, keys[i], states[i], actions[i])
        obs = outcome.obs
        if outcome.terminated or outcome.truncated:
            state, obs = reset(env, jax.random.fold_in(key, 2 + i))
        after.append(state)
        acted.append(obs)
        steps.append(outcome)
    return after, acted, steps


def stack(trees):
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def unstack(tree, num):
    return [at(tree, i) for i in range(num)]


def at(tree, index):
    return jax.tree.map(lambda leaf: np.asarray(leaf)[index], tree)


def rollout(vec_env, key, actions):
    """Actions `[T, N]` from a fresh start: the states after each step, observations acted on next and `Step`s."""

    def body(state, inputs):
        key, action = inputs
        state, obs, step = vec_env.step(key, state, action)
        return state, (state, obs, step)

    key_init, key_steps = jax.random.split(key)
    state, _ = vec_env.init(key_init)
    return jax.lax.scan(body, state, (jax.random.split(key_steps, len(actions)), actions))[1]


# 24 environments are a chunk and a half.
@pytest.mark.parametrize(
    ("num_envs", "ended"),
    [(3, []), (3, [1]), (3, [0, 1, 2]), (24, []), (24, [5]), (24, range(3, 21)), (24, range(24))],
)
def test_fresh_equals_a_loop_over_single_environments(num_envs, ended):
    vec_env = VecEnv(Walk(), num_envs)
    state, _ = vec_init(vec_env, jax.random.key(0))
    actions = np.isin(np.arange(num_envs), list(ended)).astype(np.int32)
    new, obs, outcome = vec_step(vec_env, jax.random.key(1), state, actions)
    states, acted, outcomes = loop_step(vec_env.env, jax.random.key(1), unstack(state.envs, num_envs), actions)
    chex.assert_trees_all_equal((new.envs, obs, outcome), (stack(states), stack(acted), stack(outcomes)))
    assert outcome.terminated.sum() == len(ended)


def test_fresh_equals_the_loop_over_whole_episodes_that_truncate():
    vec_env = VecEnv(Walk(max_steps=5), 3)
    state, _ = vec_init(vec_env, jax.random.key(2))
    states = unstack(state.envs, 3)
    flags = []
    for t, actions in enumerate(np.random.default_rng(0).binomial(1, 0.1, (17, 3)).astype(np.int32)):
        state, obs, outcome = vec_step(vec_env, jax.random.key(t), state, actions)
        states, acted, outcomes = loop_step(vec_env.env, jax.random.key(t), states, actions)
        chex.assert_trees_all_equal((obs, outcome), (stack(acted), stack(outcomes)))
        flags.append(np.stack([outcome.terminated, outcome.truncated]))
    terminated, truncated = np.concatenate(flags, axis=1)
    assert truncated.any()
    assert (terminated & ~truncated).any()


@pytest.mark.parametrize("chunk", [1, 7, 64])
def test_chunking_changes_nothing(monkeypatch, chunk):
    vec_env = VecEnv(Walk(), 24)
    state, _ = vec_init(vec_env, jax.random.key(0))
    actions = jnp.arange(24) % 3 % 2
    expected = vec_step(vec_env, jax.random.key(1), state, actions)
    monkeypatch.setattr("envs.vector._CHUNK", chunk)
    chex.assert_trees_all_equal(jax.jit(lambda key: vec_env.step(key, state, actions))(jax.random.key(1)), expected)


def test_the_successor_is_the_true_one_and_the_next_observation_the_new_episode():
    vec_env = VecEnv(envs.make("CartPole-v1", max_steps=6), 5)
    actions = np.array([0, 1, 0, 1, 1])
    state, _ = vec_init(vec_env, jax.random.key(0))
    for t in range(6):
        before = state
        state, obs, outcome = vec_step(vec_env, jax.random.key(t), state, actions)
    for i in range(5):
        _, alone = step(vec_env.env, jax.random.key(0), at(before.envs, i), actions[i])
        np.testing.assert_allclose(outcome.obs[i], alone.obs, atol=1e-6)
    assert outcome.truncated.all()
    assert (np.abs(outcome.obs[:, 1]) > 0.3).all()
    assert (np.abs(obs) <= 0.05).all()
    names = ("cart_position", "cart_velocity", "pole_angle", "pole_velocity")
    np.testing.assert_array_equal(np.stack([vec_env.facts(state)[name] for name in names], 1), obs)
    np.testing.assert_array_equal(np.stack([outcome.facts[name] for name in names], 1), outcome.obs)


@pytest.mark.parametrize(("resets", "num_envs"), [("fresh", 20), ("pool", 4)])
def test_seeds_side_by_side_equal_each_seed_alone(resets, num_envs):
    vec_env = VecEnv(Walk(), num_envs, resets, pool_size=32, pool_refresh=2)
    actions = jax.random.bernoulli(jax.random.key(3), 0.3, (12, num_envs)).astype(jnp.int32)
    keys = jax.random.split(jax.random.key(0), 3)

    def run(key):
        return rollout(vec_env, key, actions)

    one_by_one = jax.jit(lambda keys: jax.lax.map(run, keys))(keys)
    chex.assert_trees_all_equal(jax.jit(jax.vmap(run))(keys), one_by_one)


@pytest.mark.parametrize("name", ["CartPole-v1", "MiniGrid-DoorKey-5x5-v0"])
def test_one_program_serves_every_step(name):
    chex.clear_trace_counter()
    vec_env = VecEnv(envs.make(name), 2, "pool", pool_size=16)
    traced_once = jax.jit(chex.assert_max_traces(vec_env.step, n=1))
    state, obs = vec_init(vec_env, jax.random.key(0))
    for t in range(3):
        new, acted, _ = traced_once(jax.random.key(t), state, jnp.zeros(2, jnp.int32))
        chex.assert_trees_all_equal_shapes_and_dtypes((new, acted), (state, obs))
        state = new


def as_set(serials):
    return set(np.asarray(serials).ravel().tolist())


@functools.partial(jax.jit, static_argnums=0)
def jitted_rollout(vec_env, key, actions):
    return rollout(vec_env, key, actions)


def walks(vec_env, seed, steps, end=0.1):
    """States, observations and outcomes of episodes that terminate with probability `end` a step."""
    actions = np.random.default_rng(seed).binomial(1, end, (steps, vec_env.num_envs)).astype(np.int32)
    return jax.tree.map(np.asarray, jitted_rollout(vec_env, jax.random.key(seed), actions))


def test_every_episode_of_a_pool_starts_from_one_of_its_levels():
    state, obs, outcome = walks(VecEnv(Walk(), 24, "pool", 48, pool_refresh=3), seed=3, steps=60)
    ended = outcome.terminated | outcome.truncated
    for t in range(60):
        serials = state.pool.levels[0].serial[t].tolist()
        slots = [serials.index(serial) for serial in state.envs.serial[t, ended[t]].tolist()]
        chex.assert_trees_all_equal(at((state.envs, obs), (t, ended[t])), at(state.pool.levels, (t, slots)))
        np.testing.assert_array_equal(obs[t, ~ended[t]], outcome.obs[t, ~ended[t]])


@pytest.mark.parametrize(
    ("num_envs", "pool_size", "pool_refresh", "batch", "period"), [(24, 48, 3, 16, 2), (64, 64, 2, 32, 1)]
)
def test_a_pool_replaces_its_oldest_levels_at_the_stated_rate(num_envs, pool_size, pool_refresh, batch, period):
    state, _, _ = walks(VecEnv(Walk(), num_envs, "pool", pool_size, pool_refresh), seed=3, steps=60)
    serials = state.pool.levels[0].serial
    born = np.zeros(pool_size, int)
    for t in range(1, len(serials)):
        changed = serials[t] != serials[t - 1]
        assert changed.sum() == (batch if (t + 1) % period == 0 else 0)
        if changed.any():
            assert born[changed].max() <= born[~changed].min()
        born[changed] = t
    assert batch * pool_refresh >= num_envs * period
    assert not as_set(serials[0]) & as_set(serials[-1])


def chi_square(values, categories):
    counts = np.bincount(values, minlength=categories)
    expected = len(values) / categories
    return ((counts - expected) ** 2 / expected).sum()


def started_levels(vec_env, seed):
    """The states that the episodes of 500 steps began with."""
    state, _, outcome = walks(vec_env, seed, 500)
    return jax.tree.map(lambda leaf: leaf[outcome.terminated | outcome.truncated], state.envs)


@pytest.mark.parametrize("resets", ["fresh", "pool"])
def test_levels_are_uniform_over_a_long_run(resets):
    # Far more levels are built than played, so few are played twice and the counts are independent enough.
    # 20.5 is the 99.9 % quantile at 5 degrees of freedom.
    levels = started_levels(VecEnv(Walk(), 64, resets, pool_size=256, pool_refresh=1), seed=4).level
    assert len(levels) > 5000
    assert chi_square(levels, LEVELS) < 20.5


def test_draws_are_uniform_over_the_pool():
    # Never refreshed. 37.7 is the 99.9 % quantile at 15 degrees of freedom.
    serials = started_levels(VecEnv(Walk(), 64, "pool", pool_size=16, pool_refresh=10**6), seed=5).serial
    unique, slots = np.unique(serials, return_inverse=True)
    assert len(unique) == 16
    assert chi_square(slots, 16) < 37.7


def test_each_seed_has_its_own_pool_and_environments_their_own_levels():
    vec_env = VecEnv(Walk(), 8, "pool", pool_size=16)
    state, _ = jax.vmap(vec_env.init)(jax.random.split(jax.random.key(0), 4))
    assert state.pool is not None
    serials = np.concatenate([state.pool.levels[0].serial.ravel(), state.envs.serial.ravel()])
    assert len(as_set(serials)) == 4 * (16 + 8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_envs": 0}, "num_envs is 0; it must be at least 1"),
        ({"num_envs": 1, "resets": "pol"}, "unknown kind of resets 'pol'; did you mean 'pool'?"),
        ({"num_envs": 1, "resets": "pool", "pool_size": 50}, "pool_size is 50; it must be a multiple of 16, like 48"),
        ({"num_envs": 1, "resets": "pool", "pool_refresh": 0}, "pool_refresh is 0; it must be at least 1"),
    ],
)
def test_mistakes_are_answered_in_one_sentence(options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        VecEnv(Walk(), **options)
