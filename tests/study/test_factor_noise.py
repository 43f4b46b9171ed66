"""Nothing is found in noise, whatever the factor."""

from __future__ import annotations

import pytest

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
