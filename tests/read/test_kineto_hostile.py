"""Traces that are cut, broken, strange or meant to hurt: an InputError, or a note, nothing else."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from tests.kineto_events import document, event, kernel, launch, op
from tests.read.test_kineto_host import XLA
from tests.read.test_kineto_rows import TRAINING, read, read_text
from timeroof.core.errors import InputError, as_notes
from timeroof.read.formats import ReadOptions, format_named
from timeroof.read.open import Entry, Input, open_input
from timeroof.read.torch import json_stream as cutting, tables as codes
from timeroof.read.torch.json_stream import EventStream

TEXT = json.dumps(document(TRAINING), indent=1).encode()
KERNEL = (
    b'{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 5, "dur": 2, "args": {}}'
)


def calls(folder: Path, text: bytes) -> float:
    return float(read_text(folder, text).kernels["calls"].sum())


def test_what_was_whole_before_the_cut_is_kept(tmp_path: Path) -> None:
    cut = TEXT[: TEXT.rindex(b'"grid"')]
    profile = read_text(tmp_path, cut)
    assert profile.kernels["calls"].sum() == calls(tmp_path, TEXT) - 1
    assert any("cut off" in n for n in profile.notes)


def test_a_cut_gzip_keeps_what_could_be_unpacked(tmp_path: Path) -> None:
    many = [kernel(f"k{i}", i * 10, 5, i) for i in range(20_000)]
    packed = gzip.compress(json.dumps(document(many)).encode(), 1)
    profile = read_text(tmp_path, packed[: len(packed) // 2])
    assert 1000 < len(profile) < 20_000
    assert any("is damaged" in n for n in profile.notes)


def test_a_bomb_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b'{"traceEvents": [' + b" " * 50_000_000))
    found = open_input(path, max_bytes=10_000_000)
    with pytest.raises(InputError, match="unpacks to more than"):
        format_named("kineto").read(found, ReadOptions())


def test_nan_and_infinity_tokens(tmp_path: Path) -> None:
    odd = KERNEL.replace(b"{}", b'{"occupancy": NaN, "rate": -Infinity, "x": [nan, inf]}')
    assert calls(tmp_path, b'{"traceEvents": [' + odd + b"," + KERNEL + b"]}") == 2


@pytest.mark.parametrize("dur", [-1, None, "x", [1], 1e300, True and float("nan")])
def test_impossible_durations_are_left_out_with_a_note(tmp_path: Path, dur: object) -> None:
    profile = read(tmp_path, [kernel("good", 0, 5, 1), kernel("bad", 10, dur, 2)])  # type: ignore[arg-type]
    assert profile.kernels["name"].to_list() == ["good"]
    assert "left-out" in [n.code for n in as_notes(profile.notes)]


def test_damaged_events_cost_only_themselves(tmp_path: Path) -> None:
    text = (
        b'{"traceEvents": [' + b",".join([KERNEL, KERNEL.replace(b'"dur"', b"dur"), KERNEL]) + b"]}"
    )
    profile = read_text(tmp_path, text)
    assert profile.kernels["calls"].sum() == 2
    assert any("1 damaged" in n for n in profile.notes)


def test_concatenated_traces_say_what_was_left_out(tmp_path: Path) -> None:
    profile = read_text(tmp_path, TEXT + b"\n" + TEXT)
    assert profile.kernels["calls"].sum() == calls(tmp_path, TEXT)
    assert "left-out" in [n.code for n in as_notes(profile.notes)]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    assert calls(tmp_path, TEXT.decode().encode(encoding)) == calls(tmp_path, TEXT)


def test_wrong_bytes_in_names(tmp_path: Path) -> None:
    profile = read_text(
        tmp_path, b'{"traceEvents": [' + KERNEL.replace(b'"k"', b'"k\xff\xfe"') + b"]}"
    )
    assert profile.kernels["name"].to_list() == ["k\ufffd\ufffd"]


def test_a_name_of_ten_megabytes(tmp_path: Path) -> None:
    text = b'{"traceEvents": [' + KERNEL.replace(b'"k"', b'"' + b"k" * 10_000_000 + b'"') + b"]}"
    profile = read_text(tmp_path, text)
    assert len(profile.kernels["name"][0]) < 30_000


def test_names_fill_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codes, "MAX_LETTERS", 20)
    profile = read(tmp_path, [kernel(f"kernel{i}", i * 10, 5, i) for i in range(10)])
    assert set(profile.kernels["name"]) == {"kernel0", "kernel1", codes.MORE_NAMES}
    assert profile.kernels["calls"].sum() == 10


def test_deep_nesting(tmp_path: Path) -> None:
    deep = KERNEL.replace(b"{}", b'{"a":' * 200_000 + b"1" + b"}" * 200_000)
    assert calls(tmp_path, b'{"traceEvents": [' + KERNEL + b"," + deep + b"]}") == 1


def test_brackets_and_quotes_in_strings(tmp_path: Path) -> None:
    tricky = KERNEL.replace(b'"k"', rb'"a},{\"b]}\\"')
    for end in (b"]}", b'], "traceName": "]}", "deviceProperties": [{"id": 0}, {"id": 1}]}'):
        assert calls(tmp_path, b'{"traceEvents": [' + tricky + b"," + tricky + end) == 2


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_pieces_of_any_size_give_the_same_events(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(cutting, "PIECE_BYTES", size)
    tricky = [event("cpu_op", 'x},{"y', i, 1, odd=[{"a": 1}, {"b": "]"}]) for i in range(30)]
    text = json.dumps({"a": 1, "traceEvents": tricky, "z": [{"q": 1}, {"q": 2}]}).encode()
    stream = EventStream(iter([text[i : i + size] for i in range(0, len(text), size)]), "x")
    assert [e.ts for events in stream for e in events] == list(range(30))
    assert stream.top == {"a": 1, "z": [{"q": 1}, {"q": 2}]}
    assert stream.notes == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b'{"traceEvents": []}', "no event with a duration"),
        (b'{"schemaVersion": 1, "deviceProperties": []}', "no traceEvents"),
        (b'{"traceEvents": null}', "no traceEvents"),
        (b'{"traceEvents": [1, "a", null]}', "no event with a duration"),
        (b'[{"ph": 1}, {"ph": "X"}]', "no event with a duration"),
        (
            b'{"traceEvents": [' + json.dumps(event("user_annotation", "x", 0, 1)).encode() + b"]}",
            "no op and no kernel",
        ),
    ],
)
def test_refusals_say_why(tmp_path: Path, text: bytes, why: str) -> None:
    with pytest.raises(InputError, match=why):
        read_text(tmp_path, text)


def test_sniffing_looks_at_content_only(tmp_path: Path) -> None:
    for text in (
        b"",
        b"a,b\n1,2\n",
        b"{}",
        b"[1, 2]",
        b'{"nodes": []}',
        b"\x00\x01\x02",
        b"\xff\xfe",
    ):
        path = tmp_path / "trace.json"
        path.write_bytes(text)
        assert not format_named("kineto").sniff(
            Input("x", (Entry("x", lambda path=path: path.open("rb")),))
        )


def test_strange_values_everywhere(tmp_path: Path) -> None:
    strange = [
        {**kernel("k", 0, 5, 1), "args": "text"},
        {**kernel("k", 10, 5, 1), "args": [1]},
        {**kernel("k", 20, 5, 1), "pid": [1], "tid": {"a": 1}},
        {**kernel("k", 30, 5, 1), "name": None},
        {**kernel("k", 40, 5, 1), "cat": ["kernel"]},
        kernel(
            "k", 50, 5, "x", stream=[1], **{"Collective name": [1], "Group size": "n", "bytes": "?"}
        ),  # type: ignore[arg-type]
        {
            **op("aten::mm", 0, 5),
            "args": {"Input Dims": "x", "Input type": 5, "Sequence number": []},
        },
        launch("1", 0),  # type: ignore[arg-type]
    ]
    assert read(tmp_path, strange).kernels["calls"].sum() == 5


SEEDS = [
    TEXT,
    json.dumps(document(TRAINING)).encode(),
    json.dumps({"traceEvents": XLA}).encode(),
    json.dumps(TRAINING).encode(),
]
JUNK = [
    b"",
    b'"',
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b"\\",
    b"NaN",
    b"\xff",
    b"\x00",
    b"1e999",
    b"-1",
    b"null",
    b'"ph"',
    b"}],",
    b"[" * 3000,
]


@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_mutated_traces_never_crash(tmp_path: Path, data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(SEEDS))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        stop = min(len(text), start + data.draw(st.integers(0, 40)))
        text = text[:start] + data.draw(st.sampled_from(JUNK) | st.binary(max_size=8)) + text[stop:]
    if data.draw(st.booleans()):
        text = text[: data.draw(st.integers(0, len(text)))]
    stream = Input("x", (Entry("x", lambda: io.BytesIO(text)),))
    try:
        profile = format_named("kineto").read(stream, ReadOptions())
    except InputError:
        return
    assert profile.kernels["name"].null_count() == 0
    assert profile.kernels["time_s"].drop_nulls().is_finite().all()


_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
_VALUES = st.recursive(
    _SCALARS,
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=3), v, max_size=3),
    max_leaves=5,
)
_KEYS = ["External id", "correlation", "stream", "device", "bytes", "grid", "Input Dims", "Input type", "Sequence number",
         "Collective name", "In msg nelems", "dtype", "Group size", "name", "hlo_op", "size", "Concrete Inputs"]  # fmt: skip
_EVENTS = st.fixed_dictionaries(
    {
        "ph": st.sampled_from(["X", "X", "X", "M", "i", "s", "B"]) | _VALUES,
        "cat": st.sampled_from(["cpu_op", "kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "user_annotation", "python_function",
                                "overhead", "cuda_profiler_range", "ac2g"]) | _VALUES,
        "name": st.sampled_from(["nn.Module: A_0", "ProfilerStep#1", "cudaGraphLaunch", "nccl", "aten::mm", "process_name"]) | _VALUES,
        "pid": st.integers(0, 1) | _VALUES,
        "tid": st.integers(0, 1) | _VALUES,
        "ts": st.integers(0, 20) | st.floats(0, 20) | _VALUES,
        "dur": st.integers(0, 20) | st.floats(0, 20) | _VALUES,
        "args": st.dictionaries(st.sampled_from(_KEYS), st.integers(0, 3) | _VALUES, max_size=6) | _VALUES,
    }
)  # fmt: skip


@settings(
    max_examples=200, phases=[Phase.explicit, Phase.generate], deadline=None, derandomize=True
)
@given(
    events=st.lists(_EVENTS, max_size=12),
    top=st.dictionaries(
        st.sampled_from(["deviceProperties", "distributedInfo", "schemaVersion"]), _VALUES
    ),
)
@pytest.mark.slow
def test_any_events_are_read_or_refused(
    events: list[dict[str, object]], top: dict[str, object]
) -> None:
    text = json.dumps({**top, "traceEvents": events}).encode()
    stream = Input("x", (Entry("x", lambda: io.BytesIO(text)),))
    try:
        profile = format_named("kineto").read(stream, ReadOptions())
    except InputError:
        return
    total = profile.kernels["time_s"].sum()
    if profile.wall_s is not None and profile.kernel_s is not None:
        assert profile.kernel_s <= profile.wall_s * (1 + 1e-9) + 1e-12
        assert total >= profile.kernel_s * (1 - 1e-6) - 1e-9 or set(profile.kernels["kind"]) != {
            "op"
        }
