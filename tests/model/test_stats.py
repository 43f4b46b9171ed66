"""Does this difference count: what each design of `model/stats` promises, and that it is the one."""

from __future__ import annotations

import math
import random
import statistics
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st

import timeroof
from timeroof.model.stats import (
    ALPHA,
    DEVIATIONS,
    PairedRuns,
    _rank_p,
    _welch_p,
    deviations_needed,
    drift,
    far_apart,
    holm,
    median_error,
    median_half_interval,
    pace_shift,
    quantile,
    run_deviation_s,
    spread,
    spread_of,
    student_p,
    student_quantile,
    two_samples,
)

times = st.lists(st.floats(1e-6, 1e3), min_size=2, max_size=40)


# Spread, error of a median, quantiles.


@given(times)
def test_the_spread_of_a_list_and_of_a_column_are_one_number(values: list[float]) -> None:
    column = pl.DataFrame({"t": values}).select(spread_of(pl.col("t"))).item()
    assert spread(values) == pytest.approx(column, rel=1e-9, abs=1e-12)


def test_one_value_has_no_spread() -> None:
    assert spread([1.0]) is None
    assert spread([0.0, 0.0]) is None
    assert pl.DataFrame({"t": [1.0]}).select(spread_of(pl.col("t"))).item() is None


@given(times)
def test_quantiles_reach_from_least_to_most(values: list[float]) -> None:
    assert quantile(values, 0.0) == min(values)
    assert quantile(values, 1.0) == max(values)
    assert quantile(values, 0.5) == pytest.approx(statistics.median(values))


def test_the_error_of_a_median_is_that_of_many_medians() -> None:
    draw = np.random.default_rng(11)
    every = 1 + 0.1 * draw.standard_normal((2000, 25))
    found = statistics.fmean(e for row in every[:400] if (e := median_error(list(row))) is not None)
    assert found == pytest.approx(float(np.median(every, axis=1).std()), rel=0.1)
    assert median_error([1.0, 2.0, 3.0]) is None


@given(st.lists(st.floats(1e-6, 1.0), min_size=5, max_size=200))
def test_the_interval_is_not_negative_and_within_the_range(samples: list[float]) -> None:
    half = median_half_interval(samples)
    assert half is not None
    assert 0 <= half <= (max(samples) - min(samples)) / statistics.median(samples) / 2 + 1e-12


@given(st.floats(0.1, 10.0), st.lists(st.floats(1e-6, 1.0), min_size=5, max_size=50))
def test_the_interval_has_no_unit(factor: float, samples: list[float]) -> None:
    one, other = (median_half_interval([f * s for s in samples]) for f in (1.0, factor))
    assert one is not None
    assert other is not None
    assert abs(one - other) <= 1e-6 * max(1.0, one)


def test_few_samples_have_no_interval() -> None:
    assert median_half_interval([1.0] * 4) is None


def test_what_noise_is_stands_in_one_file() -> None:
    """Quartiles to deviations, and the error of a median, are worked out nowhere else."""
    source = Path(timeroof.__file__).parent
    signs = ("1.349", "1.2533", "statistics.quantiles(", "quantile(0.75")
    found = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if any(sign in path.read_text() for sign in signs)
    }
    # The interquartile range of ratios between machines in whatif is no noise.
    assert found - {"model/whatif/rows.py"} == {"model/stats.py"}


# Two samples.


@pytest.mark.parametrize("count", [4, 7, 10, 30])
def test_false_alarms_of_one_comparison_are_bounded(count: int) -> None:
    draw = np.random.default_rng(7)
    runs = 400
    alarms = 0
    for _ in range(runs):
        a, b = np.exp(0.2 * draw.standard_normal((2, count)))
        ratio = two_samples(list(a), list(b))
        assert ratio is not None
        alarms += ratio.p <= ALPHA
    # 4 of 400 are expected; more than 12 has a chance below one in a thousand.
    assert alarms <= 12


def test_a_real_difference_is_seen() -> None:
    draw = np.random.default_rng(3)
    seen = 0
    for _ in range(50):
        a, b = np.exp(0.03 * draw.standard_normal((2, 10)))
        ratio = two_samples(list(a), list(1.3 * b))
        assert ratio is not None
        seen += ratio.counts()
    assert seen >= 48


def test_intervals_hold_the_truth() -> None:
    draw = np.random.default_rng(5)
    hits = 0
    for _ in range(200):
        a, b = np.exp(0.1 * draw.standard_normal((2, 25)))
        ratio = two_samples(list(a), list(1.5 * b))
        assert ratio is not None
        hits += ratio.low <= 1.5 <= ratio.high
    assert hits >= 180


def test_two_samples_say_nothing_of_chance() -> None:
    assert two_samples([1.0, 1.1], [2.0, 2.1, 2.2]) is None
    assert two_samples([1.0, math.nan, 1.0], [2.0, 2.0, 2.0]) is None


def test_small_differences_are_not_claimed_however_sure() -> None:
    draw = np.random.default_rng(1)
    a, b = np.exp(0.001 * draw.standard_normal((2, 200)))
    ratio = two_samples(list(a), list(1.03 * b))
    assert ratio is not None
    assert ratio.p < 1e-9
    assert not ratio.beyond_spread
    assert ratio.settled


@given(
    st.lists(st.floats(1e-6, 1e-3), min_size=3, max_size=30),
    st.lists(st.floats(1e-6, 1e-3), min_size=3, max_size=30),
    st.floats(1e-3, 1e3),
)
def test_units_do_not_matter(a: list[float], b: list[float], scale: float) -> None:
    one, other = two_samples(a, b), two_samples([scale * x for x in a], [scale * x for x in b])
    assert one is not None
    assert other is not None
    assert one.value == pytest.approx(other.value)
    assert one.low <= one.value <= one.high
    assert 0 <= one.p <= 1
    assert one.tolerance >= 1.05


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_holm_only_raises_and_keeps_order(chances: list[float]) -> None:
    corrected = holm(chances)
    assert all(0 <= p <= c <= 1 for p, c in zip(chances, corrected, strict=True))
    order = np.argsort(chances, kind="stable")
    assert (np.diff(np.array(corrected)[order]) >= 0).all()
    assert min(corrected) <= min(1.0, len(chances) * min(chances)) + 1e-12


def test_ranks_against_a_hand_calculation() -> None:
    """Eight below eight: the smallest statistic; by the normal law z = 31.5 / sqrt(90.67)."""
    low, high = np.arange(1.0, 9.0), np.arange(11.0, 19.0)
    z = (32 - 0.5) / math.sqrt(8 * 8 * 17 / 12)
    assert _rank_p(low, high) == pytest.approx(math.erfc(z / math.sqrt(2)))
    assert _rank_p(np.ones(8), np.ones(8)) == 1.0


def test_welch_against_a_hand_calculation() -> None:
    """Means 0 and 1, both variances 1, four samples each: t = 1 / sqrt(1/2), six degrees."""
    a = np.array([-1.0, -1.0, 1.0, 1.0]) * math.sqrt(3) / 2
    assert _welch_p(a, a + 1) == pytest.approx(student_p(math.sqrt(2), 6))


@pytest.mark.parametrize(
    ("freedom", "t95"),
    [(1, 12.706), (2, 4.303), (5, 2.571), (10, 2.228), (30, 2.042), (500, 1.965)],
)
def test_student_against_the_tables(freedom: int, t95: float) -> None:
    assert student_quantile(freedom) == pytest.approx(t95, rel=3e-3)
    assert student_p(t95, min(freedom, 200)) == pytest.approx(0.05, abs=1e-3)


# Many comparisons.


@pytest.mark.parametrize("count", [1, 10, 300])
def test_thresholds_keep_the_chance_of_any_false_alarm(count: int) -> None:
    """The threshold is never laxer than Holm's first step at ALPHA."""
    chance = math.erfc(deviations_needed(count) / math.sqrt(2))
    assert holm([chance] + [1.0] * (count - 1))[0] <= ALPHA * (1 + 1e-9)
    assert deviations_needed(count) >= DEVIATIONS


# Paired runs.


def paired(
    delta: float, least: float, noise_s: float | None = 0.1, shift: float = 0.0
) -> PairedRuns:
    return PairedRuns(10.0, delta, least, noise_s, threshold=0.07, shift=shift)


@pytest.mark.parametrize(
    ("runs", "failed"),
    [
        (paired(2.0, 1.8), None),
        (paired(0.0, 0.0), None),
        (paired(0.5, 0.5), "size"),
        (paired(0.5, 0.5, noise_s=None), "size"),
        (paired(1.0, 1.0, noise_s=2.0), "noise"),
        (paired(2.0, -0.1), "fastest"),
        (paired(2.0, 0.3), "fastest"),
        (paired(3.0, 3.0, shift=0.25), "pace"),
        (paired(3.0, 3.0, shift=-0.25), None),
    ],
)
def test_a_difference_of_runs_passes_every_test_or_names_the_first(
    runs: PairedRuns, failed: str | None
) -> None:
    assert runs.failed == failed
    assert runs.counts is (failed is None and runs.delta_s != 0)


@given(st.floats(-5, 10), st.floats(-5, 10), st.none() | st.floats(0, 5), st.floats(-0.4, 0.7))
def test_a_test_is_named_exactly_where_a_difference_does_not_count(
    delta_s: float, least_s: float, noise_s: float | None, shift: float
) -> None:
    runs = paired(delta_s, least_s, noise_s, shift)
    assert (runs.failed is None) is (runs.counts or delta_s == 0)
    assert abs(runs.beyond_pace_s) <= abs(runs.confirmed_s) <= abs(delta_s)


def test_a_run_that_drifts_is_less_certain() -> None:
    """The same samples count for more where the second half is slower than the first."""
    steady = run_deviation_s([10.0, 10.1] * 6)
    assert run_deviation_s([10.0] * 6 + [10.1] * 6) > steady


@given(st.lists(st.floats(0.5, 2.0), min_size=2, max_size=9), st.floats(0.5, 2.0))
def test_the_pace_of_the_machine_has_no_direction(pace: list[float], factor: float) -> None:
    other = [factor * p for p in pace]
    assert (1 + pace_shift(pace, other)) * (1 + pace_shift(other, pace)) == pytest.approx(1.0)


def test_runs_that_never_meet_are_far_apart() -> None:
    assert far_apart([1.0, 1.1, 1.2], [3.0, 3.3, 3.9])
    assert far_apart([3.0, 3.3, 3.9], [1.0, 1.1, 1.2])
    assert not far_apart([1.0, 1.1, 3.1], [3.0, 3.3, 3.9])
    assert not far_apart([1.0, 1.1], [3.0, 3.3])


def test_drift_is_that_of_the_rows_that_did_not_change() -> None:
    draw = random.Random(2)
    ratios = [1.1 * math.exp(draw.gauss(0, 0.02)) for _ in range(40)]
    moved = drift([*ratios, 3.0, 0.2])
    assert moved.common == pytest.approx(0.1, abs=0.02)
    assert 0.01 < moved.single < 0.06
    assert drift(ratios[:4]).single == 0.0
