"""The report's JSON: the documented fields, the published schema, unknown as null."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import polars as pl
import pytest

from tests.conftest import texts
from timeroof.api.reports import analyze, load, save
from timeroof.core.errors import UsageError
from timeroof.core.machine import Machine
from timeroof.core.profile import Profile, Source, SourceFile
from timeroof.core.report import report_json_schema
from write_docs import SCHEMAS, schema_text

DOCS = Path(__file__).resolve().parents[2] / "docs" / "schemas"


@pytest.fixture
def document(machine: Machine) -> dict[str, Any]:
    return msgspec.json.decode(analyze(_profile(), machine).to_json())


def _profile() -> Profile:
    rows = [
        {"name": "known", "time_s": 3.0, "flop/fp32": 10.0, "flop/fp16-tensor": 0.0,
         "byte/dram": 4.0, "samples": [1.0, 2.0], "label.case": "x", "origin.flops": "counted"},
        {"name": "zero", "time_s": 2.0, "flop/fp32": 0.0, "flop/fp16-tensor": 0.0, "byte/dram": 4.0},
        {"name": "half", "time_s": 1.5, "flop/fp32": 1.5, "flop/fp16-tensor": None, "byte/dram": 4.0},
        {"name": "dark", "time_s": 1.0, "flop/fp32": None, "flop/fp16-tensor": None, "byte/dram": None},
    ]  # fmt: skip
    timeline = pl.DataFrame(
        {
            "start_s": [0.0],
            "duration_s": [1.0],
            "stream": ["7"],
            "kernel": [0],
            "idle_cause": [None],
        },
        schema_overrides={"idle_cause": pl.String},
    )
    source = Source(tool="test", files=[SourceFile(name="f", sha256="00")])
    return Profile.of(rows, source, wall_s=9.0, timeline=timeline, notes=("a note",))


def test_unknown_is_null_and_zero_is_zero(document: dict[str, Any]) -> None:
    rows = {row["name"]: row for row in document["kernels"]}
    assert rows["known"]["flops"] == {"fp32": 10}
    assert rows["zero"]["flops"] == {}
    assert rows["half"]["flops"] == {"fp32": 1.5, "fp16-tensor": None}
    assert rows["dark"]["flops"] is None
    assert rows["dark"]["bytes"] is None
    assert rows["dark"]["limiter"] == "unknown"
    assert rows["known"]["samples"] == [1.0, 2.0]
    assert rows["known"]["labels"] == {"case": "x"}
    assert rows["known"]["origin"] == {"flops": "counted"}
    assert rows["known"]["bounds"]["flop/fp32"] == pytest.approx(0.1)
    assert rows["known"]["calls"] == 1


def test_the_document_has_every_field(document: dict[str, Any]) -> None:
    assert set(document) == {
        "schema", "created", "version", "machine", "source", "totals", "kernels", "timeline",
        "findings", "ranks", "notes",
    }  # fmt: skip
    assert document["schema"] == "timeroof.report/2"
    assert set(document["kernels"][0]) == {
        "id", "kind", "name", "short_name", "op", "op_family", "algorithm", "library", "tensor_core",
        "phase", "module", "shape", "dtype", "device",
        "stream", "rank", "ranks", "rank_min_s", "rank_median_s", "rank_max_s", "slowest_rank",
        "parent", "labels", "group", "calls", "launches", "time_s", "timed_s",
        "exclusive_s", "alone_s",
        "time_spread", "idle_before_s", "elapsed_s", "samples", "flops", "total_flops", "owed_flops",
        "achieved_flop_per_s", "achieved_byte_per_s", "contraction_flops", "defined_flops", "padding_flops", "bytes",
        "origin", "bounds",
        "limit", "compute_at_roof_s", "memory_at_roof_s",
        "limiter", "work_bound_s", "bound_s", "gap_s", "kernel_efficiency", "efficiency", "ai",
        "compute_time_s", "bandwidth_time_s", "overhead_time_s", "inside_overhead_box",
        "paper_class", "above_roof",
    }  # fmt: skip
    assert set(document["totals"]) == {
        "wall_s", "kernel_s", "idle_s", "idle_by_cause", "steps", "launches", "known", "flops",
        "contraction_flops", "bytes", "bound_s", "gap_s", "kernel_efficiency", "efficiency",
        "known_time_share", "ladder", "recoverable_s", "unexplained_s",
        "unexplained_error_s", "by_limiter", "by_class", "wall_s_min", "wall_s_max",
    }  # fmt: skip
    assert {"name", "device", "ceilings", "memory", "software"} <= set(document["machine"])
    assert document["timeline"][0]["stream"] == "7"
    assert document["notes"][0] == {"code": "source", "level": "info", "text": "a note"}
    assert document["ranks"] is None
    assert document["machine"]["kernel_floor_s"] is None
    assert document["source"]["frameworks"] == []


def test_the_document_is_valid_against_the_published_schema(document: dict[str, Any]) -> None:
    schema = msgspec.json.decode((DOCS / "timeroof.report-2.json").read_bytes())
    jsonschema.validate(document, schema)
    assert report_json_schema()["$ref"] == schema["$ref"]


@pytest.mark.parametrize("name", SCHEMAS)
def test_published_schemas_are_those_of_the_code(name: str) -> None:
    assert (DOCS / name).read_text("utf-8") == schema_text(SCHEMAS[name]), "run `make schemas`"


def test_without_a_machine_the_document_says_so() -> None:
    document = msgspec.json.decode(analyze(_profile()).to_json())
    assert document["machine"] is None
    assert any("--machine" in note for note in texts(document))
    assert document["kernels"][0]["bounds"] == {}


def test_the_profiles_device_chooses_the_machine() -> None:
    rows = [{"name": "k", "time_s": 1.0}]
    known = Profile.of(rows, Source(tool="t"), device="NVIDIA H100 80GB HBM3")
    assert analyze(known).machine.name == "h100-sxm"
    unknown = analyze(Profile.of(rows, Source(tool="t"), device="Frobnicator 9"))
    assert unknown.machine is None
    assert any("Frobnicator" in note for note in unknown.notes)


def test_save_and_load_by_suffix(tmp_path: Path, machine: Machine) -> None:
    report = analyze(_profile(), machine)
    save(report, tmp_path / "r.json")
    assert msgspec.json.decode((tmp_path / "r.json").read_bytes())["schema"] == "timeroof.report/2"
    save(report, tmp_path / "r.troof")
    again = load(tmp_path / "r.troof")
    assert again.to_json() == report.to_json()
    other = load(tmp_path / "r.troof", machine="h100-sxm")
    assert other.machine.name == "h100-sxm"
    with pytest.raises(UsageError, match="suffix"):
        save(report, tmp_path / "r.xyz")
