"""One line that says how far a run is, how fast it goes, and what it earns."""

import math
import sys
import time
from collections.abc import Callable
from typing import TextIO

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.text import Text

from jaxrew.analysis.stats import iqm

PLAIN_LINES = 20
"""Lines printed in a whole run where there is no terminal."""
BAR_WIDTH = 12


class Progress:
    """A live line on a terminal, about twenty plain lines elsewhere. A context manager.

    Args:
      total_frames: the environment steps of one seed in the whole run.
      num_seeds: how many seeds run together; the speed counts the frames of all of them.
      label: what the line starts with.
      start_frames: those of one seed done before this sitting.
      file: where to write; standard error by default.
      show: False keeps it silent.

    The first update compiles the program, so speed and remaining time count from its end.
    """

    def __init__(
        self,
        total_frames: int,
        num_seeds: int,
        label: str = "",
        *,
        start_frames: int = 0,
        file: TextIO | None = None,
        show: bool = True,
        clock: Callable[[], float] = time.perf_counter,
    ):
        self.total_frames, self.num_seeds, self.label = total_frames, num_seeds, label
        self.frames = start_frames
        self._start_frames = start_frames
        self._clock = clock
        self._start = clock()
        self._latest = self._start
        self._warm: tuple[float, int] | None = None
        self._returns = np.full(num_seeds, np.nan)
        self._file = file or sys.stderr
        self._show = show
        self._lines_shown = 0
        self._console = console = Console(file=self._file)
        live = show and console.is_terminal
        self._live = Live(console=console, get_renderable=self._render, refresh_per_second=4) if live else None

    def __enter__(self) -> "Progress":
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    @property
    def steps_per_second(self) -> float:
        """Environment steps a second over all seeds since the first update ended; NaN before the second."""
        if self._warm is None or self._latest <= self._warm[0]:
            return math.nan
        return self.num_seeds * (self.frames - self._warm[1]) / (self._latest - self._warm[0])

    def update(self, frames_done: int, returns: np.ndarray) -> None:
        """Tells the frames of one seed done so far, and each seed's task return `[S]` (NaN: none yet)."""
        self._latest, self.frames = self._clock(), int(frames_done)
        self._returns = np.asarray(returns, np.float64)
        if self._warm is None:
            self._warm = (self._latest, self.frames)
        if self._show and self._live is None:
            self._print_sometimes()

    def message(self, text: str, always: bool = False) -> None:
        """Prints a line of its own above the progress line; where that is silent, only with `always`."""
        if self._live:
            self._live.console.print(text, markup=False, highlight=False)
        elif self._show or always:
            print(text, file=self._file, flush=True)

    def line(self, width: int | None = None) -> str:
        """The progress line; the bar and then the label are left out where `width` characters do not hold them."""
        share = min(self.frames / self.total_frames, 1.0) if self.total_frames else 1.0
        filled = round(share * BAR_WIDTH)
        bar = "━" * filled + "╌" * (BAR_WIDTH - filled)
        speed = self.steps_per_second
        now = self._clock()
        left = (self.total_frames - self.frames) * self.num_seeds / speed if speed > 0 else math.nan
        parts = [
            f"{math.floor(100 * share)} %",
            "compiling" if self._warm is None else f"{_speed(speed)} steps/s",
            f"{_duration(now - self._start)} elapsed",
            f"{_duration(max(left - (now - self._latest), 0.0))} left",
            f"return {_spread(self._returns)}",
        ]
        facts = " · ".join(parts)
        lines = [" ".join(filter(None, start)) for start in ((self.label, bar, facts), (self.label, facts), (facts,))]
        return next((line for line in lines if width is None or len(line) <= width), facts)

    def _render(self) -> Text:
        return Text(self.line(self._console.width), no_wrap=True, overflow="ellipsis")

    def _print_sometimes(self) -> None:
        due = math.floor(PLAIN_LINES * self.frames / self.total_frames) if self.total_frames else PLAIN_LINES
        if due > self._lines_shown:
            self._lines_shown = due
            print(self.line(), file=self._file, flush=True)


def _speed(speed: float) -> str:
    if not speed > 0:
        return "-"
    return f"{speed:,.0f}" if speed < 1e6 else f"{speed / 1e6:.2f}M"


def _duration(seconds: float) -> str:
    """H:MM:SS, without the hours where there are none."""
    if not math.isfinite(seconds):
        return "-:--"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def _spread(returns: np.ndarray) -> str:
    """The interquartile mean and the range over the seeds that have a return."""
    known = returns[~np.isnan(returns)]
    if not known.size:
        return "-"
    if known.size == 1:
        return _short(known[0])
    return f"{_short(iqm(known))} [{_short(known.min())}, {_short(known.max())}]"


def _short(value: np.ndarray | float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
