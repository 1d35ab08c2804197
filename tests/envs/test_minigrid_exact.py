"""Every registered id, step for step against Farama's `minigrid`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from envs.minigrid import IDS, import_state
from tests.references.minigrid_replay import make_farama, record, replay
from tests.references.minigrid_solver import NoisyPlanner

NOISES = (0.1, 0.4, 1.0)
"""Shares of random actions: near-optimal play, a muddle that still solves it, and random play to the time limit."""


def compare(name, episodes):
    """Plays `episodes` Farama episodes at each level of noise in turn: `(steps, successes, mismatches by field)`."""
    farama, env, rng = make_farama(name), IDS[name](), np.random.default_rng(0)
    recordings = []
    for episode in range(episodes):
        farama.reset(seed=episode)
        recordings.append(record(farama, env, NoisyPlanner(rng, NOISES[episode % len(NOISES)])))
    steps = sum(len(recording.actions) for recording in recordings)
    successes = sum(bool(recording.outcome["reward"][-1] > 0) for recording in recordings)
    return steps, successes, replay(env, recordings)


@pytest.mark.parametrize("name", IDS)
def test_steps_like_farama(name):
    _, successes, wrong = compare(name, episodes=3)
    assert successes >= 2
    assert not any(wrong.values()), wrong


@pytest.mark.slow
@pytest.mark.parametrize("name", IDS)
def test_steps_like_farama_at_length(name, capsys):
    steps, successes, wrong = compare(name, episodes=200)
    image, outcome = wrong.pop("image"), [wrong.pop(field) for field in ("reward", "terminated", "truncated")]
    with capsys.disabled():
        print(f"\n| {name} | 200 | {steps} | {successes} | {image} | {sum(outcome)} | {sum(wrong.values())} |", end="")
    assert steps > 200
    assert image + sum(outcome) + sum(wrong.values()) == 0


def test_success_at_the_time_limit_sets_both_flags():
    farama, env = make_farama("MiniGrid-DoorKey-5x5-v0"), IDS["MiniGrid-DoorKey-5x5-v0"]()
    farama.reset(seed=0)
    farama.agent_pos, farama.agent_dir, farama.step_count = (3, 2), 1, farama.max_steps - 1
    state, _ = import_state(farama, env)
    _, reward, terminated, truncated, _ = farama.step(2)
    _, ours = env.step(jax.random.key(0), state, jnp.int32(2))
    assert (terminated, truncated) == (True, True) == (bool(ours.terminated), bool(ours.truncated))
    assert float(ours.reward) == np.float32(reward) > 0


def test_partial_observation_is_faramas_image():
    farama, env = make_farama("MiniGrid-DoorKey-6x6-v0"), IDS["MiniGrid-DoorKey-6x6-v0"](obs="partial")
    farama.reset(seed=3)
    recordings = [record(farama, env, NoisyPlanner(np.random.default_rng(0), 0.4))]
    assert recordings[0].obs.shape == env.spec.obs_shape == (7, 7, 3)
    assert not any(replay(env, recordings).values())


def test_time_limits_and_ids_are_faramas():
    for name, build in IDS.items():
        world, env = make_farama(name), build()
        assert env.name == name == env.spec.name
        assert (env.max_steps, env.shape, env.see_through) == (
            world.max_steps,
            (world.height, world.width),
            world.see_through_walls,
        )
