"""Turns the state of a Farama MiniGrid environment into ours, to step both from the same level."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from envs.minigrid import cells as c
from envs.minigrid.core import MiniGrid, batch_of_one, unbatch
from envs.minigrid.world import Boxes, GridState
from jaxrew.types import unknown


def import_state(farama_env: Any, env: MiniGrid | None = None) -> tuple[GridState, Array]:
    """The state and observation of one Farama environment, without a batch axis.

    Args:
      farama_env: a `minigrid.minigrid_env.MiniGridEnv`, wrapped or not, after `reset` (or any number of steps).
      env: the environment that will step the state; by default the one registered under Farama's id.

    Raises:
      ValueError: when the id is not one of ours, the sizes differ, a box holds something and `env.boxes_hold` is
        False, or what it holds holds something.
    """
    if env is None:
        from envs.minigrid import IDS

        if farama_env.spec.id not in IDS:
            raise ValueError(unknown("MiniGrid id", farama_env.spec.id, IDS))
        env = IDS[farama_env.spec.id]()
    world = farama_env.unwrapped
    if env.shape != (world.height, world.width):
        raise ValueError(f"{env.name} is {env.shape[1]} x {env.shape[0]}, the world {world.width} x {world.height}")
    objects, shape = world.grid.grid, (world.height, world.width)
    grid = np.array([_cell(thing) for thing in objects], np.uint8).reshape(shape)
    x, y = (int(value) for value in world.agent_pos)
    state = GridState(
        grid=jnp.asarray(grid),
        agent=jnp.int32(y * world.width + x),
        direction=jnp.int32(world.agent_dir),
        carrying=jnp.uint8(_cell(world.carrying)),
        step_count=jnp.int32(world.step_count),
        task={name: jnp.asarray(value, jnp.int32) for name, value in env.import_task(world).items()},
    )
    if env.boxes_hold:
        contents = np.array([_cell(_contents(thing)) for thing in objects], np.uint8).reshape(shape)
        state = state._replace(boxes=Boxes(jnp.asarray(contents), jnp.uint8(_cell(_contents(world.carrying)))))
    elif any(_contents(thing) is not None for thing in (*objects, world.carrying)):
        raise ValueError(f"a box holds an object, but {type(env).__name__}.boxes_hold is False; set it to True")
    return state, _observation(env, state)


@functools.partial(jax.jit, static_argnums=0)
def _observation(env: MiniGrid, state: GridState) -> Array:
    return unbatch(env.observation(batch_of_one(state)))


def _cell(thing: Any) -> int:
    if thing is None:
        return c.EMPTY
    kind, colour, door_state = thing.encode()
    if kind == c.DOOR and door_state != c.OPEN:
        kind = c.CLOSED_DOOR - 1 + door_state
    return kind | colour << 4


def _contents(thing: Any) -> Any:
    held = None if thing is None else thing.contains
    if held is not None and held.contains is not None:
        raise ValueError("a box holds a box that holds something, but one object inside another is the limit")
    return held
