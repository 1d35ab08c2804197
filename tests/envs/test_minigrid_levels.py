"""Levels are drawn from Farama's distribution, can be solved, and depend on their own key alone."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from scipy import stats

from envs.minigrid import IDS, DoorKey, unpack
from envs.minigrid.level import Level
from envs.minigrid.rooms import RoomLevel
from envs.minigrid.world import FORWARD
from tests.references.minigrid_census import compare, farama_levels, our_levels
from tests.references.minigrid_solver import plan

DOORKEY = [name for name in IDS if "DoorKey" in name]

SAMPLED = (
    "MiniGrid-DoorKey-6x6-v0",
    "MiniGrid-MultiRoom-N2-S4-v0",
    "MiniGrid-UnlockPickup-v0",
    "MiniGrid-LavaCrossingS9N2-v0",
    "MiniGrid-MemoryS13Random-v0",
    "MiniGrid-GoToDoor-6x6-v0",
    "MiniGrid-PutNear-6x6-N2-v0",
)
"""Ids whose levels are quick to draw and differ in kind."""


def verdict(name, count, seed=0):
    env = IDS[name]()
    return compare(our_levels(env, count, seed), farama_levels(name, env, count, seed))


@pytest.mark.parametrize("name", SAMPLED)
def test_levels_are_distributed_like_faramas(name):
    result = verdict(name, 400)
    assert result.tests > 20
    assert result.p > 1e-3, result


@pytest.mark.slow
@pytest.mark.parametrize("name", IDS)
def test_levels_are_distributed_like_faramas_at_length(name, capsys):
    """Of 76 equal generators one falls below 0.001 by chance every 13th time, so a second sample decides."""
    for seed in range(2):
        result = verdict(name, 5_000, seed)
        with capsys.disabled():
            print(f"\n| {name} | {result.tests} | {result.p:.4f} | {result.which} |", end="")
        if result.p > 1e-3:
            return
    pytest.fail(str(result))


def biased_colour(level):
    """Never grey."""
    return level.below(5)


def agent_that_never_faces_up(level, where=True):
    level.agent = jnp.int32(-1)
    x, y = level.choose(level.free() & where)
    level.put_agent(x, y, level.below(3))


def place_anywhere_in_room(level, i, j, cell, contents=None):
    """Without the distance from where the agent counts as being."""
    return level.place(cell, level.room(i, j), contents)


FAULTS = {
    "a colour less": ("MiniGrid-Unlock-v0", Level, "colour", biased_colour),
    "a direction less": ("MiniGrid-Empty-Random-5x5-v0", Level, "place_agent", agent_that_never_faces_up),
    "objects touch the middle": ("MiniGrid-UnlockPickup-v0", RoomLevel, "place_in_room", place_anywhere_in_room),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_in_a_generator_are_found(fault, monkeypatch):
    name, kind, method, wrong = FAULTS[fault]
    monkeypatch.setattr(kind, method, wrong)
    assert verdict(name, 600).p < 1e-6


def test_five_by_five_levels_have_their_exact_probabilities():
    """In DoorKey-5x5: 3 cells for the agent, 2 left for the key, 2 rows for the door, 4 directions: 48 levels."""
    levels = our_levels(IDS["MiniGrid-DoorKey-5x5-v0"](), 9_600, seed=1)
    parts = (levels.grids, levels.positions, levels.directions)
    joint = np.concatenate([part.reshape(9_600, -1).astype(np.int64) for part in parts], axis=1)
    counts = np.unique(joint, axis=0, return_counts=True)[1]
    assert len(counts) == 48
    assert stats.chisquare(counts).pvalue > 1e-3


def assert_solvable(name, count):
    levels = our_levels(IDS[name](), count, seed=2)
    for grid, position, direction in zip(levels.grids, levels.positions, levels.directions, strict=True):
        actions = plan(grid, tuple(position.tolist()), int(direction), None)
        assert actions is not None
        assert actions.count(3) == actions.count(5) == 1  # picks up the key once and opens the door once


def test_doorkey_levels_can_be_solved():
    assert_solvable("MiniGrid-DoorKey-6x6-v0", 100)
    assert_solvable("MiniGrid-DoorKey-8x8-v0", 100)


@pytest.mark.slow
@pytest.mark.parametrize("name", DOORKEY)
def test_doorkey_levels_can_be_solved_at_length(name):
    assert_solvable(name, 400 if "16x16" in name else 4_000)


@pytest.fixture(scope="module")
def random_play():
    """DoorKey-5x5 at random: `(env, facts [T + 1, N, ...], actions [T, N], steps [T, N, ...])`."""
    env = IDS["MiniGrid-DoorKey-5x5-v0"]()
    actions = jax.random.choice(jax.random.key(1), jnp.array([0, 1, 2, 2, 3, 4, 5, 6]), (250, 400))

    @jax.jit
    def play(keys):
        state, _ = env.reset_many(keys)
        step = functools.partial(env.step_many, jax.random.key(0))
        return env.facts_many(state), lax.scan(step, state, actions)[1]

    start, steps = play(jax.random.split(jax.random.key(0), 400))
    facts = jax.tree.map(lambda first, rest: np.concatenate([first[None], rest]), start, steps.facts)
    return env, facts, np.asarray(actions), jax.device_get(steps)


def test_only_walking_onto_the_goal_pays(random_play):
    _, facts, actions, steps = random_play
    onto_goal = (actions == FORWARD) & (facts["front"][:-1] == 8)
    assert onto_goal.sum() > 50
    np.testing.assert_array_equal(steps.reward > 0, onto_goal)
    np.testing.assert_array_equal(steps.terminated, onto_goal)
    assert ((facts["front"][:-1] == 8) & (actions != FORWARD)).sum() > 50


def test_rewards_are_rounded_from_float64(random_play):
    env, facts, _, steps = random_play
    expected = (1 - 0.9 * (facts["step_count"][1:].astype(np.float64) / env.max_steps)).astype(np.float32)
    np.testing.assert_array_equal(steps.reward, np.where(steps.terminated, expected, 0))


def test_facts_are_those_documented(random_play):
    env, facts, _, _ = random_play
    assert set(facts) == {fact.name for fact in env.spec.facts}
    for fact in env.spec.facts:
        values = facts[fact.name]
        assert (values.shape[2:], values.dtype) == (fact.shape, fact.dtype), fact.name
        assert values.min() >= fact.low, fact.name
        assert values.max() <= fact.high, fact.name
    carried = facts["carrying"] == 5
    assert carried.any()
    np.testing.assert_array_equal((facts["key_pos"] == -1).all(axis=-1), carried)


def test_each_level_depends_on_its_own_key_alone():
    env, keys = IDS["MiniGrid-DoorKey-8x8-v0"](), jax.random.split(jax.random.key(0), 12)
    whole, part, one = jax.jit(lambda k: (env.reset_many(k), env.reset_many(k[5:8]), env.reset(k[6])))(keys)
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[5:8], b), whole, part)
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[6], b), whole, one)


def test_batches_and_seed_axes_compute_what_single_environments_do():
    """Two seeds of three environments: vmap of batches, a mapped loop of batches, and one environment at a time."""
    env = IDS["MiniGrid-DoorKey-6x6-v0"]()
    actions = jax.random.randint(jax.random.key(7), (2, 40, 3), 0, 7)
    keys = jax.random.split(jax.random.key(0), (2, 3))

    def batch(inputs):
        keys, actions = inputs
        state, obs = env.reset_many(keys)
        return obs, lax.scan(functools.partial(env.step_many, jax.random.key(0)), state, actions)

    @jax.jit
    def single(key, actions):
        state, obs = env.reset(key)
        end, steps = lax.scan(functools.partial(env.step, jax.random.key(0)), state, actions)
        return (obs, (end, steps)), env.facts(end)

    vmapped, mapped = jax.device_get(jax.jit(lambda x: (jax.vmap(batch)(x), lax.map(batch, x)))((keys, actions)))
    jax.tree.map(np.testing.assert_array_equal, vmapped, mapped)
    (obs, (end, steps)), facts = jax.device_get(single(keys[1, 2], actions[1, :, 2]))
    np.testing.assert_array_equal(obs, vmapped[0][1, 2])
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a, b[1, 2]), end, vmapped[1][0])
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a, b[1, :, 2]), steps, vmapped[1][1])
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a, b[-1]), facts, steps.facts)


def test_both_observations_read_the_same_to_a_network():
    key, name = jax.random.split(jax.random.key(3), 20), "MiniGrid-DoorKey-8x8-v0"
    packed, partial = IDS[name](), IDS[name](obs="partial")
    bytes_, image = jax.jit(lambda k: (packed.reset_many(k)[1], partial.reset_many(k)[1]))(key)
    assert (bytes_.shape[1:], bytes_.dtype) == (packed.spec.obs_shape, packed.spec.obs_dtype)
    assert (image.shape[1:], image.dtype) == (partial.spec.obs_shape, partial.spec.obs_dtype)
    np.testing.assert_array_equal(unpack(bytes_), image)
    features = packed.spec.to_features(bytes_)
    np.testing.assert_array_equal(features, partial.spec.to_features(image))
    assert (features.shape, features.dtype) == ((20, 7, 7, 3), np.float32)
    np.testing.assert_allclose(features, np.asarray(image) / np.array([10, 5, 2]), rtol=1e-6)


def test_settings_are_checked():
    with pytest.raises(ValueError, match="unknown MiniGrid observation 'packd'; did you mean 'packed'"):
        IDS["MiniGrid-Empty-5x5-v0"](obs="packd")
    with pytest.raises(ValueError, match="view_size is 6, but it must be odd and from 3 to 15; try 7"):
        IDS["MiniGrid-Empty-5x5-v0"](view_size=6)
    with pytest.raises(ValueError, match="size is 4, but a DoorKey grid needs at least 5; try 5"):
        DoorKey(size=4)
