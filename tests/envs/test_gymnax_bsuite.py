"""The behaviour suite: against the library's raw step, and its facts against what was seen and paid."""

import gymnax
import jax
import numpy as np
import pytest

import envs
from envs.gymnax import DeepSea
from envs.gymnax.bsuite import CHAIN_DELAYS
from tests.envs.test_gymnax import (
    check_casing,
    check_equal_to_the_library,
    check_facts_within_bounds,
    check_time_limit,
    constant,
    our_rollout,
    play,
    random_actions,
    reset,
    step,
    succeeds,
    total,
)

NAMES = [
    "Catch-bsuite",
    "DeepSea-bsuite",
    "DiscountingChain-bsuite",
    "MemoryChain-bsuite",
    "SimpleBandit-bsuite",
    "UmbrellaChain-bsuite",
]
MEMORY = {"memory_length": 3, "num_bits": 4}
LIMITED = [
    ("Catch-bsuite", {"rows": 6, "columns": 3, "max_steps": 4}),
    ("DiscountingChain-bsuite", {"mapping_seed": 2, "max_steps": 20}),
    ("MemoryChain-bsuite", {"memory_length": 2, "max_steps": 2}),
    ("SimpleBandit-bsuite", {"num_actions": 3, "max_steps": 1}),
    ("UmbrellaChain-bsuite", {"chain_length": 4, "n_distractor": 5, "max_steps": 3}),
]
CONSTRUCTOR = ("rows", "columns", "mapping_seed", "num_bits", "num_actions", "n_distractor")
"""Options that the library's constructor takes; the others are its parameters."""


def split(options):
    constructor = {name: value for name, value in options.items() if name in CONSTRUCTOR}
    params = {name: value for name, value in options.items() if name not in (*CONSTRUCTOR, "max_steps")}
    return options, constructor, params


@pytest.mark.parametrize(
    ("name", "options", "constructor", "params"),
    [
        *((name, {}, {}, {}) for name in NAMES),
        *((name, *split(options)) for name, options in LIMITED),
        ("MemoryChain-bsuite", *split(MEMORY)),
        (
            "DeepSea-bsuite",
            {"size": 5, "deterministic": False, "mapping_seed": 3, "unscaled_move_cost": 0.5},
            {"size": 5, "action_mapping_key": jax.random.key(3)},
            {"deterministic": False, "unscaled_move_cost": 0.5},
        ),
    ],
)
def test_a_thousand_random_steps_equal_the_library_bit_for_bit(name, options, constructor, params):
    check_equal_to_the_library(name, options, constructor, params)


@pytest.mark.parametrize("name", NAMES)
def test_shapes_and_dtypes_are_what_the_spec_says_and_never_change(name):
    check_casing(envs.make(name))


@pytest.mark.parametrize("name", NAMES)
def test_facts_stay_within_their_bounds(name):
    check_facts_within_bounds(envs.make(name), constants={"query"})


def test_every_bit_is_asked_for():
    check_facts_within_bounds(envs.make("MemoryChain-bsuite", **MEMORY))


@pytest.mark.parametrize(("name", "options"), LIMITED)
def test_truncation_is_set_at_the_time_limit_alone_and_never_before(name, options):
    check_time_limit(envs.make(name, **options), alone=name != "SimpleBandit-bsuite")


def test_catch_draws_ball_and_paddle_and_pays_for_being_under_it():
    outcome, _ = our_rollout(envs.make("Catch-bsuite"))
    facts = outcome.facts
    board, time = np.zeros((1000, 10, 5)), np.arange(1000)
    board[time, facts["ball_row"], facts["ball_column"]] = 1
    board[time, 9, facts["paddle_column"]] = 1
    np.testing.assert_array_equal(outcome.obs, board)
    landed = facts["ball_row"] == 9
    caught = facts["ball_column"] == facts["paddle_column"]
    np.testing.assert_array_equal(outcome.terminated, landed)
    np.testing.assert_array_equal(outcome.reward, landed * np.where(caught, 1, -1))
    assert {-1.0, 0.0, 1.0} == set(outcome.reward.tolist())
    assert (np.diff(np.flatnonzero(landed)) == 9).all()


def follow(obs):
    """Moves the paddle, in the last row, under the ball."""
    return np.int32(1 + np.sign(obs[:-1].any(axis=0).argmax() - obs[-1].argmax()))


def test_catch_success_is_a_catch():
    env = envs.make("Catch-bsuite")
    assert succeeds(env, play(env, follow))
    assert not succeeds(env, play(env, lambda obs: 2 - follow(obs)))
    assert envs.make("Catch-bsuite", max_steps=8).spec.success is None


@pytest.mark.parametrize("best", [0, 3])
def test_every_discounting_chain_pays_once_after_its_delay(best):
    assert gymnax.make("DiscountingChain-bsuite")[1].reward_timestep.tolist() == list(CHAIN_DELAYS)
    env = envs.make("DiscountingChain-bsuite", mapping_seed=best)
    for chain, delay in enumerate(CHAIN_DELAYS):
        steps = play(env, lambda obs, chain=chain: np.int32(chain if obs[0] == -1 else 0))
        paid = {t + 1: float(step.reward) for t, step in enumerate(steps) if step.reward}
        assert paid == {delay: pytest.approx(1.1 if chain == best else 1.0)}
        assert succeeds(env, steps) == (chain == best)
        assert [int(step.facts["step_count"]) for step in steps] == [*range(1, 101)]
        assert {int(step.facts["chain"]) for step in steps} == {chain}
    assert envs.make("DiscountingChain-bsuite", mapping_seed=4, max_steps=99).spec.success is None


def test_memory_chain_shows_its_bits_first_asks_last_and_pays_for_the_answer():
    env = envs.make("MemoryChain-bsuite", **MEMORY)
    queries = set()
    for key in range(8):
        state, first = reset(env, jax.random.key(key))
        bits = (np.asarray(first)[2:] + 1) // 2
        seen = [np.asarray(first)]
        for _ in range(4):
            asked = int(seen[-1][1])
            answer = np.int32(bits[asked])
            state, outcome = step(env, jax.random.key(0), state, answer if key % 2 else 1 - answer)
            np.testing.assert_array_equal(outcome.facts["bits"], bits)
            seen.append(np.asarray(outcome.obs))
        assert outcome.terminated
        assert outcome.reward == (1.0 if key % 2 else -1.0)
        assert (outcome.reward > env.spec.success) == bool(key % 2)
        assert outcome.facts["query"] == asked
        assert outcome.facts["step_count"] == len(seen) - 1 == 4
        np.testing.assert_array_equal(seen[0], seen[1])
        np.testing.assert_allclose([obs[0] for obs in seen], [1, 1, 2 / 3, 1 / 3, 0], atol=1e-6)
        assert not np.any([obs[2:] for obs in seen[2:]])
        assert not np.any([obs[1] for obs in (*seen[:3], seen[4])])
        queries.add(asked)
    assert len(queries) > 2
    assert envs.make("MemoryChain-bsuite", max_steps=5).spec.success is None


def test_umbrella_chain_shows_its_facts_and_pays_at_the_end_for_the_right_choice():
    env = envs.make("UmbrellaChain-bsuite")
    outcome, _ = our_rollout(env)
    facts = outcome.facts
    shown = [facts["need_umbrella"], facts["has_umbrella"], 1 - facts["step_count"] / 10]
    np.testing.assert_allclose(outcome.obs, np.stack(shown, axis=1), atol=1e-6)
    first = facts["step_count"] == 1
    np.testing.assert_array_equal(facts["has_umbrella"][first], np.asarray(random_actions(env))[first])
    end = facts["step_count"] == 10
    np.testing.assert_array_equal(outcome.terminated, end)
    right = facts["need_umbrella"] == facts["has_umbrella"]
    np.testing.assert_array_equal(outcome.reward[end], np.where(right, 1, -1)[end])
    # 900 fair coins: four standard deviations.
    assert abs(outcome.reward[~end].mean()) < 4 / 30


def test_simple_bandit_pays_what_the_arms_are_said_to_pay():
    env = envs.make("SimpleBandit-bsuite")
    outcome, _ = our_rollout(env)
    arms = outcome.facts["arm_rewards"]
    np.testing.assert_array_equal(outcome.reward, arms[np.arange(1000), np.asarray(random_actions(env))])
    np.testing.assert_allclose(np.sort(arms, axis=1), np.tile(np.linspace(0, 1, 11), (1000, 1)), atol=1e-6)
    np.testing.assert_array_equal(outcome.reward > env.spec.success, outcome.reward == 1.0)
    assert np.abs(arms.mean(axis=0) - 0.5).max() < 0.05


def test_simple_bandit_keeps_its_arms_when_asked():
    def arms(**options):
        env = envs.make("SimpleBandit-bsuite", **options)
        return env.facts_many(env.reset_many(jax.random.split(jax.random.key(0), 4))[0])["arm_rewards"]

    assert (arms(mapping_seed=1) == arms(mapping_seed=1)[0]).all()
    assert (arms(mapping_seed=1) != arms(mapping_seed=2)).any()
    assert (arms() != arms()[0]).any()


def test_deep_sea_shows_where_the_agent_is():
    for outcome in play(envs.make("DeepSea-bsuite", size=6), constant(0))[:-1]:
        assert outcome.obs[tuple(outcome.facts["position"])] == outcome.obs.sum() == 1.0


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
