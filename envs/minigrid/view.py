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


def view_cells(grid: Array, agent: Array, direction: Array, size: int, bordered: bool) -> Array:
    """The cells ahead of the agent before anything is hidden. Cells outside the map read as grey walls.

    Args:
      grid: cells `[N, height, width]`.
      agent: index of the agent's cell, `y * width + x`, `[N]`.
      direction: `[N]`.
      size: side of the view, odd.
      bordered: whether all border cells that can be seen are grey walls, which spares a comparison.

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
    view = flat.reshape(num_envs, size, size)
    if bordered:
        return view

    def inside(x: Array, y: Array) -> Array:
        return (x >= 0) & (x < width) & (y >= 0) & (y < height)

    ahead_inside = inside(x[:, None] + step_x[:, None] * ahead, y[:, None] + step_y[:, None] * ahead)
    right_inside = inside(x[:, None] - step_y[:, None] * right, y[:, None] + step_x[:, None] * right)
    return jnp.where(right_inside[:, :, None] & ahead_inside[:, None, :], view, jnp.uint8(c.GREY_WALL))


def pass_light(lit: Array, clear: Array, size: int) -> tuple[Array, Array]:
    """How light spreads in one row of the view, as bit masks (bit x is column x), uint32 of any shape.

    It fills every run of clear cells that it reaches, and a filled cell lights its two neighbours and the three cells
    above them. That is what Farama's two passes, rightwards and then leftwards, amount to.

    Args:
      lit: cells that the row below (or the agent) lights.
      clear: cells that light passes through.
      size: columns of the view.

    Returns:
      All lit cells of the row, and the cells it lights in the row above.
    """
    # A carry runs from the lowest lit cell of a clear run to its upper end; XOR marks its path.
    filled = (lit | (((lit & clear) + clear) ^ clear)) & clear
    run, shift = clear, 1
    while shift < size:
        filled, run, shift = filled | (filled >> shift) & run, run & (run >> shift), 2 * shift
    above = (filled | filled << 1 | filled >> 1) & ((1 << size) - 1)
    return lit | above, above


def visible_rows(clear: Array) -> Array:
    """The lit cells of a view, row by row from the agent's, in the middle of the last, to the first.

    Args:
      clear: bit masks of the cells that light passes through, uint32 `[N, size]`.

    Returns:
      Bit masks likewise, in the smallest unsigned type that holds them.
    """
    size = clear.shape[-1]
    full = (1 << size) - 1
    above = jnp.full(clear.shape[0], 1 << size // 2, jnp.uint32)
    rows = []
    for y in reversed(range(size)):
        lit, above = pass_light(above, clear[:, y], size)
        # One array, and a barrier: otherwise XLA recomputes all rows so far for every row, and for every cell.
        both = lax.optimization_barrier(lit | above << size)
        lit, above = both & full, both >> size
        rows.append(lit.astype(np.min_scalar_type(full)))
    return lax.optimization_barrier(jnp.stack(rows[::-1], axis=-1))


def visible(view: Array) -> Array:
    """Which cells of a view `[N, size, size]` are seen, bool of the same shape."""
    size = view.shape[-1]
    bits = jnp.asarray(1 << np.arange(size), np.min_scalar_type((1 << size) - 1))[:, None]
    clear = jnp.sum(jnp.where(c.is_opaque(view), 0, bits.astype(jnp.uint32)), axis=1, dtype=jnp.uint32)
    return (visible_rows(clear)[:, None, :] & bits) != 0


def observe(
    grid: Array, agent: Array, direction: Array, carrying: Array, size: int, see_through: bool, bordered: bool
) -> Array:
    """The packed observation `[N, size, size]`, uint8: cells as seen, 0 where unseen, what is carried at the agent."""
    # Gathered once, for the masks and for the observation.
    view = lax.optimization_barrier(view_cells(grid, agent, direction, size, bordered))
    if not see_through:
        view = jnp.where(visible(view), view, jnp.uint8(c.UNSEEN))
    x, y = size // 2, size - 1
    at_agent = (jnp.arange(size)[:, None] == x) & (jnp.arange(size) == y)
    return jnp.where(at_agent, carrying[:, None, None], view)


def overview(grid: Array, agent: Array, direction: Array) -> Array:
    """The whole grid as an image `[N, width, height, 3]`, uint8, the agent in it with its direction as the state."""
    num_envs, height, width = grid.shape
    image = jnp.swapaxes(c.unpack(grid), 1, 2)
    here = (jnp.arange(width)[:, None] == (agent % width)[:, None, None]) & (
        jnp.arange(height) == (agent // width)[:, None, None]
    )
    zero = jnp.zeros(num_envs, jnp.int32)
    agents = jnp.stack([zero + c.AGENT, zero + c.RED, direction], axis=-1).astype(jnp.uint8)
    return jnp.where(here[..., None], agents[:, None, None], image)
