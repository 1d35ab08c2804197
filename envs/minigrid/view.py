"""What the agent sees: a square ahead of it, turned so that the agent looks up, minus what walls and doors hide.

Views are indexed `[x, y]` as in MiniGrid: the agent stands in the middle of the last row, `[size // 2, size - 1]`.
"""

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from envs.minigrid import cells as c

STEP_X = (1, 0, -1, 0)
STEP_Y = (0, 1, 0, -1)
"""One step ahead for direction 0 right, 1 down, 2 left, 3 up; y grows downwards."""


def view_cells(grid: Array, agent: Array, direction: Array, size: int) -> Array:
    """The cells ahead of the agent before anything is hidden.

    Cells outside the map read as the nearest border cell, which every MiniGrid level makes a grey wall wherever it can
    be seen.

    Args:
      grid: cells `[N, height, width]`.
      agent: index of the agent's cell, `y * width + x`, `[N]`.
      direction: `[N]`.
      size: side of the view, odd.

    Returns:
      `[N, size, size]`, indexed `[x, y]`.
    """
    num_envs, height, width = grid.shape
    x, y = agent % width, agent // width
    step_x, step_y = jnp.array(STEP_X)[direction], jnp.array(STEP_Y)[direction]
    ahead = size - 1 - jnp.arange(size)
    right = jnp.arange(size) - size // 2
    moves_in_x = (step_x != 0)[:, None]

    def column(offset: Array) -> Array:
        return jnp.clip(x[:, None] + offset, 0, width - 1)

    def row(offset: Array) -> Array:
        return jnp.clip(y[:, None] + offset, 0, height - 1) * width

    along = jnp.where(moves_in_x, column(step_x[:, None] * ahead), row(step_y[:, None] * ahead))
    across = jnp.where(moves_in_x, row(step_x[:, None] * right), column(-step_y[:, None] * right))
    index = across[:, :, None] + along[:, None, :]
    flat = jnp.take_along_axis(
        grid.reshape(num_envs, -1), index.reshape(num_envs, -1), axis=1, mode="promise_in_bounds"
    )
    return flat.reshape(num_envs, size, size)


def visible_rows(transparent: Array) -> Array:
    """Which cells of each view row are seen, by MiniGrid's rule, as bit masks (bit x is column x).

    Light starts at the agent, in the middle of the last row. In every row, from the agent's outwards, it spreads
    right and then left through transparent cells and lights the cell it stops at; a lit transparent cell lights the
    one above it, and the ones diagonally above in the directions in which it was passed.

    Args:
      transparent: masks of the cells light passes through, `[N, size]`, first row first.

    Returns:
      Masks of the lit cells, likewise, in the smallest unsigned type that holds them.
    """
    size = transparent.shape[-1]
    full = (1 << size) - 1
    lit = jnp.full(transparent.shape[0], 1 << size // 2, jnp.uint32)
    rows = []
    for y in reversed(range(size)):
        clear = transparent[:, y].astype(jnp.uint32)
        # A carry runs from the lowest lit cell of a transparent run to the cell that ends it; XOR marks its path.
        lit = lit | (((lit & clear) + clear) ^ clear) & full
        rightward = lit & clear
        leftward, run, shift = rightward, clear, 1
        while shift < size:
            leftward, run, shift = leftward | (leftward >> shift) & run, run & (run >> shift), 2 * shift
        spread = leftward | (leftward >> 1)
        # Without the barrier XLA recomputes all rows below for every cell of this one.
        row = lax.optimization_barrier(lit | spread | (spread | (rightward << 1) & full) << size)
        rows.append((row & full).astype(np.min_scalar_type(full)))
        lit = row >> size
    return lax.optimization_barrier(jnp.stack(rows[::-1], axis=-1))


def visible(view: Array) -> Array:
    """Which cells of a view `[N, size, size]` are seen, bool of the same shape."""
    size = view.shape[-1]
    bits = jnp.asarray(1 << np.arange(size), np.min_scalar_type((1 << size) - 1))[:, None]
    transparent = jnp.sum(jnp.where(c.is_opaque(view), 0, bits.astype(jnp.uint32)), axis=1, dtype=jnp.uint32)
    return (visible_rows(transparent)[:, None, :] & bits) != 0


def observe(grid: Array, agent: Array, direction: Array, carrying: Array, size: int, see_through: bool) -> Array:
    """The packed observation `[N, size, size]`, uint8: cells as seen, 0 where unseen, what is carried at the agent."""
    # Gathered once, for the masks and for the observation.
    view = lax.optimization_barrier(view_cells(grid, agent, direction, size))
    if not see_through:
        view = jnp.where(visible(view), view, jnp.uint8(c.UNSEEN))
    x, y = size // 2, size - 1
    at_agent = (jnp.arange(size)[:, None] == x) & (jnp.arange(size) == y)
    return jnp.where(at_agent, carrying[:, None, None], view)
