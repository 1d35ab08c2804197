"""Statistics over seeds: robust means, bootstrap intervals, and curves on a common time axis.

`n` is the number of seeds, always the first axis of scores `[n, ...]`.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Statistic = Callable[[np.ndarray], np.ndarray]
"""Maps `[..., n]` to `[...]`."""

BLOCK = 2**22
"""Most resampled scores held in memory at once."""


class Estimate(NamedTuple):
    """A statistic and the ends of its confidence interval."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray


def iqm(scores: np.ndarray, axis: int = 0) -> np.ndarray:
    """The interquartile mean: the mean of what is left after cutting floor(n / 4) scores at each end.

    As a location estimate it wastes fewer seeds than the median and is hurt less by one bad seed than the mean
    (Agarwal et al., 2021); below four seeds it is the mean. NaN where any score is NaN.
    """
    scores = np.sort(np.moveaxis(np.asarray(scores, np.float64), axis, -1), axis=-1)
    n = scores.shape[-1]
    cut = n // 4
    middle = scores[..., cut : n - cut].mean(axis=-1)
    return np.where(np.isnan(scores[..., -1]), np.nan, middle)


def interval(
    scores: np.ndarray,
    statistic: Statistic | None = None,
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Estimate:
    """A statistic of scores `[n, ...]` over seeds with its percentile-bootstrap interval (Efron, 1979).

    Whole seeds are drawn with replacement, the same draws for every trailing entry, so that a curve's band is made
    of resampled curves. At 95 % the interval of the IQM covers the truth about 75 % of the time with 3 seeds, 90 %
    with 5, 93 % with 10. `statistic` maps `[..., n]` to `[...]`; it is `iqm` over the last axis by default.
    """
    scores = np.asarray(scores, np.float64)
    statistic = statistic or (lambda values: iqm(values, axis=-1))
    n = scores.shape[0]
    if n == 0:
        raise ValueError("there are 0 seeds; statistics need at least 1")
    flat = scores.reshape(n, -1).T
    draws = np.random.default_rng(seed).integers(0, n, (resamples, n))
    percent = 50 * (1 - confidence), 50 * (1 + confidence)
    width = max(1, BLOCK // draws.size)
    ends = [
        np.percentile(statistic(flat[start : start + width][:, draws]), percent, axis=1)
        for start in range(0, len(flat), width)
    ]
    low, high = np.concatenate(ends, axis=1) if ends else np.empty((2, 0))
    shape = scores.shape[1:]
    return Estimate(statistic(flat).reshape(shape), low.reshape(shape), high.reshape(shape))


def probability_of_improvement(
    ours: np.ndarray, theirs: np.ndarray, *, confidence: float = 0.95, resamples: int = 2000, seed: int = 0
) -> Estimate:
    """The chance that a seed of ours `[n]` beats one of theirs `[m]`, ties counted half (Mann and Whitney, 1947).

    With a second axis of tasks, `[n, tasks]` and `[m, tasks]`, the average over tasks (Agarwal et al., 2021), seeds
    resampled within each task.
    """
    ours, theirs = (np.asarray(x, np.float64).reshape(len(x), -1) for x in (ours, theirs))
    wins = np.sign(ours[:, None] - theirs[None]) / 2 + 0.5
    n, m, tasks = wins.shape
    rng = np.random.default_rng(seed)
    rows, columns = rng.integers(0, n, (resamples, n, 1, tasks)), rng.integers(0, m, (resamples, 1, m, tasks))
    means = np.array([wins[r, c, np.arange(tasks)].mean() for r, c in zip(rows, columns, strict=True)])
    low, high = np.percentile(means, (50 * (1 - confidence), 50 * (1 + confidence)))
    return Estimate(*(np.asarray(value) for value in (wins.mean(), low, high)))
