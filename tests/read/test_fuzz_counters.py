"""Every reader of counters against mangled files: a profile or a message, nothing else."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from timeroof.core.errors import TimeroofError
from timeroof.read.formats import LISTED, Format, ReadOptions, format_named
from timeroof.read.load import plan_of
from timeroof.read.open import Entry, Input

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "read"
SEEDS = {
    p.name: p.read_bytes() for p in sorted(GOLDEN.iterdir()) if p.is_file() and p.suffix != ".json"
}
MINE = (
    "ncu-csv",
    "ncu-console",
    "nvprof-csv",
    "nvprof-console",
    "tidy-csv",
    "tidy-parquet",
    "timeroof",
    "ncu-report",
)
FIXED = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
SPLICES = st.one_of(
    st.binary(max_size=12),
    st.sampled_from(
        [
            b"",
            b"\n",
            b",",
            b'"',
            b'""',
            b"-1",
            b"nan",
            b"1e400",
            b"\xff\xfe",
            b"\0",
            b"n/a",
            b"==PROF== ",
        ]
    ),
)
EDITS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 40), SPLICES), min_size=1, max_size=6)


def mangled(data: bytes, edits: list[tuple[float, int, bytes]]) -> bytes:
    for place, removed, added in edits:
        at = int(place * len(data))
        data = data[:at] + added + data[at + removed :]
    return data


def in_memory(data: bytes) -> Input:
    return Input("fuzz", (Entry("fuzz", lambda: io.BytesIO(data), max_bytes=10**8),))


def is_sound(chosen: Format, data: bytes) -> bool:
    """Whether the data are refused, or give rows with names and times that can be."""
    try:
        kernels = chosen.read(in_memory(data), ReadOptions()).kernels
    except TimeroofError as error:
        return bool(error.message)
    return bool(kernels["time_s"].drop_nulls().ge(0).all()) and not kernels["name"].null_count()


@pytest.mark.parametrize("name", sorted(SEEDS))
@FIXED
@given(edits=EDITS)
def test_mangled_files(name: str, edits: list[tuple[float, int, bytes]]) -> None:
    data = mangled(SEEDS[name], edits)
    refused, chosen = "", None
    try:
        chosen = plan_of(in_memory(data)).jobs[0].format
    except TimeroofError as error:
        refused = error.message
    assert refused if chosen is None else is_sound(chosen, data)


@pytest.mark.parametrize("name", MINE)
@FIXED
@given(data=st.binary(max_size=400), seed=st.sampled_from(sorted(SEEDS)))
def test_any_bytes_forced_into_a_format(name: str, data: bytes, seed: str) -> None:
    if name == "ncu-report":
        pytest.importorskip("ncu_report")
    assert is_sound(format_named(name), data)
    assert is_sound(format_named(name), SEEDS[seed][: len(data) * 5] + data)


@FIXED
@given(data=st.binary(max_size=600))
def test_no_sniff_stumbles(data: bytes) -> None:
    for candidate in LISTED:
        assert candidate.sniff(in_memory(data)) in (True, False)
