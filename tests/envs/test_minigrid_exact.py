"""Every registered id, step for step against Farama's `minigrid`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from envs.minigrid import IDS, import_state
from tests.references.minigrid_agent import Agent
from tests.references.minigrid_replay import make_farama, record, replay

NOISES = (0.1, 0.4)
"""Shares of random actions: near-optimal play, and a muddle that often solves it. Every third episode is all random."""


def compare(name, episodes, at_most=None):
    """Plays `episodes` Farama episodes: `(successes, episodes of random play, steps, mismatches by field)`.

    Where episodes are long, fewer than a third are random to the time limit, so that they take about 6,000 steps.
    """
    farama, env, rng = make_farama(name), IDS[name](), np.random.default_rng(0)
    aimless = max(1, min(episodes // 3, 6_000 // (at_most or env.max_steps)))
    recordings = []
    for episode in range(episodes):
        farama.reset(seed=episode)
        noise = 1.0 if episode < aimless else NOISES[episode % 2]
        recordings.append(record(farama, env, Agent(rng, noise), at_most=at_most))
    successes = sum(bool(recording.outcome["reward"][-1] > 0) for recording in recordings)
    return successes, aimless, sum(len(recording.actions) for recording in recordings), replay(env, recordings)


@pytest.mark.parametrize("name", IDS)
def test_steps_like_farama(name):
    successes, *_, wrong = compare(name, episodes=3, at_most=300)
    assert successes >= (0 if "Playground" in name else 1)
    assert not any(wrong.values()), wrong


@pytest.mark.slow
@pytest.mark.parametrize("name", IDS)
def test_steps_like_farama_at_length(name, capsys):
    successes, aimless, steps, wrong = compare(name, episodes=102)
    image, outcome = wrong.pop("image"), sum(wrong.pop(field) for field in ("reward", "terminated", "truncated"))
    with capsys.disabled():
        counts = f"102 | {aimless} | {steps} | {successes} | {image} | {outcome} | {sum(wrong.values())}"
        print(f"\n| {name} | {counts} |", end="")
    # At least 34 episodes are played with few mistakes.
    assert successes >= (0 if "Playground" in name else 20)
    assert image + outcome + sum(wrong.values()) == 0


def test_success_at_the_time_limit_sets_both_flags():
    farama, env = make_farama("MiniGrid-DoorKey-5x5-v0"), IDS["MiniGrid-DoorKey-5x5-v0"]()
    farama.reset(seed=0)
    farama.agent_pos, farama.agent_dir, farama.step_count = (3, 2), 1, farama.max_steps - 1
    state, _ = import_state(farama, env)
    _, reward, terminated, truncated, _ = farama.step(2)
    _, ours = jax.jit(env.step)(jax.random.key(0), state, jnp.int32(2))
    assert (terminated, truncated) == (True, True) == (bool(ours.terminated), bool(ours.truncated))
    assert float(ours.reward) == np.float32(reward) > 0


def test_partial_observation_is_faramas_image():
    farama, env = make_farama("MiniGrid-DoorKey-6x6-v0"), IDS["MiniGrid-DoorKey-6x6-v0"](obs="partial")
    farama.reset(seed=3)
    recordings = [record(farama, env, Agent(np.random.default_rng(0), 0.4))]
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
