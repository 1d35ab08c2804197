"""One body of brax, stepped raw."""

import contextlib
import dataclasses
import functools
import importlib
import io
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.interpreters import partial_eval

from envs.base import Environment
from envs.brax.bodies import BODIES, Body, real
from jaxrew.types import Box, EnvSpec, Step, unknown

BACKENDS = ("generalized", "spring", "positional", "mjx")


class BraxState(NamedTuple):
    """What the next step and the facts read.

    Attributes:
      physics: leaves of the library's pipeline state.
      time: steps taken in this episode.
      dense_reward: the library's reward of the last step.
      terms: the parts of that reward that are facts.
    """

    physics: tuple[Array, ...]
    time: Array
    dense_reward: Array
    terms: dict[str, Array]


@dataclasses.dataclass(frozen=True)
class Brax(Environment):
    """A body of brax (Freeman et al., 2021) with the library's own task.

    Attributes:
      body: the library's name for it.
      backend: the physics: "generalized", the default of all bodies, in joint coordinates; "spring" and "positional",
        cheaper and coarser; "mjx", MuJoCo's own on JAX. They have different dynamics, so returns do not compare.
      max_steps: the time limit; the library's convention is 1,000.
    """

    body: str
    backend: str = "generalized"
    max_steps: int = 1000

    def __post_init__(self) -> None:
        if self.body not in BODIES:
            raise ValueError(unknown("body", self.body, BODIES))
        if self.backend not in BACKENDS:
            raise ValueError(f"unknown backend {self.backend!r}; valid backends: {', '.join(BACKENDS)}")
        if self.max_steps < 1:
            raise ValueError(f"max_steps is {self.max_steps}; an episode has at least 1 step")
        # Loaded here, outside any program: an array made inside one belongs to its mesh of devices and fails in others.
        _ = self.library

    @property
    def settings(self) -> dict[str, Any]:
        """Arguments of the library's constructor, beyond the backend."""
        return {}

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(
            name=f"brax/{self.body}",
            obs_shape=(self._body.obs_size,),
            obs_dtype="float32",
            action_space=Box(-1.0, 1.0, (self._body.action_size,)),
            max_steps=self.max_steps,
            facts=(
                *self._body.facts,
                *(real(name, meaning) for name, (_, meaning) in self._body.terms.items()),
                real("dense_reward", "the library's reward for the last step, 0 at the start"),
            ),
        )

    @functools.cached_property
    def library(self) -> Any:
        """The library's environment."""
        with jax.ensure_compile_time_eval(), quiet():
            from brax import envs

            return envs.get_environment(self.body, backend=self.backend, **self.settings)

    def reset(self, key: Array) -> tuple[BraxState, Array]:
        with quiet():
            raw = self.library.reset(key)
        zero = jnp.zeros((), jnp.float32)
        terms = {name: zero for name in self._body.terms}
        return BraxState(self._pack(raw.pipeline_state), jnp.zeros((), jnp.int32), zero, terms), _float(raw.obs)

    def step(self, key: Array, state: BraxState, action: Array) -> tuple[BraxState, Step]:
        raw = _advance(self.library, self._unpack(state.physics), action)
        terms = {name: _float(raw.metrics[metric]) for name, (metric, _) in self._body.terms.items()}
        new = BraxState(self._pack(raw.pipeline_state), state.time + 1, _float(raw.reward), terms)
        facts = self.facts(new)
        reward, terminated = self._outcome(facts, jnp.asarray(raw.done, bool))
        return new, Step(_float(raw.obs), reward, terminated, new.time >= self.max_steps, facts)

    def facts(self, state: BraxState) -> dict[str, Array]:
        body = self._body.read(self.library, self._unpack(state.physics))
        return {**body, **state.terms, "dense_reward": state.dense_reward}

    def _outcome(self, facts: dict[str, Array], done: Array) -> tuple[Array, Array]:
        """Reward and `terminated` of a step that led to `facts` and after which the library is `done`."""
        return facts["dense_reward"], done

    @property
    def _body(self) -> Body:
        return BODIES[self.body]

    def _pack(self, pipeline_state: Any) -> tuple[Array, ...]:
        layout = _layout(self)
        leaves = zip(jax.tree.leaves(pipeline_state), layout.leaves, layout.kept, strict=True)
        return tuple(jnp.asarray(leaf, shape.dtype) for leaf, shape, kept in leaves if kept)

    def _unpack(self, physics: tuple[Array, ...]) -> Any:
        """The library's pipeline state, with zeros for what nothing reads."""
        layout, packed = _layout(self), iter(physics)
        leaves = [
            next(packed) if kept else jnp.zeros(shape.shape, shape.dtype)
            for shape, kept in zip(layout.leaves, layout.kept, strict=True)
        ]
        return jax.tree.unflatten(layout.structure, leaves)


class _Layout(NamedTuple):
    """The library's pipeline state: how it is built from leaves, and which of them must be kept between steps."""

    structure: Any
    leaves: tuple[jax.ShapeDtypeStruct, ...]
    kept: tuple[bool, ...]


@functools.cache
def _layout(env: Brax) -> _Layout:
    """Finds the leaves that the next step or the facts read, and drops the empty ones.

    Up to nine tenths of the state are scratch (mjx), and empty leaves crash the partitioner for several devices.
    """
    with quiet():
        start = jax.eval_shape(env.library.reset, jax.random.key(0)).pipeline_state
    leaves, structure = jax.tree.flatten(start)

    def step(leaves: list[Array], action: Array) -> tuple[list[Array], Any]:
        pipeline_state = jax.tree.unflatten(structure, leaves)
        raw = _advance(env.library, pipeline_state, action)
        read = raw.obs, raw.reward, raw.done, raw.metrics, env._body.read(env.library, pipeline_state)
        return jax.tree.leaves(raw.pipeline_state), read

    action = jax.ShapeDtypeStruct((env._body.action_size,), jnp.float32)
    jaxpr = jax.make_jaxpr(step)(leaves, action).jaxpr
    needed = [False] * len(leaves) + [True] * (len(jaxpr.outvars) - len(leaves))
    while True:
        _, read = partial_eval.dce_jaxpr(jaxpr, needed)
        wider = [a or b for a, b in zip(needed, read[: len(leaves)], strict=False)] + needed[len(leaves) :]
        if wider == needed:
            break
        needed = wider
    kept = tuple(bool(need) and leaf.size > 0 for leaf, need in zip(leaves, needed, strict=False))
    return _Layout(structure, tuple(jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves), kept)


def _advance(library: Any, pipeline_state: Any, action: Array) -> Any:
    """The library's step. Of the state it is given, it reads the pipeline state alone."""
    from brax.envs.base import State

    zero = jnp.zeros((), jnp.float32)
    with quiet():
        # The library writes into the dictionary of metrics that it is given.
        return library.step(State(pipeline_state, obs=zero, reward=zero, done=zero, metrics={}, info={}), action)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silences what brax says of its own dependencies, and MuJoCo, which would leave a log file in the folder."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        mujoco: Any = importlib.import_module("mujoco")
        mujoco.set_mju_user_warning(lambda message: None)
        try:
            yield
        finally:
            mujoco.set_mju_user_warning(None)


def _float(value: Any) -> Array:
    return jnp.asarray(value, jnp.float32)
