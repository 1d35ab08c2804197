"""Bridges against the same environment written by hand, and against gymnax's own raw step."""

import dataclasses
import functools
import re
import sys
from typing import Any, NamedTuple

import chex
import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
from envs.bridge import Bridge
from envs.vector import VecEnv
from jaxrew.types import Box, Discrete, EnvSpec, Fact

LIMIT = 5
SPEC = EnvSpec("Count", (2,), "float32", Discrete(3), LIMIT, (Fact("place", "where it is", 0, 100),))


class Walk(NamedTuple):
    place: Any
    speed: Any
    nothing: Any
    time: Any


def reset(key):
    """Python numbers, which are weakly typed, and an empty leaf."""
    place = jax.random.randint(key, (), 0, 10)
    return Walk(place, 0.0, jnp.zeros((0, 3)), 0), jnp.stack([place, 0])


def step(key, state, action):
    """Moves by the action; ends at 15. The reward is an integer and the flag a float, as in some libraries."""
    place = state.place + action
    state = Walk(place, 1.0 * action, state.nothing, state.time + 1)
    return state, jnp.stack([place, state.time]), place, 1.0 * (place >= 15)


def facts(state):
    return {"place": state.place}


def step_with_limit_in_done(key, state, action):
    state, obs, reward, done = step(key, state, action)
    return state, obs, reward, (done > 0) | (state.time >= LIMIT)


def step_with_both_flags(key, state, action):
    state, obs, reward, done = step(key, state, action)
    return state, obs, reward, done, state.time >= 3


def play(env, actions, key=0):
    """The steps of one episode, acting on beyond its end: nothing restarts it."""
    state, _ = env.reset(jax.random.key(key))
    steps = []
    for action in actions:
        state, outcome = env.step(jax.random.key(0), state, jnp.int32(action))
        steps.append(jax.tree.map(np.asarray, outcome))
    return steps


def flags(steps):
    return [(bool(step.terminated), bool(step.truncated)) for step in steps]


def test_a_step_is_what_the_functions_return():
    start = int(reset(jax.random.key(0))[0].place)
    steps = play(Bridge(SPEC, reset, step, facts), [2, 0, 1])
    for t, place in enumerate([start + 2, start + 2, start + 3]):
        np.testing.assert_array_equal(steps[t].obs, [place, t + 1])
        assert steps[t].reward == steps[t].facts["place"] == place


def test_leaves_are_strongly_typed_and_never_empty():
    env = Bridge(SPEC, reset, step, facts)
    state, obs = jax.eval_shape(env.reset, jax.random.key(0))
    new, outcome = jax.eval_shape(env.step, jax.random.key(0), state, jnp.int32(0))
    assert [(leaf.shape, leaf.dtype) for leaf in state.leaves] == [((), "int32"), ((), "float32"), ((), "int32")]
    chex.assert_trees_all_equal_shapes_and_dtypes((state, obs), (new, outcome.obs))
    assert not any(leaf.weak_type for leaf in jax.tree.leaves((state, obs, new, outcome)))
    assert (outcome.reward.dtype, outcome.terminated.dtype, outcome.truncated.dtype) == (jnp.float32, bool, bool)


def test_the_bridge_counts_steps_where_the_library_does_not():
    env = Bridge(SPEC, reset, step, facts)
    assert flags(play(env, [0] * LIMIT)) == [(False, False)] * (LIMIT - 1) + [(False, True)]
    for length in (3, LIMIT):  # ends by itself, before the limit and on that very step
        start = int(reset(jax.random.key(0))[0].place)
        steps = play(env, [0] * (length - 1) + [15 - start])
        assert flags(steps) == [(False, False)] * (length - 1) + [(True, length == LIMIT)]


def test_without_a_limit_nothing_is_truncated():
    env = Bridge(dataclasses.replace(SPEC, max_steps=None), reset, step, facts)
    assert not any(truncated for _, truncated in flags(play(env, [0] * 12)))


def test_a_limit_inside_done_becomes_truncation_alone():
    merged = Bridge(SPEC, reset, step_with_limit_in_done, facts)
    assert flags(play(merged, [0] * LIMIT))[-1] == (True, True)
    told = dataclasses.replace(merged, limit_in_done=True)
    assert flags(play(told, [0] * LIMIT)) == [(False, False)] * (LIMIT - 1) + [(False, True)]
    assert flags(play(told, [15]))[0] == (True, False)


def test_flags_of_the_library_are_taken_as_they_are():
    env = Bridge(dataclasses.replace(SPEC, max_steps=3), reset, step_with_both_flags, facts)
    assert flags(play(env, [0, 0, 15])) == [(False, False), (False, False), (True, True)]


def test_gymnax_brought_over_equals_the_built_in_one():
    raw, params = gymnax.make("CartPole-v1")

    def gymnax_reset(key):
        obs, state = raw.reset_env(key, params)
        return state, obs

    def gymnax_step(key, state, action):
        obs, state, reward, terminated, _ = raw.step_env(key, state, action, params)
        return state, obs, reward, terminated

    own = envs.make("CartPole-v1", max_steps=20)
    spec = dataclasses.replace(own.spec, facts=own.spec.facts[2:3])
    bridged = Bridge(spec, gymnax_reset, gymnax_step, lambda state: {"pole_angle": state.theta})

    @functools.partial(jax.jit, static_argnums=0)
    def rollout(env):
        vec_env = VecEnv(env, 20)

        def body(state, inputs):
            state, obs, outcome = vec_env.step(inputs[0], state, inputs[1])
            return state, (obs, outcome)

        actions = jax.random.randint(jax.random.key(1), (100, 20), 0, 2)
        return jax.lax.scan(
            body, vec_env.init(jax.random.key(0))[0], (jax.random.split(jax.random.key(2), 100), actions)
        )[1]

    (obs, theirs), (own_obs, ours) = rollout(bridged), rollout(own)
    np.testing.assert_array_equal(obs, own_obs)
    for field in ("obs", "reward", "terminated", "truncated"):
        np.testing.assert_array_equal(getattr(theirs, field), getattr(ours, field), err_msg=field)
    np.testing.assert_array_equal(theirs.facts["pole_angle"], ours.facts["pole_angle"])
    assert theirs.terminated.sum() > 20
    assert theirs.truncated.sum() > 20


def test_equal_bridges_share_one_program():
    traces = 0

    def start(env, key):
        nonlocal traces
        traces += 1
        return env.reset(key)

    start = jax.jit(start, static_argnums=0)
    start(Bridge(SPEC, reset, step, facts), jax.random.key(0))
    start(Bridge(SPEC, reset, step, facts), jax.random.key(1))
    assert traces == 1


def test_a_typed_key_in_the_state_survives():
    spec = EnvSpec("Noise", (), "float32", Box(-1.0, 1.0, (2,)), 4)

    def noise_step(key, state, action):
        state = jax.random.split(state)[0]
        return state, jax.random.normal(state), action.sum(), False

    env = Bridge(spec, lambda key: (key, jnp.zeros(())), noise_step)
    state, _ = env.reset(jax.random.key(3))
    _, outcome = env.step(jax.random.key(0), state, jnp.ones(2))
    assert outcome.obs == jax.random.normal(jax.random.split(jax.random.key(3))[0])
    assert outcome.reward == 2.0


def returning(**changes):
    """`step`, with some of what it returns replaced."""

    def changed(key, state, action):
        names = ("state", "obs", "reward", "terminated")
        returned = zip(names, step(key, state, action), strict=True)
        return tuple(changes.get(name, lambda value: value)(value) for name, value in returned)

    return changed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reset_fn": lambda key: jnp.zeros(2)}, "reset_fn returned one array; it must return (state, obs)"),
        (
            {"reset_fn": lambda key: (reset(key)[0], jnp.zeros(3))},
            "reset_fn returned obs of shape (3,); it must have shape (2,)",
        ),
        (
            {"reset_fn": lambda key: (reset(key)[0], {"view": jnp.zeros(2)})},
            "reset_fn returned obs as a dict; it must be one array of shape (2,)",
        ),
        (
            {"step_fn": lambda key, state, action: step(key, state, action)[:3]},
            "step_fn returned a tuple of 3; it must return (state, obs, reward, terminated[, truncated])",
        ),
        (
            {"step_fn": returning(reward=lambda reward: reward[None])},
            "step_fn returned reward of shape (1,); it must have shape ()",
        ),
        (
            {"step_fn": returning(terminated=lambda flag: jnp.zeros(2, bool))},
            "step_fn returned terminated of shape (2,); it must have shape ()",
        ),
        (
            {"step_fn": returning(state=lambda state: state._replace(place=state.place[None]))},
            "step_fn returned state.place of shape (1,); reset_fn's has shape ()",
        ),
        (
            {"step_fn": returning(state=lambda state: state._replace(place=state.place * 1.0))},
            "step_fn returned state.place of dtype float32; casting to reset_fn's int32 would lose values",
        ),
        (
            {"step_fn": returning(state=lambda state: state._replace(nothing=None))},
            "step_fn returned a state of another structure than reset_fn; differing: .nothing",
        ),
        (
            {"env_spec": dataclasses.replace(SPEC, obs_dtype="int32"), "step_fn": returning(obs=lambda obs: obs * 0.5)},
            "step_fn returned obs of dtype float32; casting that to int32 would lose values",
        ),
        ({"facts_fn": None}, "facts_fn is None; the spec documents facts that it must compute: place"),
        ({"facts_fn": lambda state: {"plaice": state.place}}, "what facts_fn returned lacks 'place'"),
        (
            {"facts_fn": lambda state: {"place": state.place, "time": state.time}},
            "what facts_fn returned has, which the spec does not, 'time'",
        ),
        (
            {"facts_fn": lambda state: {"place": state.speed}},
            "facts_fn returned fact 'place' of dtype float32; casting that to int32 would lose values",
        ),
        (
            {"facts_fn": lambda state: state.place},
            "facts_fn returned one array; it must return a dict of the facts",
        ),
        (
            {"env_spec": dataclasses.replace(SPEC, max_steps=None), "limit_in_done": True},
            "limit_in_done needs the library's time limit as env_spec.max_steps, which is None",
        ),
        (
            {"step_fn": step_with_both_flags, "limit_in_done": True},
            "limit_in_done is for a step_fn that returns 4 values; it returned 5, with its own truncated",
        ),
        ({"env_spec": dataclasses.replace(SPEC, max_steps=0)}, "max_steps is 0; an episode has at least 1 step"),
    ],
)
def test_mistakes_are_answered_in_one_sentence(options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Bridge(**({"env_spec": SPEC, "reset_fn": reset, "step_fn": step, "facts_fn": facts} | options))


def test_functions_that_cannot_be_hashed_are_refused():
    class Unhashable:
        __hash__: Any = None

        def __call__(self, key):
            return reset(key)

    message = "reset_fn is a Unhashable that cannot be hashed; jit needs that, so use a function or frozen object"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Bridge(SPEC, Unhashable(), step, facts)


def test_what_a_function_raises_says_where():
    def broken(key, state, action):
        raise KeyError("sword")

    with pytest.raises(KeyError) as caught:
        Bridge(SPEC, reset, broken, facts)
    assert "raised while a Bridge traced step_fn(key, state, action)" in caught.value.__notes__


def test_the_craftax_example_says_how_to_install_craftax(monkeypatch):
    from experiments import craftax_bridge

    monkeypatch.setitem(sys.modules, "craftax.craftax_env", None)
    craftax_bridge.library.cache_clear()
    with pytest.raises(ValueError, match=r'^Craftax is not installed; run pip install "jaxrew\[craftax\]"$'):
        craftax_bridge.craftax_classic()
