"""Grids, bandits, point masses and Pong: against the library's raw step, and their facts against a NumPy account."""

import jax
import numpy as np
import pytest

import envs
from tests.envs.test_gymnax import (
    check_casing,
    check_equal_to_the_library,
    check_facts_within_bounds,
    check_time_limit,
    constant,
    our_rollout,
    play,
    random_actions,
    succeeds,
)

NAMES = [
    "BernoulliBandit-misc",
    "FourRooms-misc",
    "FrozenLake-misc",
    "GaussianBandit-misc",
    "MetaMaze-misc",
    "PointRobot-misc",
    "Pong-misc",
    "Reacher-misc",
    "Swimmer-misc",
]
# At random, episodes never last to the default limit.
OPTIONS = {"FrozenLake-misc": {"max_steps": 9}, "Pong-misc": {"max_steps": 90}}
DENSE = {"dense_reward": True, "center_init": True}
FREE_ROOMS = {"resample_goal_pos": True, "resample_init_pos": True, "fail_prob": 0.0}
SURE_LAKE = {"map_name": "8x8", "is_slippery": False}


@pytest.mark.parametrize(
    ("name", "options", "constructor", "params"),
    [
        *((name, OPTIONS.get(name, {}), {}, {}) for name in NAMES),
        ("FourRooms-misc", FREE_ROOMS, {}, FREE_ROOMS),
        ("FrozenLake-misc", SURE_LAKE, SURE_LAKE, {}),
        pytest.param("PointRobot-misc", DENSE, {}, DENSE, marks=pytest.mark.slow),
        pytest.param("Swimmer-misc", {"num_urchins": 2}, {"num_urchins": 2}, {}, marks=pytest.mark.slow),
    ],
)
def test_a_thousand_random_steps_equal_the_library_bit_for_bit(name, options, constructor, params):
    check_equal_to_the_library(name, options, constructor, params)


@pytest.mark.parametrize("name", NAMES)
def test_shapes_and_dtypes_are_what_the_spec_says_and_never_change(name):
    check_casing(envs.make(name))


@pytest.mark.parametrize("name", NAMES)
def test_facts_stay_within_their_bounds(name):
    check_facts_within_bounds(limited(name), constants={"goal"} if name == "FourRooms-misc" else ())


@pytest.mark.parametrize("name", NAMES)
def test_truncation_is_set_at_the_time_limit_alone_and_never_before(name):
    check_time_limit(limited(name))


def limited(name):
    return envs.make(name, **OPTIONS.get(name, {}))


def random_play(name):
    """`(Step, observations acted on, actions)` of a thousand random steps."""
    env = limited(name)
    return (*our_rollout(env), np.asarray(random_actions(env)))


def going_on(outcome):
    """Which of the steps 0 to 998 the next one continues."""
    return ~(outcome.terminated | outcome.truncated)[:-1]


def clock(facts):
    """Time as some observations show it: -1 at the start, 1 after 100 steps."""
    return facts["step_count"] / 50 - 1


def test_bernoulli_bandit_pays_as_often_as_its_arms_are_said_to():
    outcome, _, actions = random_play("BernoulliBandit-misc")
    facts = outcome.facts
    np.testing.assert_array_equal(facts["last_action"], actions)
    np.testing.assert_allclose(np.sort(facts["arm_probabilities"], axis=1), np.tile([0.1, 0.9], (1000, 1)), atol=1e-6)
    shown = [outcome.reward, actions == 0, actions == 1, clock(facts)]
    np.testing.assert_allclose(outcome.obs, np.stack(shown, axis=1), atol=1e-6)
    chance = facts["arm_probabilities"][np.arange(1000), actions]
    # Four standard deviations of a thousand coins of 0.1 or 0.9.
    assert abs((outcome.reward - chance).mean()) < 4 * 0.3 / np.sqrt(1000)
    assert abs(np.corrcoef(outcome.reward, chance)[0, 1]) > 0.7


def test_gaussian_bandit_pays_noise_around_the_mean_of_its_arm():
    outcome, _, actions = random_play("GaussianBandit-misc")
    facts = outcome.facts
    np.testing.assert_array_equal(facts["last_action"], actions)
    shown = [outcome.reward, actions == 0, actions == 1, clock(facts)]
    np.testing.assert_allclose(outcome.obs, np.stack(shown, axis=1), atol=1e-6)
    assert not outcome.reward[actions == 0].any()
    noise = (outcome.reward - facts["arm_mean"])[actions == 1]
    assert abs(noise.mean()) < 4 * 0.1 / np.sqrt(len(noise))
    assert noise.std() == pytest.approx(0.1, rel=0.2)


def test_four_rooms_facts_are_what_the_observation_shows():
    outcome, _, _ = random_play("FourRooms-misc")
    np.testing.assert_array_equal(np.concatenate([outcome.facts["position"], outcome.facts["goal"]], 1), outcome.obs)


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


@pytest.mark.parametrize(("name", "size", "limit"), [("4x4", 4, 100), ("8x8", 8, 200)])
def test_frozen_lake_observes_its_cell(name, size, limit):
    env = envs.make("FrozenLake-misc", map_name=name)
    outcome, _ = our_rollout(limited("FrozenLake-misc") if size == 4 else envs.make("FrozenLake-misc", **SURE_LAKE))
    np.testing.assert_array_equal(outcome.facts["position"] @ [size, 1], outcome.obs)
    np.testing.assert_array_equal(env.spec.to_features(outcome.obs), np.eye(size**2)[outcome.obs])
    assert env.spec.max_steps == limit


def test_frozen_lake_pays_for_the_goal_and_holes_end_it():
    env = envs.make("FrozenLake-misc", is_slippery=False)
    moves = dict(zip([0, 4, 8, 9, 13, 14], [1, 1, 2, 1, 2, 2], strict=True))
    steps = play(env, lambda obs: np.int32(moves[int(obs)]))
    assert succeeds(env, steps)
    assert [tuple(step.facts["position"]) for step in steps] == [(1, 0), (2, 0), (2, 1), (3, 1), (3, 2), (3, 3)]
    assert steps[-1].terminated
    drowned = play(env, constant(1))
    assert drowned[-1].terminated
    assert tuple(drowned[-1].facts["position"]) == (3, 0)
    assert not succeeds(env, drowned)


def test_meta_maze_shows_the_walls_and_sends_the_agent_away_from_the_goal():
    outcome, _, actions = random_play("MetaMaze-misc")
    position, goal = outcome.facts["position"], outcome.facts["goal"]
    walls = np.pad(np.zeros((9, 9), int), 1, constant_values=1)
    walls[2:-1:2, 2:-1:2] = 1
    assert not walls[tuple(position.T)].any()
    assert not walls[tuple(goal.T)].any()
    around = [walls[row - 1 : row + 2, column - 1 : column + 2].reshape(-1) for row, column in position]
    shown = [*np.transpose(around), *np.eye(4)[actions].T, outcome.reward, outcome.facts["step_count"]]
    np.testing.assert_array_equal(outcome.obs, np.stack(shown, axis=1))

    target = position[:-1] + np.array([[-1, 0], [0, 1], [1, 0], [0, -1]])[actions[1:]]
    target = np.where(walls[tuple(target.T)][:, None], position[:-1], target)
    going = going_on(outcome)
    reached = (target == goal[:-1]).all(axis=1)
    np.testing.assert_array_equal(outcome.reward[1:][going], 10.0 * reached[going])
    np.testing.assert_array_equal(position[1:][going & ~reached], target[going & ~reached])
    assert (going & reached).any()
    np.testing.assert_array_equal(outcome.terminated, (position == goal).all(axis=1))


def test_point_robot_moves_by_its_action_and_is_paid_near_the_goal():
    outcome, acted, actions = random_play("PointRobot-misc")
    facts, going = outcome.facts, going_on(outcome)
    shown = [*facts["robot_xy"].T, outcome.reward, *actions.T, clock(facts)]
    np.testing.assert_allclose(outcome.obs, np.stack(shown, axis=1), atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(facts["goal_xy"], axis=1), 1.0, atol=1e-6)
    before = acted[:, :2]
    near = np.linalg.norm(before - facts["goal_xy"], axis=1) <= 0.2
    np.testing.assert_array_equal(outcome.reward, near)
    assert near.any()
    np.testing.assert_allclose(facts["robot_xy"][~near], (before + actions)[~near], atol=1e-6)
    np.testing.assert_array_equal(np.diff(facts["goals_reached"])[going], near[1:][going])


def test_reacher_integrates_and_pays_for_the_tip_at_the_goal():
    outcome, _, actions = random_play("Reacher-misc")
    facts, going = outcome.facts, going_on(outcome)
    angles, velocities = facts["link_angles"], facts["link_velocities"]
    shown = [np.cos(angles), np.sin(angles), velocities, facts["goal_xy"]]
    np.testing.assert_allclose(outcome.obs, np.concatenate(shown, axis=1), atol=1e-5)
    np.testing.assert_allclose(np.diff(velocities, axis=0)[going], 0.05 * actions[1:][going], atol=1e-5)
    np.testing.assert_allclose(np.diff(angles, axis=0)[going], 0.05 * velocities[1:][going], atol=1e-5)
    tip = np.stack([np.cos(angles).sum(axis=1), np.sin(angles).sum(axis=1)], axis=1)
    np.testing.assert_allclose(facts["tip_xy"], tip, atol=1e-5)
    np.testing.assert_allclose(outcome.reward, np.exp(-((tip - facts["goal_xy"]) ** 2).sum(axis=1)), atol=1e-5)


def test_swimmer_integrates_and_pays_for_the_goal_without_urchins():
    outcome, _, actions = random_play("Swimmer-misc")
    facts, going = outcome.facts, going_on(outcome)
    place, velocity = facts["swimmer_xy"], facts["swimmer_velocity"]
    shown = [facts["urchins_xy"].reshape(1000, 10), place, velocity, facts["goal_xy"]]
    np.testing.assert_array_equal(outcome.obs, np.concatenate(shown, axis=1))
    np.testing.assert_allclose(np.diff(velocity, axis=0)[going], 0.05 * actions[1:][going], atol=1e-5)
    np.testing.assert_allclose(np.diff(place, axis=0)[going], 0.05 * velocity[1:][going], atol=1e-5)
    near = np.exp(-0.5 * ((place - facts["goal_xy"]) ** 2).sum(axis=1))
    clear = 1 - np.exp(-30 * ((place[:, None] - facts["urchins_xy"]) ** 2).sum(axis=2))
    np.testing.assert_allclose(outcome.reward, near * clear.prod(axis=1), atol=1e-5)


def test_pong_draws_its_facts_and_pays_while_the_ball_is_in_play():
    outcome, _, actions = random_play("Pong-misc")
    facts, time, going = outcome.facts, np.arange(1000), going_on(outcome)
    row = np.clip(facts["ball_row"], 0, 29).astype(int)
    column = np.clip(facts["ball_column"], 0, 39).astype(int)
    assert outcome.obs[time, row, column, 1].all()
    paddles = np.zeros((1000, 30, 40))
    for half in range(-2, 3):
        paddles[time, facts["paddle_row"] + half, 0] = 1
        paddles[time, facts["opponent_row"] + half, 39] = 1
    np.testing.assert_array_equal(outcome.obs[..., 0], paddles)
    np.testing.assert_array_equal(outcome.obs[1:, ..., 2][going], outcome.obs[:-1, ..., 1][going])
    gone = (facts["ball_column"] < 0) | (facts["ball_column"] >= 40)
    np.testing.assert_array_equal(outcome.terminated, gone)
    np.testing.assert_array_equal(outcome.reward, ~gone)
    # Between the paddles, and not at the lower edge, the ball flies straight on.
    ball = np.stack([facts["ball_row"], facts["ball_column"]], axis=1)
    target = ball[:-1] + facts["ball_velocity"][:-1]
    free = going & (target[:, 0] < 30) & (target[:, 1] > 1) & (target[:, 1] < 38)
    np.testing.assert_array_equal(ball[1:][free], target[free])
    move = np.where(actions == 1, -1, np.where(actions == 2, 1, 0))[1:]
    moved = np.clip(facts["paddle_row"][:-1] + move, 2, 27)
    np.testing.assert_array_equal(facts["paddle_row"][1:][going], moved[going])


def test_pong_is_won_by_keeping_the_ball_in_play():
    env = envs.make("Pong-misc")
    still, up = play(env, constant(0)), play(env, constant(1))
    assert still[-1].truncated
    assert up[-1].terminated
    assert succeeds(env, still)
    assert not succeeds(env, up)
