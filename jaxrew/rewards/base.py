"""The reward-module protocol: small, pure, composable, in the shape optax gave gradient transformations."""

from typing import Any, ClassVar, NamedTuple

import chex
from flax import struct
from jax import Array

from jaxrew.types import EnvSpec, Stream, Transition

State = Any
Rewards = dict[str, Array]
Metrics = dict[str, Array]


class Context(NamedTuple):
    """What a module may know beside the batch.

    `step` is the number of frames (environment steps over all environments) before the batch, of `total_steps`;
    `task_gamma` is the discount of the task stream. `spec` is the environment's, static.
    """

    key: Array
    step: Array
    total_steps: Array
    task_gamma: Array
    spec: EnvSpec


class RewardModule(struct.PyTreeNode):
    """A reward computed inside the training step.

    A module is an immutable pytree: float fields are leaves (a sweep may vary them), everything else is declared with
    `jaxrew.types.static`. It owns no arrays; what it learns or remembers lives in the state that `init` makes.

    One training update calls `reward` once on the fresh rollout and then `update` once. Running statistics, counts and
    episodic memories (leading axis N, cleared where an episode ended) advance in `reward`; `update` learns parameters.
    """

    recomputable: ClassVar[bool] = True
    """Whether `rescore` can value a replayed batch. False where the bonus depends on the episode so far."""
    replaces_task: ClassVar[bool] = False
    """Whether the module's "task" reward stands in for the environment's instead of being added to it."""
    shaping: ClassVar[bool] = False
    """Whether the reward is potential-based, so that transforms which break its invariance are refused."""

    @property
    def label(self) -> str:
        """The name of this component in metrics."""
        return type(self).__name__.lower()

    @property
    def warm_steps(self) -> int:
        """Steps of random play, per environment, that `warm` wants to see before training."""
        return 0

    def streams(self) -> tuple[Stream, ...]:
        """The streams beside "task" that this module pays into."""
        return ()

    def validate(self, spec: EnvSpec, num_envs: int) -> None:
        """Raises ValueError, in one sentence, when the module cannot serve this environment. Runs outside jit."""

    def init(self, key: Array, spec: EnvSpec, num_envs: int) -> State:
        """The state before any experience."""
        return ()

    def warm(self, state: State, batch: Transition, ctx: Context) -> State:
        """The state after seeing random play, `[T, N, ...]`; statistics only."""
        return state

    def reward(self, state: State, batch: Transition, ctx: Context) -> tuple[Rewards, State]:
        """Rewards `[T, N]` by stream name for a fresh rollout, and the state after it."""
        raise TypeError(f"{type(self).__name__} must define reward(state, batch, ctx)")

    def rescore(self, state: State, batch: Transition, ctx: Context) -> Rewards:
        """Rewards `[B]` by stream name for replayed transitions, with everything in the state frozen."""
        raise TypeError(f"{type(self).__name__} cannot value replayed transitions; replay its collected reward instead")

    def update(self, state: State, batch: Transition, ctx: Context) -> tuple[State, Metrics]:
        """One round of learning, and the module's metrics (scalars), those of the last `reward` included."""
        return state, {}

    def __rmul__(self, scale: chex.Numeric) -> "RewardModule":
        from jaxrew.rewards.compose import Scale

        return Scale(self, scale)
