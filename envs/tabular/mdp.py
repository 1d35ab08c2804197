"""Finite Markov decision processes with their exact arrays at hand, to compare what a learner finds with the truth.

The compiled environments sample from those very arrays, so the two cannot disagree.
"""

import abc
import dataclasses
import functools
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from envs.base import Environment
from jaxrew.types import Discrete, EnvSpec, Fact, Step, unknown

OBSERVATIONS = ("one-hot", "index")


class MDP(NamedTuple):
    """S states and A actions, all float64 but `terminal`.

    Attributes:
      P: `[S, A, S]`, the probability of each successor. Terminal states stay where they are.
      R: `[S, A, S]`, the reward of each transition; 0 in terminal states and where P is 0.
      terminal: `[S]`, bool. Arriving there ends the episode.
      start: `[S]`, the distribution of the first state.
    """

    P: np.ndarray
    R: np.ndarray
    terminal: np.ndarray
    start: np.ndarray


class Draw(NamedTuple):
    """Distributions over K `outcomes`, and the same as thresholds `[..., K - 1]` for a random 32-bit word."""

    outcomes: np.ndarray
    probabilities: np.ndarray
    thresholds: np.ndarray


class TabularState(NamedTuple):
    """The state's number and the steps since the episode began, int32."""

    index: Array
    time: Array


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tabular(Environment):
    """A finite MDP. A subclass is its settings, a name, a time limit and `build`.

    Probabilities are met to 2^-32, rewards to float32. Values and policies below are of the MDP itself, without the
    time limit: it truncates, which is no end of the task.

    Attributes:
      obs: `"one-hot"`, float32 `[S]`; or `"index"`, an int32 number, S times smaller in a rollout. They read the same
        to a network (`spec.features`).
      max_steps: the time limit; None for the one that is usual with this environment.
    """

    obs: str = "one-hot"
    max_steps: int | None = None

    name: ClassVar[str] = "tabular"

    def __post_init__(self) -> None:
        if self.obs not in OBSERVATIONS:
            raise ValueError(unknown("tabular observation", self.obs, OBSERVATIONS))
        if self.max_steps is not None and self.max_steps < 1:
            raise ValueError(f"max_steps is {self.max_steps}; an episode has at least 1 step")
        _check_mdp(self.mdp)

    @abc.abstractmethod
    def build(self) -> MDP:
        """The arrays. Called once. Raises ValueError for settings that make no MDP."""

    @property
    @abc.abstractmethod
    def usual_max_steps(self) -> int:
        """The time limit where `max_steps` is None."""

    @property
    def success(self) -> float | None:
        """`EnvSpec.success`."""
        return None

    @functools.cached_property
    def mdp(self) -> MDP:
        """The arrays, read-only."""
        arrays = self.build()
        for array in arrays:
            array.flags.writeable = False
        return arrays

    @property
    def P(self) -> np.ndarray:
        """Transition probabilities `[S, A, S]`."""
        return self.mdp.P

    @property
    def R(self) -> np.ndarray:
        """Rewards `[S, A, S]`."""
        return self.mdp.R

    @property
    def num_states(self) -> int:
        """S."""
        return self.P.shape[0]

    @property
    def num_actions(self) -> int:
        """A."""
        return self.P.shape[1]

    # --- the compiled environment; every function acts on one environment or on a batch of any shape

    @property
    def spec(self) -> EnvSpec:
        one_hot = self.obs == "one-hot"
        return EnvSpec(
            name=self.name,
            obs_shape=(self.num_states,) if one_hot else (),
            obs_dtype="float32" if one_hot else "int32",
            action_space=Discrete(self.num_actions),
            max_steps=self._limit,
            facts=self.fact_specs(),
            position=self.fact_specs()[-1].name,
            success=self.success,
            features=None if one_hot else OneHot(self.num_states),
        )

    def fact_specs(self) -> tuple[Fact, ...]:
        """What `facts` returns, the position last; subclasses append to it."""
        return (Fact("state", "number of the state", 0, self.num_states - 1),)

    def facts(self, state: TabularState) -> dict[str, Array]:
        return {"state": state.index}

    def facts_many(self, state: TabularState) -> dict[str, Array]:
        return self.facts(state)

    def reset(self, key: Array) -> tuple[TabularState, Array]:
        return self._begin(jax.random.bits(key))

    def reset_many(self, keys: Array) -> tuple[TabularState, Array]:
        return self._begin(jax.vmap(jax.random.bits)(keys))

    def step(self, key: Array, state: TabularState, action: Array) -> tuple[TabularState, Step]:
        return self._advance(jax.random.bits(key), state, action)

    def step_many(self, key: Array, state: TabularState, action: Array) -> tuple[TabularState, Step]:
        return self._advance(jax.random.bits(key, action.shape), state, action)

    @functools.cached_property
    def _tables(self) -> tuple[Draw, Draw, np.ndarray]:
        """How to draw first states and successors, and the rewards `[S, A, K]` of the latter, float32."""
        successors = _draw_of(self.P)
        rewards = np.take_along_axis(self.R, successors.outcomes, axis=-1).astype(np.float32)
        return _draw_of(self.mdp.start), successors, rewards

    @property
    def _limit(self) -> int:
        return self.usual_max_steps if self.max_steps is None else self.max_steps

    def _begin(self, word: Array) -> tuple[TabularState, Array]:
        first = self._tables[0]
        index = jnp.asarray(first.outcomes)[_drawn(word, jnp.asarray(first.thresholds))]
        return TabularState(index, jnp.zeros_like(index)), self._observe(index)

    def _advance(self, word: Array, state: TabularState, action: Array) -> tuple[TabularState, Step]:
        _, successors, rewards = self._tables
        which = _drawn(word, jnp.asarray(successors.thresholds)[state.index, action])
        new = TabularState(jnp.asarray(successors.outcomes)[state.index, action, which], state.time + 1)
        reward = jnp.asarray(rewards)[state.index, action, which]
        terminated = jnp.asarray(self.mdp.terminal)[new.index]
        return new, Step(self._observe(new.index), reward, terminated, new.time >= self._limit, self.facts(new))

    def _observe(self, index: Array) -> Array:
        return OneHot(self.num_states)(index) if self.obs == "one-hot" else index

    # --- exact analysis, float64 NumPy

    def value_iteration(self, gamma: float, tol: float = 1e-8) -> tuple[np.ndarray, np.ndarray]:
        """Optimal values `(V [S], Q [S, A])`, each within `tol` (or float64 rounding, if larger) of the true one.

        With gamma = 1 it stops where no value changes by more than `tol`. Raises ValueError for a gamma outside [0, 1],
        and where the values for gamma = 1 do not settle.
        """
        _check_gamma(gamma)
        values = np.zeros(self.num_states)
        for _ in range(20_000 if gamma == 1.0 else 10**9):
            action_values = self.action_values(values, gamma)
            change = np.abs(action_values.max(axis=1) - values).max()
            values = action_values.max(axis=1)
            # V_k+1 is within gamma / (1 - gamma) |V_k+1 - V_k| of V* (Puterman, 1994, theorem 6.3.1).
            enough = tol if gamma in (0.0, 1.0) else tol * (1 - gamma) / gamma
            if change <= max(enough, 4 * np.finfo(float).eps * np.abs(values).max()):
                return values, action_values
        raise ValueError("the values for gamma = 1.0 do not settle, as an episode may never end; use gamma = 0.999")

    def action_values(self, values: np.ndarray, gamma: float) -> np.ndarray:
        """Q `[S, A]` of acting once and going on with `values` `[S]`: sum over s' of P (R + gamma V(s'))."""
        successors = self._tables[1]
        return self._mean_rewards + gamma * (successors.probabilities * values[successors.outcomes]).sum(axis=-1)

    def optimal_actions(self, gamma: float, tol: float = 1e-6) -> np.ndarray:
        """Which actions are optimal, bool `[S, A]`: those whose Q is within `tol` times the largest |Q| of the best."""
        values, action_values = self.value_iteration(gamma, 1e-3 * tol * np.abs(self._mean_rewards).max())
        return action_values >= values[:, None] - tol * np.abs(action_values).max()

    def optimal_policy(self, gamma: float) -> np.ndarray:
        """The first of the optimal actions of each state, int32 `[S]`."""
        return self.optimal_actions(gamma).argmax(axis=1).astype(np.int32)

    def policy_evaluation(self, policy: np.ndarray, gamma: float) -> np.ndarray:
        """Values `[S]` of a policy: the solution of V = r_pi + gamma P_pi V.

        Args:
          policy: probabilities `[S, A]`, or one action per state, integers `[S]`.
          gamma: in [0, 1]; 1 asks for a policy whose episodes end from every state.
        """
        _check_gamma(gamma)
        policy = self._probabilities(policy)
        transition, alive = np.einsum("sa,sat->st", policy, self.P), ~self.mdp.terminal
        if gamma == 1.0 and not _always_ends(transition, self.mdp.terminal):
            raise ValueError("the policy has no values for gamma = 1.0, as an episode may never end; use gamma = 0.999")
        values = np.zeros(self.num_states)
        system = np.eye(alive.sum()) - gamma * transition[np.ix_(alive, alive)]
        values[alive] = np.linalg.solve(system, (policy * self._mean_rewards).sum(axis=1)[alive])
        return values

    def occupancy(self, policy: np.ndarray, gamma: float) -> np.ndarray:
        """How often a policy is where, `[S]`: (1 - gamma) sum over t of gamma^t Pr(s_t = s), for gamma below 1.

        Sums to 1, since an episode that has ended stays in its terminal state. For `policy` see `policy_evaluation`.
        """
        if not 0.0 <= gamma < 1.0:
            raise ValueError(f"gamma is {gamma}; a discounted occupancy needs one in [0, 1), like 0.999")
        transition = np.einsum("sa,sat->st", self._probabilities(policy), self.P)
        return (1 - gamma) * np.linalg.solve(np.eye(self.num_states) - gamma * transition.T, self.mdp.start)

    @functools.cached_property
    def _mean_rewards(self) -> np.ndarray:
        return (self.P * self.R).sum(axis=-1)

    def _probabilities(self, policy: np.ndarray) -> np.ndarray:
        policy = np.asarray(policy)
        shape = (self.num_states, self.num_actions)
        if policy.shape == shape[:1] and policy.dtype.kind in "iu" and np.isin(policy, range(shape[1])).all():
            return np.eye(shape[1])[policy]
        if policy.shape != shape or (policy < 0).any() or not np.allclose(policy.sum(axis=-1), 1.0, atol=1e-6):
            raise ValueError(
                f"a policy of {self.name} is probabilities {shape} or {shape[0]} actions below {shape[1]}, "
                f"not {policy.dtype} {policy.shape}"
            )
        return policy.astype(np.float64)


@dataclasses.dataclass(frozen=True)
class OneHot:
    """Turns numbers `[...]` below `size` into one-hot float32 `[..., size]`. Two of one size are equal."""

    size: int

    def __call__(self, index: Array) -> Array:
        return jax.nn.one_hot(index, self.size, dtype=jnp.float32)


def _draw_of(probabilities: np.ndarray) -> Draw:
    """How to draw from distributions `[..., M]`; K is the largest number of possible outcomes."""
    most = int((probabilities > 0).sum(axis=-1).max())
    # The possible outcomes first, in order. Rows with fewer repeat their last one, which can then not be missed.
    order = np.argsort(probabilities <= 0, axis=-1, kind="stable")[..., :most]
    last = (probabilities > 0).sum(axis=-1, keepdims=True) - 1
    order = np.take_along_axis(order, np.minimum(np.arange(most), last), axis=-1)
    kept = np.take_along_axis(probabilities, order, axis=-1) * (np.arange(most) <= last)
    cumulative = np.cumsum(kept, axis=-1)[..., :-1]
    thresholds = np.minimum(np.rint(cumulative * 2.0**32), 2.0**32 - 1).astype(np.uint32)
    return Draw(order.astype(np.int32), kept, thresholds)


def _drawn(word: Array, thresholds: Array) -> Array:
    """The place `[...]` among the outcomes that uniform uint32 words `[...]` draw."""
    return (word[..., None] >= thresholds).sum(axis=-1, dtype=jnp.int32)


def _always_ends(transition: np.ndarray, terminal: np.ndarray) -> bool:
    """Whether a terminal state can be reached from every state, under a policy's `transition` `[S, S]`."""
    ends = terminal.copy()
    for _ in range(len(ends)):
        ends |= (transition[:, ends] > 0).any(axis=1)
    return bool(ends.all())


def _check_mdp(mdp: MDP) -> None:
    """Raises ValueError unless the arrays are those of an MDP."""
    P, R, terminal, start = mdp
    if P.ndim != 3 or not P.shape == R.shape == (*terminal.shape, P.shape[1], *start.shape):
        shapes = ", ".join(f"{name} {array.shape}" for name, array in mdp._asdict().items())
        raise ValueError(f"an MDP has P and R [S, A, S], terminal and start [S], not {shapes}")
    for name, rows in (("P", P), ("start", start)):
        sums = rows.sum(axis=-1)
        if (rows < 0).any() or not np.allclose(sums, 1.0, atol=1e-9, rtol=0):
            raise ValueError(
                f"the rows of {name} must be probabilities, but their sums go from {sums.min()} to {sums.max()}"
            )
    if (P[terminal].sum(axis=1)[:, ~terminal] > 0).any() or (R[terminal] != 0).any():
        raise ValueError("an episode that has ended must stay so, unpaid, but P or R leaves its end")
    if (start[terminal] > 0).any():
        raise ValueError(f"an episode cannot start at its end, but start has terminal states {start.nonzero()[0]}")


def _check_gamma(gamma: float) -> None:
    if not 0.0 <= gamma <= 1.0:
        raise ValueError(f"gamma is {gamma}; it must lie in [0, 1], like 0.99")
