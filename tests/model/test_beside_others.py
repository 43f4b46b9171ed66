"""Times that were taken in turns beside other programs: what counts as a difference."""

from __future__ import annotations

import numpy as np
import pytest

from timeroof.model.stats import in_turns_beside_others, two_samples


def noisy(middle: float, seed: int, count: int = 20, noise: float = 0.1) -> list[float]:
    draw = np.random.default_rng(seed)
    return [float(v) for v in middle * np.exp(noise * draw.standard_normal(count))]


@pytest.mark.parametrize("times", [0.4, 2.0, 5.0])
def test_a_large_difference_counts(times: float) -> None:
    found = [in_turns_beside_others(noisy(1.0, s), noisy(times, s + 99)) for s in range(20)]
    assert all(r is not None and r.counts() and (r.value > 1) == (times > 1) for r in found)


@pytest.mark.parametrize("times", [1.0, 1.1, 1.2])
def test_a_small_difference_never_counts(times: float) -> None:
    found = [
        in_turns_beside_others(noisy(1.0, s, noise=0.02), noisy(times, s + 99, noise=0.02))
        for s in range(20)
    ]
    assert not any(r is not None and r.counts() for r in found)


def test_the_interval_is_wider_than_that_of_a_quiet_machine() -> None:
    a, b = noisy(1.0, 1), noisy(2.0, 2)
    plain, wide = two_samples(a, b), in_turns_beside_others(a, b)
    assert plain is not None
    assert wide is not None
    assert wide.low < plain.low < plain.value == wide.value < plain.high < wide.high


def test_rounds_that_disagree_claim_nothing() -> None:
    """Every other round says the opposite: whatever the median, it is not believed."""
    a = [1.0, 1.0, 3.0, 3.0] * 5
    b = [2.0, 2.0, 2.0, 2.0] * 5
    found = in_turns_beside_others(a, b)
    assert found is not None
    assert not found.counts()


def test_a_case_that_differs_from_itself_as_much_claims_nothing() -> None:
    a, b = [1.0, 1.9] * 8, [2.0, 2.0] * 8
    found = in_turns_beside_others(a, b)
    assert found is not None
    assert not found.counts()


def test_two_samples_are_too_few() -> None:
    assert in_turns_beside_others([1.0, 1.0], [2.0, 2.0]) is None
