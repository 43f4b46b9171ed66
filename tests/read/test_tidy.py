"""Tidy tables: columns, unknown cells, labels, and what is refused with its place."""

from __future__ import annotations

import io
import re
from pathlib import Path

import polars as pl
import pytest

from timeroof.api.reports import load
from timeroof.core.errors import InputError
from timeroof.core.profile import Profile
from timeroof.read import tidy
from timeroof.read.load import plan_of, read_files
from timeroof.read.open import open_input
from timeroof.views.render import table_csv


def read_text(tmp_path: Path, text: str) -> Profile:
    path = tmp_path / "table"
    path.write_text(text)
    return read_files([path])


def test_defaults_and_unknown_cells(tmp_path: Path) -> None:
    profile = read_text(tmp_path, "name,time_s,calls,flops_fp32,bytes_dram\na,1,4,,8\nb,,,3,\n")
    a, b = sorted(profile.kernels.to_dicts(), key=lambda row: row["name"])
    assert (a["kind"], a["calls"], a["launches"], a["flop/fp32"]) == ("kernel", 4.0, 4.0, None)
    assert (b["time_s"], b["calls"], b["flop/fp32"], b["byte/dram"]) == (None, 1.0, 3.0, None)


def test_every_documented_column(tmp_path: Path) -> None:
    values = {
        "name": "k",
        "time_s": "2e-3",
        "kind": "collective",
        "op": "aten::mm",
        "phase": "backward",
        "module": "net.0",
        "dtype": "bf16",
        "shape": "4x4",
        "device": "GPU",
        "stream": "7",
        "rank": "3",
        "calls": "2",
        "launches": "5",
        "idle_before_s": "1e-4",
        "flops_fp8_tensor": "10",
        "flops_int8": "11",
        "bytes_l1": "12",
        "link_nvlink-c2c": "13",
        "batch": "16",
    }
    profile = read_text(tmp_path, ",".join(values) + "\n" + ",".join(values.values()) + "\n")
    row = profile.kernels.row(0, named=True)
    assert row["flop/fp8-tensor"] == 10.0
    assert row["flop/int8"] == 11.0
    assert row["byte/l1"] == 12.0
    assert row["link/nvlink-c2c"] == 13.0
    assert row["label.batch"] == "16"
    assert (row["rank"], row["launches"], row["idle_before_s"]) == (3, 5.0, 1e-4)
    assert [row[c] for c in ("op", "phase", "module", "dtype", "stream")] == [
        values[c] for c in ("op", "phase", "module", "dtype", "stream")
    ]
    assert row["shape"] == [[4, 4]]
    assert profile.device == "GPU"
    assert row["origin.time"] == "user"


def test_names_that_are_formulas_are_marked_in_csv_and_read_back(tmp_path: Path) -> None:
    names = ["=cmd|' /C calc'!A0", "+1", "-x", "@sum", "'=already marked", "plain", "'quoted"]
    table = pl.DataFrame({"name": names, "time_s": [float(9 - i) for i in range(len(names))]})
    written = table_csv(table)
    assert not re.search(rb"(?m)^\"?[=+@-]", written)
    found = read_text(tmp_path, written.decode()).kernels
    assert found["name"].to_list() == names


def test_a_table_of_too_many_rows_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tidy, "MAX_ROWS", 3)
    with pytest.raises(InputError, match="more than 3 rows"):
        read_text(tmp_path, "name,time_s\n" + "a,1\n" * 4)


@pytest.mark.parametrize(
    ("written", "shape"),
    [
        ("2x3, 4", [[2, 3], [4]]),
        ("[[2, 3], [3, 4]]", [[2, 3], [3, 4]]),
        ("(64, 10)", [[64, 10]]),
        ("scalar", [[]]),
        ("s0x64", None),
        ("n=64", None),
    ],
)
def test_shapes_are_lists_and_other_texts_a_label(
    tmp_path: Path, written: str, shape: list[list[int]] | None
) -> None:
    kernels = read_text(tmp_path, f'name,time_s,shape\nk,1,"{written}"\n').kernels
    assert kernels["shape"].to_list() == [shape]
    label = kernels["label.shape"][0] if "label.shape" in kernels.columns else None
    assert label == (None if shape else written)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,time_s\na,soon\n", r"column 'time_s' has 'soon' in row 1, which is no number"),
        ("name,time_s\na,1\nb,-1\n", r"'time_s' has -1.0 in row"),
        ("name,time_s\na,nan\n", r"'time_s' has nan"),
        ("name,time_s\n,1\n", "has no name"),
        ("name,time_s\n", "no rows"),
        ("name,time_s,time_s\na,1,2\n", "'time_s' twice"),
        (
            "name,time_s,flops_fp17\na,1,2\n",
            "'flops_fp17' names no known resource.*fp16_tensor|fp16",
        ),
        ("name,time_s,bytes_l9\na,1,2\n", "'bytes_l9' names no known resource"),
        ("name,time_s,phase\na,1,lunch\n", "column 'phase' has 'lunch'"),
        ("name,time_s,kind\na,1,thing\n", "column 'kind' has 'thing'"),
    ],
)
def test_wrong_cells_are_refused_with_their_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_text(tmp_path, text)


@pytest.mark.parametrize(
    ("count", "column", "message"),
    [
        (10_000, "c", "10000 columns that are no amounts"),
        (10_000, "link_", "10002 columns of amounts; keep at most 200"),
        (100_000, "c", "100002 columns; keep at most 20000"),
    ],
)
def test_too_many_columns_are_refused(
    tmp_path: Path, count: int, column: str, message: str
) -> None:
    # To look for each of them among all took ten minutes for 100,000.
    many = ",".join(f"{column}{i}" for i in range(count))
    with pytest.raises(InputError, match=message):
        read_text(tmp_path, f"name,time_s,{many}\na,1,{many}\n")


def test_parquet_reads_like_csv(tmp_path: Path) -> None:
    table = pl.DataFrame(
        {"name": ["a", "b"], "time_s": [1.0, 2.0], "flops_fp32": [3, None], "batch": [16, 16]}
    )
    path = tmp_path / "x"
    table.write_parquet(path)
    assert plan_of(open_input(path)).jobs[0].format.name == "tidy-parquet"
    profile = read_files([path])
    assert profile.kernels["flop/fp32"].to_list() == [None, 3.0]
    assert profile.kernels["label.batch"].to_list() == ["16", "16"]
    (tmp_path / "y").write_bytes(path.read_bytes()[:-10])
    with pytest.raises(InputError, match="no whole Parquet file"):
        read_files([tmp_path / "y"])
    buffer = io.BytesIO()
    table.drop("time_s").write_parquet(buffer)
    (tmp_path / "z").write_bytes(buffer.getvalue())
    with pytest.raises(InputError, match="no column 'time_s'"):
        read_files([tmp_path / "z"])


def test_our_own_csv_reads_back(tmp_path: Path) -> None:
    profile = read_text(
        tmp_path, "name,time_s,flop/fp32,byte/dram,origin.time,label.x\na,1,2,3,counted,y\n"
    )
    row = profile.kernels.row(0, named=True)
    assert (row["flop/fp32"], row["byte/dram"]) == (2.0, 3.0)
    assert (row["origin.time"], row["label.x"]) == ("counted", "y")


def test_semicolons_and_tabs_separate_too(tmp_path: Path) -> None:
    for separator in ";\t":
        text = "name,time_s,batch\na,1,2\n".replace(",", separator)
        assert read_text(tmp_path, text).kernels["label.batch"].to_list() == ["2"]


def test_an_impossible_value_names_the_file_that_has_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("name,time_s\na,-1\n")
    with pytest.raises(InputError, match=r"mine\.csv: column 'time_s' has -1\.0 in row 1"):
        load(path)
