"""Potential-based shaping (Ng, Harada and Russell, 1999)."""

from collections.abc import Callable
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxrew.rewards.base import Component, Context, RewardModule, Rewards, Scalar, State
from jaxrew.types import EnvSpec, Transition, static, unknown


class PotentialState(NamedTuple):
    """Per environment, `[N]`: the weighted potential of the current state as it was when visited, and whether an
    episode starts there, so that nothing is stored yet.
    """

    last: Array
    fresh: Array


class Potential(RewardModule):
    """Shaping by a potential of the facts, paid into the task's stream.

    F = gamma Phi(s') - Phi(s), with the task's own gamma, Phi(s') = 0 after termination (Grzes, 2017) and the true
    Phi(s') at truncation; where both flags are set, termination wins. Over an episode of T steps the discounted sum
    is -Phi(s_0), or gamma^T Phi(s_T) - Phi(s_0) if truncated, so the optimal policy does not change. Under a weight
    that moves (`Anneal`), Phi(s) is the value stored when s was visited (Devlin and Kudenko, 2012).

    Attributes:
      fn: from the facts of ONE state, a dict by name, to a scalar. It is mapped over batches.
    """

    fn: Callable[[dict[str, Array]], Scalar] = static()

    shaping: ClassVar[bool] = True

    def validate(self, spec: EnvSpec, num_envs: int) -> None:
        """Raises ValueError when `fn` reads a fact the environment does not have, or does not return a scalar."""
        if not spec.facts:
            raise ValueError(f"a potential reads facts, and {spec.name} documents none; choose another environment")
        facts = {fact.name: jax.ShapeDtypeStruct(fact.shape, fact.dtype) for fact in spec.facts}
        out = jax.eval_shape(lambda facts: self._of_state(facts, spec), facts)
        if getattr(out, "shape", None) != ():
            shape = getattr(out, "shape", type(out).__name__)
            raise ValueError(f"the potential must be one number per state, shape (), and {self._name} returns {shape}")

    def init(self, key: Array, spec: EnvSpec, num_envs: int) -> PotentialState:
        return PotentialState(jnp.zeros(num_envs, jnp.float32), jnp.ones(num_envs, bool))

    def reward(self, state: PotentialState, batch: Transition, ctx: Context) -> tuple[Rewards, PotentialState]:
        (component,), state = self.components(state, batch, ctx, jnp.ones(batch.reward.shape[0] + 1))
        return component.paid, state

    def components(
        self, state: PotentialState, batch: Transition, ctx: Context, weight: Array
    ) -> tuple[tuple[Component, ...], PotentialState]:
        potential, next_potential = self._of(batch.facts, ctx.spec), self._of(batch.next_facts, ctx.spec)
        raw = shape(potential, next_potential, batch.terminated, ctx.task_gamma)
        visited = weight[1:, None] * next_potential
        stored = jnp.concatenate([state.last[None], visited[:-1]])
        fresh = jnp.concatenate([state.fresh[None], batch.ended[:-1]])
        current = jnp.where(fresh, weight[:-1, None] * potential, stored)
        paid = shape(current, visited, batch.terminated, ctx.task_gamma)
        return (Component(self.label, {"task": raw}, {"task": paid}),), PotentialState(visited[-1], batch.ended[-1])

    def rescore(self, state: State, batch: Transition, ctx: Context) -> Rewards:
        potential, next_potential = self._of(batch.facts, ctx.spec), self._of(batch.next_facts, ctx.spec)
        return {"task": shape(potential, next_potential, batch.terminated, ctx.task_gamma)}

    def _of(self, facts: dict[str, Array], spec: EnvSpec) -> Array:
        """The potential of every state in facts `[..., *shape]`."""
        of_state, first = (lambda one: self._of_state(one, spec)), spec.facts[0]
        for _ in range(facts[first.name].ndim - len(first.shape)):
            of_state = jax.vmap(of_state)
        return of_state(facts)

    def _of_state(self, facts: dict[str, Array], spec: EnvSpec) -> Array:
        potential = self.fn(_Facts(facts, spec))
        return jax.tree.map(lambda value: jnp.asarray(value, jnp.float32), potential)

    @property
    def _name(self) -> str:
        return getattr(self.fn, "__name__", type(self.fn).__name__)


def shape(potential: Array, next_potential: Array, terminated: Array, gamma: Scalar) -> Array:
    """The shaping reward gamma Phi(s') - Phi(s), with Phi(s') = 0 where terminated."""
    return gamma * jnp.where(terminated, 0.0, next_potential) - potential


class _Facts(dict):
    """Facts by name that, asked for one the environment does not have, say which is meant."""

    def __init__(self, facts: dict[str, Array], spec: EnvSpec):
        super().__init__(facts)
        self._kind = f"fact of {spec.name}"

    def __missing__(self, name: str) -> Array:
        raise ValueError(unknown(self._kind, name, self))
