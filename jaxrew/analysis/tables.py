"""The results of runs side by side, as plain text or Markdown."""

from collections.abc import Mapping

import numpy as np

from jaxrew.analysis.stats import interval
from jaxrew.training.run import Run


def table(
    runs: Mapping[str, Run], *, threshold: float | None = None, episodes: int = 100, markdown: bool = False
) -> str:
    """One row a label: what the runs reached, and how fast.

    Columns: seeds; frames of one seed; `return`, the interquartile mean over seeds of the mean return of the last
    `episodes` episodes, with its 95 % bootstrap interval; and, where they are known,

      frames to `threshold`: median over seeds of the first frames at which that mean reached it, `> n` where half of
        the seeds never did in n frames;
      solved: the seeds that reached it;
      first success: median frames to the first successful episode, and the seeds that had one;
      coverage: the interquartile mean of the distinct positions visited, with its interval.
    """
    if not runs:
        raise ValueError("runs is empty; give at least one labelled run")
    rows = [{"": label} | _row(run, threshold, episodes) for label, run in runs.items()]
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [names, *([row.get(name, "-") for name in names] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(names))]
    padded = [
        [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))]
        for line in cells
    ]
    if not markdown:
        return "\n".join("  ".join(line).rstrip() for line in padded)
    rule = [":" + "-" * max(widths[0] - 1, 1), *("-" * max(width - 1, 1) + ":" for width in widths[1:])]
    return "\n".join(f"| {' | '.join(line)} |" for line in (padded[0], rule, *padded[1:]))


def _row(run: Run, threshold: float | None, episodes: int) -> dict[str, str]:
    num_seeds, last_frame = len(run.seeds), int(run.frames[-1]) if len(run.frames) else 0
    row = {"seeds": f"{num_seeds}", "frames": f"{last_frame:,}"}
    row["return"] = _estimate(run.last(episodes)[:, -1:])
    if threshold is not None:
        frames = run.frames_to(threshold, episodes)
        row[f"frames to {threshold:g}"] = _median(frames, last_frame)
        row["solved"] = f"{np.isfinite(frames).sum()} of {num_seeds}"
    if "first_success" in run.metrics and last_frame:
        first = _final(run, "first_success").astype(np.float64)
        first = np.where(first >= 0, first, np.inf)
        row["first success"] = f"{_median(first, last_frame)} ({np.isfinite(first).sum()} of {num_seeds})"
    if "coverage" in run.metrics:
        row["coverage"] = _estimate(_final(run, "coverage")[:, None])
    return row


def _final(run: Run, name: str) -> np.ndarray:
    """Each seed's value after the last update it ran: integer metrics are -1 once a seed has stopped."""
    ran = np.maximum((run.metrics["episodes"] >= 0).sum(axis=1), 1)
    return run.metrics[name][np.arange(len(run.seeds)), ran - 1]


def _estimate(scores: np.ndarray) -> str:
    """IQM and interval of scores `[n, 1]`; `-` where a seed has none."""
    if not scores.size or np.isnan(scores).any():
        return "-"
    value, low, high = (float(end[0]) for end in interval(scores))
    digits = 1 if max(abs(low), abs(high)) >= 10 else 3
    if low == high:
        return f"{value:,.{digits}f}"
    return f"{value:,.{digits}f} [{low:,.{digits}f}, {high:,.{digits}f}]"


def _median(frames: np.ndarray, last_frame: int) -> str:
    median = np.median(frames)
    return f"{median:,.0f}" if np.isfinite(median) else f"> {last_frame:,}"
