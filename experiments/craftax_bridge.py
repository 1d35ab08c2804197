"""Does RND help PPO on Craftax-Classic? And: how an environment of another library is brought over.

Craftax (Matthews et al., 2024) is not a dependency: `pip install "jaxrew[craftax]"`. Everything between `reset_fn` and
`craftax_classic` below is what a bridge takes.
"""

import dataclasses
import functools
from pathlib import Path
from typing import Any

import jax.numpy as jnp
from jax import Array

import jaxrew
from agents.ppo import PPO
from envs.bridge import Bridge
from experiments import launch
from jaxrew.analysis import learning_curves, table
from jaxrew.rewards import RND
from jaxrew.types import Discrete, EnvSpec, Fact

TIME_LIMIT = 10_000


@functools.cache
def library() -> tuple[Any, Any]:
    """Craftax's environment and parameters: without auto-reset, and without the time limit that its `done` mixes in."""
    try:
        from craftax.craftax_env import make_craftax_env_from_name  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ValueError('Craftax is not installed; run pip install "jaxrew[craftax]"') from None
    env = make_craftax_env_from_name("Craftax-Classic-Symbolic-v1", auto_reset=False)
    return env, env.default_params.replace(max_timesteps=2**30)


def reset_fn(key: Array) -> tuple[Any, Array]:
    env, params = library()
    obs, state = env.reset_env(key, params)
    return state, obs


def step_fn(key: Array, state: Any, action: Array) -> tuple[Any, Array, Array, Array]:
    env, params = library()
    obs, state, reward, done, _ = env.step_env(key, state, action, params)
    return state, obs, reward, done


def facts_fn(state: Any) -> dict[str, Array]:
    return {
        "position": state.player_position,
        "health": state.player_health,
        "wood": state.inventory.wood,
        "achievements": jnp.sum(state.achievements, dtype=jnp.int32),
    }


def craftax_classic() -> Bridge:
    """Craftax-Classic, symbolic: +1 for the first of each of 22 achievements, +-0.1 a point of health, until death."""
    env, params = library()
    spec = EnvSpec(
        name="Craftax-Classic-Symbolic-v1",
        obs_shape=env.observation_space(params).shape,
        obs_dtype="float32",
        action_space=Discrete(env.num_actions),
        max_steps=TIME_LIMIT,
        facts=(
            Fact("position", "row and column of the player", 0, 63, (2,)),
            Fact("health", "the player's health; the episode ends at 0", 0, 9),
            Fact("wood", "pieces of wood carried", 0, 9),
            Fact("achievements", "how many of the 22 achievements this episode has unlocked", 0, 22),
        ),
        position="position",
    )
    return Bridge(spec, reset_fn, step_fn, facts_fn)


@dataclasses.dataclass
class Config:
    """Every hyperparameter is a flag."""

    agent: PPO = dataclasses.field(
        default_factory=lambda: PPO(num_envs=256, num_steps=64, num_minibatches=8, hidden_sizes=(256, 256))
    )
    rnd: RND = dataclasses.field(default_factory=lambda: RND(coef=0.1))
    seeds: int = 5
    steps: int = 10_000_000
    """Frames of one seed."""
    out: Path = Path("runs/craftax_bridge")
    resume: bool = False
    overwrite: bool = False


def main(config: Config) -> None:
    env = craftax_classic()
    runs = {
        name: jaxrew.train(
            config.agent,
            env,
            reward,
            seeds=config.seeds,
            steps=config.steps,
            run_dir=config.out / name,
            resume=config.resume,
            overwrite=config.overwrite,
            label=name,
        )
        for name, reward in (("none", None), ("rnd", config.rnd))
    }
    png, _ = learning_curves(runs, config.out / "learning_curves", title="PPO on Craftax-Classic")
    print(table(runs))
    print(f"figure: {png}")


if __name__ == "__main__":
    launch(main, Config)
