"""Settings of the wrong type or beyond what can be built are answered in one sentence, wherever they are given."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
from envs.bridge import Bridge
from envs.vector import VecEnv
from envs.wrappers import DelayedReward, NoisyTV, RewardNoise, SparseReward, StickyActions, TimeLimit
from jaxrew.types import Discrete, EnvSpec

CARTPOLE = envs.make("CartPole-v1")
SPEC = EnvSpec("toy", (2,), "uint8", Discrete(2), 5)


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: envs.make("MiniGrid-Empty", size=6.5), "size is 6.5; it must be a whole number, like 6"),
        (lambda: envs.make("MiniGrid-Empty", size="8"), "size is '8'; it must be a whole number"),
        (lambda: envs.make("MiniGrid-Memory", random_length="no"), "random_length is 'no'; it must be True or False"),
        (lambda: envs.make("MiniGrid-MultiRoom", num_rooms=True), "num_rooms is True; it must be a whole number"),
        (lambda: envs.make("MiniGrid-DoorKey-8x8-v0", obs=3), "obs is 3; it must be a string"),
        (lambda: envs.make("MiniGrid-DoorKey-8x8-v0", view_size=None), "view_size is None; it must be a whole number"),
        (lambda: envs.make("brax/ant", max_steps=1.5), "max_steps is 1.5; it must be a whole number, like 2"),
        (lambda: envs.make("tabular/chain", left_reward=float("nan")), "left_reward is nan; it must be a finite num"),
        (lambda: envs.make("tabular/chain", max_steps=2.5), "max_steps is 2.5; it must be a whole number or None"),
        (lambda: envs.make("Catch-bsuite", rows="3"), "rows is '3'; it must be a whole number"),
        (lambda: TimeLimit(CARTPOLE, 10.5), "max_steps is 10.5; it must be a whole number"),  # pyright: ignore
        (lambda: DelayedReward(CARTPOLE, every=2.5), "every is 2.5; it must be a whole number or No"),  # pyright: ignore
        (lambda: SparseReward(CARTPOLE, threshold=float("nan")), "threshold is nan; it must be a finite number or No"),
        (lambda: SparseReward(CARTPOLE, condition=3), "condition is 3; it must be a function of the facts"),  # pyright: ignore
        (lambda: RewardNoise(CARTPOLE, std=float("inf")), "std is inf; it must be a finite number"),
        (lambda: StickyActions(CARTPOLE, probability="a"), "probability is 'a'; it must be a finite number"),  # pyright: ignore
        (lambda: VecEnv(CARTPOLE, 2.5), "num_envs is 2.5; it must be a whole number, like 2"),  # pyright: ignore
        (lambda: VecEnv("CartPole-v1", 2), "env is a str; give an environment, like envs.make"),  # pyright: ignore
        (lambda: VecEnv(CARTPOLE, 2, "pool", pool_refresh=10**9), "pool_refresh is 1000000000; a pool of 1024 takes"),
        (lambda: envs.make("MiniGrid-MultiRoom", num_rooms=2, room_size=4, side=6), "hardly ever get longer than 1"),
        (lambda: envs.make("MiniGrid-MultiRoom", side=0), "side is 0, but a grid needs 5"),
        (lambda: envs.make("MiniGrid-GoToObject", size=10, num_objects=20), "takes 1 to 18; try 18"),
        (lambda: envs.make("MiniGrid-PutNear", size=20, num_objects=20), "room for 2 to 18"),
        (lambda: envs.make("MiniGrid-Empty", sise=8), "see_mission, size, random_start; did you mean 'size'?"),
        (lambda: envs.make("MiniGrid-Empty", name=9), "unknown option 'name' of MiniGrid-Empty; valid options: "),
        (lambda: envs.make("tabular/gridworld", size=3, walls=((0, 0),)), "is on the start; leave that cell free"),
        (lambda: envs.make("tabular/gridworld", size=3, walls=[[2, 2]]), "is on the goal; leave that cell free"),
        (lambda: Bridge("toy", max, max), "env_spec is 'toy'; it must be a jaxrew.types.EnvSpec"),  # pyright: ignore
        (lambda: Bridge(SPEC, None, max), "reset_fn is None; it must be a function"),  # pyright: ignore
    ],
)
def test_bad_settings_are_named(build, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)) as raised:
        build()
    assert "\n" not in str(raised.value)


def test_numpy_numbers_and_lists_become_pythons():
    assert envs.make("MiniGrid-Empty", size=np.uint8(200)).spec.max_steps == 4 * 200**2
    assert NoisyTV(CARTPOLE, remote=np.int64(1)) == NoisyTV(CARTPOLE, remote=1)  # pyright: ignore
    tabular = envs.make("tabular/gridworld", size=3, walls=[[0, 1]])
    assert hash(tabular) == hash(envs.make("tabular/gridworld", size=3, walls=((0, 1),)))


def test_observations_that_would_wrap_around_are_refused():
    def bright(key):
        return 0, jnp.full(2, 300)

    with pytest.raises(ValueError, match="obs of dtype int32; casting that to uint8 would lose values"):
        Bridge(SPEC, bright, lambda key, state, action: (state, jnp.full(2, 300), 0.0, False))


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 1)])
def test_actions_of_another_shape_are_refused(shape):
    env = envs.make("MiniGrid-Empty-5x5-v0").vectorise(2)
    state, _ = env.init(jax.random.key(0))
    with pytest.raises(ValueError, match=r"2 environments take \(2,\)"):
        env.step(jax.random.key(0), state, jnp.zeros(shape, jnp.int32))


def test_staying_in_the_middle_of_a_costly_chain_is_no_success():
    success = envs.make("tabular/chain", left_reward=-1.0).spec.success
    assert success is not None
    assert success >= 0.0
