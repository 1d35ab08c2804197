import re

import jax
import pytest

import envs
from envs.minigrid import FAMILIES


def test_ids_are_sorted_and_hold_both_families():
    ids = envs.ids()
    assert ids == sorted(set(ids))
    assert {"CartPole-v1", "DeepSea-bsuite", "FourRooms-misc", "MiniGrid-DoorKey-8x8-v0"} <= set(ids)


@pytest.mark.parametrize("name", envs.ids())
def test_every_id_makes_the_environment_of_that_name(name):
    env = envs.make(name)
    # A family with its numbers free is named after the task that its defaults make.
    assert env.spec.name == name or (name in FAMILIES and env.spec.name.startswith("MiniGrid-"))
    assert env == envs.make(name)
    assert hash(env) == hash(envs.make(name))


def test_options_reach_the_environment():
    assert envs.make("DeepSea-bsuite", size=20).spec.obs_shape == (20, 20)
    assert envs.make("CartPole-v1", max_steps=9).spec.max_steps == 9
    assert envs.make("MiniGrid-DoorKey-8x8-v0", view_size=5).spec.obs_shape == (5, 5)


def test_equal_environments_share_one_program():
    traces = 0

    def reset(env, key):
        nonlocal traces
        traces += 1
        return env.reset(key)

    reset = jax.jit(reset, static_argnums=0)
    reset(envs.make("CartPole-v1"), jax.random.key(0))
    reset(envs.make("CartPole-v1"), jax.random.key(1))
    assert traces == 1
    reset(envs.make("CartPole-v1", max_steps=9), jax.random.key(1))
    assert traces == 2


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("CartPole-v0", {}, "unknown environment 'CartPole-v0'; did you mean 'CartPole-v1'?"),
        (
            "MiniGrid-Dorkey-8x8-v0",
            {},
            "unknown environment 'MiniGrid-Dorkey-8x8-v0'; did you mean 'MiniGrid-DoorKey-8x8-v0'?",
        ),
        ("CartPole-v1", {"size": 3}, "unknown option 'size' of CartPole-v1; valid options: max_steps"),
        (
            "MiniGrid-DoorKey-8x8-v0",
            {"size": 9},
            "unknown option 'size' of MiniGrid-DoorKey-8x8-v0; valid options: obs, view_size, see_mission",
        ),
        ("CartPole-v1", {"max_steps": 0}, "max_steps is 0; an episode has at least 1 step"),
        ("DeepSea-bsuite", {"size": 1}, "size is 1; DeepSea has at least 2 rows"),
        (
            "FourRooms-misc",
            {"fail_prob": 0.8},
            "fail_prob is 0.8; it must lie in [0, 0.75], where 0.75 is a random walk",
        ),
    ],
)
def test_mistakes_are_answered_in_one_sentence(name, options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        envs.make(name, **options)
