"""What does a pool of levels do to the variety that an agent meets?

Plays random actions with fresh levels and with pools, and counts: episodes, how many different levels they started
from, and how many different observations were seen in all, which is what novelty across episodes feeds on. Novelty
within an episode is unharmed by construction, since every episode's level is drawn from the environment's distribution.

Measured: see `experiments/results/envs.md`.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

import envs
from envs import VecEnv
from experiments import launch


@dataclasses.dataclass
class Config:
    """See --help."""

    tasks: tuple[str, ...] = ("MiniGrid-DoorKey-8x8-v0", "MiniGrid-KeyCorridorS3R3-v0", "MiniGrid-MultiRoom-N6-v0")
    num_envs: int = 64
    steps: int = 20_000
    """Of each environment."""
    pools: tuple[tuple[int, int], ...] = ((64, 10**9), (1024, 256), (1024, 64))
    """(pool_size, pool_refresh) of the pools to compare; the first, never refreshed, shows what to avoid."""
    seed: int = 0


def fingerprint(array: jax.Array) -> jax.Array:
    """A 32-bit hash of each `array[i]`."""
    flat = array.reshape(array.shape[0], -1).astype(jnp.uint32)
    odd = jax.random.bits(jax.random.key(1), flat.shape[1:]) | 1
    words = (flat + 1) * odd
    words = (words ^ words >> 15) * jnp.uint32(0x85EBCA6B)
    return (words ^ words >> 13).sum(axis=1)


@functools.partial(jax.jit, static_argnums=(0, 1))
def play(env: VecEnv, steps: int, key: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Hashes of levels and of observations acted on, `[steps, N]`, and where the former begins an episode."""
    init_key, action_key, step_key = jax.random.split(key, 3)

    def step(carry, inputs):
        state, _ = carry
        state, obs, outcome = env.step(inputs[0], state, env.spec.action_space.sample(inputs[1], (env.num_envs,)))
        level = state.envs.grid.reshape(env.num_envs, -1), state.envs.agent[:, None], state.envs.direction[:, None]
        parts = jnp.concatenate([part.astype(jnp.int32) for part in level], axis=1)
        return (state, obs), (fingerprint(parts), fingerprint(obs), outcome.terminated | outcome.truncated)

    keys = jax.random.split(step_key, steps), jax.random.split(action_key, steps)
    return jax.lax.scan(step, env.init(init_key), keys)[1]


def main(config: Config) -> None:
    print("| task | levels | episodes | different levels | plays of a level, mean | different observations |")
    print("|---|---|---|---|---|---|")
    for task in config.tasks:
        env = envs.make(task)
        kinds = {"fresh": VecEnv(env, config.num_envs)}
        for size, refresh in config.pools:
            label = f"pool of {size:,}, one new every {refresh:,} steps" if refresh < 10**8 else f"{size} fixed"
            kinds[label] = VecEnv(env, config.num_envs, "pool", size, refresh)
        for label, vec_env in kinds.items():
            levels, seen, ended = (np.asarray(x) for x in play(vec_env, config.steps, jax.random.key(config.seed)))
            episodes, distinct = ended.sum(), len(np.unique(levels[ended]))
            row = f"{episodes:,} | {distinct:,} | {episodes / distinct:.2f} | {len(np.unique(seen)):,}"
            print(f"| {task} | {label} | {row} |", flush=True)


if __name__ == "__main__":
    launch(main, Config)
