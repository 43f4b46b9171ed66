"""The comparison of goldens: which rows belong together, how differences are named and counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from golden_compare import compare_folders, differences
from goldens import main


def kernel(**changes: Any) -> dict[str, Any]:
    row = {"id": 0, "name": "gemm", "op": "mm", "shape": "2x2", "time_s": 1.0, "flops": {"fp32": 8}}
    return row | changes


def told(a: Any, b: Any, rtol: float = 0.0) -> list[tuple[str, str]]:
    return sorted((d.path, d.kind) for d in differences(a, b, rtol=rtol))


def write(folder: Path, name: str, value: Any) -> None:
    path = folder / f"{name}.golden.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, sort_keys=True))


def test_rows_in_another_order_differ_only_where_they_changed() -> None:
    a = [kernel(id=0), kernel(id=1, name="relu", op="relu", time_s=3.0)]
    b = [kernel(id=0, name="relu", op="relu", time_s=4.0), kernel(id=1)]
    assert told({"kernels": a}, {"kernels": b}) == [
        ("kernels[].id", "number changed"),
        ("kernels[].id", "number changed"),
        ("kernels[].time_s", "number changed"),
    ]


def test_a_renamed_row_is_found_by_its_id() -> None:
    a = [kernel(id=4), kernel(id=5, name="relu")]
    b = [kernel(id=5, name="relu"), kernel(id=4, name="matmul")]
    assert told({"kernels": a}, {"kernels": b}) == [("kernels[].name", "text changed")]


def test_equal_rows_are_paired_one_to_one_so_that_a_missing_one_shows() -> None:
    assert told([kernel(), kernel(), kernel()], [kernel(), kernel()]) == [("[]", "removed")]


def test_rows_without_id_or_name_are_paired_by_place() -> None:
    a, b = [{"start_s": 0.0}, {"start_s": 1.0}], [{"start_s": 0.0}, {"start_s": 2.0}]
    assert told({"timeline": a}, {"timeline": b}) == [("timeline[].start_s", "number changed")]


def test_keys_of_maps_are_one_field() -> None:
    a = kernel(flops={"fp32": 8, "fp16": 1, "bf16": 2})
    b = kernel(flops={"fp32": 9, "fp16": 2, "tf32": 2})
    assert told(a, b) == [
        ("flops.*", "added"),
        ("flops.*", "number changed"),
        ("flops.*", "number changed"),
        ("flops.*", "removed"),
    ]
    assert told({"byte/dram": 1, "label.x": "a"}, {"byte/dram": 2, "label.x": "b"}) == [
        ("byte/*", "number changed"),
        ("label.*", "text changed"),
    ]


def test_null_a_number_and_a_flag_are_three_things() -> None:
    assert told({"gap_s": None}, {"gap_s": 0}) == [("gap_s", "null became number")]
    assert told({"gap_s": 0.5}, {"gap_s": None}) == [("gap_s", "number became null")]
    assert told({"inside": True}, {"inside": 1}) == [("inside", "flag became number")]
    assert told([{"inside": True}], [{"inside": 1}]) == [("[].inside", "flag became number")]


def test_whole_numbers_and_floats_of_one_value_are_equal() -> None:
    assert told({"calls": 1}, {"calls": 1.0}) == []


def test_numbers_are_exact_unless_a_tolerance_is_given() -> None:
    a, b = {"time_s": 1.0}, {"time_s": 1.0 + 1e-9}
    assert told(a, b) == [("time_s", "number changed")]
    assert told(a, b, rtol=1e-6) == []


def test_a_line_that_was_put_in_moves_no_other() -> None:
    a, b = {"notes": ["one", "two", "three"]}, {"notes": ["one", "new", "two", "three"]}
    assert told(a, b) == [("notes[]", "added")]


def test_a_list_of_numbers_of_another_length_is_one_difference() -> None:
    assert told({"kernels": [1, 2, 3]}, {"kernels": [2, 3]}) == [("kernels", "length changed")]


def test_groups_count_files_and_show_the_largest_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    for i, time_s in enumerate((1.01, 2.0)):
        write(a, f"read/x{i}", {"kernels": [kernel()]})
        write(b, f"read/x{i}", {"kernels": [kernel(time_s=time_s)]})
    write(a, "check/only", {})
    assert compare_folders(a, b) == 1
    out = capsys.readouterr().out
    assert "kernels[].time_s: number changed, 2 in 2 files, by at most 0.5" in out
    assert "read/x1  kernels[0].time_s: 1.0 -> 2.0" in out
    assert "check    (golden): removed, 1 in 1 file" in out
    assert "3 differences in 3 of 3 goldens, in 2 groups" in out


def test_most_limits_the_groups_that_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "a", "read/x", {"one": 1, "two": 2})
    write(tmp_path / "b", "read/x", {"one": 2, "two": 3})
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b"), "--most", "1"]) == 1
    assert "… and 1 more groups" in capsys.readouterr().out


def test_equal_folders_end_with_0_and_absent_ones_with_2(tmp_path: Path) -> None:
    for name in "ab":
        write(tmp_path / name, "read/x", {"kernels": [kernel()]})
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "none")]) == 2
