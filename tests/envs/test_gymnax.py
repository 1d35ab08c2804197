"""The adapter against the library's own raw step, bit for bit."""

import functools

import chex
import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
from envs.gymnax import DeepSea
from jaxrew.types import Step

NAMES = ["CartPole-v1", "MountainCar-v0", "Acrobot-v1", "Pendulum-v1", "DeepSea-bsuite", "FourRooms-misc"]
LIMITED = [name for name in NAMES if name != "DeepSea-bsuite"]

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


def constant(action):
    return lambda obs: np.int32(action)


def balance(obs):
    return np.int32(obs @ [0.1, 0.3, 1.0, 0.5] > 0)


def pump(obs):
    return np.int32(2 if obs[1] > 0 else 0)


def swing(obs):
    return np.int32(0 if obs[4] > 0 else 2)


def random_rollout(start, advance, actions):
    """1,000 steps, restarting where an episode ends: `(Step, observations acted on)`.

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
    return jax.jit(lambda: jax.lax.scan(body, start(keys[0]), (keys, actions))[1])()


def random_actions(env):
    return env.spec.action_space.sample(jax.random.key(0), (1000,))


@functools.cache
def our_rollout(env):
    return random_rollout(env.reset, env.step, random_actions(env))


@pytest.mark.parametrize(
    ("name", "options", "constructor", "params"),
    [
        *((name, {}, {}, {}) for name in NAMES),
        (
            "DeepSea-bsuite",
            {"size": 5, "deterministic": False, "mapping_seed": 3, "unscaled_move_cost": 0.5},
            {"size": 5, "action_mapping_key": jax.random.key(3)},
            {"deterministic": False, "unscaled_move_cost": 0.5},
        ),
        (
            "FourRooms-misc",
            {"resample_goal_pos": True, "resample_init_pos": True, "fail_prob": 0.0},
            {},
            {"resample_goal_pos": True, "resample_init_pos": True, "fail_prob": 0.0},
        ),
    ],
)
def test_a_thousand_random_steps_equal_the_library_bit_for_bit(name, options, constructor, params):
    env = envs.make(name, **options)
    raw, default = gymnax.make(name, **constructor)
    params = default.replace(**params)

    def raw_start(key):
        obs, state = raw.reset_env(key, params)
        return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.asarray(leaf).dtype), (state, obs))

    def raw_advance(key, state, action):
        obs, state, reward, terminated, _ = raw.step_env(key, state, action, params)
        return state, Step(obs, reward, terminated, raw.is_truncated(state, params), {})

    ours, ours_acted = our_rollout(env)
    theirs, theirs_acted = random_rollout(raw_start, raw_advance, random_actions(env))
    np.testing.assert_array_equal(ours_acted, theirs_acted)
    for field in ("obs", "reward", "terminated", "truncated"):
        np.testing.assert_array_equal(getattr(ours, field), getattr(theirs, field), err_msg=field)
    if name != "Acrobot-v1":  # at random, an episode of 500 steps may be the only one
        assert (ours.terminated | ours.truncated).sum() >= 2


@pytest.mark.parametrize("name", NAMES)
def test_shapes_and_dtypes_are_what_the_spec_says_and_never_change(name):
    env = envs.make(name)
    spec = env.spec
    state, obs = jax.eval_shape(env.reset, jax.random.key(0))
    action = env.spec.action_space.sample(jax.random.key(0))
    new, step = jax.eval_shape(env.step, jax.random.key(0), state, action)
    chex.assert_trees_all_equal_shapes_and_dtypes(state, new)
    assert jax.tree.all(jax.tree.map(lambda a, b: a.weak_type == b.weak_type, state, new))
    assert not any(leaf.weak_type for leaf in jax.tree.leaves(step))
    assert (obs.shape, obs.dtype) == (step.obs.shape, step.obs.dtype) == (spec.obs_shape, spec.obs_dtype)
    assert (step.reward.dtype, step.terminated.dtype, step.truncated.dtype) == (jnp.float32, bool, bool)
    assert {fact.name: (fact.shape, fact.dtype) for fact in spec.facts} == {
        name: (value.shape, value.dtype) for name, value in step.facts.items()
    }
    assert spec.position is None or spec.fact(spec.position).dtype == "int32"


@pytest.mark.parametrize("name", NAMES)
def test_facts_stay_within_their_bounds(name):
    env = envs.make(name)
    facts = our_rollout(env)[0].facts
    for fact in env.spec.facts:
        values = np.asarray(facts[fact.name])
        assert (values >= np.float32(fact.low)).all(), fact.name
        assert (values <= np.float32(fact.high)).all(), fact.name
        assert fact.name == "goal" or (values != values[0]).any(), fact.name


@pytest.mark.parametrize("name", LIMITED)
def test_truncation_is_set_at_the_time_limit_alone_and_never_before(name):
    env = envs.make(name, max_steps=7)
    steps = play(env, lambda obs: env.spec.action_space.sample(jax.random.key(0)))
    assert [bool(step.truncated) for step in steps] == [False] * 6 + [True]
    assert not any(step.terminated for step in steps)


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
        ("Acrobot-v1", swing, constant(1)),
    ],
)
def test_success_lies_between_a_good_and_a_bad_return(name, good, bad):
    env = envs.make(name)
    success = env.spec.success
    assert success is not None
    assert total(play(env, good)) > success >= total(play(env, bad))


def test_classic_control_facts_are_the_state():
    outcome = play(envs.make("CartPole-v1"), constant(1))[3]
    names = ("cart_position", "cart_velocity", "pole_angle", "pole_velocity")
    np.testing.assert_array_equal([outcome.facts[name] for name in names], outcome.obs)

    outcome = play(envs.make("MountainCar-v0"), constant(2))[9]
    np.testing.assert_array_equal([outcome.facts["car_position"], outcome.facts["car_velocity"]], outcome.obs)

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


def test_grid_facts_are_what_the_observation_shows():
    for step in play(envs.make("DeepSea-bsuite", size=6), constant(0))[:-1]:
        assert step.obs[tuple(step.facts["position"])] == step.obs.sum() == 1.0
    for step in play(envs.make("FourRooms-misc", max_steps=30), constant(2)):
        np.testing.assert_array_equal([*step.facts["position"], *step.facts["goal"]], step.obs)


def go_right(env):
    """The policy that always goes right, from the environment's own table."""
    table = np.asarray(env.action_mapping).reshape(-1)
    return lambda obs: table[obs.argmax()]


def test_deep_sea_ends_by_both_flags_after_size_steps_and_pays_for_going_right_only():
    env = DeepSea(size=12)
    best = play(env, go_right(env))
    assert [bool(step.terminated & step.truncated) for step in best] == [False] * 11 + [True]
    np.testing.assert_allclose(total(best), 0.99, atol=1e-6)
    assert [int(step.facts["position"][1]) for step in best] == [*range(1, 12), 11]
    assert not any(step.facts["bad_episode"] for step in best)
    assert not best[-1].obs.any()

    worst = play(env, lambda obs: 1 - go_right(env)(obs))
    assert total(worst) == 0.0
    assert all(step.facts["bad_episode"] for step in worst)


def test_deep_sea_has_one_mixed_action_table_per_mapping_seed():
    env = DeepSea(size=20)
    assert 0.3 < env.action_mapping.mean() < 0.7
    np.testing.assert_array_equal(env.action_mapping, DeepSea(size=20).action_mapping)
    assert (env.action_mapping != DeepSea(size=20, mapping_seed=1).action_mapping).any()
    assert DeepSea(size=20, randomize_actions=False).action_mapping.all()
    for key in (0, 1):
        np.testing.assert_allclose(total(play(env, go_right(env), key)), 0.99, atol=1e-6)


def test_four_rooms_draws_goals_and_starts_when_asked():
    def facts(**options):
        env = envs.make("FourRooms-misc", **options)
        draw = jax.jit(lambda keys: env.facts_many(env.reset_many(keys)[0]))
        return jax.tree.map(np.asarray, draw(jax.random.split(jax.random.key(0), 200)))

    fixed, free = facts(), facts(resample_goal_pos=True, resample_init_pos=True)
    assert set(map(tuple, fixed["goal"])) == {(8, 9)}
    assert set(map(tuple, fixed["position"])) == {(4, 1)}
    assert len(set(map(tuple, free["goal"]))) > 60
    assert len(set(map(tuple, free["position"]))) > 60
    assert (free["goal"] != free["position"]).any(axis=1).all()


@pytest.mark.parametrize("name", ["Acrobot-v1", "DeepSea-bsuite", "FourRooms-misc"])
def test_first_use_inside_a_trace_leaves_no_tracers_behind(name):
    env = envs.make(name)
    with jax.checking_leaks():
        state, _ = jax.jit(env.reset)(jax.random.key(0))
    assert jax.jit(env.step)(jax.random.key(0), state, jnp.int32(0))[1].obs.shape == env.spec.obs_shape
