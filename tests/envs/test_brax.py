"""The adapter against the library's own raw step, and against what its observations say."""

import functools
import inspect
import itertools
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from envs.brax import FACTORIES
from envs.brax.bodies import BODIES
from envs.brax.core import BACKENDS, Brax, quiet
from envs.brax.sparse import AntGoal, ForwardSparse
from envs.vector import VecEnv

with quiet():
    from brax import envs as library

SPARSE = ["brax/ant-goal", "brax/halfcheetah-sparse"]
SETTINGS = {
    "brax/halfcheetah-sparse": {"exclude_current_positions_from_observation": False},
    "brax/ant-goal": {"exclude_current_positions_from_observation": False, "terminate_when_unhealthy": False},
}
QUICK = [("brax/inverted_pendulum", "generalized")]  # compiles fastest
EVERY = [(f"brax/{body}", backend) for body in BODIES for backend in BACKENDS]
EVERY += [(name, backend) for name in SPARSE for backend in ("generalized", "spring")]


def quick_and_slow(pairs):
    return pytest.mark.parametrize(
        ("name", "backend"),
        [*QUICK, *(pytest.param(*pair, marks=pytest.mark.slow) for pair in pairs if pair not in QUICK)],
    )


@functools.cache
def make(name, backend, max_steps=1000) -> Any:
    return FACTORIES[name](backend=backend, max_steps=max_steps)


reset = jax.jit(lambda env, key: env.reset(key), static_argnums=0)
step = jax.jit(lambda env, key, state, action: env.step(key, state, action), static_argnums=0)


@functools.cache
def raw(name, backend):
    """The library's environment, and its reset and step, each jitted alone."""
    env = make(name, backend)
    with quiet():
        raw_env = library.get_environment(env.body, backend=backend, **SETTINGS.get(name, {}))
    return raw_env, jax.jit(raw_env.reset), jax.jit(raw_env.step)


def actions(env, steps, key=1):
    return np.asarray(env.spec.action_space.sample(jax.random.key(key), (steps,)))


def play(env, steps, key=0):
    """Random actions, acting on beyond the end: `(observations acted on, [Step, ...])`."""
    state, obs = reset(env, jax.random.key(key))
    outcomes, acted = [], []
    for t, action in enumerate(actions(env, steps)):
        acted.append(np.asarray(obs))
        state, outcome = step(env, jax.random.key(t), state, action)
        outcomes.append(jax.tree.map(np.asarray, outcome))
        obs = outcome.obs
    return acted, outcomes


@quick_and_slow(EVERY)
def test_steps_equal_the_library(name, backend):
    """A thousand of them, each from the library's own state, because bodies in contact are chaotic: what two programs
    round differently, some 1e-6 in one step, is metres after thirty. Three from our own state show that none is lost.
    """
    env = make(name, backend)
    _, raw_reset, raw_step = raw(name, backend)
    start, obs = reset(env, jax.random.key(0))
    with quiet():
        theirs = raw_reset(jax.random.key(0))
        close(obs, theirs.obs, 1e-5)
        for t, action in enumerate(actions(env, 1000)):
            given = start if t < 3 else start._replace(physics=env._pack(theirs.pipeline_state))
            start, outcome = step(env, jax.random.key(t), given, action)
            theirs = raw_step(theirs, action)
            close(outcome.obs, theirs.obs, 1e-4)
            close(outcome.facts["dense_reward"], theirs.reward, 1e-4)
            assert outcome.truncated == (t == 999)
            if name != "brax/ant-goal":
                assert outcome.terminated == bool(theirs.done)
            if name not in SPARSE:
                assert outcome.reward == outcome.facts["dense_reward"]
            if theirs.done:
                theirs = raw_reset(jax.random.key(t))


def close(ours, theirs, tolerance):
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


@quick_and_slow([(name, "generalized") for name in FACTORIES])
def test_shapes_and_dtypes_are_what_the_spec_says_and_never_change(name, backend):
    env = make(name, backend)
    spec = env.spec
    state, obs = jax.eval_shape(env.reset, jax.random.key(0))
    new, outcome = jax.eval_shape(env.step, jax.random.key(0), state, env.spec.action_space.sample(jax.random.key(0)))
    chex.assert_trees_all_equal_shapes_and_dtypes((state, obs), (new, outcome.obs))
    assert not any(leaf.weak_type for leaf in jax.tree.leaves((state, obs, new, outcome)))
    assert all(leaf.size > 0 for leaf in jax.tree.leaves(state))
    assert (obs.shape, obs.dtype) == (spec.obs_shape, spec.obs_dtype)
    assert (outcome.reward.dtype, outcome.terminated.dtype, outcome.truncated.dtype) == (jnp.float32, bool, bool)
    assert {fact.name: (fact.shape, fact.dtype) for fact in spec.facts} == {
        name: (value.shape, value.dtype) for name, value in outcome.facts.items()
    }
    assert spec.name == name
    assert spec.action_space.shape == (raw(name, backend)[0].action_size,)


@pytest.mark.slow
def test_the_state_holds_only_what_is_read():
    env = make("brax/inverted_pendulum", "mjx")
    state, _ = jax.eval_shape(env.reset, jax.random.key(0))
    with quiet():
        full = jax.eval_shape(env.library.reset, jax.random.key(0)).pipeline_state
    assert any(leaf.size == 0 for leaf in jax.tree.leaves(full))
    assert all(leaf.size > 0 for leaf in jax.tree.leaves(state))
    assert sum(leaf.size for leaf in jax.tree.leaves(state)) < 0.2 * sum(leaf.size for leaf in jax.tree.leaves(full))


def test_the_pendulum_ends_where_its_pole_falls_and_shows_it():
    acted, outcomes = play(make(*QUICK[0]), 30)
    fallen = [abs(outcome.obs[1]) > 0.2 for outcome in outcomes]
    assert [bool(outcome.terminated) for outcome in outcomes] == fallen
    assert 3 < fallen.index(True) < 30
    assert not any(outcome.truncated for outcome in outcomes)
    assert (np.abs(acted[0]) <= 0.01).all()
    names = ("cart_position", "pole_angle", "cart_velocity", "pole_velocity")
    for outcome in outcomes:
        np.testing.assert_array_equal([outcome.facts[name] for name in names], outcome.obs)


def test_the_default_limit_truncates_step_1000_alone():
    env = make(*QUICK[0])
    assert env.spec.max_steps == 1000
    start, _ = reset(env, jax.random.key(0))
    for taken, truncated in ((998, False), (999, True)):
        new, outcome = step(env, jax.random.key(0), start._replace(time=jnp.int32(taken)), jnp.zeros(1))
        assert outcome.truncated == truncated
        assert not outcome.terminated
        assert new.time == taken + 1


def test_episodes_restart_afresh_after_the_true_final_observation():
    chex.clear_trace_counter()
    env = make("brax/inverted_pendulum", "generalized", max_steps=4)
    vec_env = VecEnv(env, 2)
    advance = jax.jit(chex.assert_max_traces(vec_env.step, n=1))
    state, _ = jax.jit(vec_env.init)(jax.random.key(0))
    single = [jax.tree.map(lambda leaf: leaf[0], state.envs)]
    starts = []
    for t in range(8):
        state, obs, outcome = advance(jax.random.key(t), state, jnp.full((2, 1), 0.05))
        if t < 4:
            new, alone = step(make(*QUICK[0]), jax.random.key(0), single[-1], jnp.full(1, 0.05))
            single.append(new)
            np.testing.assert_allclose(outcome.obs[0], alone.obs, atol=1e-6)
        assert outcome.truncated.tolist() == [t % 4 == 3] * 2
        assert not outcome.terminated.any()
        if t % 4 == 3:
            assert (np.abs(outcome.obs[:, 2]) > 0.02).all()  # moving, where episodes start at 0.01 or slower
            assert (np.abs(obs) <= 0.01).all()
            starts += np.asarray(obs).tolist()
    assert len(set(map(tuple, starts))) == 4


@pytest.mark.slow
def test_the_reacher_draws_its_target_anew_and_facts_are_what_the_observation_says():
    env = make("brax/reacher", "spring")
    targets = []
    for key in (0, 1, 0):
        _, outcomes = play(env, 5, key)
        targets.append(outcomes[0].obs[4:6])
        for outcome in outcomes:
            facts = outcome.facts
            np.testing.assert_allclose(facts["target_position"][:2], outcome.obs[4:6], atol=1e-5)
            to_target = facts["fingertip_position"] - facts["target_position"]
            np.testing.assert_allclose(to_target, outcome.obs[-3:], atol=1e-6)
            np.testing.assert_allclose(facts["distance_reward"], -np.linalg.norm(to_target), atol=1e-6)
            np.testing.assert_allclose(
                facts["dense_reward"], facts["distance_reward"] + facts["control_reward"], atol=1e-6
            )
        for action, outcome in zip(actions(env, 5), outcomes, strict=True):
            np.testing.assert_allclose(outcome.facts["control_reward"], -np.square(action).sum(), atol=1e-6)
    np.testing.assert_array_equal(targets[0], targets[2])
    assert (np.abs(targets[0] - targets[1]) > 1e-3).all()


WALKERS = {"ant": 1, "halfcheetah": 1, "hopper": 1, "walker2d": 1, "humanoid": 0}
"""How much of the forward reward the torso's own movement explains (the humanoid is paid for its centre of mass)."""


@pytest.mark.slow
@pytest.mark.parametrize("body", [*WALKERS, "humanoidstandup"])
def test_facts_of_walkers_follow_the_torso(body):
    env = make(f"brax/{body}", "generalized")
    dt = float(env.library.dt)
    _, outcomes = play(env, 30)
    assert all(outcome.facts["height"] == outcome.facts["torso_position"][2] for outcome in outcomes)
    if body in ("ant", "hopper", "walker2d", "humanoid", "humanoidstandup"):
        np.testing.assert_allclose(
            [outcome.facts["height"] for outcome in outcomes], [o.obs[0] for o in outcomes], atol=1e-5
        )
    for before, after in itertools.pairwise(outcomes):
        moved = (after.facts["torso_position"] - before.facts["torso_position"]) / dt
        if WALKERS.get(body):
            np.testing.assert_allclose(after.facts["forward_reward"], moved[0], rtol=1e-4, atol=1e-4)
        # One is the mean over a step of many physics steps, the other the velocity at its end.
        assert np.abs(moved - after.facts["torso_velocity"]).max() < 6.0
    correlation = np.corrcoef(
        [(b.facts["torso_position"] - a.facts["torso_position"])[2] for a, b in itertools.pairwise(outcomes)],
        [outcome.facts["torso_velocity"][2] for outcome in outcomes[1:]],
    )[0, 1]
    assert correlation > 0.5


@pytest.mark.slow
def test_facts_of_the_double_pendulum_and_the_pusher():
    _, outcomes = play(make("brax/inverted_double_pendulum", "generalized"), 60)
    assert [bool(o.terminated) for o in outcomes] == [bool(o.facts["tip_height"] <= 1.0) for o in outcomes]
    assert any(o.terminated for o in outcomes)
    np.testing.assert_allclose(
        [np.sin(o.facts["joint_angle_2"]) for o in outcomes], [o.obs[2] for o in outcomes], atol=1e-6
    )

    _, outcomes = play(make("brax/pusher", "generalized"), 20)
    for before, after in itertools.pairwise(outcomes):
        places = [after.facts[name] for name in ("hand_position", "object_position", "goal_position")]
        np.testing.assert_allclose(np.concatenate(places), after.obs[14:], atol=1e-6)
        # The library pays for where the bodies were before the step.
        away = np.linalg.norm(before.facts["object_position"] - before.facts["goal_position"])
        np.testing.assert_allclose(after.facts["distance_reward"], -away, atol=1e-5)


def test_sparse_tasks_pay_past_the_threshold_and_at_the_goal_alone():
    cheetah = make("brax/halfcheetah-sparse", "spring")
    for x, expected in ((4.99, 0.0), (5.0, 0.0), (5.01, 1.0), (-6.0, 0.0)):
        reward, terminated = cheetah._outcome({"torso_position": jnp.asarray([x, 0.0, 0.0])}, jnp.asarray(False))
        assert (reward, terminated) == (expected, False)

    ant = make("brax/ant-goal", "spring")
    _, obs = jax.eval_shape(ant.reset, jax.random.key(0))
    assert obs.shape == ant.spec.obs_shape == (29,)
    for distance, reached in ((0.49, True), (0.51, False)):
        reward, terminated = ant._outcome({"goal_distance": jnp.asarray(distance)}, jnp.asarray(False))
        assert (reward, terminated) == (float(reached), reached)
    assert ant.spec.success == cheetah.spec.success == 0.0


@pytest.mark.slow
def test_sparse_tasks_pay_for_what_the_observation_shows():
    cheetah = ForwardSparse("halfcheetah", "spring", threshold=0.05)
    _, outcomes = play(cheetah, 60)
    assert [float(o.reward) for o in outcomes] == [float(o.obs[0] > 0.05) for o in outcomes]
    assert {float(o.reward) for o in outcomes} == {0.0, 1.0}

    goal = np.array([0.3, 0.0])
    ant = AntGoal(backend="spring", goal=(0.3, 0.0), radius=0.09)
    flags = []
    for key in range(4):
        _, outcomes = play(ant, 40, key)
        for o in outcomes:
            distance = np.linalg.norm(o.facts["torso_position"][:2] - goal)
            np.testing.assert_allclose(o.facts["goal_distance"], distance, atol=1e-6)
            np.testing.assert_allclose(o.obs[:2], o.facts["torso_position"][:2], atol=1e-4)
            assert o.reward == o.terminated == (o.facts["goal_distance"] <= 0.09)
            flags.append(bool(o.terminated))
    assert not all(flags)


def test_ids_are_the_bodies_of_the_library_that_work():
    assert set(BODIES) == set(library._envs) - {"fast", "swimmer"}
    assert set(FACTORIES) == {f"brax/{body}" for body in BODIES} | set(SPARSE)
    for body in BODIES:
        assert inspect.signature(library._envs[body]).parameters["backend"].default == Brax.backend


def test_swimmer_is_still_broken():
    with quiet():
        swimmer = library.get_environment("swimmer")
        state = jax.eval_shape(swimmer.reset, jax.random.key(0))
        with pytest.raises(TypeError, match="a_min"):
            jax.eval_shape(swimmer.step, state, jnp.zeros(2))


def test_equal_settings_make_equal_environments():
    factory = FACTORIES["brax/reacher"]
    assert factory(backend="spring") == factory(backend="spring")
    assert hash(factory(backend="spring")) == hash(factory(backend="spring"))
    assert factory(backend="spring") != factory(backend="mjx")


def test_first_use_inside_a_trace_leaves_no_tracers_behind():
    made: list[Any] = []

    def first_use(key):
        made.append(FACTORIES["brax/inverted_pendulum"](max_steps=7))
        return made[0].reset(key)

    state, obs = jax.eval_shape(first_use, jax.random.key(0))
    jax.tree.map(np.asarray, made[0].library.sys)  # fails on tracers
    new, outcome = jax.eval_shape(made[0].step, jax.random.key(0), state, jnp.zeros(1))
    chex.assert_trees_all_equal_shapes_and_dtypes((state, obs), (new, outcome.obs))


def test_importing_is_light_and_making_is_silent(tmp_path):
    """MuJoCo warns about the half-cheetah's file, on the screen and in a log file in the current folder."""
    code = """if True:
        import sys
        from envs.brax import FACTORIES
        assert "brax" not in sys.modules and "mujoco" not in sys.modules
        FACTORIES["brax/halfcheetah"]()
        assert "brax" in sys.modules
    """
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "brax/ant",
            {"backend": "mujoco"},
            "unknown backend 'mujoco'; valid backends: generalized, spring, positional, mjx",
        ),
        ("brax/ant", {"body": "aunt"}, "unknown body 'aunt'; did you mean 'ant'?"),
        ("brax/ant", {"max_steps": 0}, "max_steps is 0; an episode has at least 1 step"),
        (
            "brax/halfcheetah-sparse",
            {"threshold": -1.0},
            "threshold is -1.0; it must be a positive distance in metres, like 5.0",
        ),
        (
            "brax/ant-goal",
            {"goal": (0.3, 0.4)},
            "radius is 0.5 and goal is (0.3, 0.4); the radius must be positive and leave the start outside, like 0.5 "
            "and (0.0, 8.0)",
        ),
        ("brax/ant-goal", {"body": "hopper"}, "body is 'hopper'; this task has one body, 'ant'"),
    ],
)
def test_mistakes_are_answered_in_one_sentence(name, options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        FACTORIES[name](**options)
