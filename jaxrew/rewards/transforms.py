"""Transforms of a module's reward (`Chain` with `Clip`, `Normalize`) and its weight over the run (`Anneal`)."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import Array

from jaxrew.rewards.base import Component, Context, Metrics, RewardModule, Rewards, Scalar, State
from jaxrew.rewards.compose import Wrapper, total
from jaxrew.training.normalise import (
    Moments,
    ReturnFilter,
    filter_returns,
    init_moments,
    init_return_filter,
    update_moments,
)
from jaxrew.types import EnvSpec, Transition, static, unknown


class Transform(struct.PyTreeNode):
    """A function of one stream's reward, with a state of its own for each stream."""

    def validate(self) -> None:
        """Raises ValueError, in one sentence, for settings that cannot work. Runs outside jit."""

    def init(self, num_envs: int) -> State:
        """The state before any reward."""
        return ()

    def apply(self, state: State, reward: Array, gamma: Scalar) -> tuple[Array, State]:
        """The transformed reward `[T, N]` and the state after it; `gamma` is the stream's discount."""
        return self.frozen(state, reward), state

    def frozen(self, state: State, reward: Array) -> Array:
        """The transformed reward, of any shape, with the state as it is."""
        raise TypeError(f"{type(self).__name__} must define frozen(state, reward)")

    def metrics(self, state: State) -> Metrics:
        """Scalars by name."""
        return {}


class Clip(Transform):
    """min(max(r, low), high)."""

    low: float
    high: float

    def validate(self) -> None:
        if not np.all(np.asarray(self.low) <= np.asarray(self.high)):
            raise ValueError(f"Clip needs low <= high, got low = {self.low} and high = {self.high}; swap them")

    def frozen(self, state: State, reward: Array) -> Array:
        return jnp.clip(reward, self.low, self.high)


class Normalize(Transform):
    """r / sqrt(var + 1e-8), with a running variance that includes the current batch. The mean is not subtracted.

    `kind` says of what:

      "return_std"  the discounted sum C_t = gamma C_{t-1} + r_t, filtered over time in each environment, not cut
                    where episodes end and carried from rollout to rollout (Burda et al., 2018);
      "reward_std"  the reward itself.

    One variance is pooled over [T, N] and everything before. Metric: `std`.
    """

    kind: str = static("return_std")

    def validate(self) -> None:
        if self.kind not in ("return_std", "reward_std"):
            raise ValueError(unknown("kind of Normalize", self.kind, ("return_std", "reward_std")))

    def init(self, num_envs: int) -> ReturnFilter | Moments:
        return init_return_filter(num_envs) if self.kind == "return_std" else init_moments()

    def apply(self, state: Any, reward: Array, gamma: Scalar) -> tuple[Array, ReturnFilter | Moments]:
        state = filter_returns(state, reward, gamma) if self.kind == "return_std" else update_moments(state, reward)
        return self.frozen(state, reward), state

    def frozen(self, state: Any, reward: Array) -> Array:
        return reward / jnp.sqrt(self._moments(state).var + 1e-8)

    def metrics(self, state: Any) -> Metrics:
        return {"std": self._moments(state).std}

    def _moments(self, state: Any) -> Moments:
        return state.moments if self.kind == "return_std" else state


class ChainState(NamedTuple):
    """The module's state, and those of the transforms by stream name."""

    module: State
    transforms: dict[str, tuple[State, ...]]


class Chain(Wrapper):
    """`Chain(module, Clip(-1, 1), Normalize("return_std"))`: transforms of the module's reward, in that order.

    Around a `Sum` they act on the sum; its modules then show in the metrics with what they earned, and their sum,
    labelled `a+b`, with what it pays. Transforms see random play too if the module asks for it.
    """

    transforms: tuple[Transform, ...]

    def __init__(self, module: RewardModule, *args: Transform, transforms: tuple[Transform, ...] = ()):
        object.__setattr__(self, "module", module)
        object.__setattr__(self, "transforms", (*args, *transforms))

    @property
    def labels(self) -> tuple[str, ...]:
        labels = self.module.labels
        return labels if len(labels) == 1 else (*labels, self.label)

    def validate(self, spec: EnvSpec, num_envs: int) -> None:
        """Raises ValueError when the module or a transform does, or when a potential would be transformed."""
        if not self.transforms:
            raise ValueError(f"Chain({self.module.label}) has no transform; give one, or the module alone")
        for transform in self.transforms:
            name = type(transform).__name__
            if self.module.shaping:
                raise ValueError(
                    f"{name} around {self.module.label!r} breaks potential-based shaping, which only a weight leaves "
                    f"intact; use Scale or Anneal, or put {name} around the other modules alone"
                )
            transform.validate()
        self.module.validate(spec, num_envs)

    def init(self, key: Array, spec: EnvSpec, num_envs: int) -> ChainState:
        transforms = {name: tuple(t.init(num_envs) for t in self.transforms) for name in self.module.pays}
        return ChainState(self.module.init(key, spec, num_envs), transforms)

    def warm(self, state: ChainState, batch: Transition, ctx: Context) -> ChainState:
        if not self.module.warm_steps:
            return state
        module_state = self.module.warm(state.module, batch, ctx)
        # Counts and memories that this call would advance are dropped: warm-up is for statistics only.
        rewards, _ = self.module.reward(module_state, batch, ctx)
        _, transforms = self._apply(state.transforms, rewards, ctx)
        return ChainState(module_state, transforms)

    def components(
        self, state: ChainState, batch: Transition, ctx: Context, weight: Array
    ) -> tuple[tuple[Component, ...], ChainState]:
        inner, module_state = self.module.components(state.module, batch, ctx, jnp.ones_like(weight))
        rewards, transforms = self._apply(state.transforms, total(inner), ctx)
        paid = {name: weight[:-1, None] * reward for name, reward in rewards.items()}
        if len(inner) == 1:
            components = (inner[0]._replace(paid=paid),)
        else:
            components = (*(part._replace(paid={}) for part in inner), Component(self.label, total(inner), paid))
        return components, ChainState(module_state, transforms)

    def rescore(self, state: ChainState, batch: Transition, ctx: Context) -> Rewards:
        rewards = self.module.rescore(state.module, batch, ctx)
        for name in rewards:
            for transform, part in zip(self.transforms, state.transforms[name], strict=True):
                rewards[name] = transform.frozen(part, rewards[name])
        return rewards

    def update(self, state: ChainState, batch: Transition, ctx: Context) -> tuple[ChainState, Metrics]:
        module_state, metrics = self.module.update(state.module, batch, ctx)
        for name, parts in state.transforms.items():
            suffix = "" if len(state.transforms) == 1 else f"/{name}"
            for transform, part in zip(self.transforms, parts, strict=True):
                for metric, value in transform.metrics(part).items():
                    metrics[f"reward/{self.label}/{metric}{suffix}"] = value
        return ChainState(module_state, state.transforms), metrics

    def _apply(
        self, states: dict[str, tuple[State, ...]], rewards: Rewards, ctx: Context
    ) -> tuple[Rewards, dict[str, tuple[State, ...]]]:
        gammas: dict[str, Any] = {"task": ctx.task_gamma} | {
            stream.name: stream.gamma for stream in self.module.streams()
        }
        rewards, states = dict(rewards), dict(states)
        for name in rewards:
            parts = []
            for transform, part in zip(self.transforms, states[name], strict=True):
                rewards[name], part = transform.apply(part, rewards[name], gammas[name])
                parts.append(part)
            states[name] = tuple(parts)
        return rewards, states


class Anneal(Wrapper):
    """`Anneal(module, start, end, over)`: the module times a weight that moves linearly from `start` to `end`.

    w(frames) = start + (end - start) min(frames / (over total_steps), 1), at the frame of each time step; `over` is
    the fraction of the run it takes. A potential is annealed itself, F = gamma w(t') Phi(s') - w(t) Phi(s), which
    keeps the optimal policy; annealing the difference would not (Devlin and Kudenko, 2012).
    """

    start: float = 1.0
    end: float = 0.0
    over: float = 1.0

    @property
    def recomputable(self) -> bool:
        return self.module.recomputable and not self.module.shaping

    def validate(self, spec: EnvSpec, num_envs: int) -> None:
        """Raises ValueError when the module does, or when `over` is no positive fraction."""
        over = np.asarray(self.over)
        if not np.all((over > 0.0) & (over <= 1.0)):
            raise ValueError(f"over = {self.over} must be a fraction of the run, above 0 and up to 1; try 1.0")
        self.module.validate(spec, num_envs)

    def weight(self, frames: Array, total_steps: Array) -> Array:
        """The weight after `frames` of `total_steps`."""
        progress = jnp.clip(frames / (self.over * total_steps), 0.0, 1.0)
        return self.start + (self.end - self.start) * progress

    def components(
        self, state: State, batch: Transition, ctx: Context, weight: Array
    ) -> tuple[tuple[Component, ...], State]:
        num_steps, num_envs = batch.reward.shape
        frames = ctx.step + num_envs * jnp.arange(num_steps + 1)
        return self.module.components(state, batch, ctx, weight * self.weight(frames, ctx.total_steps))

    def rescore(self, state: State, batch: Transition, ctx: Context) -> Rewards:
        if self.module.shaping:
            raise TypeError("an annealed potential cannot value replayed transitions; replay its collected reward")
        weight = self.weight(ctx.step, ctx.total_steps)
        return {name: weight * reward for name, reward in self.module.rescore(state, batch, ctx).items()}
