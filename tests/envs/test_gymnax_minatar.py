"""MinAtar: against the library's raw step, and its facts against what the board shows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
from jaxrew.types import Discrete
from tests.envs.test_gymnax import (
    check_casing,
    check_equal_to_the_library,
    check_facts_within_bounds,
    check_time_limit,
    our_rollout,
    random_actions,
)

NAMES = ["Asterix-MinAtar", "Breakout-MinAtar", "Freeway-MinAtar", "Seaquest-MinAtar", "SpaceInvaders-MinAtar"]
# Some episodes then end by the limit and some, but for Freeway's, before it.
LIMITS = {
    "Asterix-MinAtar": 110,
    "Breakout-MinAtar": 11,
    "Freeway-MinAtar": 300,
    "Seaquest-MinAtar": 40,
    "SpaceInvaders-MinAtar": 60,
}
CONSTANT_AT_RANDOM = {"move_interval"}


def short(name):
    return envs.make(name, max_steps=LIMITS[name])


def random_play(name):
    """`(Step, facts)` of a thousand random steps."""
    outcome, _ = our_rollout(short(name))
    return outcome, outcome.facts


@pytest.mark.parametrize("name", NAMES)
def test_a_thousand_random_steps_equal_the_library_bit_for_bit(name):
    check_equal_to_the_library(name, {"max_steps": LIMITS[name]}, {}, {})
    terminated = our_rollout(short(name))[0].terminated
    assert terminated.any() == (name != "Freeway-MinAtar")


@pytest.mark.parametrize("name", NAMES)
def test_shapes_and_dtypes_are_what_the_spec_says_and_never_change(name):
    check_casing(envs.make(name))


@pytest.mark.parametrize("name", NAMES)
def test_facts_stay_within_their_bounds(name):
    check_facts_within_bounds(short(name), constants=CONSTANT_AT_RANDOM)


@pytest.mark.parametrize("name", NAMES)
def test_truncation_is_set_at_the_time_limit_alone_and_never_before(name):
    check_time_limit(short(name))


@pytest.mark.parametrize("name", NAMES)
def test_boards_are_zeros_and_ones(name):
    outcome, _ = random_play(name)
    assert outcome.obs.dtype == np.uint8
    assert set(np.unique(outcome.obs)) == {0, 1}
    assert envs.make(name).spec.to_features(outcome.obs).dtype == np.float32


@pytest.mark.parametrize(("name", "minimal"), list(zip(NAMES, [5, 3, 3, 6, 4], strict=True)))
def test_all_six_actions_or_those_that_do_something(name, minimal):
    assert envs.make(name).spec.action_space == Discrete(minimal)
    assert envs.make(name, minimal_actions=False).spec.action_space == Discrete(6)


def test_the_full_action_set_is_in_the_original_order():
    minimal, full = envs.make("Breakout-MinAtar"), envs.make("Breakout-MinAtar", minimal_actions=False)
    for few, many in ((1, 1), (2, 3), (0, 5)):
        columns = []
        for env, action in ((minimal, few), (full, many)):
            state, _ = env.reset(jax.random.key(0))
            columns.append(int(env.step(jax.random.key(0), state, jnp.int32(action))[1].facts["paddle_column"]))
        assert columns[0] == columns[1] == {1: 3, 3: 5, 5: 4}[many]


def shown(obs, *channels):
    """How many cells of any of the channels are set, `[T]`."""
    return obs[..., channels].sum(axis=(1, 2, 3))


def test_asterix_facts_are_what_the_board_shows():
    outcome, facts = random_play("Asterix-MinAtar")
    row, column = facts["position"].T
    assert outcome.obs[np.arange(1000), row, column, 0].all()
    assert (shown(outcome.obs, 0) == 1).all()
    # Each lane holds one thing at most, so no two share a cell.
    np.testing.assert_array_equal(shown(outcome.obs, 1), facts["enemies"])
    np.testing.assert_array_equal(shown(outcome.obs, 3), facts["treasures"])


def test_breakout_facts_are_what_the_board_shows():
    outcome, facts = random_play("Breakout-MinAtar")
    time = np.arange(1000)
    assert outcome.obs[time, 9, facts["paddle_column"], 0].all()
    assert outcome.obs[time, *facts["ball"].T, 1].all()
    assert (shown(outcome.obs, 0, 1) == 2).all()
    np.testing.assert_array_equal(shown(outcome.obs, 3), facts["bricks"])
    running = ~(outcome.terminated | outcome.truncated)[:-1]
    broken = facts["bricks"][:-1] - facts["bricks"][1:]
    np.testing.assert_array_equal(outcome.reward[1:][running], broken[running])
    # In the air, away from walls and bricks, the ball moves the way it is said to.
    moves = np.array([[-1, -1], [-1, 1], [1, 1], [1, -1]])[facts["ball_direction"]][:-1]
    target = facts["ball"][:-1] + moves
    free = running & (target > 3).any(axis=1) & (target[:, 0] > 3) & (target[:, 0] < 9) & (abs(target[:, 1] - 4.5) < 5)
    assert free.sum() > 50
    np.testing.assert_array_equal(facts["ball"][1:][free], target[free])


def test_freeway_facts_are_what_the_board_shows_and_cars_move_at_their_speed():
    outcome, facts = random_play("Freeway-MinAtar")
    time = np.arange(1000)
    assert outcome.obs[time, facts["chicken_row"], 4, 0].all()
    cars = outcome.obs[..., 1]
    np.testing.assert_array_equal(cars[:, 1:9].argmax(axis=2), facts["car_columns"])
    np.testing.assert_array_equal(cars.sum(axis=(1, 2)), 8)
    columns, speeds = facts["car_columns"][:299], facts["car_speeds"][:299]
    for car in range(8):
        moved = np.flatnonzero(np.diff(columns[:, car]))
        assert (np.diff(moved) == abs(speeds[0, car]) + 1).all()
        np.testing.assert_array_equal(np.diff(columns[:, car])[moved] % 10, np.sign(speeds[0, car]) % 10)
        assert outcome.obs[:299, car + 1, :, 1 + abs(speeds[0, car])].any(axis=1).all()


def test_the_chicken_moves_when_its_timer_lets_it():
    outcome, facts = random_play("Freeway-MinAtar")
    actions = np.asarray(random_actions(short("Freeway-MinAtar")))[1:]
    rows, timer = facts["chicken_row"], facts["move_timer"][:-1]
    steps = np.where(actions == 1, -1, np.where(actions == 2, 1, 0)) * (timer == 0)
    # A car that hits it sends it to row 9.
    usual = ~outcome.truncated[:-1] & (rows[1:] != 9)
    assert usual.sum() > 100
    np.testing.assert_array_equal(rows[1:][usual], (rows[:-1] + steps)[usual])


def test_seaquest_facts_are_what_the_board_shows():
    outcome, facts = random_play("Seaquest-MinAtar")
    row, column = facts["position"].T
    time = np.arange(1000)
    assert outcome.obs[time, row, column, 0].all()
    assert (shown(outcome.obs, 0) == 1).all()
    back = column - np.where(facts["facing_right"] == 1, 1, -1)
    inside = (back >= 0) & (back <= 9)
    assert outcome.obs[time, row, back % 10, 1][inside].all()
    np.testing.assert_array_equal(shown(outcome.obs, 7), np.maximum(facts["oxygen"], 0) * 10 // 200)
    np.testing.assert_array_equal(shown(outcome.obs, 8), np.maximum(facts["divers_aboard"], 0))
    for name, channel in (("fish", 5), ("enemy_submarines", 6)):
        cells = shown(outcome.obs, channel)
        assert (cells <= facts[name]).all()
        np.testing.assert_array_equal(cells == 0, facts[name] == 0)
    under_water = ~(outcome.terminated | outcome.truncated)[:-1] & (row[1:] > 0)
    np.testing.assert_array_equal(np.diff(facts["oxygen"])[under_water], -1)


def test_space_invaders_facts_are_what_the_board_shows():
    outcome, facts = random_play("SpaceInvaders-MinAtar")
    assert outcome.obs[np.arange(1000), 9, facts["cannon_column"], 0].all()
    np.testing.assert_array_equal(shown(outcome.obs, 1), facts["aliens"])
    left = facts["alien_direction"] == -1
    np.testing.assert_array_equal(shown(outcome.obs, 2), facts["aliens"] * left)
    np.testing.assert_array_equal(shown(outcome.obs, 3), facts["aliens"] * ~left)
    shot = (facts["aliens"][:-1] - facts["aliens"][1:]) % 24
    running = ~(outcome.terminated | outcome.truncated)[:-1]
    np.testing.assert_array_equal(outcome.reward[1:][running], shot[running])
    # A shot is fired exactly where the cannon asks for one and may.
    fire = (np.asarray(random_actions(short("SpaceInvaders-MinAtar")))[1:] == 3) & (facts["shot_timer"][:-1] == 0)
    np.testing.assert_array_equal(facts["shot_timer"][1:][running] == 4, fire[running])
