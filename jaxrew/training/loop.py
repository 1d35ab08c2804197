"""The device side of a training: launches chunks of updates and turns their metrics into NumPy arrays."""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrew.training.evaluate import evaluate
from jaxrew.training.lanes import Program, Settings, init_lanes, place, run_chunk
from jaxrew.types import PyTree

CHUNK_CAPACITY = 64
"""Most updates in one call of the compiled program."""
EVALUATION = 0x5EED
"""Folded into a seed's key for evaluation, so that its levels are drawn independently of training."""

Metrics = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Chunk:
    """A chunk under way: updates `first + 1 .. first + count`, their metrics and evaluation still on the device."""

    first: int
    count: int
    rows: dict[str, jax.Array]
    evaluation: jax.Array | None


@dataclasses.dataclass
class Loop:
    """Where a training of S seeds stands.

    Attributes:
      program, settings, seeds: what is trained.
      num_updates, frames_per_update, warm_frames, steps: the plan, in frames of one seed.
      eval_every, eval_episodes: frames between evaluations (None: never) and episodes in each.
      lanes: the state of all lanes, set by `start` or `restore`.
      done: updates launched.
    """

    program: Program
    settings: Settings
    seeds: list[int]
    num_updates: int
    frames_per_update: int
    warm_frames: int
    steps: int
    eval_every: int | None
    eval_episodes: int
    lanes: Any = None
    done: int = 0

    @property
    def keys(self) -> jax.Array:
        """A key per lane, from the seed's value."""
        return place(self.program, jax.vmap(jax.random.key)(jnp.asarray(self.seeds, jnp.uint32)))

    def frames(self, updates: int) -> int:
        """Frames of one seed after so many updates."""
        return self.warm_frames + updates * self.frames_per_update

    def start(self) -> Any:
        """Every lane as it is before training."""
        self.lanes = init_lanes(self.program, self.settings, self.keys)
        for path, leaf in jax.tree_util.tree_leaves_with_path(self.lanes):
            if not leaf.size:  # XLA's partitioner crashes the process on these (jaxlib 0.11.2)
                name = jax.tree_util.keystr(path)
                raise ValueError(f"the state{name} is an empty array; use None where there is nothing")
        return self.lanes

    def launch(self, count: int) -> Chunk:
        """Starts the next chunk of at most `count` updates, cut at the next evaluation, without waiting for it."""
        first, last = self.done, min(self.done + min(count, CHUNK_CAPACITY), self.num_updates)
        if self.eval_every is not None:
            last = min(last, self._next_evaluation(first, self.eval_every))
        self.lanes, rows = run_chunk(
            self.program,
            self.settings,
            self.lanes,
            jnp.int32(last - first),
            jnp.float32(self.steps),
            CHUNK_CAPACITY,
        )
        self.done = last
        due = self.eval_every is not None and last in (self._next_evaluation(first, self.eval_every), self.num_updates)
        return Chunk(first, last - first, rows, self._evaluate() if due else None)

    def collect(self, chunk: Chunk) -> Metrics:
        """Waits for a chunk; its metrics `[S, k]`, with "frames" and, where evaluated, "eval/return"."""
        num_seeds = len(self.seeds)
        metrics = {name: np.asarray(rows)[:num_seeds, : chunk.count] for name, rows in chunk.rows.items()}
        frames = [self.frames(chunk.first + index + 1) for index in range(chunk.count)]
        metrics["frames"] = np.tile(np.asarray(frames, np.int64), (num_seeds, 1))
        if chunk.evaluation is not None:
            metrics["eval/return"] = np.full((num_seeds, chunk.count), np.nan, np.float32)
            metrics["eval/return"][:, -1] = np.asarray(chunk.evaluation)[:num_seeds].mean(axis=1)
        return metrics

    def snapshot(self) -> PyTree:
        """The lanes of the S seeds on the host, copied before their buffers are given to the next chunk."""
        num_seeds = len(self.seeds)
        return jax.tree.map(lambda leaf: jax.device_get(leaf[:num_seeds]), self.lanes)

    def restore(self, lanes: PyTree, updates: int) -> None:
        """Goes on from a snapshot taken after `updates` updates."""
        self.lanes, self.done = place(self.program, lanes), updates

    def structure(self) -> PyTree:
        """Shapes and dtypes of a snapshot."""
        padded = jax.eval_shape(
            lambda settings, keys: init_lanes(self.program, settings, keys), self.settings, self.keys
        )
        return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((len(self.seeds), *leaf.shape[1:]), leaf.dtype), padded)

    def _next_evaluation(self, updates: int, every: int) -> int:
        """The first number of updates above `updates` whose frames reach a multiple of `every`."""
        target = (self.frames(updates) // every + 1) * every
        return math.ceil((target - self.warm_frames) / self.frames_per_update)

    def _evaluate(self) -> jax.Array:
        keys = jax.vmap(lambda key: jax.random.fold_in(key, EVALUATION))(self.keys)
        return evaluate(self.program, self.settings, self.lanes, keys, self.eval_episodes)
