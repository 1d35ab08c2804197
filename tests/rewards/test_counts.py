"""Counts against dictionaries, one transition at a time."""

import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrew.rewards import Counts
from jaxrew.rewards.tables import NO_STATE, Slots, num_states, state_number
from jaxrew.types import Box
from tests.references.rewards_experience import SPEC, context, flat, learnt, rescored, rollouts, scored, started
from tests.references.rewards_oracles import CountOracle, state_key

SETTINGS = [
    dict(power=1.0, beta=0.3),
    dict(action=True, facts=("level", "door")),
    dict(scope="episode"),
    dict(scope="episode", power=1.0, count_first=False, facts=("level",)),
    dict(scope="episode", action=True, facts=("level",)),
    dict(facts=("serial", "level"), action=True, capacity=8192),
    dict(facts=("serial",), scope="episode", capacity=1024),
]


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: "-".join(map(str, s.values())) or "default")
def test_equals_dictionaries_over_consecutive_rollouts(settings):
    module = Counts(**settings)
    num_envs = 7
    module.validate(SPEC, num_envs)
    oracle = CountOracle(
        module.facts or ("cell",), module.beta, module.power, module.scope, module.count_first, module.action, num_envs
    )
    state = started(module, num_envs)
    # Ends are rare in half of the rollouts, so that episodes run on from one into the next.
    experience = [*rollouts(1, 6, 40, num_envs), *rollouts(2, 6, 40, num_envs, terminates=0.01, truncates=0.01)]
    for batch in experience:
        rewards, state, _ = scored(module, state, batch)
        np.testing.assert_allclose(rewards[module.stream_name], oracle.reward(batch), rtol=1e-6)
        assert state.overflow == 0.0


def test_all_of_a_time_step_are_counted_before_any_is_paid():
    batch = next(rollouts(0, num_steps=3, num_envs=4, terminates=0.0, truncates=0.0))
    cells = np.zeros((3, 4, 2), np.int32)
    cells[0, 3] = cells[2, :2] = (1, 2)
    batch = batch._replace(next_facts=batch.next_facts | {"cell": cells})
    rewards, _, _ = scored(Counts(), started(Counts(), 4), batch)
    n = [[3, 3, 3, 1], [7, 7, 7, 7], [3, 3, 9, 9]]
    np.testing.assert_allclose(rewards["counts"], 1.0 / np.sqrt(n), rtol=1e-6)


def test_first_state_of_an_episode_is_counted_only_if_asked():
    batch = next(rollouts(0, num_steps=2, num_envs=1, terminates=0.0, truncates=0.0))
    batch = batch._replace(facts={"level": np.zeros((2, 1), int)}, next_facts={"level": np.zeros((2, 1), int)})
    for count_first, n in ((True, [2, 3]), (False, [1, 2])):
        module = Counts(scope="episode", facts=("level",), power=1.0, count_first=count_first)
        rewards, _, _ = scored(module, started(module, 1), batch)
        np.testing.assert_allclose(rewards["counts"][:, 0], 1.0 / np.array(n), rtol=1e-6)


@pytest.mark.parametrize("scope", ["global", "episode"])
def test_a_full_table_pays_nothing_for_what_it_cannot_hold_and_says_how_much_that_was(scope):
    module = Counts(facts=("serial",), capacity=64, scope=scope, count_first=False)
    oracle = CountOracle(("serial",), 1.0, 0.5, scope, False, False, 5)
    state = started(module)
    held: dict[tuple, bool] = {}
    for batch in rollouts(3, num_rollouts=8, num_steps=40):
        rewards, state, _ = scored(module, state, batch)
        paid, exact = np.asarray(rewards["counts"]), oracle.reward(batch)
        np.testing.assert_allclose(paid[paid > 0], exact[paid > 0], rtol=1e-6)
        assert state.overflow == pytest.approx((paid == 0).mean())
        for t, i in np.ndindex(paid.shape):
            key = state_key(batch.next_facts, ("serial",), t, i)
            assert held.setdefault(key, bool(paid[t, i] > 0)) == (paid[t, i] > 0)
    numbers = np.asarray(state.slots.numbers)
    assert sum(held.values()) == (numbers != NO_STATE).sum() == len(set(numbers)) - (NO_STATE in numbers)
    assert 0.0 < state.overflow < 1.0
    assert sum(held.values()) >= 0.8 * 64


def test_facts_outside_their_bounds_are_no_state():
    module = Counts(facts=("level",))
    batch = next(rollouts(0, num_steps=1, num_envs=4))
    batch = batch._replace(next_facts={"level": np.array([[-2, -1, 1, 2]], np.int32)})
    rewards, state, _ = scored(module, started(module, 4), batch)
    np.testing.assert_array_equal(rewards["counts"], [[0.0, 1.0, 1.0, 0.0]])
    assert learnt(module, state, batch)[1] == {"reward/counts/overflow": 0.5}


def test_state_numbers_are_a_bijection():
    names = ("cell", "level", "door")
    grid = np.stack(np.meshgrid(range(4), range(4), range(-1, 2), range(2), indexing="ij"), -1).reshape(-1, 4)
    facts = {"cell": jnp.array(grid[:, :2]), "level": jnp.array(grid[:, 2]), "door": jnp.array(grid[:, 3], bool)}
    assert sorted(state_number(SPEC, names, facts).tolist()) == list(range(num_states(SPEC, names)))


def test_slots_hold_every_number_once_and_find_it_again():
    numbers = jnp.asarray(np.unique(np.random.default_rng(0).integers(0, 2**32 - 2, 2000, dtype=np.uint32)))
    find = jax.jit(lambda known, numbers, add: known.find(numbers, 4096, add), static_argnums=2)
    slots, known = find(Slots.init(2**31, 4096), numbers, True)
    assert len(set(slots.tolist())) == 2000
    assert slots.max() < 4096
    np.testing.assert_array_equal(known.numbers[slots], numbers)
    np.testing.assert_array_equal(find(known, numbers[::-1], False)[0], slots[::-1])
    np.testing.assert_array_equal(find(known, numbers[::-1], True)[1].numbers, known.numbers)
    strangers, unchanged = find(known, numbers + 1, False)
    np.testing.assert_array_equal(strangers == 4096, ~np.isin(numbers + 1, numbers))
    np.testing.assert_array_equal(unchanged.numbers, known.numbers)


@pytest.mark.parametrize("settings", [dict(action=True), dict(facts=("serial",), capacity=1024)])
def test_rescore_pays_by_the_counts_as_they_are(settings):
    module = Counts(**settings)
    assert module.recomputable
    assert not Counts(scope="episode").recomputable
    state = started(module)
    oracle = CountOracle(module.facts or ("cell",), 1.0, 0.5, "global", True, module.action, 5)
    batches = list(rollouts(4))
    for batch in batches:
        _, state, _ = scored(module, state, batch)
        oracle.reward(batch)
    before = jax.tree.map(np.array, state)
    for batch in batches:
        expected = [oracle.tables[0][oracle.key(batch, t, i)] ** -0.5 for t, i in np.ndindex(batch.reward.shape)]
        np.testing.assert_allclose(rescored(module, state, flat(batch))["counts"], expected, rtol=1e-6)
    chex.assert_trees_all_equal(before, jax.tree.map(np.array, state))


def test_streams():
    (stream,) = Counts(gamma=0.9, coef=2.0).streams()
    assert (stream.name, stream.gamma, stream.coef, stream.episodic) == ("counts", 0.9, 2.0, False)
    assert Counts(scope="episode").streams()[0].episodic
    assert not Counts(scope="episode", episodic=False).streams()[0].episodic
    assert Counts(stream="visits").streams()[0].name == "visits"
    assert Counts(stream="task").streams() == ()
    assert Counts(stream="task").pays == ("task",)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(facts=("cel",)), "unknown fact of Cells 'cel'; did you mean 'cell'?"),
        (dict(facts=("heat",)), "those of Cells are \\['cell', 'level', 'door', 'serial'\\]"),
        (dict(facts=("age",)), "unknown integer fact with finite bounds 'age'"),
        (dict(facts=("serial", "serial")), "take 1000000000000 values"),
        (dict(scope="episodic"), "did you mean 'episode'?"),
        (dict(capacity=0), "capacity = 0 must be at least 1"),
        (dict(stream="task", coef=0.5), "write 0.5 \\* Counts"),
        (dict(facts=("serial", "level", "cell", "cell"), scope="episode", capacity=2**30), "use capacity = 429496729"),
    ],
)
def test_errors(settings, message):
    with pytest.raises(ValueError, match=message):
        Counts(**settings).validate(SPEC, 5)


def test_what_the_environment_lacks_is_said():
    with pytest.raises(ValueError, match="Cells has no position to count"):
        Counts().validate(dataclasses.replace(SPEC, position=None), 5)
    with pytest.raises(ValueError, match="actions are counted where they are discrete"):
        Counts(action=True).validate(dataclasses.replace(SPEC, action_space=Box(-1.0, 1.0, (2,))), 5)
    module = Counts(scope="episode")
    with pytest.raises(TypeError, match="replay their collected reward"):
        module.rescore(started(module), next(rollouts(0)), context())
