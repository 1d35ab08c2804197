"""An optional copy of a run's metrics in Weights & Biases: one wandb run per seed, in one group."""

import itertools
import os
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

POINTS_PER_CHUNK = 8
"""Most points a chunk adds to each seed. A `log` call costs up to a millisecond; the run folder has every update."""
SERVER_TIMEOUT = 5.0
"""Seconds to wait for the server before the mirror goes offline."""


class WandbMirror:
    """Logs every seed to its own wandb run, with frames as the step.

    Offline where there is no API key or no server; `wandb sync` uploads such runs later. `WANDB_MODE`, when set,
    decides instead. wandb is imported here and nowhere else.

    Args:
      project: the wandb project.
      group: what the seeds have in common, such as the run folder's name.
      seeds: the S seed values.
      config: the run's record; each wandb run adds its "seed".
      dir: where wandb keeps its `wandb/` folder; the working directory by default.
      id: makes wandb run ids, `{id}-{seed}`, so that a resumed run goes on in the same place.

    Attributes:
      offline: whether the runs are kept on disk only.
    """

    def __init__(
        self,
        project: str,
        group: str,
        seeds: Sequence[int],
        config: Mapping[str, Any],
        dir: str | Path | None = None,
        id: str | None = None,
    ):
        import wandb

        # Without this wandb takes the package `agents` for an LLM library and advertises a tracer for it.
        wandb.setup(wandb.Settings(silent=True))
        self._runs = []
        mode = None if "WANDB_MODE" in os.environ or _has_server(wandb) else "offline"
        for seed in seeds:
            run = wandb.init(
                project=project,
                group=group,
                name=f"{group}-{seed}",
                id=f"{id}-{seed}" if id is not None else None,
                resume="allow" if id is not None and mode is None else None,
                config={**config, "seed": seed},
                dir=str(dir) if dir is not None else None,
                mode=mode,
                reinit="create_new",
                settings=wandb.Settings(console="off", x_disable_stats=bool(self._runs)),
            )
            self._runs.append(run)
        self.offline: bool = self._runs[0].offline

    def log(self, metrics: Mapping[str, np.ndarray]) -> None:
        """Logs a chunk: arrays `[S, k]` by name, "frames" among them.

        The k updates make at most `POINTS_PER_CHUNK` points. A point holds each metric's latest value that is not
        NaN, and as "return/task" the mean over the episodes that finished since the point before.
        """
        updates = metrics["frames"].shape[1]
        ends = np.unique(np.linspace(0, updates, min(updates, POINTS_PER_CHUNK) + 1).astype(int))
        for start, end in itertools.pairwise(ends):
            for lane, run in enumerate(self._runs):
                point = {name: values[lane, start:end] for name, values in metrics.items()}
                run.log(_summary(point), step=int(metrics["frames"][lane, end - 1]))

    def finish(self) -> None:
        """Closes the wandb runs."""
        for run in self._runs:
            run.finish()
        self._runs.clear()


def _has_server(wandb: Any) -> bool:
    """Whether there is an API key and the server answers, be it with an error page; uses the proxy settings."""
    if not wandb.login(prompt=False, verify=False):
        return False
    try:
        urllib.request.urlopen(wandb.setup().settings.base_url, timeout=SERVER_TIMEOUT).close()
    except urllib.error.HTTPError:
        return True
    except (OSError, ValueError):
        return False
    return True


def _summary(window: Mapping[str, np.ndarray]) -> dict[str, float]:
    """One number per metric for the updates of a window; none where all are NaN."""
    if "episodes" in window:  # -1 once the seed has stopped
        window = {name: values[window["episodes"] >= 0] for name, values in window.items()}
    known = {name: values[~np.isnan(values)] for name, values in window.items()}
    summary = {name: values[-1].item() for name, values in known.items() if values.size}
    episodes = window.get("episodes", np.zeros(1)).sum()
    if episodes > 0:
        summary["return/task"] = float(known["return_sum"].sum(dtype=np.float64) / episodes)
    return summary
