"""Mutated files through every reader: a profile that can be true, or one clear message.

Bytes are changed whatever they mean; `test_structure` changes parts. Here a few mutations of each
are tried; `make fuzz` tries many of both.
"""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import timeroof
from tests.fuzz.corpus import NAMES, corpus
from timeroof.core.errors import TimeroofError
from timeroof.core.profile import LARGEST

# What readers stumble over: sizes, types, nesting, text that is none.
TOKENS = (
    b"-1", b"0", b"1e400", b"nan", b"NaN", b"inf", b"9" * 25, b"1" + b"0" * 400, b"null", b"true",
    b"{}", b"[]", b"[" * 2000, b"\"\"", b"\xff\xfe", b"\x00", b"\n", b",", b";", b"\"", b"_Z" + b"J" * 900,
    b"a" * 5000, b"=cmd|x", "\u202e".encode(), b"\\ud800", b"18446744073709551616",
)  # fmt: skip

Mutation = tuple[str, float, float, bytes]
KINDS = ("flip", "cut", "drop", "double", "put", "over", "number")
MUTATIONS = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.floats(0, 1, exclude_max=True),
        st.floats(0, 1),
        st.sampled_from(TOKENS),
    ),
    min_size=1,
    max_size=5,
)
tried = settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


def drawn(chance: random.Random) -> list[Mutation]:
    """Mutations as `MUTATIONS` has them, at a small part of hypothesis's cost."""
    return [
        (chance.choice(KINDS), chance.random(), chance.random(), chance.choice(TOKENS))
        for _ in range(chance.randint(1, 5))
    ]


def mutated(data: bytes, mutations: list[Mutation]) -> bytes:
    for kind, place, length, token in mutations:
        at = int(place * max(len(data), 1))
        end = at + 1 + int(length * 64)
        if kind == "flip" and data:
            data = data[:at] + bytes([data[at] ^ (1 << int(length * 7))]) + data[at + 1 :]
        elif kind == "cut":
            data = data[:at]
        elif kind == "drop":
            data = data[:at] + data[end:]
        elif kind == "double":
            data = data[:at] + data[at:end] * 3 + data[end:]
        elif kind == "put":
            data = data[:at] + token + data[at:]
        elif kind == "over":
            data = data[:at] + token + data[at + len(token) :]
        else:
            data = data[:at] + _other_number(data[at:], token)
    return data


def _other_number(data: bytes, token: bytes) -> bytes:
    """The next number of the data replaced."""
    start = next((i for i, byte in enumerate(data) if 48 <= byte <= 57), len(data))
    end = next((i for i in range(start, len(data)) if not 46 <= data[i] <= 57), len(data))
    return data[:start] + token + data[end:]


def check(path: Path) -> bool:
    """The file is read and judged, or refused with a short message; nothing else leaves."""
    try:
        report = timeroof.load(path)
    except TimeroofError as error:
        message = error.message
    else:
        check_report(report)
        return True
    assert 0 < len(message) < 1000
    return False


def check_report(report: timeroof.Report) -> None:
    """What is read can be true."""
    text = report.to_json()
    assert text.startswith(b"{")
    times = report.rows["time_s"].drop_nulls()
    assert times.is_finite().all()
    assert times.is_between(0, LARGEST).all()
    for seconds in (report.totals.wall_s, report.totals.kernel_s, report.totals.bound_s):
        assert seconds is None or (math.isfinite(seconds) and seconds >= 0)


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return corpus(tmp_path_factory.mktemp("corpus"))


@pytest.mark.parametrize("name", NAMES)
def test_a_mutated_file_is_read_or_refused(
    samples: dict[str, bytes], name: str, tmp_path: Path
) -> None:
    original, path = samples[name], tmp_path / "file"

    @tried
    @given(MUTATIONS)
    def one(mutations: list[Mutation]) -> None:
        path.write_bytes(mutated(original, mutations) or b"x")
        check(path)

    one()
