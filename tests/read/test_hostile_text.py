"""Text that no profiler should write: endless, cut, mixed up, in strange encodings."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from timeroof.core.errors import InputError
from timeroof.core.profile import Profile
from timeroof.read import csv as tables, text
from timeroof.read.load import read_files

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "read"
LONG = (GOLDEN / "ncu_long.csv").read_bytes()
WIDE = (GOLDEN / "ncu_wide.csv").read_bytes()
HEADER = b'"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n'


def read_bytes(tmp_path: Path, data: bytes) -> Profile:
    path = tmp_path / "x"
    path.write_bytes(data)
    return read_files([path])


def row(launch: int, name: bytes, metric: bytes = b"gpu__time_duration.sum") -> bytes:
    return b'"%d","%s","%s","ns","5"\n' % (launch, name, metric)


def test_a_kernel_name_of_ten_megabytes(tmp_path: Path) -> None:
    name = b"k<" + b"int, " * 2_000_000 + b">"
    profile = read_bytes(tmp_path, HEADER + row(0, name) + row(1, b"small"))
    assert sorted(len(n) for n in profile.kernels["name"]) == [5, len(name)]
    wide = b"ID,Kernel Name,gpu__time_duration.sum\n,,ns\n0,%s,7\n" % name.replace(b", ", b"_")
    assert read_bytes(tmp_path, wide).kernels["time_s"].to_list() == [7e-9]


def test_a_line_without_end_is_refused_with_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (text, tables):
        monkeypatch.setattr(module, "MAX_RECORD_BYTES", 2**20)
    path = tmp_path / "x"
    path.write_bytes(b"==PROF== Connected to process 1\n" + b"x" * 80_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="has a line of more than 1 MiB"):
            read_files([path])
        assert tracemalloc.get_traced_memory()[1] < 40e6
    finally:
        tracemalloc.stop()


def test_a_quote_that_never_closes_loses_rows_and_not_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "MAX_RECORD_BYTES", 2**16)
    monkeypatch.setattr(tables, "PIECE_BYTES", 2**16)
    rows = b"".join(row(i, b"k%d" % i) for i in range(5000))
    profile = read_bytes(tmp_path, HEADER + rows + b'"oops\n' + rows)
    assert profile.kernels["calls"].sum() >= 5000


def test_pieces_of_any_size_give_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = read_bytes(tmp_path, LONG).kernels
    monkeypatch.setattr(tables, "PIECE_BYTES", 100)
    assert read_bytes(tmp_path, LONG).kernels.equals(whole)
    monkeypatch.setattr("timeroof.read.open.CHUNK_BYTES", 100)
    assert read_bytes(tmp_path, LONG).kernels.equals(whole)


@pytest.mark.parametrize("data", [LONG, WIDE], ids=["long", "wide"])
def test_a_cut_file_is_read_as_far_as_it_goes_or_refused(tmp_path: Path, data: bytes) -> None:
    for end in range(0, len(data), len(data) // 40):
        try:
            profile = read_bytes(tmp_path, data[: end + 1])
        except InputError as error:
            message = error.message
            assert message.startswith(str(tmp_path))
        else:
            assert profile.kernels.height <= 3


def test_latin1_names_are_read_with_marks_for_what_is_no_text(tmp_path: Path) -> None:
    profile = read_bytes(tmp_path, HEADER + row(0, "größe".encode("latin-1")))
    assert profile.kernels["name"].to_list() == ["gr\ufffd\ufffde"]


def test_two_outputs_in_one_file_are_both_read(tmp_path: Path) -> None:
    once = HEADER + row(0, b"a") + row(1, b"b")
    noise = b"==PROF== Disconnected from process 1\nepoch 2, loss 0.5\n"
    profile = read_bytes(tmp_path, once + noise + HEADER + row(2, b"c"))
    assert sorted(profile.kernels["name"]) == ["a", "b", "c"]


def test_a_wide_table_of_ten_thousand_columns(tmp_path: Path) -> None:
    many = [f"sm__counter_{i}.sum" for i in range(10_000)]
    header = ",".join(["ID", "Kernel Name", "gpu__time_duration.sum", *many])
    units = ",,ns" + ",inst" * 10_000
    rows = "\n".join(f"{i},k,5" + ",1" * 10_000 for i in range(20))
    profile = read_bytes(tmp_path, f"{header}\n{units}\n{rows}\n".encode())
    assert profile.kernels["calls"].to_list() == [20.0]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x00\x01\x02" * 500, "binary file"),
        (b"\x89PNG\r\n\x1a\n" + b"\0" * 64, "is a picture"),
        (b"\x7fELF" + b"\0" * 64, "is a program"),
        (b"hello world\n", "is text, but of no profiler"),
        (b'{"a": 1}', "JSON, but of no profiler"),
        (b"kernel,mean_ms,flops\nsaxpy,1,2\n", "rename 'kernel' to 'name', 'mean_ms' to 'time_s'"),
        (b"label,peak\nx,1\n", "no column 'name' and no column 'time_s'"),
        (b"name,time (s)\nx,1\n", "no column 'time_s'"),
        (HEADER, "table without a launch"),
        (b"ID,Kernel Name,gpu__time_duration.sum\n", "table without a launch"),
        (b"==123== NVPROF is profiling process 123, command: x\n", "no table of nvprof"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_reason(
    tmp_path: Path, data: bytes, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read_bytes(tmp_path, data)
