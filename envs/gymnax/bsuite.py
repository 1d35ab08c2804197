"""The behaviour suite (Osband et al., 2020) as gymnax has it: small tasks that each test one ability."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from envs.base import State
from envs.gymnax.adapter import Gymnax, TimeLimited, step_count
from jaxrew.types import Discrete, EnvSpec, Fact, Step


@dataclasses.dataclass(frozen=True)
class Catch(TimeLimited):
    """Catch-bsuite: +1 for having the paddle under the falling ball when it lands, -1 otherwise.

    Observation: `[rows, columns]` uint8, 1 at the ball and at the paddle. Actions: left, stay, right. The ball falls a
    row per step, so an episode takes `rows - 1` steps, and the default time limit is never reached.

    Attributes:
      rows: height of the board; the paddle moves along its last row.
      columns: width of the board.
      max_steps: the time limit.
    """

    rows: int = 10
    columns: int = 5
    max_steps: int = 1000

    def __post_init__(self) -> None:
        if self.rows < 2:
            raise ValueError(f"rows is {self.rows}; the ball needs at least 2 to fall")
        if self.columns < 1:
            raise ValueError(f"columns is {self.columns}; the board has at least 1")
        super().__post_init__()

    @property
    def settings(self) -> dict[str, Any]:
        return {"rows": self.rows, "columns": self.columns}

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(
            name="Catch-bsuite",
            obs_shape=(self.rows, self.columns),
            obs_dtype="uint8",
            action_space=Discrete(3),
            max_steps=self.max_steps,
            facts=(
                Fact("paddle_column", "column of the paddle", 0, self.columns - 1),
                Fact("ball_row", "row of the ball, from the top", 0, self.rows - 1),
                Fact("ball_column", "column of the ball", 0, self.columns - 1),
            ),
            position="paddle_column",
            success=0.0 if self.max_steps >= self.rows - 1 else None,
        )

    def facts(self, state: State) -> dict[str, Array]:
        return {"paddle_column": state.paddle_x, "ball_row": state.ball_y, "ball_column": state.ball_x}


@dataclasses.dataclass(frozen=True)
class DeepSea(Gymnax):
    """DeepSea-bsuite (Osband et al., 2020): only the policy that goes right `size` times in a row finds the reward.

    Observation: one-hot `[size, size]` of row and column, all zeros at the end. Going right costs
    `unscaled_move_cost / size`; the last cell of the diagonal pays 1. An episode always takes `size` steps, and as in
    the library it then terminates and truncates at once.

    Attributes:
      size: rows and columns.
      deterministic: otherwise going right fails with probability 1 / size, and the two ends of the last row pay
        normal noise.
      randomize_actions: whether which action means "right" differs from cell to cell; otherwise it is always 1.
      mapping_seed: draws that table. It belongs to the environment: every episode, copy and training seed shares it.
      unscaled_move_cost: the sum of what going right costs in one episode.
    """

    size: int = 8
    deterministic: bool = True
    randomize_actions: bool = True
    mapping_seed: int = 0
    unscaled_move_cost: float = 0.01

    def __post_init__(self) -> None:
        if self.size < 2:
            raise ValueError(f"size is {self.size}; DeepSea has at least 2 rows")
        super().__post_init__()

    @property
    def settings(self) -> dict[str, Any]:
        return {"size": self.size, "action_mapping_key": jax.random.key(self.mapping_seed)}

    @property
    def params(self) -> dict[str, Any]:
        return {
            "deterministic": self.deterministic,
            "randomize_actions": self.randomize_actions,
            "unscaled_move_cost": self.unscaled_move_cost,
        }

    @property
    def stochastic(self) -> bool:
        return not self.deterministic

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(
            name="DeepSea-bsuite",
            obs_shape=(self.size, self.size),
            obs_dtype="float32",
            action_space=Discrete(2),
            max_steps=self.size,
            facts=(
                Fact("position", "row (the steps taken) and column", 0, self.size, (2,)),
                Fact("bad_episode", "1 once the agent has left the rewarding diagonal, otherwise 0", 0, 1),
            ),
            position="position",
            success=0.5,
        )

    @functools.cached_property
    def action_mapping(self) -> np.ndarray:
        """The action that means "right" in each cell, `[size, size]`."""
        env, params = self.library
        with jax.ensure_compile_time_eval():
            return np.asarray(env.reset_env(jax.random.key(0), params)[1].action_mapping)

    # The table is the same in every state, and as large as an observation: states go without it between steps.

    def reset(self, key: Array) -> tuple[State, Array]:
        state, obs = super().reset(key)
        return state.replace(action_mapping=()), obs

    def step(self, key: Array, state: State, action: Array) -> tuple[State, Step]:
        state, step = super().step(key, state.replace(action_mapping=jnp.asarray(self.action_mapping)), action)
        return state.replace(action_mapping=()), step

    def facts(self, state: State) -> dict[str, Array]:
        return {
            "position": jnp.stack([state.row, state.column]),
            "bad_episode": state.bad_episode.astype(jnp.int32),
        }


CHAIN_DELAYS = (1, 3, 10, 30, 100)
"""Steps after which each chain of DiscountingChain pays."""


@dataclasses.dataclass(frozen=True)
class DiscountingChain(TimeLimited):
    """DiscountingChain-bsuite: the first action chooses one of five chains, which pays once, 1 to 100 steps later.

    Chain i pays 1 at step `CHAIN_DELAYS[i]`, except that one of them pays 1.1. Observation: the chosen chain (-1 before
    the first step), then the fraction of the time limit that has passed. Never terminates.

    Attributes:
      mapping_seed: the chain that pays 1.1 (the library's name).
      max_steps: the time limit; chains that pay later never do.
    """

    mapping_seed: int = 0
    max_steps: int = 100

    def __post_init__(self) -> None:
        last = len(CHAIN_DELAYS) - 1
        if not 0 <= self.mapping_seed <= last:
            nearest = min(max(self.mapping_seed, 0), last)
            raise ValueError(
                f"mapping_seed is {self.mapping_seed}; it is one of the chains 0 to {last}, like {nearest}"
            )
        super().__post_init__()

    @property
    def settings(self) -> dict[str, Any]:
        return {"mapping_seed": self.mapping_seed}

    @property
    def spec(self) -> EnvSpec:
        chains = len(CHAIN_DELAYS)
        return EnvSpec(
            name="DiscountingChain-bsuite",
            obs_shape=(2,),
            obs_dtype="float32",
            action_space=Discrete(chains),
            max_steps=self.max_steps,
            facts=(
                Fact("chain", "the chosen chain, -1 before the first step", -1, chains - 1),
                step_count(self.max_steps),
            ),
            success=1.05 if self.max_steps >= CHAIN_DELAYS[self.mapping_seed] else None,
        )

    def facts(self, state: State) -> dict[str, Array]:
        return {"chain": state.context, "step_count": state.time}


@dataclasses.dataclass(frozen=True)
class MemoryChain(TimeLimited):
    """MemoryChain-bsuite: remember bits shown at the start, and name the one that is asked for at the end.

    Observation: the fraction of `memory_length` that is left; the queried bit's index, on the last step only; the
    bits as -1 or 1, on the first step only. Actions: 0 and 1, of which the last alone counts: +1 if it is the queried
    bit, otherwise -1. An episode takes `memory_length + 1` steps.

    As in the original, a step returns the observation made before its clock moved on, so the first one is seen twice.

    Attributes:
      memory_length: steps between seeing the bits and answering.
      num_bits: how many bits are shown.
      max_steps: the time limit.
    """

    memory_length: int = 5
    num_bits: int = 1
    max_steps: int = 1000

    def __post_init__(self) -> None:
        if self.memory_length < 1:
            raise ValueError(f"memory_length is {self.memory_length}; there is at least 1 step to remember over")
        if self.num_bits < 1:
            raise ValueError(f"num_bits is {self.num_bits}; there is at least 1 bit to remember")
        super().__post_init__()

    @property
    def settings(self) -> dict[str, Any]:
        return {"num_bits": self.num_bits}

    @property
    def params(self) -> dict[str, Any]:
        return super().params | {"memory_length": self.memory_length}

    @property
    def spec(self) -> EnvSpec:
        length = self.memory_length + 1
        return EnvSpec(
            name="MemoryChain-bsuite",
            obs_shape=(self.num_bits + 2,),
            obs_dtype="float32",
            action_space=Discrete(2),
            max_steps=self.max_steps,
            facts=(
                Fact("bits", "the bits to remember", 0, 1, (self.num_bits,)),
                Fact("query", "index of the bit asked for", 0, self.num_bits - 1),
                step_count(min(length, self.max_steps)),
            ),
            success=0.0 if self.max_steps >= length else None,
        )

    def facts(self, state: State) -> dict[str, Array]:
        return {"bits": state.context, "query": state.query, "step_count": state.time}


@dataclasses.dataclass(frozen=True)
class UmbrellaChain(TimeLimited):
    """UmbrellaChain-bsuite: take an umbrella or not at the first step, and learn at the last whether it was right.

    The last step pays +1 if having the umbrella equals needing it, otherwise -1; every other one pays +1 or -1 at
    random. Observation: need for the umbrella, having it, the fraction of the chain that is left, and
    `n_distractor` random bits. Actions: 0 and 1, of which the first alone counts: 1 takes the umbrella.

    Attributes:
      chain_length: steps of an episode.
      n_distractor: random bits in the observation.
      max_steps: the time limit; at the default `chain_length` it is never reached.
    """

    chain_length: int = 10
    n_distractor: int = 0
    max_steps: int = 100

    def __post_init__(self) -> None:
        if self.chain_length < 1:
            raise ValueError(f"chain_length is {self.chain_length}; the chain has at least 1 step")
        if self.n_distractor < 0:
            raise ValueError(f"n_distractor is {self.n_distractor}; it counts bits, so at least 0")
        super().__post_init__()

    @property
    def settings(self) -> dict[str, Any]:
        return {"n_distractor": self.n_distractor}

    @property
    def params(self) -> dict[str, Any]:
        return super().params | {"chain_length": self.chain_length}

    @property
    def stochastic(self) -> bool:
        return True

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(
            name="UmbrellaChain-bsuite",
            obs_shape=(3 + self.n_distractor,),
            obs_dtype="float32",
            action_space=Discrete(2),
            max_steps=self.max_steps,
            facts=(
                Fact("need_umbrella", "1 if it will rain, otherwise 0", 0, 1),
                Fact("has_umbrella", "1 with the umbrella, otherwise 0; at random before the first step", 0, 1),
                step_count(min(self.chain_length, self.max_steps)),
            ),
        )

    def facts(self, state: State) -> dict[str, Array]:
        return {
            "need_umbrella": state.need_umbrella,
            "has_umbrella": state.has_umbrella,
            "step_count": state.time,
        }


@dataclasses.dataclass(frozen=True)
class SimpleBandit(TimeLimited):
    """SimpleBandit-bsuite: one pull of one of `num_actions` arms, whose rewards are spread evenly over [0, 1].

    Observation: a constant 1, `[1, 1]`. Every step terminates.

    Attributes:
      num_actions: how many arms.
      mapping_seed: draws which arm pays what, once for all episodes, as in the original. None draws anew in every
        episode, as the library does; nothing can then be learnt, because an episode is a single pull.
      max_steps: the time limit, which a single step only reaches if it is 1.
    """

    num_actions: int = 11
    mapping_seed: int | None = None
    max_steps: int = 100

    def __post_init__(self) -> None:
        if self.num_actions < 2:
            raise ValueError(f"num_actions is {self.num_actions}; a choice is between at least 2 arms")
        super().__post_init__()

    @property
    def settings(self) -> dict[str, Any]:
        return {"num_actions": self.num_actions}

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(
            name="SimpleBandit-bsuite",
            obs_shape=(1, 1),
            obs_dtype="float32",
            action_space=Discrete(self.num_actions),
            max_steps=self.max_steps,
            facts=(Fact("arm_rewards", "what each arm pays", 0.0, 1.0, (self.num_actions,), "float32"),),
            success=1.0 - 0.5 / (self.num_actions - 1),
        )

    def reset(self, key: Array) -> tuple[State, Array]:
        return super().reset(key if self.mapping_seed is None else jax.random.key(self.mapping_seed))

    def facts(self, state: State) -> dict[str, Array]:
        return {"arm_rewards": state.rewards}
