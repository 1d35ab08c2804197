"""What a training run yields, in memory and on disk.

A run folder holds

    config.json       what was trained, "seeds" included
    status.json       chunks and frames done, wall-clock seconds, whether the run is complete
    provenance.json   versions, devices, git commit, command line
    shards/           the metrics of each chunk, consolidated at the end to
    metrics.npz       `[seed, time]` arrays
    checkpoints/      the last two
    figures/

and every file is written beside its place, flushed and renamed, so that a kill at any moment leaves it loadable.
"""

import csv
import dataclasses
import os
import shutil
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxrew.training.checkpoint import (
    UNREADABLE,
    Checkpoint,
    load_checkpoint,
    read_arrays,
    read_json,
    save_checkpoint,
    sync_folder,
    write_arrays,
    write_json,
)
from jaxrew.training.record import compare_config, provenance
from jaxrew.types import PyTree, unknown

Metrics = dict[str, np.ndarray]

FORMAT = "jaxrew run 1"
KEPT_CHECKPOINTS = 2


@dataclasses.dataclass(repr=False)
class Run:
    """The result of training S seeds for K updates.

    Attributes:
      seeds: the S seed values.
      metrics: arrays `[seed, time]` by name, one column an update; "frames" is `[time]`, the environment steps of one
        seed after each update. "return/task" is the mean undiscounted task return of the episodes that finished in
        the update, NaN where none did.
      config, provenance: what was trained, and by which code on which machine.
      seconds: wall-clock time, compilation included.
      path: the run folder, None when nothing was written.
      complete: False when the run was cut short.
      params, state: of the trained agent, leading axis seed; set by the trainer.
    """

    seeds: list[int]
    metrics: Metrics
    config: dict[str, Any] = dataclasses.field(default_factory=dict)
    provenance: dict[str, Any] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0
    path: Path | None = None
    complete: bool = True
    params: PyTree = None
    state: PyTree = None

    @property
    def frames(self) -> np.ndarray:
        """Environment steps of one seed after each update, `[time]`."""
        return self.metrics["frames"]

    def last(self, episodes: int = 100) -> np.ndarray:
        """The mean task return of the latest finished episodes, `[seed, time]`.

        The window ends with an update and reaches back over the fewest whole updates that together hold at least
        `episodes` finished episodes, so it holds up to one update's worth more. NaN until there are that many.
        """
        counts = np.maximum(self.metrics["episodes"], 0).astype(np.int64)  # -1 once a seed has stopped
        sums = np.where(counts > 0, self.metrics["return_sum"], 0.0).astype(np.float64)
        result = np.full(counts.shape, np.nan)
        for seed, (count, total) in enumerate(zip(counts, sums, strict=True)):
            count, total = np.cumsum(np.append(0, count)), np.cumsum(np.append(0.0, total))
            start = np.searchsorted(count, count[1:] - episodes, side="right") - 1
            full = start >= 0
            start, end = start[full], 1 + np.flatnonzero(full)
            result[seed, full] = (total[end] - total[start]) / (count[end] - count[start])
        return result

    def frames_to(self, threshold: float, episodes: int = 100) -> np.ndarray:
        """The frames at which `last(episodes)` first reached `threshold`, `[seed]`; inf where it never did."""
        reached = self.last(episodes) >= threshold
        return np.where(reached, self.frames, np.inf).min(axis=1, initial=np.inf)

    def to_csv(self, path: str | Path) -> None:
        """Writes one row per seed and update: seed, frames, then every metric; NaN is an empty cell."""
        names = sorted(name for name in self.metrics if name != "frames")
        with open(path, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["seed", "frames", *names])
            for row, seed in enumerate(self.seeds):
                columns = [self.metrics[name][row] for name in names]
                for frames, *values in zip(self.frames, *columns, strict=True):
                    writer.writerow([seed, frames, *("" if value != value else value for value in values)])

    def __repr__(self) -> str:
        frames = int(self.frames[-1]) if len(self.frames) else 0
        place = f"{str(self.path)!r}, " if self.path else ""
        cut = "" if self.complete else ", incomplete"
        return f"Run({place}{len(self.seeds)} seeds, {len(self.frames)} updates, {frames:,} frames a seed{cut})"


def assemble(chunks: Sequence[Mapping[str, np.ndarray]], num_seeds: int) -> Metrics:
    """The metrics of a run, as `Run.metrics`, from those of its chunks (arrays `[S, k]`).

    A metric that a chunk lacks is NaN there.
    """
    nothing = np.zeros((num_seeds, 0), np.int32)
    chunks = chunks or [{"frames": nothing, "episodes": nothing, "return_sum": nothing}]

    def column(chunk: Mapping[str, np.ndarray], name: str) -> np.ndarray:
        return np.asarray(chunk[name]) if name in chunk else np.full(chunk["frames"].shape, np.nan, np.float32)

    names = dict.fromkeys(name for chunk in chunks for name in chunk)
    metrics = {name: np.concatenate([column(chunk, name) for chunk in chunks], axis=1) for name in names}
    metrics["frames"] = metrics["frames"][0].astype(np.int64)
    if "episodes" in metrics and "return_sum" in metrics:
        finished = metrics["episodes"] > 0
        mean = metrics["return_sum"] / np.where(finished, metrics["episodes"], 1)
        metrics["return/task"] = np.where(finished, mean, np.nan).astype(np.float32)
    return metrics


def load(run_dir: str | Path) -> Run:
    """Reads a run folder. A run that was cut short gives what it kept, with `complete` False.

    Raises FileNotFoundError, naming the nearest run folder, when there is none at `run_dir`; ValueError when the
    folder is not a run folder.
    """
    path = Path(run_dir)
    if not path.is_dir():
        siblings = (str(child) for child in path.parent.glob("*") if is_run_folder(child))
        raise FileNotFoundError(unknown("run folder", str(path), siblings))
    if not is_run_folder(path):
        inside = ", ".join(sorted(child.name for child in path.iterdir() if is_run_folder(child))[:5])
        hint = f"it holds the run folders {inside}" if inside else "it has no status.json of this format"
        raise ValueError(f"{path} is not a run folder: {hint}")
    status, config = read_json(path / "status.json"), read_json(path / "config.json")
    complete = status["complete"]
    metrics = read_arrays(path / "metrics.npz") if complete else assemble(_read_shards(path), len(config["seeds"]))
    record = read_json(path / "provenance.json")
    return Run(config["seeds"], metrics, config, record, status["seconds"], path, complete)


def is_run_folder(path: Path) -> bool:
    """Whether `path` is a folder that `RunFolder.create` made."""
    try:
        return read_json(path / "status.json")["format"] == FORMAT
    except (*UNREADABLE, TypeError):
        return False


class RunFolder:
    """The writer of one run folder, made by `RunFolder.create`. One process writes.

    Attributes:
      path: the folder.
      id: eight hex digits, the same for the life of the run.
      chunks: how many chunks of metrics are kept.
      complete: whether `finish` was reached, by this process or an earlier one.
    """

    def __init__(self, path: Path):
        status = read_json(path / "status.json")
        self.path = path
        self.id: str = status["id"]
        self.complete: bool = status["complete"]
        self.chunks: int = status["chunks"] if self.complete else len(_read_shards(path))
        self._frames: int = status["frames"]
        self._seconds_before: float = status["seconds"]
        self._started = time.perf_counter()
        self._num_seeds = len(read_json(path / "config.json")["seeds"])

    @staticmethod
    def check(path: str | Path, config: Mapping[str, Any], *, resume: bool = False, overwrite: bool = False) -> bool:
        """Whether `create` would go on with the run at `path` rather than make a new one; writes nothing.

        Raises:
          FileExistsError: the path cannot be made, it is no run folder, or it is one and neither option is given.
          ValueError: both options, no seeds, or, on resume, another config.
        """
        path = Path(path).resolve()
        if resume and overwrite:
            raise ValueError("resume=True and overwrite=True exclude each other; give one of them")
        if not config.get("seeds"):
            raise ValueError(f"config['seeds'] is {config.get('seeds')!r}; it must be a list of at least one seed")
        parent = next(folder for folder in path.parents if folder.exists())
        if not parent.is_dir() or not os.access(parent, os.W_OK):
            raise FileExistsError(f"{path} cannot be made: {parent} is not a folder that can be written to")
        exists = path.is_file() or (path.is_dir() and any(path.iterdir()))
        if exists and not is_run_folder(path):
            raise FileExistsError(f"{path} exists and is not a run folder, so it is left alone; choose another path")
        if exists and not (resume or overwrite):
            raise FileExistsError(f"{path} holds a run; give resume=True to go on with it or overwrite=True")
        if exists and resume:
            compare_config(read_json(path / "config.json"), config)
        return exists and resume

    @classmethod
    def create(
        cls, path: str | Path, config: Mapping[str, Any], *, resume: bool = False, overwrite: bool = False
    ) -> "RunFolder":
        """Makes a run folder, or opens the one at `path` to go on with it.

        Args:
          path: the folder; it must be missing or empty unless an option says what to do with what is there.
          config: a JSON-able record (see `jaxrew.training.record.describe`) with "seeds", a list of ints.
          resume: go on with the run at `path` if there is one; its config must equal `config`.
          overwrite: replace the run folder at `path` if there is one.

        Raises what `check` raises.
        """
        path = Path(path).resolve()
        if not cls.check(path, config, resume=resume, overwrite=overwrite):
            _create(path, config)
        return cls(path)

    @property
    def seconds(self) -> float:
        """Wall-clock seconds of training, those of earlier sittings included."""
        return self._seconds_before + time.perf_counter() - self._started

    def append(self, metrics: Mapping[str, np.ndarray], chunk_index: int) -> None:
        """Keeps the metrics of a chunk of k updates: arrays `[S, k]` by name, "frames" among them.

        Raises ValueError when it is not the next chunk, an array has another shape, or the run is complete.
        """
        if self.complete:
            raise ValueError(f"the run in {self.path} is complete; nothing can be added to it")
        if chunk_index != self.chunks:
            raise ValueError(f"chunk {chunk_index} is out of order in {self.path}; the next one is {self.chunks}")
        arrays = {name: np.asarray(values) for name, values in metrics.items()}
        shape = (self._num_seeds, arrays["frames"].shape[-1])
        for name, values in arrays.items():
            if values.shape != shape:
                raise ValueError(f"metric {name!r} has shape {values.shape}; it must be [seeds, updates] = {shape}")
        write_arrays(self.path / "shards" / _file_name(chunk_index), arrays)
        self.chunks, self._frames = self.chunks + 1, int(arrays["frames"][0, -1])
        self._write_status()

    def save_checkpoint(self, chunk_index: int, tree: PyTree) -> None:
        """Keeps the training state after a chunk, any pytree of arrays; all but the newest two checkpoints go."""
        save_checkpoint(self.path / "checkpoints" / _file_name(chunk_index), tree)
        for stale in _numbered(self.path / "checkpoints")[:-KEPT_CHECKPOINTS]:
            stale.unlink()

    @property
    def has_checkpoints(self) -> bool:
        """Whether any checkpoint was saved, readable or not."""
        return bool(_numbered(self.path / "checkpoints"))

    def latest_checkpoint(self) -> Checkpoint | None:
        """The newest checkpoint that can be read and whose metrics are all there, None when there is none."""
        for path in reversed(_numbered(self.path / "checkpoints")):
            if int(path.stem) < self.chunks:
                try:
                    return load_checkpoint(path)
                except UNREADABLE:
                    continue
        return None

    def resume_after(self, chunk_index: int) -> list[Metrics]:
        """Goes back to the end of a chunk (-1: the start), discarding later metrics and checkpoints.

        Returns the metrics of the chunks that stay, and adds this sitting to the provenance.
        """
        if self.complete:
            raise ValueError(f"the run in {self.path} is complete; load it instead of going on")
        for folder in ("checkpoints", "shards"):
            for path in reversed(_numbered(self.path / folder)):
                if int(path.stem) > chunk_index:
                    path.unlink()
        for leftover in self.path.rglob(".*.tmp"):
            leftover.unlink()
        record = read_json(self.path / "provenance.json")
        record.setdefault("resumed", []).append(provenance() | {"after_chunk": chunk_index})
        write_json(self.path / "provenance.json", record)
        shards = _read_shards(self.path)
        self.chunks, self._frames = len(shards), int(shards[-1]["frames"][0, -1]) if shards else 0
        self._write_status()
        return shards

    def finish(self) -> None:
        """Consolidates the shards to `metrics.npz` and marks the run complete. Raises OSError when one is damaged."""
        if self.complete:
            return
        shards = _read_shards(self.path)
        if len(shards) != self.chunks:
            raise OSError(
                f"shard {len(shards)} of {self.chunks} in {self.path} is damaged; resume=True goes on before it"
            )
        write_arrays(self.path / "metrics.npz", assemble(shards, self._num_seeds))
        self.complete = True
        self._write_status()
        shutil.rmtree(self.path / "shards")

    def _write_status(self) -> None:
        _write_status(self.path, self.id, self.chunks, self._frames, self.complete, self.seconds)


def _create(path: Path, config: Mapping[str, Any]) -> None:
    """Builds the folder beside its place and renames it there; a run that was there is removed last."""
    token = uuid.uuid4().hex[:8]
    fresh, old = path.with_name(f".{path.name}.{token}.new"), path.with_name(f".{path.name}.{token}.old")
    for child in ("shards", "checkpoints", "figures"):
        (fresh / child).mkdir(parents=True)
    write_json(fresh / "config.json", config)
    write_json(fresh / "provenance.json", provenance())
    _write_status(fresh, token, chunks=0, frames=0, complete=False, seconds=0.0)
    if is_run_folder(path):
        os.replace(path, old)
    os.replace(fresh, path)
    sync_folder(path.parent)
    shutil.rmtree(old, ignore_errors=True)


def _write_status(path: Path, token: str, chunks: int, frames: int, complete: bool, seconds: float) -> None:
    done = {"chunks": chunks, "frames": frames, "complete": complete, "seconds": round(seconds, 3)}
    write_json(path / "status.json", {"format": FORMAT, "id": token} | done)


def _read_shards(path: Path) -> list[Metrics]:
    """The metrics of chunks 0, 1, ... up to the first that is missing or unreadable."""
    shards = []
    for shard in _numbered(path / "shards"):
        try:
            if int(shard.stem) != len(shards):
                break
            shards.append(read_arrays(shard))
        except UNREADABLE:
            break
    return shards


def _file_name(chunk_index: int) -> str:
    return f"{chunk_index:06d}.npz"


def _numbered(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.npz") if path.stem.isdigit())
