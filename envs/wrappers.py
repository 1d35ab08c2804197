"""Environments around environments: sticky actions, delays, noise, stacks and limits, to be nested.

A wrapper acts on a batch, through its inner environment's batched functions; one environment is a batch of one. What it
remembers begins anew with each episode, its random numbers are independent of the inner environment's, and where it
draws none the key goes through as it is. `spec` describes the whole: the name lists the wrappers, facts are added where
one changes what the environment was told or paid, and if several do, they are of the innermost change:

- `executed_action`: what the environment itself was given on the last step;
- `task_reward`: what it paid for that, before any wrapper.
"""

import abc
import dataclasses
import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from envs.base import Environment, State
from jaxrew.types import Box, Discrete, EnvSpec, Fact, Step, unknown


class WrapperState(NamedTuple):
    """The inner environment's state, and what the wrapper itself remembers, leaves `[N, ...]`."""

    env: State
    memory: Any


@dataclasses.dataclass(frozen=True)
class Wrapper(Environment):
    """An environment around `env`. Subclasses implement `reset_many` and `step_many`."""

    env: Environment

    random: ClassVar[bool] = False
    """Whether a step draws random numbers of its own."""

    def __post_init__(self) -> None:
        if not isinstance(self.env, Environment):
            kind = type(self).__name__
            raise ValueError(f"{kind} wraps one environment, not a {type(self.env).__name__}; vectorise it afterwards")
        self.check(self.env.spec)

    def check(self, inner: EnvSpec) -> None:
        """Raises ValueError for settings that do not go with the inner environment."""

    def changes(self, inner: EnvSpec) -> dict[str, Any]:
        """The fields of the inner `spec` that differ here, beside its name and facts."""
        return {}

    def own_fact_specs(self, inner: EnvSpec) -> tuple[Fact, ...]:
        """The facts that `own_facts` returns."""
        return ()

    def own_facts(self, memory: Any) -> dict[str, Array]:
        """The facts that are added, unless the inner environment has one of the same name."""
        return {}

    @property
    def spec(self) -> EnvSpec:
        inner = self.env.spec
        known = {fact.name for fact in inner.facts}
        facts = inner.facts + tuple(fact for fact in self.own_fact_specs(inner) if fact.name not in known)
        return dataclasses.replace(inner, name=self._name(inner), facts=facts, **self.changes(inner))

    @property
    def unwrapped(self) -> Environment:
        """The environment inside all wrappers."""
        return self.env.unwrapped if isinstance(self.env, Wrapper) else self.env

    def facts_many(self, state: WrapperState) -> dict[str, Array]:
        return {**self.own_facts(state.memory), **self.env.facts_many(state.env)}

    def reset(self, key: Array) -> tuple[WrapperState, Array]:
        return _first(self.reset_many(key[None]))

    def step(self, key: Array, state: WrapperState, action: Array) -> tuple[WrapperState, Step]:
        return _first(self.step_many(key, _batch_of_one(state), jnp.asarray(action)[None]))

    def facts(self, state: WrapperState) -> dict[str, Array]:
        return _first(self.facts_many(_batch_of_one(state)))

    def _inner_step(self, key: Array, state: WrapperState, action: Array) -> tuple[State, Step]:
        return self.env.step_many(jax.random.fold_in(key, 0) if self.random else key, state.env, action)

    def _key(self, key: Array) -> Array:
        return jax.random.fold_in(key, 1)

    def _outcome(self, env: State, memory: Any, step: Step, **replaced: Array) -> tuple[WrapperState, Step]:
        facts = {**self.own_facts(memory), **step.facts}
        return WrapperState(env, memory), step._replace(**replaced, facts=facts)

    def _name(self, inner: EnvSpec) -> str:
        options = [inner.name]
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name != "env" and value != field.default:
                options.append(f"{field.name}={getattr(value, '__name__', repr(value))}")
        return f"{type(self).__name__}({', '.join(options)})"


# --- actions


class Executed(NamedTuple):
    """The action carried out last, zeros at the start, and whether the next one is the first of its episode."""

    action: Array
    first: Array


@dataclasses.dataclass(frozen=True)
class ActionWrapper(Wrapper, abc.ABC):
    """Gives the environment other actions than the agent's, and shows them as the fact `executed_action`."""

    random: ClassVar[bool] = True

    @abc.abstractmethod
    def alter(self, key: Array, executed: Executed, action: Array) -> Array:
        """The actions `[N, ...]` to carry out."""

    def own_fact_specs(self, inner: EnvSpec) -> tuple[Fact, ...]:
        space = inner.action_space
        discrete = isinstance(space, Discrete)
        low, high = (0, space.n - 1) if discrete else (float(np.min(space.low)), float(np.max(space.high)))
        meaning = "action carried out on the last step; 0 at the start"
        return (Fact("executed_action", meaning, min(low, 0), max(high, 0), space.shape, self._dtype(space)),)

    def own_facts(self, memory: Executed) -> dict[str, Array]:
        return {"executed_action": memory.action}

    def reset_many(self, keys: Array) -> tuple[WrapperState, Array]:
        env, obs = self.env.reset_many(keys)
        space = self.env.spec.action_space
        action = jnp.zeros((keys.shape[0], *space.shape), self._dtype(space))
        return WrapperState(env, Executed(action, jnp.ones(keys.shape[0], bool))), obs

    def step_many(self, key: Array, state: WrapperState, action: Array) -> tuple[WrapperState, Step]:
        action = self.alter(self._key(key), state.memory, action.astype(state.memory.action.dtype))
        env, step = self._inner_step(key, state, action)
        return self._outcome(env, Executed(action, jnp.zeros_like(state.memory.first)), step)

    def _dtype(self, space: Discrete | Box) -> str:
        return "int32" if isinstance(space, Discrete) else "float32"


@dataclasses.dataclass(frozen=True)
class StickyActions(ActionWrapper):
    """Repeats the action carried out last, whatever the agent wants now (Machado et al., 2018).

    Attributes:
      probability: how often. The first action of an episode is always the agent's, as there is no "no operation" here
        to repeat.
    """

    probability: float = 0.25

    def check(self, inner: EnvSpec) -> None:
        _check_probability("probability", self.probability)

    def alter(self, key: Array, executed: Executed, action: Array) -> Array:
        repeat = jax.random.bernoulli(key, self.probability, executed.first.shape) & ~executed.first
        return _where(repeat, executed.action, action)


@dataclasses.dataclass(frozen=True)
class ActionNoise(ActionWrapper):
    """Disturbs actions: now and then a uniformly random one if they are discrete, otherwise Gaussian noise.

    Attributes:
      probability: for discrete actions, how often a random one is carried out (which may be the agent's own).
      std: for real ones, the noise's standard deviation, in units of the action; the sum is clipped to the bounds.
    """

    probability: float | None = None
    std: float | None = None

    def check(self, inner: EnvSpec) -> None:
        discrete = isinstance(inner.action_space, Discrete)
        needed, other = ("probability", "std") if discrete else ("std", "probability")
        value = getattr(self, needed)
        if value is None or getattr(self, other) is not None:
            kind = "discrete" if discrete else "real"
            raise ValueError(f"{inner.name} has {kind} actions; give ActionNoise {needed} and not {other}")
        if discrete:
            _check_probability("probability", value)
        else:
            _check_positive("std", value)

    def alter(self, key: Array, executed: Executed, action: Array) -> Array:
        space = self.env.spec.action_space
        if isinstance(space, Box):
            noisy = action + jnp.float32(self.std) * jax.random.normal(key, action.shape)
            return jnp.clip(noisy, jnp.asarray(space.low, jnp.float32), jnp.asarray(space.high, jnp.float32))
        chance, which = jax.random.uniform(key, (2, *action.shape))
        return jnp.where(chance < self.probability, (which * space.n).astype(jnp.int32), action)


# --- rewards


class Paid(NamedTuple):
    """The environment's own reward on the last step, and what else the wrapper keeps."""

    task_reward: Array
    kept: Any


@dataclasses.dataclass(frozen=True)
class RewardWrapper(Wrapper, abc.ABC):
    """Pays other rewards than the environment's, whose own are the fact `task_reward`."""

    def start(self, num_envs: int) -> Any:
        """What `pay` keeps at the start of N episodes."""
        return ()

    @abc.abstractmethod
    def pay(self, key: Array, kept: Any, step: Step) -> tuple[Array, Any]:
        """`(reward [N], kept)` for the inner environment's `step`."""

    def own_fact_specs(self, inner: EnvSpec) -> tuple[Fact, ...]:
        meaning = "what the environment itself paid on the last step; 0 at the start"
        return (Fact("task_reward", meaning, -math.inf, math.inf, (), "float32"),)

    def own_facts(self, memory: Paid) -> dict[str, Array]:
        return {"task_reward": memory.task_reward}

    def reset_many(self, keys: Array) -> tuple[WrapperState, Array]:
        env, obs = self.env.reset_many(keys)
        return WrapperState(env, Paid(jnp.zeros(keys.shape[0], jnp.float32), self.start(keys.shape[0]))), obs

    def step_many(self, key: Array, state: WrapperState, action: Array) -> tuple[WrapperState, Step]:
        env, step = self._inner_step(key, state, action)
        reward, kept = self.pay(self._key(key), state.memory.kept, step)
        return self._outcome(env, Paid(step.reward, kept), step, reward=reward)


class Held(NamedTuple):
    """Reward not yet paid, float32, and the steps since the episode began, int32 (None if not needed)."""

    reward: Array
    time: Array | None


@dataclasses.dataclass(frozen=True)
class DelayedReward(RewardWrapper):
    """Holds rewards back and pays their sum later; an episode's undiscounted return stays the same.

    Attributes:
      every: pays every so many steps of an episode and at its end (Oh et al., 2018; Zheng et al., 2018); None pays at
        the end alone (Arjona-Medina et al., 2019). An episode ends by either flag.
    """

    every: int | None = None

    def check(self, inner: EnvSpec) -> None:
        if self.every is not None and self.every < 1:
            raise ValueError(f"every is {self.every}; it must be at least 1, or None to pay at the end alone")

    def start(self, num_envs: int) -> Held:
        time = None if self.every is None else jnp.zeros(num_envs, jnp.int32)
        return Held(jnp.zeros(num_envs, jnp.float32), time)

    def pay(self, key: Array, kept: Held, step: Step) -> tuple[Array, Held]:
        due = step.terminated | step.truncated
        time = None
        if kept.time is not None and self.every is not None:
            time = kept.time + 1
            due |= time % self.every == 0
        held = kept.reward + step.reward
        return jnp.where(due, held, 0.0), Held(jnp.where(due, 0.0, held), time)


@dataclasses.dataclass(frozen=True)
class SparseReward(RewardWrapper):
    """Pays for success alone: `value` where it happens, otherwise 0. With a `value` of 1, the return counts successes.

    Attributes:
      threshold: an episode whose undiscounted return is strictly above it is paid for on its last step. By default the
        environment's own (`spec.success`).
      condition: instead, every step is paid whose true successor fulfils this: a function from the facts of one
        environment to a bool, as in `lambda facts: jnp.cos(facts["angle"]) > 0.9`.
      value: what success pays.
    """

    threshold: float | None = None
    condition: Callable[[dict[str, Array]], Array] | None = None
    value: float = 1.0

    def check(self, inner: EnvSpec) -> None:
        _check_positive("value", self.value)
        if self.condition is None:
            if self.threshold is None and inner.success is None:
                raise ValueError(
                    f"{inner.name} calls no return a success; give SparseReward a threshold or a condition"
                )
            return
        if self.threshold is not None:
            raise ValueError(f"threshold is {self.threshold}, but a condition is given too; give one of the two")
        if not callable(self.condition):
            raise ValueError(f"condition is {self.condition!r}; it must be a function of the facts")
        facts = {fact.name: jax.ShapeDtypeStruct(fact.shape, fact.dtype) for fact in inner.facts}
        try:
            met = jax.eval_shape(self.condition, facts)
        except KeyError as error:
            raise ValueError(unknown(f"fact of {inner.name}", error.args[0], facts)) from error
        if getattr(met, "shape", None) != () or met.dtype != bool:
            raise ValueError(f"condition returns {met}; it must be one bool for the facts of one environment")

    def changes(self, inner: EnvSpec) -> dict[str, Any]:
        return {"success": 0.0}

    def start(self, num_envs: int) -> Any:
        return jnp.zeros(num_envs, jnp.float32) if self.condition is None else ()

    def pay(self, key: Array, kept: Any, step: Step) -> tuple[Array, Any]:
        if self.condition is not None:
            return jnp.float32(self.value) * jax.vmap(self.condition)(step.facts), ()
        total = kept + step.reward
        threshold = self.env.spec.success if self.threshold is None else self.threshold
        return jnp.float32(self.value) * ((step.terminated | step.truncated) & (total > threshold)), total


@dataclasses.dataclass(frozen=True)
class RewardNoise(RewardWrapper):
    """Adds Gaussian noise to every reward. No return is a sure success any more: `spec.success` is None.

    Attributes:
      std: its standard deviation, in units of the reward.
    """

    std: float = 1.0

    random: ClassVar[bool] = True

    def check(self, inner: EnvSpec) -> None:
        _check_positive("std", self.std)

    def changes(self, inner: EnvSpec) -> dict[str, Any]:
        return {"success": None}

    def pay(self, key: Array, kept: Any, step: Step) -> tuple[Array, Any]:
        return step.reward + jnp.float32(self.std) * jax.random.normal(key, step.reward.shape), kept


# --- time and observations


@dataclasses.dataclass(frozen=True)
class TimeLimit(Wrapper):
    """Truncates earlier than the environment does, at step `max_steps`; nothing else changes.

    It belongs inside the wrappers that pay at the end of an episode, which would not see it end.

    A threshold of success that says "before the time limit", minus the inner limit, becomes minus the new one. Any
    other negative one is dropped, since an episode may pass it by being cut short.

    Attributes:
      max_steps: the new limit.
    """

    max_steps: int

    def check(self, inner: EnvSpec) -> None:
        if self.max_steps < 1:
            raise ValueError(f"max_steps is {self.max_steps}; an episode has at least 1 step")
        if inner.max_steps is not None and self.max_steps > inner.max_steps:
            limit = inner.max_steps
            raise ValueError(f"max_steps is {self.max_steps}, but {inner.name} ends after {limit} itself; try {limit}")

        env = self.env
        while isinstance(env, Wrapper):
            if isinstance(env, DelayedReward | SparseReward) and not getattr(env, "condition", None):
                kind = type(env).__name__
                raise ValueError(f"{kind} would not see episodes end at step {self.max_steps}; put TimeLimit inside it")
            env = env.env

    def changes(self, inner: EnvSpec) -> dict[str, Any]:
        success = inner.success
        if success is not None and success < 0.0:
            success = -float(self.max_steps) if success == -(inner.max_steps or 0) else None
        return {"max_steps": self.max_steps, "success": success}

    def reset_many(self, keys: Array) -> tuple[WrapperState, Array]:
        env, obs = self.env.reset_many(keys)
        return WrapperState(env, jnp.zeros(keys.shape[0], jnp.int32)), obs

    def step_many(self, key: Array, state: WrapperState, action: Array) -> tuple[WrapperState, Step]:
        env, step = self._inner_step(key, state, action)
        time = state.memory + 1
        return self._outcome(env, time, step, truncated=step.truncated | (time >= self.max_steps))


@dataclasses.dataclass(frozen=True)
class FrameStack(Wrapper):
    """Observes the last few frames (Mnih et al., 2015), `[frames, *obs_shape]`, oldest first.

    An episode starts with copies of its first frame. A network reads the inner features of each frame side by side on
    their last axis: vectors `[D]` become `[frames * D]`, images `[H, W, C]` become `[H, W, frames * C]`.

    Attributes:
      frames: how many.
    """

    frames: int = 4

    def check(self, inner: EnvSpec) -> None:
        _check_count("frames", self.frames)

    def changes(self, inner: EnvSpec) -> dict[str, Any]:
        features = StackFeatures(inner.features, len(inner.obs_shape))
        return {"obs_shape": (self.frames, *inner.obs_shape), "features": features}

    def reset_many(self, keys: Array) -> tuple[WrapperState, Array]:
        env, obs = self.env.reset_many(keys)
        frames = jnp.repeat(obs[:, None], self.frames, axis=1)
        return WrapperState(env, frames), frames

    def step_many(self, key: Array, state: WrapperState, action: Array) -> tuple[WrapperState, Step]:
        env, step = self._inner_step(key, state, action)
        frames = jnp.concatenate([state.memory[:, 1:], step.obs[:, None]], axis=1)
        return self._outcome(env, frames, step, obs=frames)


@dataclasses.dataclass(frozen=True)
class StackFeatures:
    """Features of stacked observations `[..., frames, *obs]` from those of one; `ndim` is the length of its shape."""

    inner: Callable[[Array], Array] | None
    ndim: int

    def __call__(self, obs: Array) -> Array:
        features, axis = _features(self.inner, obs), obs.ndim - self.ndim - 1
        if features.ndim == axis + 1:
            return features
        features = jnp.moveaxis(features, axis, -2)
        return features.reshape(*features.shape[:-2], -1)


@dataclasses.dataclass(frozen=True)
class NoisyTV(Wrapper):
    """Shows noise beside the observation, which rewards for surprise cannot tell from news.

    A television that changes by itself (Schmidhuber, 1991) or, with a `remote`, when the agent wants it to (Burda et
    al., 2018; Savinov et al., 2019; Mavor-Parker et al., 2022). The papers put it in place of a part of the picture;
    here it takes entries of its own, so that the task stays as it was. Facts do not show it.

    Vectors get `entries` more numbers; images `[H, W, C]` get `entries` more channels, and grids `[H, W]` whose
    features have channels become `[H, W, 1 + entries]`. A network reads noise uniform between 0 and 1: real
    observations store it as such, integer ones as a byte.

    Attributes:
      entries: how many.
      remote: None changes the noise on every step. A number changes it when that action is taken, which goes on doing
        what it does; "extra" adds an action for it, the last, and the environment is given `noop` meanwhile.
      noop: what "extra" does in the environment, as 6 ("done") in most MiniGrid levels.
      images: None makes new noise each time; otherwise it is one of so many pictures that never change.
      seed: draws those pictures. They belong to the environment: every episode, copy and training seed shares them.
    """

    entries: int = 4
    remote: int | str | None = None
    noop: int | None = None
    images: int | None = None
    seed: int = 0

    random: ClassVar[bool] = True

    def check(self, inner: EnvSpec) -> None:
        _check_count("entries", self.entries)
        if self.images is not None:
            _check_count("images", self.images)
        self._shape(inner)
        space = inner.action_space
        if self.noop is not None and self.remote != "extra":
            raise ValueError(f"noop is {self.noop}, but only remote='extra' carries it out; leave it out")
        if self.remote is None:
            return
        if not isinstance(space, Discrete):
            raise ValueError(f"remote is {self.remote!r}, but {inner.name} has real actions; only None goes with them")
        if isinstance(self.remote, str) and self.remote != "extra":
            raise ValueError(unknown("remote", self.remote, ["extra"]))
        name, action = ("noop", self.noop) if self.remote == "extra" else ("remote", self.remote)
        if action not in range(space.n):
            raise ValueError(f"{name} is {action}; it must be an action of {inner.name}, from 0 to {space.n - 1}")

    def changes(self, inner: EnvSpec) -> dict[str, Any]:
        shape, grown = self._shape(inner)
        features = TVFeatures(inner.features, self.entries, grown, np.dtype(inner.obs_dtype).kind in "iu")
        size = 1 if grown else inner.obs_shape[-1]
        changed = {"obs_shape": (*shape[:-1], size + self.entries), "features": features}
        if self.remote == "extra" and isinstance(inner.action_space, Discrete):
            changed["action_space"] = Discrete(inner.action_space.n + 1)
        return changed

    def reset_many(self, keys: Array) -> tuple[WrapperState, Array]:
        env, obs = self.env.reset_many(jax.vmap(lambda key: jax.random.fold_in(key, 0))(keys))
        noise = jax.vmap(lambda key: self._noise(self._key(key), ()))(keys)
        return WrapperState(env, noise), self._beside(obs, noise)

    def step_many(self, key: Array, state: WrapperState, action: Array) -> tuple[WrapperState, Step]:
        noise = self._noise(self._key(key), action.shape[:1])
        pressed, action = self._press(action)
        if pressed is not None:
            noise = _where(pressed, noise, state.memory)
        env, step = self._inner_step(key, state, action)
        return self._outcome(env, noise, step, obs=self._beside(step.obs, noise))

    def _press(self, action: Array) -> tuple[Array | None, Array]:
        """Where the remote is pressed, `[N]` (None without one), and the actions for the environment."""
        space = self.env.spec.action_space
        if self.remote is None or not isinstance(space, Discrete):
            return None, action
        if isinstance(self.remote, int):
            return jnp.equal(action, self.remote), action
        pressed = jnp.equal(action, space.n)
        return pressed, jnp.where(pressed, jnp.asarray(self.noop, action.dtype), action)

    def _shape(self, inner: EnvSpec) -> tuple[tuple[int, ...], bool]:
        """The shape of the noise, and whether observations get an axis for it."""
        obs, struct = inner.obs_shape, jax.ShapeDtypeStruct(inner.obs_shape, inner.obs_dtype)
        features = jax.eval_shape(inner.to_features, struct).shape
        if features and features[:-1] == obs:
            return (*obs, self.entries), True
        if features and obs and features[:-1] == obs[:-1]:
            return (*obs[:-1], self.entries), False
        raise ValueError(
            f"NoisyTV finds no place for noise, as observations {obs} of {inner.name} become features {features}; "
            "put it inside the wrapper that makes them, as in FrameStack(NoisyTV(env))"
        )

    def _noise(self, key: Array, batch: tuple[int, ...]) -> Array:
        inner = self.env.spec
        shape, real = self._shape(inner)[0], np.dtype(inner.obs_dtype).kind == "f"
        if self.images is not None:
            rng = np.random.default_rng(self.seed)
            pictures = rng.random((self.images, *shape)) if real else rng.integers(256, size=(self.images, *shape))
            return jnp.asarray(pictures, inner.obs_dtype)[jax.random.randint(key, batch, 0, self.images)]
        if real:
            return jax.random.uniform(key, (*batch, *shape), inner.obs_dtype)
        # Four bytes from each random word: drawn one by one they cost as many words, and twice the time of a step.
        count = math.prod((*batch, *shape))
        octets = jax.lax.bitcast_convert_type(jax.random.bits(key, (-(-count // 4),)), jnp.uint8)
        return octets.reshape(-1)[:count].reshape(*batch, *shape).astype(inner.obs_dtype)

    def _beside(self, obs: Array, noise: Array) -> Array:
        return jnp.concatenate([obs.reshape(*noise.shape[:-1], -1), noise], axis=-1)


@dataclasses.dataclass(frozen=True)
class TVFeatures:
    """Features of observations with noise beside them: the inner features, and the noise between 0 and 1."""

    inner: Callable[[Array], Array] | None
    entries: int
    grown: bool
    octets: bool

    def __call__(self, obs: Array) -> Array:
        shown, noise = obs[..., : -self.entries], obs[..., -self.entries :].astype(jnp.float32)
        features = _features(self.inner, shown[..., 0] if self.grown else shown)
        return jnp.concatenate([features, noise / 255.0 if self.octets else noise], axis=-1)


def _features(features: Callable[[Array], Array] | None, obs: Array) -> Array:
    return obs.astype(jnp.float32) if features is None else features(obs)


def _where(mask: Array, new: Array, old: Array) -> Array:
    """`new` `[N, ...]` where `mask` `[N]`, otherwise `old`."""
    return jnp.where(mask.reshape(mask.shape + (1,) * (new.ndim - 1)), new, old)


def _batch_of_one(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf[None], tree)


def _first(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf[0], tree)


def _check_probability(name: str, value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{name} is {value}; it is a probability, from 0 to 1")


def _check_positive(name: str, value: float) -> None:
    if not value > 0.0:
        raise ValueError(f"{name} is {value}; it must be above 0")


def _check_count(name: str, value: int) -> None:
    if value < 1:
        raise ValueError(f"{name} is {value}; it must be at least 1")
