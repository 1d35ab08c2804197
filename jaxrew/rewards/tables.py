"""Exact tables over integer facts: state numbers, slots and visit counts.

A state's number is its facts in mixed radix. Where the range of numbers fits the table, a number is its slot; where it
does not, numbers are given slots as they are first seen (open addressing, linear probing). Two states never share one.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrew.types import Discrete, EnvSpec, Fact, unknown

NO_STATE = np.uint32(2**32 - 1)
"""The number of what is no state: facts outside their bounds, and free slots."""
PROBES = 32
"""How far from its home a number may lie in a table; past that it finds no slot."""


def countable(spec: EnvSpec) -> list[str]:
    """The names of the facts that a table can be indexed with: integers (or bools) with finite bounds."""
    return [f.name for f in spec.facts if np.dtype(f.dtype).kind in "iub" and np.isfinite([f.low, f.high]).all()]


def num_states(spec: EnvSpec, names: tuple[str, ...], action: bool = False) -> int:
    """How many values the named facts (and the action) can take together.

    Raises ValueError when a fact is unknown, not an integer or unbounded, or when there are too many values.
    """
    choices = countable(spec)
    for name in names:
        if spec.fact(name).name not in choices:
            hint = unknown("integer fact with finite bounds", name, choices)
            raise ValueError(f"{hint}; those of {spec.name} are {choices}")
    radices = [_radix(spec.fact(name)) ** int(np.prod(spec.fact(name).shape)) for name in names]
    if action:
        if not isinstance(spec.action_space, Discrete):
            raise ValueError(f"actions are counted where they are discrete, and {spec.name} has {spec.action_space}")
        radices.append(spec.action_space.n)
    size = int(np.prod(radices, dtype=object)) if radices else 1
    if size >= NO_STATE:
        raise ValueError(f"{names} of {spec.name} take {size} values, and at most {NO_STATE - 1} can be told apart")
    return size


def state_number(spec: EnvSpec, names: tuple[str, ...], facts: dict[str, Array], action: Array | None = None) -> Array:
    """The number of each state, uint32 `[...]`, from facts `[..., *shape]`; `NO_STATE` outside the facts' bounds."""
    number, valid = jnp.uint32(0), True
    for fact in map(spec.fact, names):
        value = facts[fact.name].astype(jnp.int32)
        entries = value.reshape(*value.shape[: value.ndim - len(fact.shape)], -1)
        for entry in range(entries.shape[-1]):
            digit = entries[..., entry]
            number = number * jnp.uint32(_radix(fact)) + (digit - int(fact.low)).astype(jnp.uint32)
            valid &= (digit >= int(fact.low)) & (digit <= int(fact.high))
    if action is not None:
        assert isinstance(spec.action_space, Discrete)
        number = number * jnp.uint32(spec.action_space.n) + action.astype(jnp.uint32)
    return jnp.where(valid, number, NO_STATE)


def _radix(fact: Fact) -> int:
    return int(fact.high) - int(fact.low) + 1


class Slots(NamedTuple):
    """Which number holds each slot, uint32 `[capacity]`, `NO_STATE` where free; None where a number is its slot."""

    numbers: Array | None

    @classmethod
    def init(cls, size: int, capacity: int) -> "Slots":
        return cls(jnp.full(capacity, NO_STATE, jnp.uint32) if size > capacity else None)

    def find(self, numbers: Array, size: int, add: bool) -> tuple[Array, "Slots"]:
        """The slot of every state number, int32, past the end of a table for those with none.

        Args:
          numbers: uint32, of any shape.
          size: of the table (or of the range of numbers where these are the slots).
          add: whether numbers not seen before are given free slots.
        """
        if self.numbers is None:
            return jnp.minimum(numbers, jnp.uint32(size)).astype(jnp.int32), self
        home = _hash(numbers) % jnp.uint32(size)

        def waiting(slots: Array) -> Array:
            return (slots == size) & (numbers != NO_STATE)

        def probe(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            attempt, table, slots = carry
            here = ((home + attempt) % jnp.uint32(size)).astype(jnp.int32)
            if add:
                # Of several numbers that meet at a free slot the smallest takes it; the others probe on.
                claims = waiting(slots) & (table[here] == NO_STATE)
                table = table.at[jnp.where(claims, here, size)].min(numbers, mode="drop")
            return attempt + 1, table, jnp.where(waiting(slots) & (table[here] == numbers), here, slots)

        def unfinished(carry: tuple[Array, Array, Array]) -> Array:
            attempt, _, slots = carry
            return (attempt < PROBES) & waiting(slots).any()

        start = (jnp.uint32(0), self.numbers, jnp.full(numbers.shape, size, jnp.int32))
        _, table, slots = jax.lax.while_loop(unfinished, probe, start)
        return slots, Slots(table)


def _hash(numbers: Array) -> Array:
    """The finaliser of MurmurHash3, 32 bits (Appleby, 2011): a bijection that scatters neighbouring numbers."""
    x = numbers
    x = (x ^ (x >> 16)) * jnp.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * jnp.uint32(0xC2B2AE35)
    return x ^ (x >> 16)


def count_visits(table: Array, slots: Array) -> tuple[Array, Array]:
    """Adds visits to slots `[T, N]` in time order: `(table, counts)`.

    `counts[t, i]` is the count of `slots[t, i]` after all N visits of time t; 0 for slots past the table's end.
    """

    def step(table: Array, slots: Array) -> tuple[Array, Array]:
        table = table.at[slots].add(1, mode="drop")
        return table, table.at[slots].get(mode="fill", fill_value=0)

    return jax.lax.scan(step, table, slots)


class EpisodeCounts(NamedTuple):
    """Visits per episode of each of N environments, in one table `[N * size]` that is never cleared.

    `clock` `[N]` is how many visits an environment has made in all and `base` `[N]` what its clock read when the
    episode began. A cell holds base + count; what is at or below base dates from an earlier episode and means 0. Since
    no cell exceeds the clock, moving base up to the clock forgets an episode at no cost. Good for 2^31 visits each.
    """

    table: Array
    clock: Array
    base: Array
    fresh: Array

    @classmethod
    def init(cls, num_envs: int, size: int) -> "EpisodeCounts":
        zeros = jnp.zeros(num_envs, jnp.int32)
        return cls(jnp.zeros(num_envs * size, jnp.int32), zeros, zeros, jnp.ones(num_envs, bool))

    def count(self, slots: Array, first_slots: Array | None, ended: Array) -> tuple["EpisodeCounts", Array]:
        """Adds visits to slots `[T, N]` in time order: `(memory, counts)`, counts as in `count_visits` per episode.

        `first_slots` `[T, N]` are those of the states the transitions start from; where an episode starts, its first
        state is counted before the first visit (None: it is not). `ended` says after which step an episode is over.
        """
        num_envs = ended.shape[1]
        size = self.table.size // num_envs
        fresh = jnp.concatenate([self.fresh[None], ended[:-1]])
        visits = 1 + fresh.astype(jnp.int32) if first_slots is not None else jnp.ones_like(slots)
        clock = self.clock + jnp.cumsum(visits, axis=0)
        base = jnp.maximum(self.base, jax.lax.cummax(jnp.where(fresh, clock - visits, 0), axis=0))

        def in_table(slots: Array) -> Array:
            return jnp.where(slots < size, slots + size * jnp.arange(num_envs), self.table.size)

        cells, floor = in_table(slots), base
        if first_slots is not None:
            cells = jnp.concatenate([jnp.where(fresh, in_table(first_slots), self.table.size), cells], axis=1)
            floor = jnp.concatenate([base, base], axis=1)

        def step(table: Array, inputs: tuple[Array, Array]) -> tuple[Array, Array]:
            cells, floor = inputs
            table = table.at[cells].max(floor, mode="drop").at[cells].add(1, mode="drop")
            return table, table.at[cells[-num_envs:]].get(mode="fill", fill_value=0)

        table, cell_values = jax.lax.scan(step, self.table, (cells, floor))
        counts = jnp.where(slots < size, cell_values - base, 0)
        return EpisodeCounts(table, clock[-1], base[-1], ended[-1]), counts
