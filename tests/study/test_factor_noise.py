"""Nothing is found in noise, and what the tests of difference promise holds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.study.factor_samples import (
    Truth,
    algorithm_truths,
    batch_sweep,
    cache_truths,
    launch_truths,
    layout_truths,
    precision_truths,
    study_machine,
    study_rows,
    working_set_truths,
)
from timeroof.study.factors import conclusions
from timeroof.study.factors.noise import (
    FALSE_ALARM,
    _rank_p,
    _welch_p,
    compare,
    holm,
    student_p,
    student_quantile,
)


def null_truths() -> list[Truth]:
    """Every comparison of every factor, and no difference in any."""
    flat = dict.fromkeys(("l1", "l2", "l3", "dram"), 15e9)
    return [
        *batch_sweep(),
        *launch_truths(cost_s=0.0),
        *layout_truths(reorder_s=0.0),
        *cache_truths(times=1.0),
        *working_set_truths(flat),
        *algorithm_truths(times=1.0),
        *precision_truths(fit_rate=80e9, odd_rate=80e9),
    ]


@pytest.mark.parametrize(("noise", "samples"), [(0.02, 12), (0.1, 7), (0.3, 20)])
def test_nothing_is_found_in_noise(noise: float, samples: int) -> None:
    runs = 25
    alarms = 0
    for seed in range(runs):
        rows = study_rows(null_truths(), seed=seed, noise=noise, samples=samples)
        alarms += sum(c.found for c in conclusions(rows, study_machine()))
    # Five factors at 1 % each: 1.25 are expected of 25 runs at most; 4 would be a broken promise.
    assert alarms <= 3


@pytest.mark.parametrize("count", [4, 7, 10, 30])
def test_false_alarms_of_one_comparison_are_bounded(count: int) -> None:
    draw = np.random.default_rng(7)
    runs = 400
    alarms = 0
    for _ in range(runs):
        a, b = np.exp(0.2 * draw.standard_normal((2, count)))
        ratio = compare(list(a), list(b))
        assert ratio is not None
        alarms += ratio.p <= FALSE_ALARM
    # 4 of 400 are expected; more than 12 has a chance below one in a thousand.
    assert alarms <= 12


def test_a_real_difference_is_seen() -> None:
    draw = np.random.default_rng(3)
    seen = 0
    for _ in range(50):
        a, b = np.exp(0.03 * draw.standard_normal((2, 10)))
        ratio = compare(list(a), list(1.3 * b))
        assert ratio is not None
        seen += ratio.p <= FALSE_ALARM and ratio.beyond_spread
    assert seen >= 48


def test_intervals_hold_the_truth() -> None:
    draw = np.random.default_rng(5)
    hits = 0
    for _ in range(200):
        a, b = np.exp(0.1 * draw.standard_normal((2, 25)))
        ratio = compare(list(a), list(1.5 * b))
        assert ratio is not None
        hits += ratio.low <= 1.5 <= ratio.high
    assert hits >= 180


def test_two_samples_say_nothing_of_chance() -> None:
    assert compare([1.0, 1.1], [2.0, 2.1, 2.2]) is None
    assert compare([1.0, math.nan, 1.0], [2.0, 2.0, 2.0]) is None


def test_small_differences_are_not_claimed_however_sure() -> None:
    draw = np.random.default_rng(1)
    a, b = np.exp(0.001 * draw.standard_normal((2, 200)))
    ratio = compare(list(a), list(1.03 * b))
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
    one, other = compare(a, b), compare([scale * x for x in a], [scale * x for x in b])
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
