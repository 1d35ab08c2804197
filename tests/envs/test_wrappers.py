"""Wrappers against slow loops over recorded inner episodes, and the statistics of their noise."""

import functools
import re
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import envs
from envs.tabular import Chain, RandomMDP
from envs.vector import VecEnv
from envs.wrappers import (
    ActionNoise,
    DelayedReward,
    Executed,
    FrameStack,
    NoisyTV,
    RewardNoise,
    SparseReward,
    StickyActions,
    TimeLimit,
)
from jaxrew.types import Discrete

GRID = envs.make("MiniGrid-Empty-5x5-v0")
IMAGE = envs.make("MiniGrid-Empty-5x5-v0", obs="partial")
CARTPOLE = envs.make("CartPole-v1")
PENDULUM = envs.make("Pendulum-v1", max_steps=7)
VECTOR: Any = VecEnv(GRID, 2)

STEPS, NUM_ENVS = 130, 10
"""One size for all, so that tests share programs."""


def upright(facts):
    return jnp.cos(facts["angle"]) > 0.5


def arrived(facts):
    return facts["state"] == 3


@functools.partial(jax.jit, static_argnums=0)
def reset_many(env, keys):
    return env.reset_many(keys)


@functools.partial(jax.jit, static_argnums=0)
def step_many(env, key, state, action):
    return env.step_many(key, state, action)


@functools.partial(jax.jit, static_argnums=0)
def replay(env, key, actions):
    """Actions `[T, N, ...]` from fresh episodes, restarting: first obs, obs acted on next, `Step`s, facts acted on."""
    vec_env = VecEnv(env, NUM_ENVS)

    def body(state, inputs):
        key, action = inputs
        facts = vec_env.facts(state)
        state, obs, step = vec_env.step(key, state, action)
        return state, (obs, step, facts)

    state, first = vec_env.init(key)
    return first, *jax.lax.scan(body, state, (jax.random.split(key, STEPS), actions))[1]


@functools.cache
def actions_for(env):
    return np.asarray(env.spec.action_space.sample(jax.random.key(0), (STEPS, NUM_ENVS)))


def play(env, actions=None):
    return jax.tree.map(np.asarray, replay(env, jax.random.key(7), actions_for(env) if actions is None else actions))


def ended(step):
    return step.terminated | step.truncated


ALL = [
    StickyActions(GRID),
    StickyActions(PENDULUM),
    ActionNoise(GRID, probability=0.5),
    ActionNoise(PENDULUM, std=0.3),
    DelayedReward(CARTPOLE),
    DelayedReward(GRID, every=3),
    SparseReward(CARTPOLE, threshold=15.0),
    SparseReward(PENDULUM, condition=upright),
    RewardNoise(GRID, std=0.1),
    TimeLimit(CARTPOLE, 5),
    FrameStack(GRID, 3),
    FrameStack(IMAGE),
    FrameStack(CARTPOLE),
    FrameStack(Chain(obs="index"), 2),
    NoisyTV(GRID, 2),
    NoisyTV(IMAGE, remote=6),
    NoisyTV(CARTPOLE, remote="extra", noop=1),
    NoisyTV(PENDULUM, images=3),
    NoisyTV(Chain(obs="index"), remote=0),
    FrameStack(StickyActions(NoisyTV(DelayedReward(TimeLimit(RewardNoise(GRID), 9)), remote="extra", noop=6)), 2),
]


@pytest.mark.parametrize("env", ALL, ids=lambda env: env.spec.name)
def test_shapes_and_dtypes_are_what_the_spec_says_and_never_change(env):
    spec, key = env.spec, jax.random.key(0)
    assert spec == env.spec
    assert hash(spec) == hash(env.spec)
    for reset, step, facts, keys, batch in (
        (env.reset, env.step, env.facts, key, ()),
        (env.reset_many, env.step_many, env.facts_many, jax.random.split(key, 3), (3,)),
    ):
        state, obs = jax.eval_shape(reset, keys)
        action = jax.eval_shape(lambda batch=batch: spec.action_space.sample(key, batch))
        new, outcome = jax.eval_shape(step, key, state, action)
        chex.assert_trees_all_equal_shapes_and_dtypes((new, outcome.obs), (state, obs))
        assert not any(leaf.weak_type for leaf in jax.tree.leaves((state, new, obs, outcome)))
        assert not any(leaf.size == 0 for leaf in jax.tree.leaves(state))
        assert (obs.shape, obs.dtype) == ((*batch, *spec.obs_shape), spec.obs_dtype)
        assert (outcome.reward.dtype, outcome.terminated.dtype, outcome.truncated.dtype) == (jnp.float32, bool, bool)
        features = jax.eval_shape(spec.to_features, obs)
        assert features.shape[: len(batch)] == batch
        assert features.dtype == jnp.float32
        for shown in (outcome.facts, jax.eval_shape(facts, state)):
            assert {fact.name: ((*batch, *fact.shape), fact.dtype) for fact in spec.facts} == {
                name: (value.shape, value.dtype) for name, value in shown.items()
            }


def test_names_list_the_wrappers_and_what_is_not_default():
    env = FrameStack(TimeLimit(StickyActions(NoisyTV(CARTPOLE), probability=0.1), 100))
    assert env.spec.name == "FrameStack(TimeLimit(StickyActions(NoisyTV(CartPole-v1), probability=0.1), max_steps=100))"
    assert env.unwrapped is CARTPOLE
    assert SparseReward(PENDULUM, condition=upright).spec.name == "SparseReward(Pendulum-v1, condition=upright)"


# --- rewards


def delayed(rewards, ends, every):
    """Loop of `DelayedReward`, `[T, N]`."""
    paid = np.zeros_like(rewards)
    for i in range(rewards.shape[1]):
        held, time = np.float32(0), 0
        for t in range(len(rewards)):
            held, time = held + rewards[t, i], time + 1
            if ends[t, i] or (every and time % every == 0):
                paid[t, i], held = held, np.float32(0)
            if ends[t, i]:
                time = 0
    return paid


def sparse(rewards, ends, threshold, value):
    """Loop of `SparseReward` with a threshold, `[T, N]`."""
    paid = np.zeros_like(rewards)
    for i in range(rewards.shape[1]):
        total = np.float32(0)
        for t in range(len(rewards)):
            total += rewards[t, i]
            if ends[t, i]:
                paid[t, i], total = value * (total > threshold), np.float32(0)
    return paid


@pytest.mark.parametrize(
    ("wrapper", "expected"),
    [
        (DelayedReward(PENDULUM), lambda step: delayed(step.reward, ended(step), None)),
        (DelayedReward(CARTPOLE, every=3), lambda step: delayed(step.reward, ended(step), 3)),
        (SparseReward(CARTPOLE, threshold=20.0), lambda step: sparse(step.reward, ended(step), 20.0, 1.0)),
        (SparseReward(GRID, value=2.0), lambda step: sparse(step.reward, ended(step), 0.0, 2.0)),
        (SparseReward(PENDULUM, condition=upright), lambda step: np.cos(step.facts["angle"]) > 0.5),
    ],
    ids=lambda value: value.spec.name if hasattr(value, "spec") else "",
)
def test_rewards_are_those_of_a_loop_and_the_rest_is_untouched(wrapper, expected):
    first, acted, inner, _ = play(wrapper.env)
    ours_first, ours_acted, ours, facts = play(wrapper)
    np.testing.assert_allclose(ours.reward, expected(inner), rtol=1e-6)
    assert ours.reward.any()
    assert (ours.reward == 0).any()
    np.testing.assert_array_equal(ours.facts["task_reward"], inner.reward)
    kept = dict(ours.facts)
    del kept["task_reward"]
    chex.assert_trees_all_equal(
        (ours_first, ours_acted, ours._replace(reward=inner.reward, facts=kept)), (first, acted, inner)
    )
    # The fact acted on is the last reward of this episode, and 0 where a new one begins.
    before = np.where(ended(inner)[:-1], 0, inner.reward[:-1])
    np.testing.assert_array_equal(facts["task_reward"], np.concatenate([np.zeros((1, NUM_ENVS)), before]))
    if wrapper.spec.success is not None and isinstance(wrapper, SparseReward):
        assert wrapper.spec.success == 0.0


def test_delays_keep_the_return_of_every_episode():
    inner, ours = play(PENDULUM)[2], play(DelayedReward(PENDULUM))[2]
    assert ended(inner)[6::7].all()
    returns, theirs = (step.reward[:126].reshape(18, 7, NUM_ENVS).sum(axis=1) for step in (ours, inner))
    np.testing.assert_allclose(returns, theirs, rtol=1e-5)


def test_reward_noise_is_normal_around_the_true_reward():
    env = RewardNoise(Chain(), std=0.5)
    step = play(env)[2]
    noise = (step.reward - step.facts["task_reward"]).ravel()
    assert stats.kstest(noise / 0.5, "norm").pvalue > 0.001
    np.testing.assert_array_equal(step.facts["task_reward"], play(Chain())[2].reward)
    assert env.spec.success is None


def test_noise_of_one_wrapper_is_independent_of_another_and_of_the_environment():
    inner = RandomMDP(states=50, actions=2, branching=50)
    env = RewardNoise(ActionNoise(RewardNoise(inner), probability=0.5))
    step = play(env)[2]
    outer = (step.reward - step.facts["task_reward"]).ravel()  # the sum of both noises
    assert abs(outer.std() - np.sqrt(2)) < 0.12
    state, executed = step.facts["state"].ravel(), step.facts["executed_action"].ravel()
    for other in (state, executed, np.roll(outer, NUM_ENVS)):
        assert abs(np.corrcoef(outer, other)[0, 1]) < 4 / np.sqrt(len(outer))


# --- actions


@pytest.mark.parametrize("env", [GRID, PENDULUM], ids=lambda env: env.spec.name)
def test_sticky_actions_repeat_what_was_carried_out_as_often_as_they_say(env):
    actions = actions_for(env)
    _, acted, step, _ = play(StickyActions(env, probability=0.3), actions=actions)
    executed = step.facts["executed_action"]
    fresh = np.concatenate([np.ones((1, NUM_ENVS), bool), ended(step)[:-1]])
    flat = (STEPS, NUM_ENVS, -1)
    previous = np.roll(executed, 1, axis=0).reshape(flat)
    obeyed = (executed == actions).reshape(flat).all(-1)
    repeated = (executed.reshape(flat) == previous).all(-1)
    assert obeyed[fresh].all()
    assert (obeyed | repeated).all()
    told_apart = ~fresh & (actions.reshape(flat) != previous).any(-1)
    count = repeated[told_apart].sum()
    assert stats.binomtest(int(count), int(told_apart.sum()), 0.3).pvalue > 0.001
    # The environment did what the fact says: replayed, the executed actions give the same episodes.
    _, replayed, inner, _ = play(env, actions=executed)
    np.testing.assert_array_equal(acted, replayed)
    np.testing.assert_array_equal(step.reward, inner.reward)
    np.testing.assert_array_equal(step.obs, inner.obs)


def test_discrete_action_noise_is_uniform_and_as_frequent_as_it_says():
    actions = np.full((STEPS, NUM_ENVS), 2, np.int32)
    step = play(ActionNoise(GRID, probability=0.35), actions=actions)[2]
    counts = np.bincount(step.facts["executed_action"].ravel(), minlength=7)
    expected = np.full(7, 0.35 / 7) + 0.65 * (np.arange(7) == 2)
    assert stats.chisquare(counts, expected * counts.sum()).pvalue > 0.001
    np.testing.assert_array_equal(step.obs, play(GRID, actions=step.facts["executed_action"])[2].obs)


def test_real_action_noise_is_normal_and_clipped():
    actions = np.full((STEPS, NUM_ENVS, 1), 0.5, np.float32)
    step = play(ActionNoise(PENDULUM, std=0.2), actions=actions)[2]
    executed = step.facts["executed_action"]
    assert stats.kstest((executed.ravel() - 0.5) / 0.2, "norm").pvalue > 0.001
    np.testing.assert_array_equal(step.facts["torque"], executed[..., 0])
    many = jnp.full((5000, 1), 0.5)
    wild = ActionNoise(PENDULUM, std=5.0).alter(jax.random.key(0), Executed(many, jnp.zeros(5000, bool)), many)
    assert (wild.min(), wild.max()) == (-2.0, 2.0)
    assert abs((wild == 2.0).mean() - stats.norm.sf(1.5 / 5.0)) < 0.03


# --- time and observations


@pytest.mark.parametrize(
    ("name", "max_steps"), [("CartPole-v1", 15), pytest.param("Pendulum-v1", 4, marks=pytest.mark.slow)]
)
def test_a_time_limit_equals_the_environments_own(name, max_steps):
    ours = play(TimeLimit(envs.make(name), max_steps))
    theirs = play(envs.make(name, max_steps=max_steps))
    chex.assert_trees_all_equal(ours, theirs)
    assert ours[2].truncated.any()
    assert name == "Pendulum-v1" or (ours[2].terminated & ~ours[2].truncated).any()


def test_a_time_limit_keeps_success_truthful():
    assert TimeLimit(GRID, 10).spec.success == 0.0
    assert TimeLimit(CARTPOLE, 10).spec.success == 474.0
    assert TimeLimit(envs.make("MountainCar-v0"), 120).spec.success == -120.0
    assert TimeLimit(envs.make("Acrobot-v1"), 120).spec.success == -120.0
    assert TimeLimit(TimeLimit(envs.make("Acrobot-v1"), 120), 60).spec.success == -60.0
    assert TimeLimit(envs.make("Acrobot-v1"), 120).spec.max_steps == 120


@pytest.mark.parametrize("env", [CARTPOLE, IMAGE], ids=lambda env: env.spec.name)
def test_stacked_frames_are_the_last_ones_of_the_episode(env):
    first, acted, inner, _ = play(env)
    ours_first, ours_acted, ours, _ = play(FrameStack(env, 3))
    assert ended(inner).any() or env is IMAGE
    for i in range(NUM_ENVS):
        frames = [first[i]] * 3
        np.testing.assert_array_equal(ours_first[i], frames)
        for t in range(STEPS):
            frames = [*frames[1:], inner.obs[t, i]]
            np.testing.assert_array_equal(ours.obs[t, i], frames)
            if ended(inner)[t, i]:
                frames = [acted[t, i]] * 3
            np.testing.assert_array_equal(ours_acted[t, i], frames)
    features = FrameStack(env, 3).spec.to_features(jnp.asarray(ours.obs))
    each = [np.asarray(env.spec.to_features(jnp.asarray(ours.obs[:, :, k]))) for k in range(3)]
    np.testing.assert_array_equal(features, np.concatenate(each, axis=-1))


@pytest.mark.parametrize(
    ("env", "options"),
    [
        (GRID, {}),
        pytest.param(GRID, {"remote": 6}, marks=pytest.mark.slow),
        (IMAGE, {"remote": "extra", "noop": 6}),
        (CARTPOLE, {"remote": "extra", "noop": 1}),
        pytest.param(GRID, {"images": 2}, marks=pytest.mark.slow),
    ],
    ids=lambda value: value.spec.name if hasattr(value, "spec") else str(value),
)
def test_the_television_changes_when_it_should_and_leaves_the_task_alone(env, options):
    tv = NoisyTV(env, entries=3, **options)
    remote, extra = options.get("remote"), options.get("remote") == "extra"
    actions = actions_for(tv)
    assert actions.max() == env.spec.action_space.n - (0 if extra else 1)
    first, acted, ours, _ = play(tv, actions=actions)
    given = np.where(actions == env.spec.action_space.n, options.get("noop", 0), actions)

    # Replayed from the same starts; resets draw from other keys, so only until an environment's first restart.
    state, _ = reset_many(tv, jax.random.split(jax.random.key(7), NUM_ENVS))
    inner_state, alive = state.env, np.ones(NUM_ENVS, bool)
    for t in range(30):
        inner_state, step = step_many(env, jax.random.key(0), inner_state, given[t])
        shown = ours.obs[t, ..., :-3]
        shown = shown[..., 0] if env is GRID else shown
        np.testing.assert_array_equal(shown[alive], np.asarray(step.obs)[alive])
        np.testing.assert_array_equal(ours.reward[t][alive], np.asarray(step.reward)[alive])
        np.testing.assert_allclose(
            tv.spec.to_features(jnp.asarray(ours.obs[t]))[alive][..., :-3], env.spec.to_features(step.obs)[alive]
        )
        alive &= ~ended(ours)[t]

    noise = acted[..., -3:].reshape(STEPS, NUM_ENVS, -1)
    true_noise = ours.obs[..., -3:].reshape(STEPS, NUM_ENVS, -1)
    before = np.concatenate([first[None, ..., -3:].reshape(1, NUM_ENVS, -1), noise[:-1]])
    same = (true_noise == before).all(-1)
    if remote is None:
        assert same.mean() < (0.6 if "images" in options else 0.01)
    else:
        np.testing.assert_array_equal(same, actions != (env.spec.action_space.n if extra else remote))
    pictures = len(np.unique(true_noise.reshape(-1, noise.shape[-1]), axis=0))
    assert pictures == 2 if "images" in options else pictures > 10
    restarted = ended(ours)
    assert "images" in options or (noise != true_noise).any(-1)[restarted].all() or not restarted.any()
    features = np.asarray(tv.spec.to_features(jnp.asarray(ours.obs)))[..., -3:]
    assert (features.min(), features.max()) >= (0.0, 0.9)
    assert features.max() <= 1.0


def test_television_noise_is_uniform_and_differs_between_entries_environments_and_starts():
    octets = play(NoisyTV(GRID, 3))[2].obs[:20, ..., -3:]
    assert stats.chisquare(np.bincount(octets.ravel(), minlength=256)).pvalue > 0.001
    numbers = play(NoisyTV(CARTPOLE, 3))[2].obs[..., -3:]
    assert stats.kstest(numbers.ravel(), "uniform").pvalue > 0.001
    lanes = numbers.transpose(1, 2, 0).reshape(-1, STEPS)
    assert np.abs(np.corrcoef(lanes) - np.eye(len(lanes))).max() < 5 / np.sqrt(STEPS)
    starts = reset_many(NoisyTV(CARTPOLE, 3), jax.random.split(jax.random.key(0), 500))[1]
    assert stats.kstest(np.asarray(starts)[:, -3:].ravel(), "uniform").pvalue > 0.001
    assert np.abs(np.corrcoef(np.asarray(starts).T) - np.eye(7)).max() < 5 / np.sqrt(500)


# --- all together


def test_one_program_serves_a_whole_tower_in_a_vector_with_a_pool():
    env = FrameStack(StickyActions(NoisyTV(DelayedReward(TimeLimit(GRID, 5)), remote="extra", noop=6)), 2)
    assert env.spec.action_space == Discrete(8)
    chex.clear_trace_counter()
    vec_env = VecEnv(env, 3, "pool", pool_size=16)
    traced_once = jax.jit(chex.assert_max_traces(vec_env.step, n=1))
    state, obs = jax.jit(vec_env.init)(jax.random.key(0))
    for t in range(6):
        new, acted, step = traced_once(jax.random.key(t), state, jnp.array([2, 7, 1]))
        chex.assert_trees_all_equal_shapes_and_dtypes((new, acted), (state, obs))
        np.testing.assert_array_equal(step.truncated, [t == 4] * 3)
        assert (step.facts["step_count"] == t % 5 + 1).all()
        if t == 0:
            np.testing.assert_array_equal(step.facts["executed_action"], [2, 7, 1])
        state = new
    assert (np.asarray(step.obs[:, 0]) == np.asarray(obs[:, 0]))[..., 0].all()


def test_facts_are_of_the_innermost_change():
    keys, right = jax.random.split(jax.random.key(0), 30), jnp.ones(30, jnp.int32)
    env = DelayedReward(RewardNoise(Chain(length=3), std=3.0))
    assert [fact.name for fact in env.spec.facts] == ["state", "task_reward"]
    step = step_many(env, keys[0], reset_many(env, keys)[0], right)[1]
    np.testing.assert_array_equal(step.facts["task_reward"], np.ones(30))
    env = StickyActions(ActionNoise(Chain(), probability=0.5))
    step = step_many(env, keys[0], reset_many(env, keys)[0], right)[1]
    np.testing.assert_array_equal(step.facts["executed_action"], step.facts["state"] // 2)
    assert 0 < step.facts["executed_action"].sum() < 30


@pytest.mark.parametrize(
    "env",
    [DelayedReward(Chain()), FrameStack(TimeLimit(SparseReward(Chain(), condition=arrived), 5))],
    ids=lambda env: env.spec.name,
)
def test_wrappers_without_noise_draw_nothing_and_those_with_it_do(env):
    def program(env):
        state, _ = reset_many(env, jax.random.split(jax.random.key(0), 2))
        return step_many.lower(env, jax.random.key(0), state, jnp.zeros(2, jnp.int32)).compile().as_text() or ""

    assert "shift-left" not in program(env)
    assert "shift-left" in program(RewardNoise(env))


def test_one_environment_is_a_batch_of_one():
    env = FrameStack(NoisyTV(StickyActions(CARTPOLE)), 2)
    key = jax.random.key(3)
    state, obs = jax.jit(env.reset)(key)
    many_state, many_obs = reset_many(env, key[None])
    np.testing.assert_array_equal(obs, many_obs[0])
    _, step = jax.jit(env.step)(key, state, jnp.int32(1))
    _, many_step = step_many(env, key, many_state, jnp.ones(1, jnp.int32))
    chex.assert_trees_all_equal(step, jax.tree.map(lambda leaf: leaf[0], many_step))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: StickyActions(GRID, 1.2), "probability is 1.2; it is a probability, from 0 to 1"),
        (lambda: StickyActions(VECTOR), "StickyActions wraps one environment, not a VecEnv; vectorise it"),
        (lambda: ActionNoise(GRID), "MiniGrid-Empty-5x5-v0 has discrete actions; give ActionNoise probability and"),
        (lambda: ActionNoise(PENDULUM, 0.1), "Pendulum-v1 has real actions; give ActionNoise std and not probability"),
        (lambda: ActionNoise(PENDULUM, std=0.0), "std is 0.0; it must be above 0"),
        (lambda: DelayedReward(GRID, 0), "every is 0; it must be at least 1, or None to pay at the end alone"),
        (lambda: SparseReward(PENDULUM), "Pendulum-v1 calls no return a success; give SparseReward a threshold"),
        (lambda: SparseReward(PENDULUM, 1.0, upright), "threshold is 1.0, but a condition is given too; give one"),
        (
            lambda: SparseReward(CARTPOLE, condition=upright),
            "unknown fact of CartPole-v1 'angle'; did you mean 'pole_a",
        ),
        (lambda: SparseReward(PENDULUM, condition=lambda facts: facts["angle"]), "condition returns ShapeDtypeStruct("),
        (lambda: SparseReward(GRID, value=0.0), "value is 0.0; it must be above 0"),
        (lambda: RewardNoise(GRID, -1.0), "std is -1.0; it must be above 0"),
        (lambda: TimeLimit(GRID, 0), "max_steps is 0; an episode has at least 1 step"),
        (lambda: TimeLimit(PENDULUM, 9), "max_steps is 9, but Pendulum-v1 ends after 7 itself; try 7"),
        (lambda: TimeLimit(FrameStack(DelayedReward(GRID)), 9), "DelayedReward would not see episodes end at step 9;"),
        (lambda: FrameStack(GRID, 0), "frames is 0; it must be at least 1"),
        (lambda: NoisyTV(GRID, 0), "entries is 0; it must be at least 1"),
        (lambda: NoisyTV(GRID, remote=7), "remote is 7; it must be an action of MiniGrid-Empty-5x5-v0, from 0 to 6"),
        (lambda: NoisyTV(GRID, remote="extra"), "noop is None; it must be an action of MiniGrid-Empty-5x5-v0, from"),
        (lambda: NoisyTV(GRID, remote="xtra"), "unknown remote 'xtra'; did you mean 'extra'?"),
        (lambda: NoisyTV(GRID, noop=6), "noop is 6, but only remote='extra' carries it out; leave it out"),
        (lambda: NoisyTV(PENDULUM, remote=0), "remote is 0, but Pendulum-v1 has real actions; only None goes with"),
        (lambda: NoisyTV(FrameStack(CARTPOLE)), "NoisyTV finds no place for noise, as observations (4, 4) of Frame"),
    ],
)
def test_mistakes_are_answered_in_one_sentence(make, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        make()
