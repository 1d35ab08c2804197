"""The progress line shows what it is told, and stays short where there is no terminal."""

import io
import math

import numpy as np
import pytest
from rich.console import Console

from jaxrew.training.progress import Progress


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_speed_counts_all_seeds_and_leaves_the_first_chunk_out():
    clock = Clock()
    progress = Progress(1000, num_seeds=10, file=io.StringIO(), clock=clock)
    assert "compiling" in progress.line()
    clock.now += 30
    progress.update(100, np.full(10, np.nan))
    assert math.isnan(progress.steps_per_second)
    clock.now += 2
    progress.update(300, np.full(10, np.nan))
    assert progress.steps_per_second == 10 * 200 / 2
    assert progress.line().endswith("30 % · 1,000 steps/s · 0:32 elapsed · 0:07 left · return -")
    clock.now += 3
    assert "0:35 elapsed · 0:04 left" in progress.line()


def test_a_resumed_run_counts_only_what_it_did():
    clock = Clock()
    progress = Progress(1000, 1, "CartPole", start_frames=500, file=io.StringIO(), clock=clock)
    assert progress.line().startswith("CartPole ━━━━━━╌╌╌╌╌╌ 50 %")
    clock.now += 1
    progress.update(600, np.zeros(1))
    clock.now += 1
    progress.update(700, np.zeros(1))
    assert progress.steps_per_second == 100


@pytest.mark.parametrize(
    ("returns", "text"),
    [
        ([0.0, 1.0, 2.0, 30.0], "return 1.5 [0, 30]"),
        ([np.nan, 0.5, np.nan], "return 0.5"),
        ([0.25, 0.75, np.nan], "return 0.5 [0.25, 0.75]"),
        ([np.nan], "return -"),
        ([1234.5, -0.012345], "return 617 [-0.0123, 1,234]"),
    ],
)
def test_the_return_is_the_iqm_and_range_of_seeds_that_have_one(returns, text):
    progress = Progress(10, len(returns), file=io.StringIO())
    progress.update(1, np.array(returns))
    assert progress.line().endswith(text)


@pytest.mark.parametrize("chunks", [1, 3, 20, 999])
def test_without_a_terminal_there_are_at_most_twenty_lines(chunks):
    file = io.StringIO()
    with Progress(1000, 2, "Empty", file=file) as progress:
        for chunk in range(1, chunks + 1):
            progress.update(1000 * chunk // chunks, np.zeros(2))
    lines = file.getvalue().splitlines()
    assert len(lines) == min(chunks, 20)
    assert "100 %" in lines[-1]


def test_messages_are_lines_of_their_own():
    file = io.StringIO()
    with Progress(10, 1, file=file) as progress:
        progress.message("saved [checkpoint]")
    assert file.getvalue() == "saved [checkpoint]\n"


def test_a_narrow_line_keeps_the_facts():
    progress = Progress(10, 1, "DoorKey", file=io.StringIO())
    progress.update(5, np.ones(1))
    whole = progress.line()
    facts = whole[whole.index("50 %") :]
    assert facts.startswith("50 % · - steps/s · 0:00 elapsed · -:-- left · return 1")
    assert whole == f"DoorKey ━━━━━━╌╌╌╌╌╌ {facts}"
    assert progress.line(len(whole)) == whole
    assert progress.line(len(whole) - 1) == f"DoorKey {facts}"
    assert progress.line(len(facts) + 3) == progress.line(3) == facts


def test_a_terminal_gets_one_line_that_is_redrawn(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    file = Terminal()
    with Progress(10, 1, "DoorKey", file=file) as progress:
        progress.update(5, np.ones(1))
        progress.message("saved [checkpoint]")
    screen = file.getvalue()
    assert "saved [checkpoint]" in screen
    assert "50 %" in screen.rsplit("DoorKey", 1)[1]
    assert screen.count("\n") == 2


def test_silence(capsys):
    file = Terminal()
    with Progress(10, 1, file=file, show=False) as progress:
        progress.update(5, np.ones(1))
        progress.message("nothing")
    assert file.getvalue() == ""
    assert Console(file=file).is_terminal
