"""The rules of the MiniGrid world: what the seven actions do to a level and the agent in it, N levels at a time."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from envs.minigrid import cells as c

LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = range(7)


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
      task: what the family remembers of the level beside its cells (what the mission is about, where the target was),
        by the names of the facts that show it, int32.
    """

    grid: Array
    agent: Array
    direction: Array
    carrying: Array
    step_count: Array
    boxes: Boxes | None = None
    task: dict[str, Array] = {}  # noqa: RUF012 (never mutated)


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
