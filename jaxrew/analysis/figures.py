"""Learning curves and tables, fit for a paper: interquartile means over seeds with 95 % bootstrap intervals."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from jaxrew.analysis.stats import interval
from jaxrew.training.run import Run

Curve = Run | tuple[np.ndarray, np.ndarray]
"""A run, or frames `[time]` and values `[seed, time]`."""

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's colours, which stay apart for colour-blind readers, without yellow, too light for a line."""
STYLES = ("-", "--", "-.", ":")
LABEL_SIZE = 10.5
POINTS = 400
"""Points of a drawn curve."""
FEW_SEEDS = 5
"""Below this many, a 95 % interval covers the truth far less often than it says."""

STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.edgecolor": "#444444",
    "axes.labelcolor": "#222222",
    "axes.titlesize": 12,
    "axes.titlelocation": "left",
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.8,
    "lines.linewidth": 1.8,
    "pdf.fonttype": 42,
    "savefig.dpi": 200,
}


def learning_curves(
    runs: Mapping[str, Curve],
    path: str | Path,
    *,
    episodes: int = 100,
    threshold: float | None = None,
    title: str = "",
    ylabel: str = "task return",
    size: tuple[float, float] = (6.4, 4.0),
) -> tuple[Path, Path]:
    """Draws one curve a label against frames and writes it as PNG and PDF.

    A line is the interquartile mean over seeds of the mean return of the last `episodes` finished episodes, starting
    where every seed has finished so many; its band is the 95 % bootstrap interval over seeds. With one or two seeds
    each seed is a thin line instead. The caption states the number of seeds, and warns when there are fewer than 5.

    Args:
      runs: what to draw, by label, in this order: a `Run`, or frames `[time]` and values `[seed, time]`.
      path: where to, any suffix is replaced.
      threshold: draws a horizontal line.
      size: width and height in inches.

    Returns the paths of the PNG and the PDF. Raises ValueError when there is nothing to draw.
    """
    if not runs:
        raise ValueError("runs is empty; give at least one labelled run")
    curves = {label: _curve(run, episodes) for label, run in runs.items()}
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        ends = [(label, *_draw(axes, *curve, index)) for index, (label, curve) in enumerate(curves.items())]
        if threshold is not None:
            axes.axhline(threshold, color="#777777", linewidth=1.0, linestyle=(0, (2, 2)), zorder=1)
            note = axes.annotate(f"{threshold:g}", (0, threshold), (4, 3), textcoords="offset points")
            note.set(color="#777777", fontsize=9)
        _dress(axes, title, ylabel, max(int(frames[-1]) for frames, _ in curves.values()))
        figure.supxlabel(_caption([len(values) for _, values in curves.values()]), fontsize=8.5, color="#666666")
        _label_ends(axes, figure, ends)
        return _save(figure, Path(path))


def _curve(run: Curve, episodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Frames and values of a run, thinned to `POINTS`."""
    frames, values = (run.frames, run.last(episodes)) if isinstance(run, Run) else map(np.asarray, run)
    if values.ndim != 2 or values.shape[1:] != frames.shape or values.shape[0] == 0:
        raise ValueError(f"values have shape {values.shape}; with frames {frames.shape} they must be [seeds, time]")
    if not frames.size:
        raise ValueError("a run without updates has no curve; let it train first")
    shown = np.linspace(0, len(frames) - 1, min(len(frames), POINTS)).round().astype(int)
    return frames[shown], values[:, shown].astype(np.float64)


def _draw(axes: Axes, frames: np.ndarray, values: np.ndarray, index: int) -> tuple[float, float, str]:
    """Draws a curve; returns frame and value (NaN: none) of its last known point, and its colour."""
    color, style = PALETTE[index % len(PALETTE)], STYLES[index // len(PALETTE) % len(STYLES)]
    estimate = interval(values)
    if len(values) > 2:
        axes.fill_between(frames, estimate.low, estimate.high, color=color, alpha=0.18, linewidth=0)
    else:
        axes.plot(frames, values.T, color=color, linewidth=0.8, alpha=0.6)
    axes.plot(frames, estimate.value, color=color, linestyle=style, zorder=3)
    known = np.flatnonzero(~np.isnan(estimate.value))
    last = known[-1] if known.size else -1
    return float(frames[last]), float(estimate.value[last]), color


def _dress(axes: Axes, title: str, ylabel: str, last_frame: int) -> None:
    axes.set_title(title)
    axes.set_xlabel("frames")
    axes.set_ylabel(ylabel)
    axes.set_xlim(0, last_frame)
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))


def _caption(seeds: Sequence[int]) -> str:
    counts = f"{min(seeds)}" if min(seeds) == max(seeds) else f"{min(seeds)} to {max(seeds)}"
    noun = "seed" if max(seeds) == 1 else "seeds"
    if max(seeds) <= 2:
        return f"{counts} {noun}, the thick line is the mean: too few for an interval"
    text = f"Interquartile mean and 95 % bootstrap interval over {counts} {noun}"
    return f"{text}\n(fewer than {FEW_SEEDS} seeds: the interval is too narrow)" if min(seeds) < FEW_SEEDS else text


def _label_ends(axes: Axes, figure: Figure, ends: Sequence[tuple[str, float, float, str]]) -> None:
    """Writes each label beside the end of its curve, in the curve's colour, moved just enough that none overlap.

    `ends` holds label, frame, value and colour of each curve's last point.
    """
    figure.draw_without_rendering()
    bottom, top = axes.get_ylim()
    heights = np.array([0.0 if np.isnan(value) else (value - bottom) / (top - bottom) for _, _, value, _ in ends])
    gap = 1.25 * LABEL_SIZE * figure.dpi / 72 / axes.bbox.height
    leader = {"arrowstyle": "-", "linewidth": 0.8, "alpha": 0.6, "shrinkA": 1, "shrinkB": 0, "relpos": (0, 0.5)}
    for (label, frame, value, color), height in zip(ends, _spread(heights, gap), strict=True):
        unknown = np.isnan(value)
        axes.annotate(
            f"{label} (too few episodes)" if unknown else label,
            xy=(frame, bottom if unknown else value),
            xytext=(1.035, height),
            textcoords="axes fraction",
            color=color,
            fontsize=LABEL_SIZE,
            va="center",
            arrowprops=None if unknown else leader | {"color": color},
            annotation_clip=False,
        )


def _spread(heights: np.ndarray, gap: float) -> np.ndarray:
    """Heights at least `gap` apart in the same order, each group of close ones centred on where it was."""
    order = np.argsort(heights, kind="stable")
    groups: list[list[float]] = []
    for height in heights[order]:
        groups.append([height])
        while len(groups) > 1 and np.mean(groups[-1]) - np.mean(groups[-2]) < gap * len(groups[-1] + groups[-2]) / 2:
            groups[-2:] = [groups[-2] + groups[-1]]
    placed = [np.mean(group) + gap * (np.arange(len(group)) - (len(group) - 1) / 2) for group in groups]
    spread = np.empty_like(heights)
    spread[order] = np.concatenate(placed)
    return spread


def _save(figure: Figure, path: Path) -> tuple[Path, Path]:
    stem = path.with_suffix("") if path.suffix in (".png", ".pdf") else path
    stem.parent.mkdir(parents=True, exist_ok=True)
    png, pdf = (stem.with_name(stem.name + suffix) for suffix in (".png", ".pdf"))
    figure.savefig(png)
    figure.savefig(pdf, metadata={"CreationDate": None})
    return png, pdf


def short_number(value: float) -> str:
    """1500000 as "1.5M", 20000 as "20k"."""
    for unit, symbol in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:g}{symbol}"
    return f"{value:g}"
