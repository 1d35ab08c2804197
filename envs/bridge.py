"""Environments of other JAX libraries, brought over by a few plain functions.

    spec = EnvSpec("CartPole-v1", (4,), "float32", Discrete(2), max_steps=500)
    env = Bridge(spec, reset_fn=reset, step_fn=step)

where `reset(key) -> (state, obs)` and `step(key, state, action) -> (state, obs, reward, terminated)` call the library.

THE TRAP: hand over the step that does NOT reset. Most libraries restart an episode inside their `step` and return the
first observation of the next one with the last reward, so bootstraps, bonuses and replay are scored on a state that the
action never led to, and nothing here can see it. The raw step is `step_env` in gymnax, `auto_reset=False` in Craftax,
the environment without `AutoResetWrapper` in brax, jumanji and MuJoCo Playground.
`experiments/craftax_bridge.py` is a complete example.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from envs.base import Environment
from envs.settings import check_settings
from jaxrew.types import EnvSpec, Step

Shape = jax.ShapeDtypeStruct


class BridgeState(NamedTuple):
    """The library's state, as a tuple of its leaves that are not empty, and the steps taken in this episode."""

    leaves: tuple[Array, ...]
    time: Array


@dataclasses.dataclass(frozen=True)
class Bridge(Environment):
    """An environment made of functions. Two bridges are equal, and share one compiled program, if their functions are.

    So make the functions once, at the top of a file: every new `lambda` or `partial` compiles anew. What they return is
    checked at construction, without running anything. Leaves of the state are cast to the dtypes of `reset_fn`, since
    weak types would recompile every scan; rewards to float32, flags to bool, observations and facts to what the spec
    says. A cast that would lose fractions is an error, and so is a state that changes its shapes.

    Attributes:
      env_spec: what agents and rewards may know. Its facts are documented there and computed by `facts_fn`.
      reset_fn: `key -> (state, obs)`. The state is any pytree of arrays.
      step_fn: `(key, state, action) -> (state, obs, reward, terminated)` or `(..., terminated, truncated)`, never
        resetting. With five values both flags are the library's, and `env_spec.max_steps` must be its time limit, or
        None if it has none. With four the bridge counts: `truncated` is set at `env_spec.max_steps`, and never if that
        is None.
      facts_fn: `state -> {name: value}`, with the names of `env_spec.facts`; needed only if there are any.
      limit_in_done: the fourth value is also set at the library's own time limit, which is `env_spec.max_steps`. At
        that step it then counts as truncation alone, since a true end cannot be told from the limit. Better, where the
        library allows it: lift its limit and leave this off.
    """

    env_spec: EnvSpec
    reset_fn: Callable[[Array], tuple[Any, Array]]
    step_fn: Callable[[Array, Any, Array], tuple[Any, ...]]
    facts_fn: Callable[[Any], dict[str, Array]] | None = None
    limit_in_done: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.env_spec, EnvSpec):
            raise ValueError(f"env_spec is {self.env_spec!r}; it must be a jaxrew.types.EnvSpec")
        check_settings(self.env_spec)
        for name in ("reset_fn", "step_fn"):
            if not callable(getattr(self, name)):
                raise ValueError(f"{name} is {getattr(self, name)!r}; it must be a function")
        _check_hashable(self)
        if self.env_spec.max_steps is not None and self.env_spec.max_steps < 1:
            raise ValueError(f"max_steps is {self.env_spec.max_steps}; an episode has at least 1 step")
        if self.limit_in_done and self.env_spec.max_steps is None:
            raise ValueError("limit_in_done needs the library's time limit as env_spec.max_steps, which is None")
        if self.env_spec.facts and self.facts_fn is None:
            names = ", ".join(fact.name for fact in self.env_spec.facts)
            raise ValueError(f"facts_fn is None; the spec documents facts that it must compute: {names}")
        # Traced here, outside any program, so that a mistake is answered before training starts.
        _ = self._signature

    @property
    def spec(self) -> EnvSpec:
        return self.env_spec

    def reset(self, key: Array) -> tuple[BridgeState, Array]:
        state, obs = self.reset_fn(key)
        return BridgeState(self._pack(state), jnp.zeros((), jnp.int32)), self._observation(obs)

    def step(self, key: Array, state: BridgeState, action: Array) -> tuple[BridgeState, Step]:
        raw, obs, reward, terminated, *truncated = self.step_fn(key, self._unpack(state), action)
        new = BridgeState(self._pack(raw), state.time + 1)
        terminated = _cast(terminated, bool)
        if truncated:
            over = _cast(truncated[0], bool)
        elif self.spec.max_steps is None:
            over = jnp.zeros((), bool)
        else:
            over = new.time >= self.spec.max_steps
        terminated = terminated & ~over if self.limit_in_done else terminated
        return new, Step(self._observation(obs), _cast(reward, "float32"), terminated, over, self.facts(new))

    def facts(self, state: BridgeState) -> dict[str, Array]:
        values = self.facts_fn(self._unpack(state)) if self.facts_fn is not None else {}
        return {fact.name: _cast(values[fact.name], fact.dtype) for fact in self.spec.facts}

    @functools.cached_property
    def _signature(self) -> tuple[Any, tuple[Shape, ...]]:
        """The structure of the library's state and its leaves, after checking everything that is returned."""
        state, obs = _results(_trace("reset_fn(key)", self.reset_fn, _key()), "reset_fn", (2,), "(state, obs)")
        _check_value(obs, self.spec.obs_shape, self.spec.obs_dtype, "reset_fn", "obs")
        paths, structure = jax.tree.flatten_with_path(state)
        action = jax.eval_shape(self.spec.action_space.sample, _key())
        returned = _trace("step_fn(key, state, action)", self.step_fn, _key(), state, action)
        new, obs, reward, *flags = _results(
            returned, "step_fn", (4, 5), "(state, obs, reward, terminated[, truncated])"
        )
        _check_state(paths, structure, new)
        _check_value(obs, self.spec.obs_shape, self.spec.obs_dtype, "step_fn", "obs")
        _check_value(reward, (), "float32", "step_fn", "reward")
        for name, flag in zip(("terminated", "truncated"), flags, strict=False):
            _check_value(flag, (), "float32", "step_fn", name)
        if self.limit_in_done and len(flags) == 2:
            raise ValueError(
                "limit_in_done is for a step_fn that returns 4 values; it returned 5, with its own truncated"
            )
        if self.facts_fn is not None:
            _check_facts(_trace("facts_fn(state)", self.facts_fn, state), self.spec)
        return structure, tuple(Shape(leaf.shape, leaf.dtype) for _, leaf in paths)

    def _pack(self, state: Any) -> tuple[Array, ...]:
        """Strongly typed leaves, without the empty ones: those crash the partitioner for several devices."""
        _, shapes = self._signature
        leaves = zip(jax.tree.leaves(state), shapes, strict=True)
        return tuple(_cast(leaf, shape.dtype) for leaf, shape in leaves if shape.size > 0)

    def _unpack(self, state: BridgeState) -> Any:
        structure, shapes = self._signature
        leaves = iter(state.leaves)
        return jax.tree.unflatten(
            structure, [next(leaves) if shape.size > 0 else jnp.zeros(shape.shape, shape.dtype) for shape in shapes]
        )

    def _observation(self, obs: Array) -> Array:
        return _cast(obs, self.spec.obs_dtype)


def _key() -> Any:
    return jax.eval_shape(lambda: jax.random.key(0))


def _cast(value: Any, dtype: Any) -> Array:
    if jnp.issubdtype(dtype, jax.dtypes.extended):
        return value
    return jnp.asarray(value, dtype)


def _trace(call: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """The shapes of what `function` returns; what it raises says where."""
    try:
        return jax.eval_shape(function, *arguments)
    except Exception as error:
        error.add_note(f"raised while a Bridge traced {call}")
        raise


def _kind(value: Any) -> str:
    return "one array" if isinstance(value, Shape) else f"a {type(value).__name__}"


def _check_hashable(env: Bridge) -> None:
    for field in dataclasses.fields(env):
        try:
            hash(getattr(env, field.name))
        except TypeError:
            kind = type(getattr(env, field.name)).__name__
            raise ValueError(
                f"{field.name} is a {kind} that cannot be hashed; jit needs that, so use a function or frozen object"
            ) from None


def _results(returned: Any, function: str, lengths: tuple[int, ...], form: str) -> Any:
    if not isinstance(returned, tuple) or len(returned) not in lengths:
        got = f"a tuple of {len(returned)}" if isinstance(returned, tuple) else _kind(returned)
        raise ValueError(f"{function} returned {got}; it must return {form}")
    return returned


def _check_value(value: Any, shape: tuple[int, ...], dtype: str, function: str, name: str) -> None:
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        raise ValueError(
            f"{function} returned {name} as a {type(value).__name__}; it must be one array of shape {shape}"
        )
    if value.shape != tuple(shape):
        raise ValueError(f"{function} returned {name} of shape {value.shape}; it must have shape {tuple(shape)}")
    if not _fits(value.dtype, dtype):
        raise ValueError(
            f"{function} returned {name} of dtype {value.dtype}; casting that to {dtype} would lose values"
        )


def _fits(dtype: Any, target: Any) -> bool:
    """Whether a cast keeps the kind of number, bool < integer < real, and the range of integers."""
    kinds = (jnp.bool_, jnp.integer, jnp.floating)

    def rank(dtype: Any) -> int:
        return next((i for i, kind in enumerate(kinds) if jnp.issubdtype(dtype, kind)), len(kinds))

    if len(kinds) in (rank(dtype), rank(target)):
        return dtype == target
    if jnp.issubdtype(dtype, jnp.integer) and jnp.issubdtype(target, jnp.integer):
        return np.can_cast(dtype, target)
    return rank(dtype) <= rank(target)


def _check_state(paths: list[Any], structure: Any, new: Any) -> None:
    """The state after a step has the structure, shapes and kinds of numbers of the first one."""
    new_paths, new_structure = jax.tree.flatten_with_path(new)
    if new_structure != structure:
        before, after = ({jax.tree_util.keystr(path) for path, _ in side} for side in (paths, new_paths))
        differing = ", ".join(sorted(before ^ after)) or f"{structure} became {new_structure}"
        raise ValueError(f"step_fn returned a state of another structure than reset_fn; differing: {differing}")
    for (path, old), (_, leaf) in zip(paths, new_paths, strict=True):
        name = f"state{jax.tree_util.keystr(path)}"
        if leaf.shape != old.shape:
            raise ValueError(f"step_fn returned {name} of shape {leaf.shape}; reset_fn's has shape {old.shape}")
        if not _fits(leaf.dtype, old.dtype):
            raise ValueError(
                f"step_fn returned {name} of dtype {leaf.dtype}; casting to reset_fn's {old.dtype} would lose values"
            )


def _check_facts(values: Any, spec: EnvSpec) -> None:
    names = {fact.name for fact in spec.facts}
    if not isinstance(values, dict):
        raise ValueError(f"facts_fn returned {_kind(values)}; it must return a dict of the facts")
    for kind, wrong in (("lacks", names - set(values)), ("has, which the spec does not,", set(values) - names)):
        if wrong:
            raise ValueError(f"what facts_fn returned {kind} {', '.join(sorted(map(repr, wrong)))}")
    for fact in spec.facts:
        _check_value(values[fact.name], fact.shape, fact.dtype, "facts_fn", f"fact {fact.name!r}")
