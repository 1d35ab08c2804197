"""The tabular environments: chains, random MDPs and grid worlds."""

import dataclasses
import functools
from collections.abc import Callable
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array

from envs.tabular.mdp import MDP, Tabular, TabularState
from jaxrew.types import Fact, unknown

LEFT, RIGHT = range(2)
"""The actions of chains."""


@dataclasses.dataclass(frozen=True)
class Chain(Tabular):
    """A corridor whose near end pays little and whose far end pays well (after Osband et al., 2016).

    Starts in state 1 of 0 .. length - 1. Actions: left, right; at an end the one that leads out stays.

    Attributes:
      length: states.
      slip: how often the opposite action is carried out.
      left_reward, right_reward: paid on every arrival (or stay) at state 0 and at the last state.
      goal_ends: whether arriving at the last state ends the episode; otherwise only the time limit does, `length + 9`.
    """

    length: int = 10
    slip: float = 0.0
    left_reward: float = 0.001
    right_reward: float = 1.0
    goal_ends: bool = False

    name: ClassVar[str] = "tabular/chain"

    @property
    def usual_max_steps(self) -> int:
        return self.length + 9

    @property
    def success(self) -> float | None:
        return _above(max(self.left_reward * self._limit, 0.0), self.right_reward)

    def build(self) -> MDP:
        _check_at_least("length", self.length, 3)
        _check_probability("slip", self.slip)
        mdp = _blank(self.length, 2)
        for state in range(self.length):
            for action, intended in ((LEFT, -1), (RIGHT, 1)):
                for direction, probability in ((intended, 1 - self.slip), (-intended, self.slip)):
                    mdp.P[state, action, np.clip(state + direction, 0, self.length - 1)] += probability
        mdp.R[:, :, 0], mdp.R[:, :, -1] = self.left_reward, self.right_reward
        mdp.start[1] = 1.0
        mdp.terminal[-1] = self.goal_ends
        return _absorb(mdp)


@dataclasses.dataclass(frozen=True)
class RiverSwim(Tabular):
    """Swimming up a river against the current (Strehl and Littman, 2008). Never terminates.

    Actions: left, which always succeeds; right, which goes ahead 0.3, stays 0.6 and drifts back 0.1 of the time (0.3
    and 0.7 at the left end; at the right end 0.3 stays and 0.7 drifts back). Starts in state 1 or 2.

    Attributes:
      length: states.
      left_reward: of going left in state 0.
      right_reward: of staying in the last state by going right.
    """

    length: int = 6
    left_reward: float = 5.0
    right_reward: float = 10_000.0

    name: ClassVar[str] = "tabular/riverswim"

    @property
    def usual_max_steps(self) -> int:
        return 100

    @property
    def success(self) -> float | None:
        return _above(max(self.left_reward * self._limit, 0.0), self.right_reward)

    def build(self) -> MDP:
        _check_at_least("length", self.length, 3)
        mdp = _blank(self.length, 2)
        last = self.length - 1
        for state in range(self.length):
            mdp.P[state, LEFT, max(state - 1, 0)] = 1.0
            mdp.P[state, RIGHT, min(state + 1, last)] += 0.3
            mdp.P[state, RIGHT, state] += {0: 0.7, last: 0.0}.get(state, 0.6)
            mdp.P[state, RIGHT, max(state - 1, 0)] += {0: 0.0, last: 0.7}.get(state, 0.1)
        mdp.R[0, LEFT, 0], mdp.R[last, RIGHT, last] = self.left_reward, self.right_reward
        mdp.start[[1, 2]] = 0.5
        return mdp


@dataclasses.dataclass(frozen=True)
class RandomMDP(Tabular):
    """A Garnet (Archibald, McKinnon and Thomas, 1995; Bhatnagar et al., 2009). Never terminates; starts anywhere.

    Each state and action has `branching` distinct successors, drawn uniformly; their probabilities are the gaps between
    `branching - 1` uniform points in [0, 1], and each transition has a standard normal reward.

    Attributes:
      states, actions, branching: sizes.
      seed: draws the MDP. It belongs to the environment: every episode, copy and training seed shares it.
    """

    states: int = 20
    actions: int = 4
    branching: int = 3
    seed: int = 0

    name: ClassVar[str] = "tabular/random-mdp"

    @property
    def usual_max_steps(self) -> int:
        return 100

    def build(self) -> MDP:
        _check_at_least("states", self.states, 2)
        _check_at_least("actions", self.actions, 1)
        if not 1 <= self.branching <= self.states:
            nearest = min(max(self.branching, 1), self.states)
            raise ValueError(f"branching is {self.branching}, but it must be from 1 to {self.states}; try {nearest}")
        rng, mdp = np.random.default_rng(self.seed), _blank(self.states, self.actions)
        for state in range(self.states):
            for action in range(self.actions):
                successors = rng.choice(self.states, self.branching, replace=False)
                cuts = np.sort(rng.uniform(size=self.branching - 1))
                mdp.P[state, action, successors] = np.diff(cuts, prepend=0.0, append=1.0)
                mdp.R[state, action, successors] = rng.standard_normal(self.branching)
        mdp.start[:] = 1.0 / self.states
        return mdp


LAYOUTS = {
    "four-rooms": """
#############
#.....#.....#
#.....#.....#
#...........#
#S....#.....#
#.....#.....#
##.####.....#
#.....###.###
#.....#..G..#
#.....#.....#
#...........#
#.....#.....#
#############""",
    "dyna-maze": """
.......#G
..#....#.
S.#....#.
..#......
.....#...
.........""",
    "russell-norvig": """
...G
.#.X
S...""",
    "cliff": """
............
............
............
SCCCCCCCCCCG""",
}
"""Four rooms (Sutton, Precup and Singh, 1999), with the start and goal of `FourRooms-misc`; the maze of Dyna (Sutton,
1990); the 4 by 3 world of Russell and Norvig's textbook; the cliff of Sutton and Barto's."""


@dataclasses.dataclass(frozen=True)
class GridWorld(Tabular):
    """A maze of cells. The states are the cells that one can stand on, row by row; actions are up, right, down, left.

    A layout is lines of `#` wall, `.` or space free, `S` a start (one of them, uniformly), `G` a goal and `X` a trap,
    which end the episode, and `C` cliff, from which one falls back to a start. Moving into a wall or out of the grid
    stays put.

    Attributes:
      layout: a name in `LAYOUTS`, or text; "four-rooms" if neither this nor `size` is given.
      size: instead of a layout, side of an open square with the start at the top left and the goal at the bottom right.
      walls: cells of that square, (row, column), that are walls.
      slip: how often the move is turned aside, half of it to either side.
      step_reward: paid on every step; what follows comes on top.
      goal_reward, trap_reward, cliff_reward: paid on arriving at a goal, at a trap, and on falling.
    """

    layout: str | None = None
    size: int | None = None
    walls: tuple[tuple[int, int], ...] = ()
    slip: float = 0.0
    step_reward: float = 0.0
    goal_reward: float = 1.0
    trap_reward: float = -1.0
    cliff_reward: float = -100.0

    name: ClassVar[str] = "tabular/gridworld"

    @property
    def usual_max_steps(self) -> int:
        return 4 * self.num_states

    @property
    def success(self) -> float | None:
        """Above it, an episode has reached a goal. A goal reached late can fall short of it if steps cost."""
        failures = [self.step_reward * self._limit]
        if (self.grid == "X").any():
            failures.append(self.trap_reward + max(self.step_reward, self.step_reward * self._limit))
        if (self.grid == "C").any():
            failures.append((self.step_reward + max(self.cliff_reward, 0.0)) * self._limit)
        return _above(max(failures), self.goal_reward + self.step_reward)

    @functools.cached_property
    def grid(self) -> np.ndarray:
        """The layout's characters, `[height, width]`."""
        if self.size is None:
            if self.walls:
                raise ValueError(f"walls = {self.walls} belong to a square; give its size, or draw them in a layout")
            return _parse("four-rooms" if self.layout is None else self.layout)
        if self.layout is not None:
            raise ValueError(f"size is {self.size}, but the layout has a size of its own; give one of the two")
        _check_at_least("size", self.size, 2)
        grid = np.full((self.size, self.size), ".")
        for wall in self.walls:
            if not all(0 <= place < self.size for place in wall):
                raise ValueError(f"the wall {wall} is outside the square; its last row is {self.size - 1}")
            if wall in ((0, 0), (self.size - 1, self.size - 1)):
                raise ValueError(f"the wall {wall} is on the {'goal' if any(wall) else 'start'}; leave that cell free")
            grid[wall] = "#"
        grid[0, 0], grid[-1, -1] = "S", "G"
        return grid

    @functools.cached_property
    def cells(self) -> np.ndarray:
        """Row and column of each state, int32 `[S, 2]`."""
        return np.argwhere(np.isin(self.grid, [".", "S", "G", "X"])).astype(np.int32)

    def as_grid(self, values: np.ndarray) -> np.ndarray:
        """A quantity of states `[S]` laid out `[height, width]`, NaN where there is no state."""
        laid_out = np.full(self.grid.shape, np.nan)
        laid_out[tuple(self.cells.T)] = values
        return laid_out

    def fact_specs(self) -> tuple[Fact, ...]:
        far = max(self.grid.shape) - 1
        return (*super().fact_specs(), Fact("position", "row and column of the agent", 0, far, (2,), unit="cells"))

    def facts(self, state: TabularState) -> dict[str, Array]:
        return {**super().facts(state), "position": jnp.asarray(self.cells)[state.index]}

    def build(self) -> MDP:
        _check_probability("slip", self.slip)
        kinds = self.grid[tuple(self.cells.T)]
        starts, mdp = np.flatnonzero(kinds == "S"), _blank(len(kinds), 4)
        mdp.start[starts] = 1.0 / len(starts)
        mdp.terminal[:] = np.isin(kinds, ["G", "X"])
        for state in range(len(kinds)):
            for action in range(4):
                for turn, probability in ((0, 1 - self.slip), (1, self.slip / 2), (3, self.slip / 2)):
                    successors, reward = self._arrive(state, (action + turn) % 4, starts)
                    mdp.P[state, action, successors] += probability / len(successors)
                    mdp.R[state, action, successors] += probability / len(successors) * reward
        # A transition can come about in two ways, a fall and a plain move: its reward is their mean.
        np.divide(mdp.R, mdp.P, out=mdp.R, where=mdp.P > 0)
        return _absorb(mdp)

    def _arrive(self, state: int, direction: int, starts: np.ndarray) -> tuple[np.ndarray, float]:
        """The states where a move may end, all equally likely, and what it pays."""
        ahead = self.cells[state] + ((-1, 0), (0, 1), (1, 0), (0, -1))[direction]
        inside = (ahead >= 0).all() and (ahead < self.grid.shape).all()
        kind = str(self.grid[tuple(ahead)]) if inside else "#"
        extra = {"G": self.goal_reward, "X": self.trap_reward, "C": self.cliff_reward}.get(kind, 0.0)
        reward = self.step_reward + extra
        if kind == "C":
            return starts, reward
        return np.array([state]) if kind == "#" else np.flatnonzero((self.cells == ahead).all(axis=1)), reward


@dataclasses.dataclass(frozen=True)
class Cliff(GridWorld):
    """Cliff walking (Sutton and Barto, 2018, example 6.6): the shortest way to the goal leads along a cliff.

    -1 per step, -100 and back to the start on falling. Above its `success`, the goal was reached within the limit.
    """

    layout: str | None = "cliff"
    step_reward: float = -1.0
    goal_reward: float = 0.0

    name: ClassVar[str] = "tabular/cliff"


FACTORIES: dict[str, Callable[..., Tabular]] = {
    "tabular/chain": Chain,
    "tabular/cliff": Cliff,
    "tabular/gridworld": GridWorld,
    "tabular/random-mdp": RandomMDP,
    "tabular/riverswim": RiverSwim,
}


def _blank(states: int, actions: int) -> MDP:
    return MDP(
        P=np.zeros((states, actions, states)),
        R=np.zeros((states, actions, states)),
        terminal=np.zeros(states, bool),
        start=np.zeros(states),
    )


def _absorb(mdp: MDP) -> MDP:
    """Keeps terminal states where they are, unpaid, and takes the reward off impossible transitions."""
    mdp.P[mdp.terminal] = np.eye(len(mdp.terminal))[mdp.terminal][:, None]
    mdp.R[mdp.terminal] = 0.0
    mdp.R[mdp.P == 0.0] = 0.0
    return mdp


def _parse(layout: str) -> np.ndarray:
    """The characters `[height, width]` of a layout, by name or as text; short lines are filled up with walls."""
    if layout not in LAYOUTS and not any(mark in layout for mark in "\nSG"):
        raise ValueError(unknown("layout", layout, LAYOUTS))
    lines = LAYOUTS.get(layout, layout).strip("\n").split("\n")
    width = max(map(len, lines))
    grid = np.array([list(line.rstrip("\r").ljust(width, "#").replace(" ", ".")) for line in lines])
    if strange := sorted(set(grid.ravel().tolist()) - set("#.SGXC")):
        raise ValueError(f"the layout has {strange[0]!r} in it; cells are '#', '.' or space, 'S', 'G', 'X', 'C'")
    if not (grid == "S").any():
        raise ValueError("the layout has no start; mark at least one cell with 'S'")
    return grid


def _above(failing: float, succeeding: float) -> float | None:
    """`failing`, the most that an unsuccessful episode earns, as a threshold, if success can exceed it."""
    return failing if succeeding > failing else None


def _check_at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise ValueError(f"{name} is {value}; it must be at least {least}")


def _check_probability(name: str, value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{name} is {value}; it is a probability, from 0 to 1")
