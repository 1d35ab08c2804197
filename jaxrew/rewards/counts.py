"""Count-based bonuses over exact tables of integer facts."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from jaxrew.rewards.base import Bonus, Context, Metrics, Rewards
from jaxrew.rewards.tables import EpisodeCounts, Slots, count_visits, countable, num_states, state_number
from jaxrew.types import EnvSpec, Transition, static, unknown


class CountsState(NamedTuple):
    """The slots, the table `[size]` or episodic memory, and the share of the last batch that found no slot."""

    slots: Slots
    counts: Array | EpisodeCounts
    overflow: Array


class Counts(Bonus, kw_only=True):
    """beta / n(s')^power, n the visits to the true successor s', this one included.

    power 1/2 is the classic bonus (Strehl and Littman, 2008), power 1 that of Menard et al. (2021). All N successors
    of a time step are counted before any is paid, and every duplicate counts.

    A state is the values of integer facts. The table is exact: it has one slot per possible state if `capacity` allows,
    else states get slots as they are first seen. A state that finds none (the table is full around its place, or a
    fact is out of its bounds) is paid 0; the metric `overflow` is the share of such transitions in the last batch.

    Attributes:
      beta, power: leaves.
      facts: names of the facts, by default the environment's position.
      action: whether to count n(s, a), the pairs acted on, instead of n(s').
      scope: "global" counts for good, over all environments; "episode" anew in each episode of each environment.
      count_first: whether the first state of an episode enters an episodic count when the episode starts, as if it had
        been arrived at (it is not paid). Global counts and state-action counts are of transitions alone.
      capacity: most slots in the table, times N if episodic; 4 bytes each.
      episodic: of the stream; by default True with scope "episode".
    """

    beta: float = 1.0
    power: float = 0.5
    facts: tuple[str, ...] = static(())
    action: bool = static(False)
    scope: str = static("global")
    count_first: bool = static(True)
    capacity: int = static(65_536)

    @property
    def recomputable(self) -> bool:
        return self.scope == "global"

    @property
    def _is_episodic(self) -> bool:
        return self.scope == "episode" if self.episodic is None else self.episodic

    def validate(self, spec: EnvSpec, num_envs: int) -> None:
        """Raises ValueError when a fact cannot be counted, or a setting is not among its choices."""
        super().validate(spec, num_envs)
        if isinstance(self.facts, str):
            raise ValueError(f"facts = {self.facts!r} must be a tuple of names; write ({self.facts!r},)")
        if self.scope not in ("global", "episode"):
            raise ValueError(unknown("scope of Counts", self.scope, ("global", "episode")))
        if self.capacity < 1:
            raise ValueError(f"capacity = {self.capacity} must be at least 1; 65536 is the default")
        if not self.facts and spec.position is None:
            choices = countable(spec) or "integer ones, of which there are none"
            raise ValueError(f"{spec.name} has no position to count; give Counts facts out of {choices}")
        num_states(spec, self._facts(spec), self.action)
        cells = self._size(spec) * num_envs
        if self.scope == "episode" and cells >= 2**31:
            raise ValueError(
                f"episodic counts of {num_envs} environments need {cells} cells, and a table has at most {2**31 - 1}; "
                f"use capacity = {(2**31 - 1) // num_envs}"
            )

    def init(self, key: Array, spec: EnvSpec, num_envs: int) -> CountsState:
        size = self._size(spec)
        counts = EpisodeCounts.init(num_envs, size) if self.scope == "episode" else jnp.zeros(size, jnp.int32)
        slots = Slots.init(num_states(spec, self._facts(spec), self.action), self.capacity)
        return CountsState(slots, counts, jnp.float32(0.0))

    def reward(self, state: CountsState, batch: Transition, ctx: Context) -> tuple[Rewards, CountsState]:
        size = self._size(ctx.spec)
        slots, known = state.slots.find(self._numbers(batch, ctx.spec), size, add=True)
        if isinstance(state.counts, EpisodeCounts):
            first_slots = None
            if self.count_first and not self.action:
                numbers = state_number(ctx.spec, self._facts(ctx.spec), batch.facts)
                first_slots, known = known.find(numbers, size, add=True)
            counts, visits = state.counts.count(slots, first_slots, batch.ended)
        else:
            counts, visits = count_visits(state.counts, slots)
        overflow = (slots == size).mean(dtype=jnp.float32)
        return {self.stream_name: self._bonus(visits)}, CountsState(known, counts, overflow)

    def rescore(self, state: CountsState, batch: Transition, ctx: Context) -> Rewards:
        """The bonus with the counts as they are; 0 for what was never counted."""
        if isinstance(state.counts, EpisodeCounts):
            raise TypeError("episodic counts cannot value replayed transitions; replay their collected reward")
        slots, _ = state.slots.find(self._numbers(batch, ctx.spec), self._size(ctx.spec), add=False)
        return {self.stream_name: self._bonus(state.counts.at[slots].get(mode="fill", fill_value=0))}

    def update(self, state: CountsState, batch: Transition, ctx: Context) -> tuple[CountsState, Metrics]:
        return state, {f"reward/{self.label}/overflow": state.overflow}

    def _bonus(self, visits: Array) -> Array:
        n = jnp.maximum(visits, 1).astype(jnp.float32)
        return jnp.where(visits > 0, self.beta * n**-self.power, 0.0)

    def _facts(self, spec: EnvSpec) -> tuple[str, ...]:
        return self.facts or (str(spec.position),)

    def _size(self, spec: EnvSpec) -> int:
        return min(num_states(spec, self._facts(spec), self.action), self.capacity)

    def _numbers(self, batch: Transition, spec: EnvSpec) -> Array:
        if self.action:
            return state_number(spec, self._facts(spec), batch.facts, batch.action)
        return state_number(spec, self._facts(spec), batch.next_facts)
