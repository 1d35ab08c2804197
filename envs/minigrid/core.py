"""The MiniGrid world, exactly as in Farama's `minigrid` 3.2.0 (Chevalier-Boisvert et al. 2023), N levels at a time.

A family of levels (`empty.py`, `doorkey.py`, ...) subclasses `MiniGrid` and says how levels are generated; walls,
doors, keys, balls, boxes, floors, goals, lava, the seven actions, occlusion and observations are here.
"""

import abc
import dataclasses
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from envs.base import Environment
from envs.minigrid import cells as c
from envs.minigrid.view import STEP_X, STEP_Y, observe
from jaxrew.types import Discrete, EnvSpec, Fact, Step, unknown

LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = range(7)

OBSERVATIONS = ("packed", "partial")


class Boxes(NamedTuple):
    """What boxes hold, as cells: `grid` at every place, `[height, width]`, and `carried` in the carried box."""

    grid: Array
    carried: Array


class GridState(NamedTuple):
    """A level and the agent in it, all leaves `[N, ...]` (or without N for one environment).

    Attributes:
      grid: cells `[height, width]`, uint8, without the agent.
      agent: index of the agent's cell, `y * width + x`, int32.
      direction: 0 right, 1 down, 2 left, 3 up, int32.
      carrying: the cell byte of what is carried; `EMPTY` for nothing. uint8.
      step_count: steps since the episode began, int32.
      boxes: what boxes hold; None in families whose boxes are all empty.
    """

    grid: Array
    agent: Array
    direction: Array
    carrying: Array
    step_count: Array
    boxes: Boxes | None = None


@dataclasses.dataclass(frozen=True)
class MiniGrid(Environment, abc.ABC):
    """A MiniGrid level family.

    Attributes:
      obs: `"packed"`, one byte per cell (see `cells`), uint8 `[view_size, view_size]`; or `"partial"`, Farama's image,
        uint8 `[view_size, view_size, 3]`. Both are indexed `[x, y]` and read the same to a network (`spec.features`).
        Farama's separate `direction` is a fact, not part of the observation: the view turns with the agent.
      view_size: side of the square the agent sees, odd, 3 to 15.
    """

    obs: str = "packed"
    view_size: int = 7

    see_through: ClassVar[bool] = False
    """Whether walls and shut doors hide what is behind them (False) or not (True)."""
    boxes_hold: ClassVar[bool] = False
    """Whether boxes may hold an object, which needs a second plane in the state."""

    def __post_init__(self) -> None:
        if self.obs not in OBSERVATIONS:
            raise ValueError(unknown("MiniGrid observation", self.obs, OBSERVATIONS))
        if not 3 <= self.view_size <= 15 or self.view_size % 2 == 0:
            nearest = min(max(3, self.view_size | 1), 15)
            raise ValueError(f"view_size is {self.view_size}, but it must be odd and from 3 to 15; try {nearest}")

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The Farama id."""

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, int]:
        """Height and width of the grid, border walls included."""

    @property
    @abc.abstractmethod
    def max_steps(self) -> int:
        """The time limit."""

    @abc.abstractmethod
    def levels(self, keys: Array) -> tuple[Array, Array, Array]:
        """Fresh levels `(grid, agent, direction)`, as in `GridState`, level i from `keys[i]` alone."""

    def outcome(self, state: GridState, action: Array, front: Array, after: GridState) -> tuple[Array, Array]:
        """`(reward, terminated)` `[N]` of a transition: walking onto a goal pays and ends, walking into lava ends.

        Success is worth 1 - 0.9 step_count / max_steps, this step counted.

        Args:
          state: before the action.
          action: the action taken.
          front: the cell that was ahead.
          after: after the action.
        """
        forward = action == FORWARD
        success = forward & (c.kind(front) == c.GOAL)
        died = forward & (c.kind(front) == c.LAVA)
        return jnp.where(success, success_rewards(self.max_steps)[after.step_count], 0.0), success | died

    @property
    def spec(self) -> EnvSpec:
        packed = self.obs == "packed"
        view = (self.view_size, self.view_size)
        return EnvSpec(
            name=self.name,
            obs_shape=view if packed else (*view, 3),
            obs_dtype="uint8",
            action_space=Discrete(7),
            max_steps=self.max_steps,
            facts=self.fact_specs(),
            position="agent_pos",
            success=0.0,
            features=c.packed_features if packed else c.image_features,
        )

    def fact_specs(self) -> tuple[Fact, ...]:
        """What `facts_many` returns; families append their own."""
        far = max(self.shape) - 1
        return (
            Fact("agent_pos", "cell of the agent, (x, y) from the top left", 0, far, (2,), unit="cells"),
            Fact("direction", "where the agent faces: 0 right, 1 down, 2 left, 3 up", 0, 3),
            Fact("front", "object ahead: 1 empty 2 wall 3 floor 4 door 5 key 6 ball 7 box 8 goal 9 lava", 1, 9),
            Fact("front_colour", "its colour: 0 red 1 green 2 blue 3 purple 4 yellow 5 grey; 0 if empty", 0, 5),
            Fact("front_state", "state of a door ahead: 0 open 1 closed 2 locked; 0 if no door", 0, 2),
            Fact("carrying", "object carried: 1 nothing 5 key 6 ball 7 box", 1, 7),
            Fact("carrying_colour", "its colour, as in front_colour; 0 if nothing", 0, 5),
            Fact("step_count", "steps since the episode began", 0, self.max_steps, unit="steps"),
        )

    def facts_many(self, state: GridState) -> dict[str, Array]:
        front = c.unpack(at(state.grid, self._front_index(state))).astype(jnp.int32)
        carrying = c.unpack(state.carrying).astype(jnp.int32)
        return {
            "agent_pos": self.position(state.agent),
            "direction": state.direction,
            "front": front[:, 0],
            "front_colour": front[:, 1],
            "front_state": front[:, 2],
            "carrying": carrying[:, 0],
            "carrying_colour": carrying[:, 1],
            "step_count": state.step_count,
        }

    def position(self, index: Array) -> Array:
        """Cell indices `[N]` as `(x, y)`, int32 `[N, 2]`."""
        width = self.shape[1]
        return jnp.stack([index % width, index // width], axis=-1)

    def observation(self, state: GridState) -> Array:
        """The observation of states `[N, ...]`."""
        packed = observe(state.grid, state.agent, state.direction, state.carrying, self.view_size, self.see_through)
        return packed if self.obs == "packed" else c.unpack(packed)

    def reset_many(self, keys: Array) -> tuple[GridState, Array]:
        state = start(*self.levels(keys), boxes_hold=self.boxes_hold)
        return state, self.observation(state)

    def step_many(self, key: Array, state: GridState, action: Array) -> tuple[GridState, Step]:
        index = self._front_index(state)
        front = at(state.grid, index)
        after = interact(move(state, index, front, action), index, front, action)
        after = after._replace(step_count=state.step_count + 1)
        reward, terminated = self.outcome(state, action, front, after)
        truncated = after.step_count >= self.max_steps
        return after, Step(self.observation(after), reward, terminated, truncated, self.facts_many(after))

    def reset(self, key: Array) -> tuple[GridState, Array]:
        return unbatch(self.reset_many(key[None]))

    def step(self, key: Array, state: GridState, action: Array) -> tuple[GridState, Step]:
        return unbatch(self.step_many(key, batch_of_one(state), jnp.asarray(action)[None]))

    def facts(self, state: GridState) -> dict[str, Array]:
        return unbatch(self.facts_many(batch_of_one(state)))

    def _front_index(self, state: GridState) -> Array:
        width = self.shape[1]
        return state.agent + (jnp.array(STEP_X) + width * jnp.array(STEP_Y))[state.direction]


def success_rewards(max_steps: int) -> Array:
    """1 - 0.9 t / max_steps for t = 0 .. max_steps, rounded from float64: float32 sums differ by 1 ulp."""
    return jnp.asarray((1 - 0.9 * (np.arange(max_steps + 1) / max_steps)).astype(np.float32))


def at(grid: Array, index: Array) -> Array:
    """The cells `[N]` of `grid` `[N, height, width]` at `index` `[N]`."""
    flat = grid.reshape(grid.shape[0], -1)
    return jnp.take_along_axis(flat, index[:, None], axis=1, mode="promise_in_bounds")[:, 0]


def put(grid: Array, index: Array, cell: Array) -> Array:
    """`grid` with `cell` `[N]` at `index` `[N]`."""
    flat = grid.reshape(grid.shape[0], -1)
    rows = jnp.arange(flat.shape[0])
    options = {"mode": "promise_in_bounds", "unique_indices": True, "indices_are_sorted": True}
    return flat.at[rows, index].set(cell, **options).reshape(grid.shape)


def move(state: GridState, index: Array, front: Array, action: Array) -> GridState:
    """Turns the agent, or walks it onto an empty cell, a floor, an open door, a goal or lava."""
    kind = c.kind(front)
    walkable = (kind == c.EMPTY) | (kind == c.FLOOR) | (kind == c.DOOR) | (kind == c.GOAL) | (kind == c.LAVA)
    turn = (action == RIGHT).astype(jnp.int32) - (action == LEFT)
    return state._replace(
        agent=jnp.where((action == FORWARD) & walkable, index, state.agent),
        direction=(state.direction + turn) & 3,
    )


def interact(state: GridState, index: Array, front: Array, action: Array) -> GridState:
    """Picks up, drops or toggles what is at `index`, the cell ahead, which holds `front`."""
    kind = c.kind(front)
    empty_handed = state.carrying == c.EMPTY
    picks = (action == PICKUP) & (kind >= c.KEY) & (kind <= c.BOX) & empty_handed
    drops = (action == DROP) & (kind == c.EMPTY) & ~empty_handed
    swaps = picks | drops
    toggles = action == TOGGLE
    swings = toggles & ((kind == c.DOOR) | (kind == c.CLOSED_DOOR))
    unlocks = toggles & (kind == c.LOCKED_DOOR) & (state.carrying == front ^ (c.LOCKED_DOOR ^ c.KEY))
    opens_box = toggles & (kind == c.BOX)

    after = jnp.where(swaps, state.carrying, front)
    after = jnp.where(swings, front ^ (c.DOOR ^ c.CLOSED_DOOR), after)
    after = jnp.where(unlocks, front ^ (c.LOCKED_DOOR ^ c.DOOR), after)
    held = jnp.uint8(c.EMPTY)
    boxes = state.boxes
    if boxes is not None:
        held = at(boxes.grid, index)
        inside = jnp.where(opens_box, jnp.uint8(c.EMPTY), jnp.where(swaps, boxes.carried, held))
        boxes = Boxes(put(boxes.grid, index, inside), jnp.where(swaps, held, boxes.carried))
    return state._replace(
        grid=put(state.grid, index, jnp.where(opens_box, held, after)),
        carrying=jnp.where(swaps, front, state.carrying),
        boxes=boxes,
    )


def start(grid: Array, agent: Array, direction: Array, boxes_hold: bool) -> GridState:
    """The state at the start of levels `[N, ...]` whose boxes, if any, are empty."""
    nothing = jnp.full(agent.shape, c.EMPTY, jnp.uint8)
    return GridState(
        grid=grid,
        agent=agent,
        direction=direction,
        carrying=nothing,
        step_count=jnp.zeros(agent.shape, jnp.int32),
        boxes=Boxes(jnp.full_like(grid, c.EMPTY), nothing) if boxes_hold else None,
    )


def walled(height: int, width: int) -> np.ndarray:
    """An empty room: cells `[height, width]` with grey walls around."""
    room = np.full((height, width), c.EMPTY, np.uint8)
    room[[0, -1], :] = room[:, [0, -1]] = c.GREY_WALL
    return room


def random_words(keys: Array, count: int) -> list[Array]:
    """`count` independent uniform uint32 arrays `[N]`, entry i from `keys[i]` alone.

    `word % n` is then uniform below n up to n / 2^32.
    """
    words = jax.vmap(lambda key: jax.random.bits(key, (count,)))(keys)
    return [words[:, i] for i in range(count)]


def batch_of_one(tree):
    """Adds an axis of length 1 in front of every leaf."""
    return jax.tree.map(lambda x: x[None], tree)


def unbatch(tree):
    """Takes it away again."""
    return jax.tree.map(lambda x: x[0], tree)
