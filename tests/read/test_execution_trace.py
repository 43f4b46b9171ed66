"""ExecutionTraces: refused alone, lending shapes beside a Kineto trace; Chakra's graphs."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tests.kineto_events import HOST, document, kernel, launch, op
from tests.read.test_kineto_rows import read_text, row
from timeroof.core.errors import InputError
from timeroof.read.formats import ReadOptions, format_named
from timeroof.read.open import Entry, Input

TENSOR = [5, 6, 0, 32, 4, "cuda:0"]


def flat(
    name: str, record_id: int, shapes: list[Any], types: list[str], values: list[Any]
) -> dict[str, Any]:
    return {"name": name, "id": record_id, "rf_id": record_id, "parent": 1, "tid": 1, "op_schema": "",
            "inputs": values, "input_shapes": shapes, "input_types": types, "outputs": []}  # fmt: skip


def chakra(node: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": node["id"],
        "name": node["name"],
        "ctrl_deps": 1,
        "inputs": {
            "values": node["inputs"],
            "shapes": node["input_shapes"],
            "types": node["input_types"],
        },
        "attrs": [{"name": k, "type": "uint64", "value": node[k]} for k in ("rf_id", "tid")],
    }


NODES = [
    flat("[pytorch|profiler|execution_graph|thread]", 0, [], [], []),
    flat("aten::t", 2, [[2, 8]], ["Tensor(float)"], [TENSOR]),
    flat("aten::mm", 3, [[4, 8], [8, 2]], ["Tensor(float)", "Tensor(float)"], [TENSOR, TENSOR]),
    flat(
        "aten::sum",
        4,
        [[4, 2], [[], []], []],
        ["Tensor(float)", "GenericList[Int,Int]", "Bool"],
        [TENSOR, [0, 1], True],
    ),
]
ET = {"schema": "1.0.1", "pid": HOST, "nodes": NODES, "start_ts": 1}
OPS = ["aten::t", "aten::mm", "aten::sum"]


def kineto(**ids: bool) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    for step in range(2):
        for place, name in enumerate(OPS):
            at = step * 100 + place * 20
            args = {"Record function id": place + 2 + 10 * step} if ids else {}
            events += [
                op(name, at, 10, **args),
                launch(at + 1, at + 2),
                kernel(f"k_{name}", at + 5, 3, at + 1),
            ]
    return events


def companion(folder: Path, content: dict[str, Any]) -> tuple[Path]:
    path = folder / "et.json"
    path.write_text(json.dumps(content))
    return (path,)


@pytest.mark.parametrize("layout", [lambda n: n, chakra])
def test_shapes_are_lent_by_the_order_of_ops(tmp_path: Path, layout: Any) -> None:
    et = {**ET, "nodes": [layout(n) for n in reversed(NODES)]}
    profile = read_text(tmp_path, json.dumps(document(kineto())), companion(tmp_path, et))
    found = row(profile, name="k_aten::mm")
    assert (found["shape"], found["dtype"], found["calls"]) == ([[4, 8], [8, 2]], "fp32", 2)
    assert json.loads(found["label.input_types"]) == ["float", "float"]
    total = row(profile, name="k_aten::sum")
    assert json.loads(total["label.concrete_inputs"]) == ["", "[0, 1]", "True"]
    assert any("6 ops take shapes" in n and "order" in n for n in profile.notes)


def test_shapes_are_lent_where_torch_wrote_what_is_no_json(tmp_path: Path) -> None:
    # As torch writes it: one line per part, names as they are, numbers that JSON does not have.
    node = (
        '    {{\n      "id": {id}, "name": "{name}", "ctrl_deps": 1,\n'
        '      "inputs": {inputs},\n      "outputs": {{"values": [], "shapes": [], "types": []}},\n'
        '      "attrs": {attrs}\n    }}'
    )
    nodes = [chakra(n) for n in NODES]
    odd = {**chakra(NODES[0]), "id": 9, "name": 'say "hi"'}
    lines = [
        node.format(
            id=n["id"], name=n["name"], inputs=json.dumps(n["inputs"]), attrs=json.dumps(n["attrs"])
        )
        for n in (*nodes, odd)
    ]
    text = f'{{\n  "schema": "1.1.1",\n  "pid": {HOST},\n  "nodes": [\n' + ",\n".join(lines) + "]}"
    path = tmp_path / "et.json"
    path.write_text(text.replace("[0, 1], true", "[0, 1], -inf"))
    profile = read_text(tmp_path, json.dumps(document(kineto())), (path,))
    assert row(profile, name="k_aten::mm")["shape"] == [[4, 8], [8, 2]]


def test_shapes_are_lent_by_record_function_id(tmp_path: Path) -> None:
    profile = read_text(tmp_path, json.dumps(document(kineto(ids=True))), companion(tmp_path, ET))
    lent = profile.kernels.filter(profile.kernels["shape"].is_not_null())
    assert lent["calls"].sum() == 3
    assert any("record function id" in n for n in profile.notes)


def test_another_process_lends_nothing(tmp_path: Path) -> None:
    profile = read_text(
        tmp_path, json.dumps(document(kineto())), companion(tmp_path, {**ET, "pid": 5})
    )
    assert profile.kernels["shape"].null_count() == len(profile)


def test_what_does_not_match_is_said(tmp_path: Path) -> None:
    et = {**ET, "nodes": list(reversed([{**n, "rf_id": 9 - n["rf_id"]} for n in NODES]))}
    profile = read_text(tmp_path, json.dumps(document(kineto())), companion(tmp_path, et))
    assert any("do not match" in n for n in profile.notes)


def test_sniffed_and_refused_alone(tmp_path: Path) -> None:
    found = Input("x", (Entry("x", lambda: io.BytesIO(json.dumps(ET).encode())),))
    assert format_named("execution-trace").sniff(found)
    with pytest.raises(InputError, match=r"ExecutionTrace \(schema 1\.0\.1\) and has no durations"):
        format_named("execution-trace").read(found, ReadOptions())


def test_a_converted_graph_has_runtimes() -> None:
    graph = [
        {"Id": 1, "Name": "aten::mm(0)", "NodeType": 4, "runtime": 9, "is_cpu_op": True},
        {"Id": 2, "Name": "gemm", "NodeType": 4, "runtime": 5, "is_cpu_op": False},
        {"Id": 3, "Name": "gemm", "NodeType": 4, "runtime": 7, "is_cpu_op": False},
        {"Id": 4, "Name": "ncclKernel_Broadcast", "NodeType": 7, "runtime": 2, "is_cpu_op": False},
    ]
    found = Input(
        "x", (Entry("x", lambda: io.BytesIO(json.dumps({"workload_graph": graph}).encode())),)
    )
    assert format_named("execution-trace").sniff(found)
    profile = format_named("execution-trace").read(found, ReadOptions())
    assert profile.kernels.select("kind", "name", "calls").rows() == [
        ("kernel", "gemm", 2.0),
        ("collective", "ncclKernel_Broadcast", 1.0),
    ]
    assert profile.kernels["time_s"].to_list() == pytest.approx([12e-6, 2e-6])


@settings(max_examples=120, deadline=None, derandomize=True)
@given(data=st.data())
def test_mutated_files_are_refused_with_a_sentence(data: st.DataObject) -> None:
    text = json.dumps({**ET, "nodes": [*NODES, *(chakra(n) for n in NODES)]}).encode()
    for _ in range(data.draw(st.integers(0, 4))):
        start = data.draw(st.integers(0, len(text)))
        text = (
            text[:start]
            + data.draw(st.binary(max_size=6))
            + text[start + data.draw(st.integers(0, 20)) :]
        )
    found = Input("x", (Entry("x", lambda: io.BytesIO(text)),))
    format_named("execution-trace").sniff(found)
    with pytest.raises(InputError):
        format_named("execution-trace").read(found, ReadOptions())
