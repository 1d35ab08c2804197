"""The vocabulary that environments, reward modules and agents share.

Shapes: `N` is the number of environments stepped together, `T` the length of a rollout, `B` a replay batch.
Rollouts are time-major `[T, N, ...]`.
"""

import dataclasses
import difflib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array

PyTree = Any


@dataclasses.dataclass(frozen=True)
class Discrete:
    """Integer actions `0 .. n - 1`."""

    n: int

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    def sample(self, key: Array, batch: tuple[int, ...] = ()) -> Array:
        """Uniform actions, int32, of shape `batch`."""
        return jax.random.randint(key, batch, 0, self.n)


@dataclasses.dataclass(frozen=True)
class Box:
    """Real vectors of `shape` between `low` and `high` (each one bound for all entries, or one per entry)."""

    low: float | tuple[float, ...]
    high: float | tuple[float, ...]
    shape: tuple[int, ...]

    def sample(self, key: Array, batch: tuple[int, ...] = ()) -> Array:
        """Uniform actions, float32, of shape `batch + shape`."""
        low, high = jnp.asarray(self.low, jnp.float32), jnp.asarray(self.high, jnp.float32)
        return jax.random.uniform(key, (*batch, *self.shape), minval=low, maxval=high)


@dataclasses.dataclass(frozen=True)
class Fact:
    """A named quantity of the environment's state that rewards may read.

    `low` and `high` are inclusive bounds, one for all entries; integer facts always have finite ones, which is what
    lets `Counts` index a table with them.
    """

    name: str
    meaning: str
    low: float
    high: float
    shape: tuple[int, ...] = ()
    dtype: str = "int32"
    unit: str = ""


@dataclasses.dataclass(frozen=True)
class EnvSpec:
    """What the rest of the code may know about an environment.

    Attributes:
      name: the id given to `envs.make`.
      obs_shape, obs_dtype: of one observation as stored in rollouts.
      action_space: `Discrete` or `Box`.
      max_steps: the time limit. `truncated` is set at this step of an episode and never before; None means the
        environment may truncate at any step.
      facts: what `Step.facts` holds.
      position: the integer fact that says where the agent is; `coverage` metrics count its distinct values.
      success: an episode whose undiscounted return is strictly above this is a success; None where that has no sense.
      features: turns observations `[..., *obs_shape]` into the float array a network reads. None casts to float32.
    """

    name: str
    obs_shape: tuple[int, ...]
    obs_dtype: str
    action_space: Discrete | Box
    max_steps: int | None
    facts: tuple[Fact, ...] = ()
    position: str | None = None
    success: float | None = None
    features: Callable[[Array], Array] | None = None

    def fact(self, name: str) -> Fact:
        """The fact called `name`. Raises ValueError, with the nearest name, when there is none."""
        facts = {fact.name: fact for fact in self.facts}
        if name not in facts:
            raise ValueError(unknown(f"fact of {self.name}", name, facts))
        return facts[name]

    def to_features(self, obs: Array) -> Array:
        """Observations `[..., *obs_shape]` as float32 network input."""
        return self.features(obs) if self.features is not None else obs.astype(jnp.float32)


class Step(NamedTuple):
    """What one environment step yields. `obs` and `facts` describe the TRUE successor, before any reset."""

    obs: Array
    reward: Array
    terminated: Array
    truncated: Array
    facts: dict[str, Array]


class Transition(NamedTuple):
    """Experience, `[T, N, ...]` from rollouts or `[B, ...]` from replay.

    `next_obs` and `next_facts` are the true successor, also where an episode ended; the observation acted on next is
    `obs` one step later. `extras` holds what the agent knows of its own action (log-probability, value, ...).
    """

    obs: Array
    action: Array
    reward: Array
    next_obs: Array
    terminated: Array
    truncated: Array
    facts: dict[str, Array]
    next_facts: dict[str, Array]
    extras: dict[str, Array] = {}  # noqa: RUF012 (never mutated)

    @property
    def ended(self) -> Array:
        """Where an episode ended, by either flag."""
        return self.terminated | self.truncated


@struct.dataclass
class Stream:
    """How a reward is valued: its own discount, its weight in the advantage, and whether episode ends cut it.

    One value head exists per stream name; `"task"` is the environment's reward (and shaping).
    """

    gamma: float
    coef: float = 1.0
    name: str = struct.field(pytree_node=False, default="task")
    episodic: bool = struct.field(pytree_node=False, default=True)


def static(default: Any = dataclasses.MISSING) -> Any:
    """A field of a module or agent that is part of the compiled program's structure (ints, strings, functions)."""
    if default is dataclasses.MISSING:
        return struct.field(pytree_node=False)
    return struct.field(pytree_node=False, default=default)


def as_leaves(config: PyTree) -> PyTree:
    """Casts every float leaf of an agent or module to a strong float32 array.

    A Python float, a NumPy float and an array each retrace a jitted function; after this only the value differs.
    """
    return jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf), jnp.float32), config)


def unknown(kind: str, value: object, choices: Iterable[str]) -> str:
    """The sentence for a name that is not among `choices`, naming the nearest one."""
    choices = sorted(choices)
    close = difflib.get_close_matches(str(value), choices, n=1, cutoff=0.0)
    hint = f"; did you mean {close[0]!r}?" if close else "; there are none"
    return f"unknown {kind} {value!r}{hint}"
