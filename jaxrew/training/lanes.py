"""Many trainings in one compiled program.

A lane is one seed (of one setting). Lanes are laid over the local devices and never communicate: the compiled program
has no collectives. On each device they run one after the other (`"map"`: bit-equal whatever runs beside them, and as
fast as vmap on CPU) or side by side (`"vmap"`: fast on accelerators).
"""

import functools
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from jaxrew.rewards.base import RewardModule
from jaxrew.types import PyTree

if TYPE_CHECKING:
    from envs.vector import VecEnv

AXIS = "lane"


def use_every_core() -> None:
    """On CPU, makes every core a device, so that seeds run on all of them. To be called before JAX's first use."""
    jax.config.update("jax_num_cpu_devices", os.cpu_count() or 1)


class Lane(NamedTuple):
    """One training: the agent's state, and whether its losses have stayed finite (it stops where they have not)."""

    state: PyTree
    alive: Array


class Settings(NamedTuple):
    """What a lane trains with; leaves have a leading lane axis outside the compiled program."""

    agent: Any
    reward: RewardModule


class Program(NamedTuple):
    """The static half of a training: equal programs share one compilation."""

    env: "VecEnv"
    mode: str
    mesh: Mesh


def make_program(env: "VecEnv", num_lanes: int, mode: str = "auto", devices: Sequence[Any] | None = None) -> Program:
    """Chooses how lanes run: mode "auto" is "map" on CPU and "vmap" elsewhere, on `devices` (by default all local)."""
    if num_lanes < 1:
        raise ValueError(f"there must be at least 1 seed, got {num_lanes}")
    devices = (devices or jax.local_devices())[:num_lanes]
    if mode == "auto":
        mode = "map" if devices[0].platform == "cpu" else "vmap"
    if mode not in ("map", "vmap"):
        raise ValueError(f"lanes must be 'auto', 'map' or 'vmap', got {mode!r}")
    return Program(env, mode, Mesh(np.array(devices), (AXIS,), axis_types=(AxisType.Auto,)))


def place(program: Program, tree: PyTree) -> PyTree:
    """Lays lane-major arrays `[L, ...]` over the devices, repeating the last lane where L does not divide evenly."""
    count = program.mesh.size
    sharding = NamedSharding(program.mesh, P(AXIS))

    def place_leaf(leaf):
        padded = leaf.shape[0] + -leaf.shape[0] % count
        if padded > leaf.shape[0]:
            leaf = leaf[np.minimum(np.arange(padded), leaf.shape[0] - 1)]
        return jax.device_put(leaf, sharding)

    return jax.tree.map(place_leaf, tree)


def over_lanes(program: Program, function: Any) -> Any:
    """`function(lane_args, shared)` of one lane, as a function of lane-major `lane_args` laid over the mesh."""

    def local(lane_args, shared):
        if program.mode == "map":
            return jax.lax.map(lambda args: function(args, shared), lane_args)
        return jax.vmap(lambda args: function(args, shared))(lane_args)

    return jax.shard_map(local, mesh=program.mesh, in_specs=(P(AXIS), P()), out_specs=P(AXIS), check_vma=False)


@functools.partial(jax.jit, static_argnames=("program",))
def init_lanes(program: Program, settings: Settings, keys: Array) -> Lane:
    """Every lane's state before training, from its own key."""

    def init(args, _):
        setting, key = args
        return Lane(setting.agent.init(key, program.env, setting.reward), jnp.bool_(True))

    return over_lanes(program, init)((settings, keys), ())


@functools.partial(jax.jit, static_argnames=("program", "capacity"), donate_argnames=("lanes",))
def run_chunk(
    program: Program, settings: Settings, lanes: Lane, count: Array, total_steps: Array, capacity: int
) -> tuple[Lane, dict[str, Array]]:
    """`count` updates (traced, at most `capacity`) of every lane.

    Returns the lanes and their metrics `[L, capacity]`; rows that were not run, because the chunk is shorter or the
    lane stopped, are NaN (-1 for integers).
    """

    def run(args, shared):
        setting, lane = args
        count, total_steps = shared

        @jax.jit  # traced once for both its uses below
        def update(setting, state, total_steps):
            return setting.agent.update(program.env, setting.reward, state, total_steps)

        shapes = jax.eval_shape(update, setting, lane.state, total_steps)[1]
        empty = {
            name: jnp.full(capacity, jnp.nan if jnp.issubdtype(m.dtype, jnp.floating) else -1, m.dtype)
            for name, m in shapes.items()
        }

        def one_update(carry):
            index, lane, rows = carry
            state, metrics = update(setting, lane.state, total_steps)
            losses = jnp.stack([value for name, value in metrics.items() if name.startswith("loss/")])
            rows = {name: rows[name].at[index].set(value) for name, value in metrics.items()}
            return index + 1, Lane(state, jnp.isfinite(losses).all()), rows

        def going_on(carry):
            index, lane, _ = carry
            return (index < count) & lane.alive

        _, lane, rows = jax.lax.while_loop(going_on, one_update, (jnp.int32(0), lane, empty))
        return lane, rows

    return over_lanes(program, run)((settings, lanes), (count, total_steps))
