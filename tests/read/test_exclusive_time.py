"""Every instant of a device counts once: exposed communication by interval arithmetic."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tests.recorded_data import DATA, needs_recorded_data
from timeroof.api.reports import load
from timeroof.model.bounds import own_times

Span = tuple[float, float]

# Milliseconds of exposed communication, and of the window.
EXPOSED = {
    "kineto/v100_recsys_train_rank1of2.json.gz": (73.30, 745.24),
    "kineto/mi300x_resnet_train_8gpu_rank0.json.gz": (55.63, 86.57),
    "kineto/a100_2rank_nccl_metadata_rank0.json.gz": (39.56, 660.55),
    "kineto/b200_eager_8gpu_rank0.json.gz": (2.14, 84.49),
    "kineto/v100_dlrm_8rank/worker0_step_12.1694128201545.pt.trace.json.gz": (5.54, 13.01),
    "kineto/h800_deepseek_v3_train_dualpipe_rank0of64.json.gz": (4.16, 129.01),
}
COMMUNICATES = re.compile(r"nccl|internode|deep_ep|multimem", re.IGNORECASE)


def united(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def length(spans: list[Span]) -> float:
    return sum(end - start for start, end in spans)


def device_events(path: Path) -> list[tuple[str, str, float, float]]:
    with gzip.open(path) as stream:
        events = json.load(stream)["traceEvents"]
    kinds = {"kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "copy"}
    return [
        (kinds[e["cat"].lower()], e["name"], float(e["ts"]), float(e["ts"]) + float(e["dur"]))
        for e in events
        if e.get("ph") == "X" and str(e.get("cat")).lower() in kinds
    ]


def exposed_us(events: list[tuple[str, str, float, float]]) -> float:
    talks = [(s, e) for k, n, s, e in events if k == "kernel" and COMMUNICATES.search(n)]
    works = [(s, e) for k, n, s, e in events if k == "kernel" and not COMMUNICATES.search(n)]
    return length(united(talks + works)) - length(united(works))


@needs_recorded_data
@pytest.mark.parametrize("name", EXPOSED)
def test_communication_is_what_no_kernel_hides(name: str) -> None:
    path = DATA / name
    totals = load(path).totals
    exposed_s = totals.by_class["communication"]
    assert exposed_s == pytest.approx(exposed_us(device_events(path)) * 1e-6, rel=1e-3)
    assert sum(totals.by_class.values()) == pytest.approx(totals.wall_s, rel=1e-9)
    exposed_ms, wall_ms = EXPOSED[name]
    assert exposed_s * 1e3 == pytest.approx(exposed_ms, abs=0.006)
    assert totals.wall_s * 1e3 == pytest.approx(wall_ms, abs=0.006)


spans = st.tuples(
    st.integers(0, 12), st.integers(0, 6), st.integers(0, 2), st.integers(0, 1)
)  # start, length, tier, device


@settings(deadline=None)
@given(st.lists(spans, max_size=12))
def test_each_instant_belongs_to_the_first_tier_that_runs(work: list[tuple[int, ...]]) -> None:
    start, long, tier, device = (np.array([w[i] for w in work], np.int64) for i in range(4))
    begin = start.astype(np.float64)
    own = own_times(begin, begin + long, tier, device)
    expected, alone = np.zeros(len(work)), np.zeros(len(work))
    for second in range(20):
        for one in (0, 1):
            running = (device == one) & (start <= second) & (second < start + long)
            if running.any():
                first = running & (tier == tier[running].min())
                expected[first] += 1 / first.sum()
                alone[first] += first.sum() == 1
    assert own.exclusive == pytest.approx(expected)
    assert own.alone == pytest.approx(alone)


@needs_recorded_data
@pytest.mark.parametrize("name", EXPOSED)
def test_exposed_communication_is_found_from_a_twentieth_of_the_run_on(name: str) -> None:
    report = load(DATA / name)
    exposed_s, wall_s = report.totals.by_class["communication"], report.totals.wall_s
    found = [f for f in report.findings if f.code == "TR107"]
    assert found or exposed_s < 0.05 * wall_s
    assert all(f.gain_s == pytest.approx(exposed_s, rel=1e-6) for f in found)


def test_devices_are_apart_however_their_work_is_mixed() -> None:
    chance = np.random.default_rng(7)
    start = chance.uniform(0, 50, 300)
    end, device = start + chance.uniform(0, 9, 300), chance.integers(-4, 40, 300)
    tier = chance.integers(0, 3, 300)
    whole = own_times(start, end, tier, device)
    for one in range(-4, 40):
        rows = device == one
        alone = own_times(start[rows], end[rows], tier[rows], np.zeros(rows.sum(), np.int64))
        assert whole.exclusive[rows].tolist() == alone.exclusive.tolist()
        assert whole.alone[rows].tolist() == alone.alone.tolist()
