"""Parts of the recorder on plain data: stated costs, broken traces, samples, markers."""

from __future__ import annotations

import builtins
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from timeroof.live.costing import annotation, stated
from timeroof.live.kind import StepSeen
from timeroof.live.reading import recordings_of, sample
from timeroof.live.recording import Described, TensorSeen, is_meta
from timeroof.live.records import process_of
from timeroof.live.torch.describing import described_from_json
from timeroof_recorder.clocks import Pace
from timeroof_recorder.process import Ignoring
from timeroof_recorder.torch import COST


@given(st.text(), st.none() | st.floats(0, 1e18) | st.integers(0, 2**60))
def test_any_name_comes_back_and_nothing_of_it_needs_escaping(name: str, flops: float) -> None:
    text = annotation(name, flops, 64)
    assert not set(text) & set('"\\\n')
    assert text.isascii()
    found = stated(text)
    assert found == {
        "name": name.encode("utf-8", "replace").decode(), "flops": flops, "bytes": 64
    }  # fmt: skip


def test_what_others_write_is_no_statement() -> None:
    assert [stated(COST + t) for t in ("", "x", '{"name":1}', "bnVsbA==")] == [None] * 4


@pytest.mark.parametrize("name", ['say "hi"', "a\\q", 'x", "ctrl_deps', "two\nlines", "ü"])
def test_a_trace_with_a_broken_name_is_read(name: str) -> None:
    node = (
        '      {{\n        "id": {}, "name": "{}", "ctrl_deps": {},\n'
        '        "inputs": {{"values": [], "shapes": [], "types": [], "strides": []}},\n'
        '        "outputs": {{"values": [], "shapes": [], "types": [], "strides": []}},\n'
        '        "attrs": [{{"name": "tid", "type": "uint64", "value": 4}}]\n      }}'
    )
    nodes = ",\n".join([node.format(5, name, 1), node.format(6, "aten::mm", 5)])
    found = described_from_json(f'{{\n  "nodes": [\n{nodes}\n  ]\n}}'.encode())
    assert [(d.name, d.parent, d.thread) for d in found] == [(name, None, 4), ("aten::mm", 0, 4)]


def step(number: int, pass_: str = "free", kind: int = 0) -> StepSeen:
    return StepSeen(number, pass_, 1000 + number, 0, kind, False, None, 2000 * number)


def test_a_sample_is_bounded_and_reaches_the_end() -> None:
    kept = [s.number for s in sample([step(i) for i in range(5000)])]
    assert len(kept) == 200
    assert min(kept) < 1000 < 4000 < max(kept)


def test_steps_that_were_parts_stand_in_where_no_whole_one_was_timed() -> None:
    events = [("aten::mm", None, None, None)], [(0, 0, 50, 1, -1, 0)], 0, 100, 1
    parts = [
        (0, "framework", "torch", "2.9"),
        (0, "mark", "forward", "a call of Net", 5),
        (0, "kind", 0, ((), (), False)),
        (0, "steps", [tuple(step(n, "timed")) for n in (1, 2, 3)]),
        (0, "timed", 2, events, 0, None),
        (0, "restart", []),
        (0, "mark", "optimizer", "SGD.step", 5),
    ]
    whole = [
        (0, "kind", 0, ((), (), False)),
        (0, "steps", [tuple(step(1, "timed"))]),
        (0, "timed", 1, events, 0, None),
    ]
    (parted,) = recordings_of(process_of(parts), Path(), {})
    assert (parted.mark, parted.steps_seen, len(parted.timed)) == ("a call of Net", 3, 1)
    (found,) = recordings_of(process_of([*parts, *whole]), Path(), {})
    assert (found.mark, found.steps_seen, len(found.timed)) == ("SGD.step", 1, 1)


def test_ops_on_the_meta_device_are_told_from_others() -> None:
    def op(*devices: str) -> Described:
        tensors = tuple(TensorSeen((2,), "float", (1,), 1, 0, 4, d) for d in devices)
        return Described("aten::mm", None, 1, -1, 0, "", tensors, ())

    assert [is_meta(op(*d)) for d in (("meta", "meta"), ("meta", "cpu"), ("cpu",), ())] == [
        True, False, False, False
    ]  # fmt: skip


def test_a_stated_cost_takes_a_call_and_returns_a_mapping() -> None:
    from timeroof.work import Call, Tensor, count
    from timeroof.work.counting import cost_of, forget

    @cost_of("mylib::matmul")
    def matmul(call: Call) -> dict[str, object]:
        a, b = call.inputs[:2]
        assert isinstance(a, Tensor)
        assert isinstance(b, Tensor)
        return {"flops": 2 * a.count * b.shape[1], "bytes": a.size_bytes + b.size_bytes}

    try:
        found = count(Call.of("mylib::matmul", Tensor((4, 8), "fp32"), Tensor((8, 2), "fp32")))
    finally:
        forget("mylib::matmul")
    assert found.contraction == {"fp32": 2 * 4 * 8 * 2}
    assert found.bytes_read == 4 * (4 * 8 + 8 * 2)
    assert found.origin == "user"


def test_what_runs_before_the_program_loads_no_library_that_reads_settings() -> None:
    code = "import timeroof, sys; timeroof.step(); print({'numpy', 'polars'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_the_pace_takes_a_small_part_of_a_program_of_short_steps() -> None:
    now_ns = spent_ns = 0

    def clock_ns() -> int:
        nonlocal now_ns
        now_ns += 60_000
        return now_ns

    pace = Pace(clock_ns)
    for step in range(300):
        now_ns += 10_000_000
        before_ns = now_ns
        pace.take()
        if step == 30:
            begin_ns, spent_ns = now_ns, 0
        spent_ns += now_ns - before_ns - 60_000  # the clock of this test is slow, too
    assert spent_ns < 0.005 * (now_ns - begin_ns)


def test_errors_stay_with_us_where_the_program_has_patched_builtins() -> None:
    kept, let_out = builtins.isinstance, None
    builtins.isinstance = None  # type: ignore[assignment]
    try:
        with Ignoring("nothing"):
            raise ValueError
    except TypeError as error:
        let_out = error
    finally:
        builtins.isinstance = kept
    assert let_out is None
