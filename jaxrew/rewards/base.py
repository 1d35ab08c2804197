"""The reward-module protocol: small, pure, composable, in the shape optax gave gradient transformations."""

from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np
from flax import struct
from jax import Array

from jaxrew.types import EnvSpec, Stream, Transition, static, unknown

State = Any
Rewards = dict[str, Array]
Metrics = dict[str, Array]
Scalar = float | Array
"""A float leaf inside the program. Fields are annotated `float`, which is what users and command lines write."""


class Context(NamedTuple):
    """What a module may know beside the batch.

    `key` is the same in `reward` and in the `update` after it: where both draw, fold a number in. `step` is the number
    of frames (environment steps over all environments) before the batch, of `total_steps`; `task_gamma` is the discount
    of the task stream. `spec` is the environment's, static.
    """

    key: Array
    step: Array
    total_steps: Array
    task_gamma: Scalar
    spec: EnvSpec


class Component(NamedTuple):
    """What one module in a composition earned on a rollout, `[T, N]` by stream name.

    `raw` is the module's own reward and `paid` what reaches the streams after every weight and transform around it.
    """

    label: str
    raw: Rewards
    paid: Rewards


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
    def labels(self) -> tuple[str, ...]:
        """The labels of `components`, in order."""
        return (self.label,)

    @property
    def pays(self) -> tuple[str, ...]:
        """The names of all streams this module pays into."""
        return tuple(stream.name for stream in self.streams()) or ("task",)

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

    def components(
        self, state: State, batch: Transition, ctx: Context, weight: Array
    ) -> tuple[tuple[Component, ...], State]:
        """`reward`, kept apart by component. `weight`, `[T + 1]`, is what the modules around this one multiply it by.

        Row t weighs the transition at t. The row more is for shaping modules: they weigh potentials, not differences.
        """
        raw, state = _checked(self, state, batch, self.reward(state, batch, ctx))
        paid = {name: weight[:-1, None] * reward for name, reward in raw.items()}
        return (Component(self.label, raw, paid),), state

    def rescore(self, state: State, batch: Transition, ctx: Context) -> Rewards:
        """Rewards `[B]` by stream name for replayed transitions, with everything in the state frozen."""
        raise TypeError(f"{type(self).__name__} cannot value replayed transitions; replay its collected reward instead")

    def update(self, state: State, batch: Transition, ctx: Context) -> tuple[State, Metrics]:
        """One round of learning, and the module's metrics (scalars), those of the last `reward` included."""
        return state, {}

    def __rmul__(self, scale: float) -> "RewardModule":
        from jaxrew.rewards.compose import Scale

        return Scale(self, scale)


def _checked(module: RewardModule, before: State, batch: Transition, result: Any) -> tuple[Rewards, State]:
    """What `reward` returned. Raises ValueError, in one sentence, when it is not rewards by stream and a like state."""
    name, shape = type(module).__name__, batch.reward.shape
    wanted = f"{name}.reward must return ({{{module.pays[0]!r}: rewards [T, N]}}, state)"
    if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], dict)):
        raise ValueError(f"{wanted}, got {type(result).__name__}")
    rewards, after = result
    for stream, reward in rewards.items():
        if stream != "task" and stream not in module.pays:
            raise ValueError(unknown(f"stream of {name}", stream, module.pays))
        if np.shape(reward) != shape:
            raise ValueError(f"{wanted}; {stream!r} has shape {np.shape(reward)}, and [T, N] is {shape}")
    missing = [stream for stream in module.pays if stream != "task" and stream not in rewards]
    if missing:
        raise ValueError(f"{wanted}; it pays nothing into {missing[0]!r}")
    kinds = [jax.tree.map(lambda leaf: (np.shape(leaf), jax.numpy.result_type(leaf)), s) for s in (before, after)]
    if kinds[0] != kinds[1]:
        raise ValueError(f"{name}.reward must return a state like the one that init made, {kinds[0]}, got {kinds[1]}")
    return rewards, after


class NoReward(RewardModule):
    """The environment's reward alone."""

    @property
    def label(self) -> str:
        return "none"

    @property
    def labels(self) -> tuple[str, ...]:
        return ()

    def components(
        self, state: State, batch: Transition, ctx: Context, weight: Array
    ) -> tuple[tuple[Component, ...], State]:
        return (), state

    def reward(self, state: State, batch: Transition, ctx: Context) -> tuple[Rewards, State]:
        return {}, state


class Bonus(RewardModule, kw_only=True):
    """An intrinsic reward with one stream.

    Attributes:
      gamma, coef, episodic: of the stream (see `Stream`).
      stream: its name, by default the class's in lower case. With "task" the bonus is added to the environment's
        reward, whose discount and episodes then apply; scale it there with `0.005 * module`.
    """

    gamma: float = 0.99
    coef: float = 1.0
    stream: str | None = static(None)
    episodic: bool | None = static(None)

    @property
    def label(self) -> str:
        return type(self).__name__.lower() if self.stream in (None, "task") else self.stream

    @property
    def stream_name(self) -> str:
        return self.label if self.stream is None else self.stream

    def streams(self) -> tuple[Stream, ...]:
        if self.stream == "task":
            return ()
        return (Stream(self.gamma, self.coef, self.stream_name, self._is_episodic),)

    def discount(self, ctx: Context) -> float | Array:
        """The discount of the stream that the bonus goes to."""
        return ctx.task_gamma if self.stream == "task" else self.gamma

    @property
    def _is_episodic(self) -> bool:
        return bool(self.episodic)

    def validate(self, spec: EnvSpec, num_envs: int) -> None:
        if self.stream == "task" and not np.all(np.asarray(self.coef) == 1.0):
            raise ValueError(
                f"coef = {self.coef} weighs a stream of {self.label}'s own, and it pays into 'task'; "
                f"write {self.coef} * {type(self).__name__}(stream='task') instead"
            )


def feature_shape(spec: EnvSpec) -> tuple[int, ...]:
    """The shape of one observation's features."""
    return jax.eval_shape(spec.to_features, jax.ShapeDtypeStruct(spec.obs_shape, spec.obs_dtype)).shape
