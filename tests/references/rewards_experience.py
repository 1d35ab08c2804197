"""A synthetic environment's experience, to feed reward modules without an environment."""

import functools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrew.rewards import Context, RewardModule, score
from jaxrew.types import Discrete, EnvSpec, Fact, Transition, as_leaves

SPEC = EnvSpec(
    name="Cells",
    obs_shape=(3, 2),
    obs_dtype="uint8",
    action_space=Discrete(3),
    max_steps=None,
    facts=(
        Fact("cell", "where the agent is", 0, 3, (2,)),
        Fact("level", "the floor it is on", -1, 1),
        Fact("door", "whether the door is open", 0, 1, (), "bool"),
        Fact("serial", "a number out of a large range", 0, 999_999),
        Fact("heat", "temperature", -5.0, 5.0, (), "float32"),
        Fact("heading", "direction of travel", 0.0, float("inf"), (2,), "float32"),
        Fact("age", "steps since birth", 0, float("inf")),
    ),
    position="cell",
)


def rollouts(
    seed: int,
    num_rollouts: int = 5,
    num_steps: int = 24,
    num_envs: int = 5,
    terminates: float = 0.08,
    truncates: float = 0.08,
    serials: int = 300,
) -> Iterator[Any]:
    """Consecutive rollouts, `Transition`s `[T, N]` of NumPy arrays, of random states, actions and independent flags.

    A transition starts where the last one arrived, except after an end (either flag, or both): there a new episode
    starts somewhere else. `serials` is how many values the fact "serial" really takes.
    """
    rng = np.random.default_rng(seed)
    numbers = rng.choice(1_000_000, serials, replace=False)

    def states() -> Any:
        facts = {
            "cell": rng.integers(0, 4, (num_envs, 2)).astype(np.int32),
            "level": rng.integers(-1, 2, num_envs).astype(np.int32),
            "door": rng.random(num_envs) < 0.5,
            "serial": rng.choice(numbers, num_envs).astype(np.int32),
            "heat": rng.normal(size=num_envs).astype(np.float32),
            "heading": rng.normal(size=(num_envs, 2)).astype(np.float32),
            "age": rng.integers(0, 100, num_envs).astype(np.int32),
        }
        return rng.integers(0, 9, (num_envs, 3, 2)).astype(np.uint8), facts

    def select(condition: np.ndarray, new: Any, old: Any) -> Any:
        return jax.tree.map(lambda a, b: np.where(condition.reshape(-1, *[1] * (a.ndim - 1)), a, b), new, old)

    here = states()
    for _ in range(num_rollouts):
        steps = []
        for _ in range(num_steps):
            arrived = states()
            flags: Any = rng.random(num_envs) < terminates, rng.random(num_envs) < truncates
            terminated, truncated = flags
            action: Any = rng.integers(0, 3, num_envs).astype(np.int32)
            reward: Any = rng.normal(size=num_envs).astype(np.float32)
            steps.append(Transition(here[0], action, reward, arrived[0], terminated, truncated, here[1], arrived[1]))
            here = select(terminated | truncated, states(), arrived)
        yield jax.tree.map(lambda *leaves: np.stack(leaves), *steps)


def context(seed: int = 0, step=0, total_steps: int = 1000, task_gamma: float = 0.95, spec: EnvSpec = SPEC) -> Context:
    return Context(jax.random.key(seed), jnp.int32(step), jnp.int32(total_steps), jnp.float32(task_gamma), spec)


def started(module: RewardModule, num_envs: int = 5, seed: int = 0, spec: EnvSpec = SPEC):
    """`module.init`, from the key of `seed`."""
    return as_leaves(module).init(jax.random.key(seed), spec, num_envs)


def warmed(module: RewardModule, state, batch: Transition, spec: EnvSpec = SPEC):
    """`module.warm`, compiled."""
    return _warmed(as_leaves(module), state, batch, spec)


def scored(module: RewardModule, state, batch: Transition, step: int = 0, seed: int = 0, spec: EnvSpec = SPEC):
    """`score`, compiled: `(rewards, state, metrics)`."""
    return _scored(as_leaves(module), state, batch, step, seed, spec)


def learnt(module: RewardModule, state, batch: Transition, step: int = 0, seed: int = 0, spec: EnvSpec = SPEC):
    """`module.update`, compiled: `(state, metrics)`."""
    return _learnt(as_leaves(module), state, batch, step, seed, spec)


def rescored(module: RewardModule, state, batch: Transition, step: int = 0, spec: EnvSpec = SPEC):
    """`module.rescore`, compiled."""
    return _rescored(as_leaves(module), state, batch, step, spec)


@functools.partial(jax.jit, static_argnums=3)
def _warmed(module, state, batch, spec):
    return module.warm(state, batch, context(spec=spec))


@functools.partial(jax.jit, static_argnums=5)
def _scored(module, state, batch, step, seed, spec):
    return score(module, state, batch, context(seed, step, spec=spec))


@functools.partial(jax.jit, static_argnums=5)
def _learnt(module, state, batch, step, seed, spec):
    return module.update(state, batch, context(seed, step, spec=spec))


@functools.partial(jax.jit, static_argnums=4)
def _rescored(module, state, batch, step, spec):
    return module.rescore(state, batch, context(0, step, spec=spec))


def flat(batch: Transition) -> Transition:
    """A rollout `[T, N, ...]` as a replay batch `[T * N, ...]`."""
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), batch)
