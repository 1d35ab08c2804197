"""Starting a training from what another one learnt."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from jaxrew.training.lanes import Lane
from jaxrew.training.normalise import Moments
from jaxrew.training.run import Run, RunFolder, load


def transfer(agent: Any, lanes: Lane, seeds: list[int], source: Run | str | Path) -> Lane:
    """`lanes` with the fields that `agent.transferable` names taken from a run's last checkpoint.

    Leaves are matched by path and shape, so a value head of a stream that the source lacks stays fresh. A seed goes on
    from the same seed of the source, or from its only one.

    Raises ValueError when the source has no checkpoint, lacks a seed, or shares no leaf.
    """
    path = source.path if isinstance(source, Run) else Path(source)
    if path is None:
        raise ValueError("init_from needs a run with a folder; train it with run_dir=...")
    run = load(path)
    checkpoint = RunFolder(path).latest_checkpoint()
    if checkpoint is None:
        raise ValueError(f"init_from={str(path)!r} holds no checkpoint; let it train until the first save")
    missing = [seed for seed in seeds if seed not in run.seeds]
    if missing and len(run.seeds) > 1:
        raise ValueError(
            f"init_from={str(path)!r} holds seeds {run.seeds}, not {missing[0]}; use those, or a run of one"
        )
    rows = jnp.asarray([run.seeds.index(seed) if not missing else 0 for seed in seeds])
    saved = {place: leaf for leaf, (place, _, _) in zip(checkpoint.leaves, checkpoint.structure, strict=True)}
    taken = []

    def fits(name: str, leaf: jax.Array) -> bool:
        return name in saved and saved[name].shape[1:] == leaf.shape[1:]

    def moved(name: str, leaf: jax.Array) -> jax.Array:
        # Padding lanes repeat the last seed.
        wanted = rows[jnp.minimum(jnp.arange(leaf.shape[0]), len(seeds) - 1)]
        return jax.device_put(jnp.asarray(saved[name])[wanted].astype(leaf.dtype), leaf.sharding)

    def take(place: Any, node: Any) -> Any:
        name = jax.tree_util.keystr(place)
        leaves = [(name + jax.tree_util.keystr(path), leaf) for path, leaf in jax.tree.leaves_with_path(node)]
        if not name.startswith(tuple(f".state.{field}" for field in agent.transferable)):
            return node
        if not all(fits(*leaf) for leaf in leaves):
            return node
        taken.append(name)
        return jax.tree.unflatten(jax.tree.structure(node), [moved(*leaf) for leaf in leaves])

    # Moments go together: a count says nothing without its mean and variance.
    lanes = jax.tree_util.tree_map_with_path(take, lanes, is_leaf=lambda node: isinstance(node, Moments))
    if not taken:
        raise ValueError(f"init_from={str(path)!r} shares no parameter with this agent; give it the same network")
    return lanes
