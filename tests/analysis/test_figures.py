"""Figures draw the statistics they promise; tables print them."""

import itertools

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.text import Text

from jaxrew.analysis import figures
from jaxrew.analysis.figures import learning_curves, short_number
from jaxrew.analysis.stats import interval
from jaxrew.analysis.tables import table
from jaxrew.training.run import Run, assemble


def make_run(returns, **metrics):
    """A run of 50 episodes an update with these mean returns `[seed, time]`."""
    returns = np.asarray(returns, np.float32)
    frames = np.tile(np.arange(1, returns.shape[1] + 1) * 1000, (len(returns), 1))
    chunk = {"frames": frames, "episodes": np.full(returns.shape, 50), "return_sum": 50 * returns}
    return Run(list(range(len(returns))), assemble([chunk | metrics], len(returns)))


def ramp(seeds, updates=100, top=1.0):
    return top * np.linspace(0, 1, updates) * np.linspace(0.9, 1, seeds)[:, None]


@pytest.fixture
def drawn(monkeypatch):
    """The axes of the figures drawn."""
    axes = []
    monkeypatch.setattr(figures, "_save", lambda figure, path: axes.append(figure.axes[0]))
    return axes


def texts(axes: Axes):
    return [text.get_text() for text in axes.texts]


def test_line_and_band_are_iqm_and_interval_against_frames(drawn):
    run = make_run(ramp(10))
    learning_curves({"PPO": run}, "unused", threshold=0.5)
    (axes,) = drawn
    estimate = interval(run.last(100))
    line = axes.lines[0]
    np.testing.assert_array_equal(line.get_xdata(), run.frames)
    np.testing.assert_allclose(line.get_ydata(), estimate.value)
    (band,) = axes.collections
    corners = band.get_paths()[0].vertices
    for frame, low, high in zip(run.frames[1:], estimate.low[1:], estimate.high[1:], strict=True):
        column = corners[corners[:, 0] == frame, 1]
        assert (column.min(), column.max()) == pytest.approx((low, high))
    assert axes.get_xlabel() == "frames"
    assert axes.lines[1].get_ydata()[0] == 0.5
    assert axes.figure.get_supxlabel() == "Interquartile mean and 95 % bootstrap interval over 10 seeds"


def test_every_curve_is_named_at_its_end_without_overlap(drawn):
    labels = [f"method {index}" for index in range(9)]
    learning_curves({label: make_run(ramp(5, top=0.5 + 0.001 * i)) for i, label in enumerate(labels)}, "unused")
    (axes,) = drawn
    assert texts(axes) == labels
    lines = [line for line in axes.lines if len(line.get_xdata()) > 2]
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == 9
    for text, line in zip(axes.texts, lines, strict=True):
        assert text.get_color() == line.get_color()
    axes.figure.draw_without_rendering()
    boxes = sorted((Text.get_window_extent(text) for text in axes.texts), key=lambda box: box.y0)
    assert all(below.y0 + 0.9 * below.height <= above.y0 for below, above in itertools.pairwise(boxes))
    assert all(box.x0 > axes.bbox.x1 and box.x1 <= axes.figure.bbox.x1 for box in boxes)


@pytest.mark.parametrize(
    ("seeds", "caption", "bands", "lines"),
    [
        (1, "1 seed, ", 0, 2),
        (2, "2 seeds, the thick line is the mean: too few for an interval", 0, 3),
        (3, "over 3 seeds\n(fewer than 5 seeds: the interval is too narrow)", 1, 1),
        (5, "over 5 seeds", 1, 1),
    ],
)
def test_few_seeds_are_said_to_be_few(drawn, seeds, caption, bands, lines):
    learning_curves({"PPO": make_run(ramp(seeds))}, "unused")
    (axes,) = drawn
    assert caption in axes.figure.get_supxlabel()
    assert ("fewer" in axes.figure.get_supxlabel()) == (seeds in (3, 4))
    assert len(axes.collections) == bands
    assert len(axes.lines) == lines


def test_arrays_long_runs_and_runs_without_episodes(drawn):
    silent = Run([0], assemble([{"frames": np.array([[1, 2]]), "episodes": np.zeros((1, 2), int),
                                 "return_sum": np.full((1, 2), np.nan)}], 1))  # fmt: skip
    frames = np.arange(1, 5001)
    learning_curves({"array": (frames, ramp(6, 5000)), "silent": silent}, "unused")
    (axes,) = drawn
    assert len(axes.lines[0].get_xdata()) == figures.POINTS
    assert axes.lines[0].get_xdata()[-1] == 5000
    assert texts(axes) == ["array", "silent (too few episodes)"]


def test_png_and_pdf_are_written_with_embedded_fonts(tmp_path):
    png, pdf = learning_curves({"PPO": make_run(ramp(5, 20))}, tmp_path / "figures" / "return-v0.5.png")
    assert (png.name, pdf.name) == ("return-v0.5.png", "return-v0.5.pdf")
    assert png.read_bytes().startswith(b"\x89PNG")
    content = pdf.read_bytes()
    assert content.startswith(b"%PDF")
    assert b"/Type3" not in content


def test_nothing_to_draw_is_an_error():
    with pytest.raises(ValueError, match="runs is empty"):
        learning_curves({}, "unused")
    with pytest.raises(ValueError, match=r"values have shape \(3,\); with frames \(3,\) they must be \[seeds, time\]"):
        learning_curves({"x": (np.arange(3), np.arange(3.0))}, "unused")


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (800, "800"), (2e4, "20k"), (1.5e6, "1.5M"), (2e9, "2B")])
def test_short_numbers(value, text):
    assert short_number(value) == text


def test_table_by_hand():
    fast = make_run(
        np.add.outer([0.0, 0.5, 0.5, 1.0], [0, 0, 0.5, 0.5]),
        first_success=np.array([[-1, -1, 2500, 2500], [100] * 4, [300] * 4, [-1] * 4]),
        coverage=np.repeat([[10], [20], [20], [30]], 4, axis=1),
    )
    slow = make_run(np.zeros((2, 4)))
    text = table({"fast": fast, "slow": slow}, threshold=0.9)
    # Three or four of four draws fall on the same seed 5 % of the time, so the interval ends at the extremes.
    assert text.splitlines() == [
        "      seeds  frames                return  frames to 0.9  solved   first success           coverage",
        "fast      4   4,000  1.000 [0.500, 1.500]          4,000  3 of 4  1,400 (3 of 4)  20.0 [10.0, 30.0]",
        "slow      2   4,000                 0.000        > 4,000  0 of 2               -                  -",
    ]
    markdown = table({"fast": fast, "slow": slow}, markdown=True).splitlines()
    assert markdown[1].replace("-", "") == "| : | : | : | : | : | : |"
    assert len({len(line) for line in markdown}) == 1
    with pytest.raises(ValueError, match="runs is empty"):
        table({})
