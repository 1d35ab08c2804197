"""The adapter against the library's own raw step, bit for bit; and classic control.

What is checked of every environment stands here, to be called with the ids of each family.
"""

import functools
import re

import chex
import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
from envs.gymnax import FACTORIES
from jaxrew.types import Step

NAMES = ["CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Acrobot-v1", "Pendulum-v1"]

reset = jax.jit(lambda env, key: env.reset(key), static_argnums=0)
step = jax.jit(lambda env, key, state, action: env.step(key, state, action), static_argnums=0)


def play(env, policy, key=0):
    """One episode, step by step: `[Step, ...]`."""
    state, obs = reset(env, jax.random.key(key))
    steps = []
    while True:
        state, outcome = step(env, jax.random.key(len(steps)), state, policy(np.asarray(obs)))
        steps.append(jax.tree.map(np.asarray, outcome))
        obs = outcome.obs
        if outcome.terminated or outcome.truncated:
            return steps


def total(steps):
    return sum(float(step.reward) for step in steps)


def succeeds(env, steps):
    success = env.spec.success
    assert success is not None
    return total(steps) > success


def constant(action):
    return lambda obs: np.int32(action)


def random_rollout(start, advance, actions):
    """As many random steps as there are actions, restarting where an episode ends: `(Step, observations acted on)`.

    `advance(key, state, action)` gives `(state, Step)`.
    """

    def body(carry, inputs):
        state, acted = carry
        key, action = inputs
        state, outcome = advance(key, state, action)
        restarted = start(key)
        ended = outcome.terminated | outcome.truncated
        carry = jax.tree.map(
            lambda new, old: jnp.where(ended, new, old).astype(new.dtype), restarted, (state, outcome.obs)
        )
        return carry, (outcome, acted)

    keys = jax.random.split(jax.random.key(1), len(actions))
    run = jax.jit(lambda keys, actions: jax.lax.scan(body, start(keys[0]), (keys, actions))[1])
    return jax.tree.map(np.asarray, run(keys, actions))


def random_actions(env, steps=1000):
    return env.spec.action_space.sample(jax.random.key(0), (steps,))


@functools.cache
def our_rollout(env, steps=1000):
    return random_rollout(env.reset, env.step, random_actions(env, steps))


def library_rollout(name, constructor, params, actions):
    """The same by the library's raw reset and step alone."""
    raw, default = gymnax.make(name, **constructor)
    params = default.replace(**params)

    def start(key):
        obs, state = raw.reset_env(key, params)
        return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.asarray(leaf).dtype), (state, obs))

    def advance(key, state, action):
        obs, state, reward, terminated, _ = raw.step_env(key, state, action, params)
        return state, Step(obs, reward, terminated, raw.is_truncated(state, params), {})

    return random_rollout(start, advance, actions)


def check_equal_to_the_library(name, options, constructor, params, steps=1000):
    """Both compiled, from the same keys, over many episodes; `Step.obs` at an end is the library's own last one."""
    env = envs.make(name, **options)
    if "max_steps" in options:
        params = {**params, "max_steps_in_episode": options["max_steps"]}
    ours, ours_acted = our_rollout(env, steps)
    theirs, theirs_acted = library_rollout(name, constructor, params, random_actions(env, steps))
    np.testing.assert_array_equal(ours_acted, theirs_acted)
    for field in ("obs", "reward", "terminated", "truncated"):
        np.testing.assert_array_equal(getattr(ours, field), getattr(theirs, field), err_msg=field)
    ended = ours.terminated | ours.truncated
    assert ended.sum() >= 2
    # Some observations show nothing, or nothing new, at a restart.
    if name not in ("SimpleBandit-bsuite", "FourRooms-misc", "FrozenLake-misc"):
        before, after = ours.obs[:-1][ended[:-1]], ours_acted[1:][ended[:-1]]
        assert (before != after).any()


def check_casing(env):
    """Shapes and dtypes are what the spec says, strong, and the same after a reset and a step."""
    spec = env.spec
    key, action = jax.random.key(0), spec.action_space.sample(jax.random.key(0))
    state, obs = jax.eval_shape(env.reset, key)
    new, step = jax.eval_shape(env.step, key, state, action)
    chex.assert_trees_all_equal_shapes_and_dtypes(state, new)
    assert not any(leaf.weak_type for leaf in jax.tree.leaves((state, obs, new, step)))
    assert all(leaf.size for leaf in jax.tree.leaves(state))
    assert (obs.shape, obs.dtype) == (step.obs.shape, step.obs.dtype) == (spec.obs_shape, spec.obs_dtype)
    assert (step.reward.dtype, step.terminated.dtype, step.truncated.dtype) == (jnp.float32, bool, bool)
    assert {fact.name: (fact.shape, fact.dtype) for fact in spec.facts} == {
        name: (value.shape, value.dtype) for name, value in step.facts.items()
    }
    chex.clear_trace_counter()
    traced_once = jax.jit(chex.assert_max_traces(env.step, n=1))
    jax.eval_shape(lambda: jax.lax.scan(lambda state, _: traced_once(key, state, action), env.reset(key)[0], length=3))
    assert spec.position is None or spec.fact(spec.position).dtype == "int32"
    assert jax.eval_shape(spec.to_features, obs).dtype == jnp.float32
    assert envs.make(spec.name).spec == envs.make(spec.name).spec


def check_facts_within_bounds(env, steps=1000, constants=()):
    """Also that they change, but for the `constants`."""
    facts = our_rollout(env, steps)[0].facts
    for fact in env.spec.facts:
        values = facts[fact.name]
        assert (values >= np.float32(fact.low)).all(), fact.name
        assert (values <= np.float32(fact.high)).all(), fact.name
        assert fact.dtype == "float32" or np.isfinite([fact.low, fact.high]).all(), fact.name
        assert fact.name in constants or (values != values[0]).any(), fact.name


def check_time_limit(env, steps=1000, alone=True):
    """Truncated where an episode has lasted to the limit and nowhere else, `alone` where that can be."""
    name, limit = env.spec.name, env.spec.max_steps
    assert envs.make(name).spec.max_steps == gymnax.make(name)[1].max_steps_in_episode
    ours, _ = our_rollout(env, steps)
    ends = np.flatnonzero(ours.terminated | ours.truncated)
    lengths = np.diff(ends, prepend=-1)
    np.testing.assert_array_equal(lengths == limit, ours.truncated[ends])
    assert lengths.max() == limit
    assert (ours.truncated & ~ours.terminated).any() == alone


def test_every_id_of_the_library_is_there_but_the_one_that_downloads():
    assert set(FACTORIES) == set(gymnax.registered_envs) - {"MNISTBandit-bsuite"}
    for name in FACTORIES:
        assert envs.make(name).spec.name == name


# At random, some episodes never reach the default limit, and some are longer than the rollout.
OPTIONS = {
    "CartPole-v1": {"max_steps": 25},
    "MountainCarContinuous-v0": {"max_steps": 300},
    "Acrobot-v1": {"max_steps": 300},
}


def limited(name):
    return envs.make(name, **OPTIONS.get(name, {}))


@pytest.mark.parametrize("name", NAMES)
def test_a_thousand_random_steps_equal_the_library_bit_for_bit(name):
    check_equal_to_the_library(name, OPTIONS.get(name, {}), {}, {})


@pytest.mark.parametrize("name", NAMES)
def test_shapes_and_dtypes_are_what_the_spec_says_and_never_change(name):
    check_casing(envs.make(name))


@pytest.mark.parametrize("name", NAMES)
def test_facts_stay_within_their_bounds(name):
    check_facts_within_bounds(limited(name))


@pytest.mark.parametrize("name", NAMES)
def test_truncation_is_set_at_the_time_limit_alone_and_never_before(name):
    check_time_limit(limited(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", FACTORIES)
def test_twenty_thousand_random_steps_equal_the_library_bit_for_bit(name):
    constructor = {"size": 8, "action_mapping_key": jax.random.key(0)} if name == "DeepSea-bsuite" else {}
    check_equal_to_the_library(name, {}, constructor, {}, steps=20_000)
    env = envs.make(name)
    constants = {"query", "goal", "move_interval", "car_speeds"}
    check_facts_within_bounds(env, 20_000, constants)
    ours, _ = our_rollout(env, 20_000)
    ends = np.flatnonzero(ours.terminated | ours.truncated)
    lengths = np.diff(ends, prepend=-1)
    np.testing.assert_array_equal(lengths == env.spec.max_steps, ours.truncated[ends])
    assert lengths.max() <= env.spec.max_steps


def balance(obs):
    return np.int32(obs @ [0.1, 0.3, 1.0, 0.5] > 0)


def pump(obs):
    return np.int32(2 if obs[1] > 0 else 0)


def push(obs):
    return np.full(1, 1.0 if obs[1] > 0 else -1.0, np.float32)


def swing(obs):
    return np.int32(0 if obs[4] > 0 else 2)


@pytest.mark.parametrize(
    ("name", "limit", "policy"),
    [
        ("CartPole-v1", 500, balance),
        ("MountainCar-v0", 200, constant(1)),
        ("Acrobot-v1", 500, constant(1)),
        ("Pendulum-v1", 200, lambda obs: np.zeros(1, np.float32)),
    ],
)
def test_default_time_limits(name, limit, policy):
    env = envs.make(name)
    steps = play(env, policy)
    assert env.spec.max_steps == len(steps) == limit
    assert steps[-1].truncated
    assert not steps[-1].terminated


def test_both_flags_where_the_pole_falls_on_the_last_step():
    length = len(play(envs.make("CartPole-v1"), constant(0)))
    assert 5 < length < 20
    last = play(envs.make("CartPole-v1", max_steps=length), constant(0))[-1]
    assert last.terminated
    assert last.truncated


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("CartPole-v1", balance, constant(0)),
        ("MountainCar-v0", pump, constant(1)),
        ("MountainCarContinuous-v0", push, lambda obs: np.zeros(1, np.float32)),
        ("Acrobot-v1", swing, constant(1)),
    ],
)
def test_success_lies_between_a_good_and_a_bad_return(name, good, bad):
    env = envs.make(name)
    assert succeeds(env, play(env, good))
    assert not succeeds(env, play(env, bad))


def test_classic_control_facts_are_the_state():
    outcome = play(envs.make("CartPole-v1"), constant(1))[3]
    names = ("cart_position", "cart_velocity", "pole_angle", "pole_velocity")
    np.testing.assert_array_equal([outcome.facts[name] for name in names], outcome.obs)

    outcome = play(envs.make("MountainCar-v0"), constant(2))[9]
    np.testing.assert_array_equal([outcome.facts["car_position"], outcome.facts["car_velocity"]], outcome.obs)

    steps = play(envs.make("MountainCarContinuous-v0"), push)
    facts = [[step.facts["car_position"], step.facts["car_velocity"]] for step in steps]
    np.testing.assert_array_equal(facts, [step.obs for step in steps])
    assert [bool(step.terminated) for step in steps] == [step.facts["car_position"] >= 0.45 for step in steps]
    np.testing.assert_allclose(total(steps), 100 - 0.1 * len(steps), rtol=1e-5)

    outcome = play(envs.make("Acrobot-v1"), constant(2))[30]
    one, two = outcome.facts["joint_angle_1"], outcome.facts["joint_angle_2"]
    np.testing.assert_allclose([np.cos(one), np.sin(one), np.cos(two), np.sin(two)], outcome.obs[:4], atol=1e-6)
    np.testing.assert_array_equal([outcome.facts[f"joint_velocity_{i}"] for i in (1, 2)], outcome.obs[4:])
    np.testing.assert_allclose(outcome.facts["tip_height"], -np.cos(one) - np.cos(one + two), atol=1e-6)

    outcome = play(envs.make("Pendulum-v1"), lambda obs: np.full(1, 3.0, np.float32))[150]
    angle = outcome.facts["angle"]
    np.testing.assert_allclose([np.cos(angle), np.sin(angle)], outcome.obs[:2], atol=1e-5)
    assert outcome.facts["angular_velocity"] == outcome.obs[2]
    assert outcome.facts["torque"] == 2.0


def test_the_continuous_car_is_pushed_by_the_clipped_force_and_charged_for_the_given_one():
    env = envs.make("MountainCarContinuous-v0")
    state, _ = reset(env, jax.random.key(0))
    _, clipped = step(env, jax.random.key(0), state, np.full(1, 1.0, np.float32))
    _, given = step(env, jax.random.key(0), state, np.full(1, 3.0, np.float32))
    np.testing.assert_array_equal(given.obs, clipped.obs)
    np.testing.assert_allclose([clipped.reward, given.reward], [-0.1, -0.9], rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("Pendulum-v1", {"max_steps": 0}, "max_steps is 0; an episode has at least 1 step"),
        ("Catch-bsuite", {"rows": 1}, "rows is 1; the ball needs at least 2 to fall"),
        ("Catch-bsuite", {"columns": 0}, "columns is 0; the board has at least 1"),
        ("DiscountingChain-bsuite", {"mapping_seed": 9}, "mapping_seed is 9; it is one of the chains 0 to 4, like 4"),
        ("MemoryChain-bsuite", {"memory_length": 0}, "memory_length is 0; there is at least 1 step to remember over"),
        ("MemoryChain-bsuite", {"num_bits": 0}, "num_bits is 0; there is at least 1 bit to remember"),
        ("UmbrellaChain-bsuite", {"chain_length": 0}, "chain_length is 0; the chain has at least 1 step"),
        ("UmbrellaChain-bsuite", {"n_distractor": -1}, "n_distractor is -1; it counts bits, so at least 0"),
        ("SimpleBandit-bsuite", {"num_actions": 1}, "num_actions is 1; a choice is between at least 2 arms"),
        ("Seaquest-MinAtar", {"max_steps": -1}, "max_steps is -1; an episode has at least 1 step"),
        ("BernoulliBandit-misc", {"reward_prob": 2.0}, "reward_prob is 2.0; it is a probability, between 0 and 1"),
        ("GaussianBandit-misc", {"sigma_l": -0.1}, "sigma_l is -0.1; a standard deviation is at least 0"),
        ("FrozenLake-misc", {"map_name": "4x5"}, "unknown map of FrozenLake '4x5'; did you mean '4x4'?"),
        ("FrozenLake-misc", {"success_rate": -1}, "success_rate is -1; it is a probability, between 0 and 1"),
        ("FrozenLake-misc", {"max_steps": 0}, "max_steps is 0; an episode has at least 1 step"),
        ("Swimmer-misc", {"num_urchins": 0}, "num_urchins is 0; there is at least 1"),
        ("MetaMaze-misc", {"size": 3}, "unknown option 'size' of MetaMaze-misc; valid options: max_steps"),
    ],
)
def test_mistakes_are_answered_in_one_sentence(name, options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        envs.make(name, **options)


@pytest.mark.parametrize("name", ["Acrobot-v1", "DeepSea-bsuite", "FourRooms-misc"])
def test_first_use_inside_a_trace_leaves_no_tracers_behind(name):
    env = envs.make(name)
    with jax.checking_leaks():
        state, _ = jax.jit(env.reset)(jax.random.key(0))
    assert jax.jit(env.step)(jax.random.key(0), state, jnp.int32(0))[1].obs.shape == env.spec.obs_shape
