"""Sampling with made-up clocks: every figure here is exact."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from timeroof.probe.sampling import LEAST_SAMPLES, Figure, Plan, Samples, calibrate, sample

ONE_S = 1e-6


def test_calibrates_repetitions_to_the_length_of_a_sample() -> None:
    repetitions = calibrate(lambda n: n * ONE_S, Plan(sample_s=1e-3))
    assert 1000 <= repetitions <= 1300


def test_calibration_survives_a_clock_that_stands_still() -> None:
    assert calibrate(lambda n: 0.0, Plan(most_repetitions=1000)) == 1000


def test_takes_at_least_ten_samples_and_stops_when_the_best_is_confirmed() -> None:
    samples = sample(lambda n: n * ONE_S, Plan(sample_s=1e-3))
    assert len(samples.times_s) == LEAST_SAMPLES >= 10
    assert samples.best_s == pytest.approx(ONE_S)
    assert samples.spread == pytest.approx(0.0, abs=1e-9)


def test_goes_on_while_the_best_is_alone() -> None:
    speeds: Iterator[float] = iter([1.0, 1.0, *(2.0 - 0.05 * k for k in range(18))] + [1.0] * 40)

    def run(repetitions: int) -> float:
        return repetitions * next(speeds)

    samples = sample(run, Plan(sample_s=0.5, least=10, most=30, confirmed=3))
    assert len(samples.times_s) > 10
    assert samples.best_s == 1.0


def test_a_limit_ends_it_at_the_least_number() -> None:
    growing = iter(range(1, 10_000))
    samples = sample(lambda n: float(next(growing)), Plan(sample_s=0.1, most=99, limit_s=5.0))
    assert len(samples.times_s) == 10


def test_never_takes_more_than_the_plan_allows() -> None:
    growing = iter(range(1, 10_000))
    samples = sample(lambda n: float(next(growing)), Plan(sample_s=0.1, most=15))
    assert len(samples.times_s) == 15


def test_figure_is_amount_over_the_best_time() -> None:
    figure = Figure.of(Samples([1.0, 2.0, 4.0]), amount=8.0)
    assert figure.rate_per_s == 8.0
    assert figure.better(None) is figure
    assert figure.better(Figure(9.0, 0.0)).rate_per_s == 9.0


def test_two_sittings_join() -> None:
    assert list(Samples([1.0]).joined(Samples([2.0])).times_s) == [1.0, 2.0]
