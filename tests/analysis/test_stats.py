"""Statistics against scipy, slow loops, and their own promises."""

import itertools
import statistics

import numpy as np
import pytest

from jaxrew.analysis.stats import interval, iqm, probability_of_improvement


def slow_iqm(scores):
    scores = sorted(scores)
    cut = int(0.25 * len(scores))
    return statistics.fmean(scores[cut : len(scores) - cut])


@pytest.mark.parametrize("n", range(1, 14))
def test_iqm_is_the_quarter_trimmed_mean(n):
    scores = np.random.default_rng(n).normal(size=(n, 3))
    np.testing.assert_allclose(iqm(scores), [slow_iqm(column) for column in scores.T], rtol=1e-12)
    np.testing.assert_allclose(iqm(scores.T, axis=1), iqm(scores), rtol=0)


@pytest.mark.slow
def test_iqm_agrees_with_scipy():
    from scipy.stats import trim_mean

    for n in range(1, 40):
        scores = np.random.default_rng(n).normal(size=(n, 3))
        np.testing.assert_allclose(iqm(scores), trim_mean(scores, 0.25, axis=0), rtol=1e-12)


def test_iqm_by_hand_and_with_nan():
    assert iqm(np.array([1.0, 2, 3, 100])) == 2.5
    assert iqm(np.array([5.0, 1, 3])) == 3
    assert np.isnan(iqm(np.array([1.0, 2, 3, np.nan])))


def test_the_interval_is_that_of_a_plain_bootstrap_loop():
    scores = np.random.default_rng(0).normal(size=(6, 4))
    estimate = interval(scores, confidence=0.9, resamples=200, seed=5)
    draws = np.random.default_rng(5).integers(0, 6, (200, 6))
    for column in range(4):
        values = [slow_iqm(scores[draw, column]) for draw in draws]
        np.testing.assert_allclose(estimate.low[column], np.percentile(values, 5), rtol=1e-12)
        np.testing.assert_allclose(estimate.high[column], np.percentile(values, 95), rtol=1e-12)
        np.testing.assert_allclose(estimate.value[column], slow_iqm(scores[:, column]), rtol=1e-12)


def test_the_interval_does_not_depend_on_the_block_size(monkeypatch):
    scores = np.random.default_rng(0).normal(size=(5, 2, 7))
    whole = interval(scores, resamples=100)
    monkeypatch.setattr("jaxrew.analysis.stats.BLOCK", 1)
    for one, other in zip(whole, interval(scores, resamples=100), strict=True):
        assert np.shape(one) == (2, 7)
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("n", "low", "high"), [(3, 0.68, 0.82), (5, 0.84, 0.93), (10, 0.89, 0.96)])
def test_coverage_of_the_interval(n, low, high):
    """How often the interval of n normal seeds holds the true IQM, 0; with 3 seeds it is far from 95 %."""
    scores = np.random.default_rng(1).normal(size=(n, 1000))
    estimate = interval(scores, resamples=500)
    covered = ((estimate.low <= 0) & (estimate.high >= 0)).mean()
    assert low < covered < high


def test_other_statistics_and_one_seed():
    scores = np.array([[1.0, 2], [5, 6], [3, 4]])
    np.testing.assert_array_equal(interval(scores, lambda x: np.median(x, axis=-1)).value, [3, 4])
    assert interval(np.array([2.0])) == (2.0, 2.0, 2.0)
    with pytest.raises(ValueError, match="there are 0 seeds"):
        interval(np.empty((0, 3)))


def test_probability_of_improvement_counts_pairs():
    ours, theirs = np.array([1.0, 2, 2, 5]), np.array([2.0, 0, 3])
    wins = [1.0 if a > b else 0.5 if a == b else 0.0 for a, b in itertools.product(ours, theirs)]
    estimate = probability_of_improvement(ours, theirs)
    assert estimate.value == pytest.approx(sum(wins) / 12)
    assert 0 <= estimate.low < estimate.value < estimate.high <= 1
    mirrored = probability_of_improvement(theirs, ours)
    assert estimate.value + mirrored.value == pytest.approx(1)
    certain = probability_of_improvement(np.arange(10.0) + 100, np.arange(10.0))
    assert certain == (1, 1, 1)


def test_probability_of_improvement_averages_tasks():
    rng = np.random.default_rng(0)
    ours, theirs = rng.normal(1, 1, (8, 3)), rng.normal(0, 1, (6, 3))
    single = [probability_of_improvement(a, b).value for a, b in zip(ours.T, theirs.T, strict=True)]
    assert probability_of_improvement(ours, theirs).value == pytest.approx(np.mean(single))
