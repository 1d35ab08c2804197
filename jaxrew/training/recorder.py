"""What becomes of a chunk's metrics on the host: run folder, progress line, wandb mirror, word of stopped seeds."""

import contextlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxrew.training.progress import Progress
from jaxrew.training.record import provenance
from jaxrew.training.run import Metrics, Run, RunFolder, assemble
from jaxrew.types import PyTree

if TYPE_CHECKING:
    from jaxrew.training.mirror import WandbMirror

RECENT_UPDATES = 20
"""Updates over which the progress line averages the task return."""


class Recorder(contextlib.AbstractContextManager):
    """Takes each chunk's metrics as it comes. A run folder is made when the first chunk turns out sound.

    Args:
      config: the run's record, "seeds" included.
      run_dir: where the run folder goes, None for nowhere.
      folder: the run folder to go on with, if any, and `kept`, the metrics in it.
      overwrite: replace what is at `run_dir`.
      progress: the progress line.
      wandb_project: mirror to this project, None for no mirror.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        run_dir: str | Path | None,
        folder: RunFolder | None,
        kept: list[Metrics],
        overwrite: bool,
        progress: Progress,
        wandb_project: str | None,
    ):
        self.seeds: list[int] = config["seeds"]
        self.chunks = kept
        self.folder = folder
        self._config, self._run_dir, self._overwrite = config, run_dir, overwrite
        self._progress, self._project = progress, wandb_project
        self._mirror: WandbMirror | None = None
        self._started = time.perf_counter()
        self._stopped = _stopped(kept[-1]) if kept else np.zeros(len(self.seeds), bool)

    def __enter__(self) -> "Recorder":
        self._progress.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._progress.__exit__(*error)
        if self._mirror is not None:
            self._mirror.finish()

    def record(self, metrics: Metrics) -> None:
        """Keeps a chunk. Raises FloatingPointError when no seed's losses are finite any more."""
        self._report_stopped(metrics)
        if self._run_dir is not None and self.folder is None:
            self.folder = RunFolder.create(self._run_dir, self._config, overwrite=self._overwrite)
        if self.folder is not None:
            self.folder.append(metrics, len(self.chunks))
        if self._project is not None:
            if self._mirror is None:
                self._mirror = _start_mirror(self._project, self._config, self.folder)
            self._mirror.log(metrics)
        self.chunks.append(metrics)
        self._progress.update(int(metrics["frames"][0, -1]), _recent_return(self.chunks))

    def save(self, lanes: PyTree) -> None:
        """Keeps the training state after the last recorded chunk."""
        if self.folder is not None:
            self.folder.save_checkpoint(len(self.chunks) - 1, lanes)

    def say(self, text: str) -> None:
        """Prints a line above the progress line."""
        self._progress.message(text)

    def finish(self, complete: bool) -> Run:
        """The run, and its folder consolidated if complete."""
        if self.folder is not None and complete:
            self.folder.finish()
        seconds = self.folder.seconds if self.folder is not None else time.perf_counter() - self._started
        path = self.folder.path if self.folder is not None else None
        metrics = assemble(self.chunks, len(self.seeds))
        return Run(self.seeds, metrics, dict(self._config), provenance(), seconds, path, complete)

    def _report_stopped(self, metrics: Metrics) -> None:
        stopped = _stopped(metrics)
        reasons = []
        for lane in np.flatnonzero(stopped & ~self._stopped):
            bad = int(np.argmax(~np.isfinite(_losses(metrics)[lane])))
            frames = f"{metrics['frames'][lane, bad]:,}"
            culprits = [
                name
                for name, rows in metrics.items()
                if name.startswith(("reward/", "loss/"))
                and not name.endswith("/share")  # one module's NaN makes every share NaN
                and not np.isfinite(rows[lane, bad])
            ]
            culprits.sort(key=lambda name: not name.startswith("reward/"))
            reasons.append(f"seed {self.seeds[lane]} stopped at {frames} frames: {culprits[0]} is not finite")
        for reason in reasons:
            self._progress.message(reason, always=True)
        self._stopped |= stopped
        if self._stopped.all():
            raise FloatingPointError(f"every seed has stopped; {reasons[0] if reasons else 'none is left to train'}")


def _losses(metrics: Metrics) -> np.ndarray:
    """The sum of the losses `[S, k]`, not finite where one of them is not."""
    return np.sum([rows for name, rows in metrics.items() if name.startswith("loss/")], axis=0)


def _stopped(metrics: Metrics) -> np.ndarray:
    return ~np.isfinite(_losses(metrics)).all(axis=1)


def _recent_return(chunks: list[Metrics]) -> np.ndarray:
    """Each seed's mean task return over the last updates, NaN where no episode finished."""
    counts, sums = np.zeros(len(chunks[-1]["episodes"])), np.zeros(len(chunks[-1]["episodes"]))
    updates = 0
    for chunk in reversed(chunks):
        counts += np.maximum(chunk["episodes"], 0).sum(axis=1)
        sums += np.nansum(chunk["return_sum"], axis=1)
        updates += chunk["episodes"].shape[1]
        if updates >= RECENT_UPDATES:
            break
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _start_mirror(project: str, config: Mapping[str, Any], folder: RunFolder | None) -> "WandbMirror":
    from jaxrew.training.mirror import WandbMirror

    group = folder.path.name if folder is not None else f"{config['env']['env']['class'].rsplit('.', 1)[-1]}"
    place = {} if folder is None else {"dir": folder.path, "id": folder.id}
    return WandbMirror(project, group, config["seeds"], config, **place)
