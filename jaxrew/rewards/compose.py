"""Compositions of reward modules, and `score`, which agents call to get rewards together with their metrics.

Every composition passes `components` through, so each module's share stays visible however deep it sits.
"""

import zlib
from collections.abc import Iterable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrew.rewards.base import Component, Context, Metrics, RewardModule, Rewards, State
from jaxrew.types import EnvSpec, Stream, Transition


def score(module: RewardModule, state: State, batch: Transition, ctx: Context) -> tuple[Rewards, State, Metrics]:
    """`module.reward` with the metrics of every component.

    Returns rewards `[T, N]` by stream, the next state, and for each component:

      `reward/<label>/raw`     mean over [T, N] of the module's own reward, summed over its streams;
      `reward/<label>/scaled`  mean of what it pays after all transforms and weights, times the stream's coef;
      `reward/<label>/share`   mean |scaled| as a share of the sum over components; 0 where nothing is paid.

    A NaN in a component makes `raw` and `scaled` of that label NaN and of no other, and every `share`.
    """
    components, state = module.components(state, batch, ctx, _ones(batch))
    components = _in_order(components)
    coefs = {"task": 1.0} | {stream.name: stream.coef for stream in module.streams()}
    sizes = [
        jnp.float32(sum(abs(coefs[name]) * jnp.abs(reward).mean() for name, reward in part.paid.items()))
        for part in components
    ]
    whole = sum(sizes)
    metrics = {}
    for part, size in zip(components, sizes, strict=True):
        scaled = sum(coefs[name] * reward.mean() for name, reward in part.paid.items())
        metrics[f"reward/{part.label}/raw"] = jnp.float32(sum(reward.mean() for reward in part.raw.values()))
        metrics[f"reward/{part.label}/scaled"] = jnp.float32(scaled)
        metrics[f"reward/{part.label}/share"] = jnp.where(whole == 0.0, 0.0, size / whole)
    return total(components), state, metrics


def total(components: Iterable[Component]) -> Rewards:
    """What the components pay together."""
    rewards: Rewards = {}
    for part in _in_order(components):
        for name, reward in part.paid.items():
            rewards[name] = rewards[name] + reward if name in rewards else reward
    return rewards


def _in_order(components: Iterable[Component]) -> list[Component]:
    """Components by label: sums of floats depend on the order of their terms, and must not on the order given."""
    return sorted(components, key=lambda part: part.label)


def _ones(batch: Transition) -> Array:
    return jnp.ones(batch.reward.shape[0] + 1, jnp.float32)


class Composite(RewardModule):
    """A module made of others: subclasses define `components`, and the reward is their total."""

    def reward(self, state: State, batch: Transition, ctx: Context) -> tuple[Rewards, State]:
        components, state = self.components(state, batch, ctx, _ones(batch))
        return total(components), state


class Sum(Composite):
    """`Sum(a, b, ...)`: every module's rewards, added up stream by stream.

    Streams are identified by name: modules that name the same one share its value head and must agree on its gamma,
    coef and episodic. The order of the modules is irrelevant, their random keys included; two with the same label are
    told apart by a suffix (`rnd`, `rnd_2`) in the order given.
    """

    modules: tuple[RewardModule, ...]

    def __init__(self, *args: RewardModule, modules: Sequence[RewardModule] = ()):
        object.__setattr__(self, "modules", (*args, *modules))

    @property
    def recomputable(self) -> bool:
        return all(module.recomputable for module in self.modules)

    @property
    def replaces_task(self) -> bool:
        return any(module.replaces_task for module in self.modules)

    @property
    def shaping(self) -> bool:
        return any(module.shaping for module in self.modules)

    @property
    def label(self) -> str:
        return "+".join(self.labels)

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(label for labels in self._groups() for label in labels)

    @property
    def pays(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for module in self.modules for name in module.pays))

    @property
    def warm_steps(self) -> int:
        return max((module.warm_steps for module in self.modules), default=0)

    def streams(self) -> tuple[Stream, ...]:
        streams = {}
        for module in self.modules:
            for stream in module.streams():
                streams.setdefault(stream.name, stream)
        return tuple(streams.values())

    def validate(self, spec: EnvSpec, num_envs: int) -> None:
        """Raises ValueError when a module does, or when two disagree on a stream of the same name."""
        for module in self.modules:
            if not isinstance(module, RewardModule):
                raise ValueError(f"Sum takes reward modules, got {module!r}")
        merged = {stream.name: stream for stream in self.streams()}
        for module in self.modules:
            module.validate(spec, num_envs)
            for stream in module.streams():
                mine, other = _settings(stream), _settings(merged[stream.name])
                if mine != other:
                    raise ValueError(
                        f"two modules pay into the stream {stream.name!r} with (gamma, coef, episodic) = {other} and "
                        f"{mine}, which must agree; give one of them another stream name"
                    )

    def init(self, key: Array, spec: EnvSpec, num_envs: int) -> tuple[State, ...]:
        return tuple(
            module.init(_own_key(key, labels), spec, num_envs)
            for module, labels in zip(self.modules, self._groups(), strict=True)
        )

    def warm(self, state: tuple[State, ...], batch: Transition, ctx: Context) -> tuple[State, ...]:
        return tuple(module.warm(part, batch, own) for module, _, part, own in self._each(state, ctx))

    def components(
        self, state: tuple[State, ...], batch: Transition, ctx: Context, weight: Array
    ) -> tuple[tuple[Component, ...], tuple[State, ...]]:
        components, states = [], []
        for module, labels, part, own in self._each(state, ctx):
            parts, part = module.components(part, batch, own, weight)
            components += [part._replace(label=label) for part, label in zip(parts, labels, strict=True)]
            states.append(part)
        return tuple(components), tuple(states)

    def rescore(self, state: tuple[State, ...], batch: Transition, ctx: Context) -> Rewards:
        parts = [
            Component("".join(labels), {}, module.rescore(part, batch, own))
            for module, labels, part, own in self._each(state, ctx)
        ]
        return total(parts)

    def update(self, state: tuple[State, ...], batch: Transition, ctx: Context) -> tuple[tuple[State, ...], Metrics]:
        states, metrics = [], {}
        for module, labels, part, own in self._each(state, ctx):
            part, learnt = module.update(part, batch, own)
            renamed = dict(zip(module.labels, labels, strict=True))
            metrics |= {_rename(name, renamed): value for name, value in learnt.items()}
            states.append(part)
        return tuple(states), metrics

    def _each(
        self, state: tuple[State, ...], ctx: Context
    ) -> Iterable[tuple[RewardModule, tuple[str, ...], State, Context]]:
        """Every module with its labels, its state and a context with a key of its own."""
        for module, labels, part in zip(self.modules, self._groups(), state, strict=True):
            yield module, labels, part, ctx._replace(key=_own_key(ctx.key, labels))

    def _groups(self) -> list[tuple[str, ...]]:
        """Each module's labels, made unique."""
        seen: set[str] = set()

        def unique(label: str) -> str:
            name, number = label, 1
            while name in seen:
                number += 1
                name = f"{label}_{number}"
            seen.add(name)
            return name

        return [tuple(unique(label) for label in module.labels) for module in self.modules]


def _settings(stream: Stream) -> tuple:
    gamma, coef = (np.asarray(value, np.float32).tolist() for value in (stream.gamma, stream.coef))
    return gamma, coef, stream.episodic


def _own_key(key: Array, labels: tuple[str, ...]) -> Array:
    return jax.random.fold_in(key, zlib.crc32("+".join(labels).encode()))


def _rename(name: str, labels: dict[str, str]) -> str:
    prefix, label, metric = name.split("/", 2)
    return f"{prefix}/{labels[label]}/{metric}"


class Wrapper(Composite):
    """A composition around one module; subclasses define `components` and `rescore`."""

    module: RewardModule

    @property
    def recomputable(self) -> bool:
        return self.module.recomputable

    @property
    def replaces_task(self) -> bool:
        return self.module.replaces_task

    @property
    def shaping(self) -> bool:
        return self.module.shaping

    @property
    def label(self) -> str:
        return self.module.label

    @property
    def labels(self) -> tuple[str, ...]:
        return self.module.labels

    @property
    def pays(self) -> tuple[str, ...]:
        return self.module.pays

    @property
    def warm_steps(self) -> int:
        return self.module.warm_steps

    def streams(self) -> tuple[Stream, ...]:
        return self.module.streams()

    def validate(self, spec: EnvSpec, num_envs: int) -> None:
        self.module.validate(spec, num_envs)

    def init(self, key: Array, spec: EnvSpec, num_envs: int) -> State:
        return self.module.init(key, spec, num_envs)

    def warm(self, state: State, batch: Transition, ctx: Context) -> State:
        return self.module.warm(state, batch, ctx)

    def update(self, state: State, batch: Transition, ctx: Context) -> tuple[State, Metrics]:
        return self.module.update(state, batch, ctx)


class Scale(Wrapper):
    """`scale * module`: the reward itself times `scale`, a leaf. Around a potential it scales the potential."""

    scale: float

    def components(
        self, state: State, batch: Transition, ctx: Context, weight: Array
    ) -> tuple[tuple[Component, ...], State]:
        return self.module.components(state, batch, ctx, self.scale * weight)

    def rescore(self, state: State, batch: Transition, ctx: Context) -> Rewards:
        return {name: self.scale * reward for name, reward in self.module.rescore(state, batch, ctx).items()}
