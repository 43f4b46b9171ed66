"""One table in the spellings that tools, spreadsheets and shells give it, for every CSV reader."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.read import test_nsys_csv, test_omniperf, test_rocprof_csv, test_rocprofv3
from timeroof.core.errors import InputError
from timeroof.core.profile import Profile
from timeroof.read.formats import Format, ReadOptions, format_named, sniffed
from timeroof.read.open import open_input

TABLES: dict[str, tuple[Format, str]] = {
    "nsys summary": (format_named("nsys-csv"), test_nsys_csv.SUMMARY),
    "nsys trace": (format_named("nsys-csv"), test_nsys_csv.TRACE),
    "rocprofv3 kernels": (format_named("rocprofv3-csv"), test_rocprofv3.KERNELS),
    "rocprofv3 counters": (format_named("rocprofv3-csv"), test_rocprofv3.COUNTERS),
    "rocprofv3 statistics": (format_named("rocprofv3-csv"), test_rocprofv3.STATS),
    "rocprof": (format_named("rocprof-csv"), test_rocprof_csv.V1),
    "rocprof rewritten": (format_named("rocprof-csv"), test_rocprof_csv.REWRITTEN),
    "omniperf": (format_named("omniperf"), test_omniperf.ROOFLINE),
}


def separated(by: str) -> Callable[[str], bytes]:
    def rewrite(text: str) -> bytes:
        out = io.StringIO()
        rows = csv.reader(io.StringIO(text.removeprefix("\ufeff")))
        csv.writer(out, delimiter=by, lineterminator="\n").writerows(rows)
        return out.getvalue().encode()

    return rewrite


SPELLINGS: dict[str, Callable[[str], bytes]] = {
    "semicolons": separated(";"),
    "tabs": separated("\t"),
    "windows": lambda text: text.removeprefix("\ufeff").replace("\n", "\r\n").encode("utf-8-sig"),
    "utf-16": lambda text: text.removeprefix("\ufeff").encode("utf-16"),
    "behind a preamble": lambda text: (
        b"Loading, please wait ...\nstep 1; loss 0.5\n\n" + text.removeprefix("\ufeff").encode()
    ),
}


def read(path: Path, data: bytes, format_: Format) -> Profile | str:
    path.write_bytes(data)
    found = open_input(path)
    assert sniffed(found) is format_
    try:
        return format_.read(found, ReadOptions())
    except InputError as error:
        return error.what


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("table", TABLES)
def test_a_table_is_the_same_in_every_spelling(tmp_path: Path, table: str, spelling: str) -> None:
    format_, text = TABLES[table]
    plain = read(tmp_path / "a", text.encode(), format_)
    other = read(tmp_path / "b", SPELLINGS[spelling](text), format_)
    if isinstance(plain, str) or isinstance(other, str):
        assert plain == other
        return
    assert other.kernels.equals(plain.kernels)
    assert (other.wall_s, other.idle_by_cause) == (plain.wall_s, plain.idle_by_cause)


def test_a_comma_is_a_point_where_it_cannot_separate_thousands(tmp_path: Path) -> None:
    text = test_rocprofv3.STATS.replace('"gemm",2,250,125.0,', '"gemm",2,"250,5",125.0,')
    found = read(tmp_path / "a", separated(";")(text), format_named("rocprofv3-csv"))
    assert not isinstance(found, str)
    assert found.kernels["time_s"].max() == pytest.approx(250.5e-9)
