"""Which format a file is of: asked with as few readers as possible, and never wrongly held back."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, strategies as st

from tests.read.test_fuzz_counters import in_memory, mangled
from tests.read.test_nsys_csv import SUMMARY, TRACE
from tests.read.test_nsys_sqlite import write_export
from tests.read.test_omniperf import ROOFLINE, SYSTEM
from tests.read.test_onednn import TAIL
from tests.read.test_rocprof_csv import REWRITTEN
from tests.read.test_rocprofv3 import (
    AGENTS,
    CALLS,
    COPIES,
    COUNTERS,
    KERNELS,
    STATS,
    make_json,
    write_rocpd,
)
from tests.read.test_xplane import make_space
from timeroof.core.profile import Profile, Source
from timeroof.core.run_file import SavedRun, save_run
from timeroof.read import formats
from timeroof.read.formats import LISTED, Start, format_named, sniffed
from timeroof.read.open import Input, open_input

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "read"
GOLDEN_FORMATS = {
    name: whole["format"]
    for name, whole in json.loads((GOLDEN / "expected.json").read_text()).items()
    if (GOLDEN / name).is_file()
}
MODULE_OF = {listed.name: listed.module for listed in LISTED}
# What a hint alone decides.
SURE = {listed.module for listed in LISTED if listed.sure} - {"tidy"}
# Readers that are made of another: Nsight Compute's CSV may turn out to be console text.
SHARED = {
    "nvidia.ncu_csv": {"nvidia.ncu_console"},
    "nvidia.ncu_console": {"nvidia.ncu_csv"},
    "amd.omniperf": {"amd.rocprof_csv"},
}

KINETO_EVENT = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1.0, "dur": 2.0}
# Contents that are of a format by each of the ways that its sniff has, smallest first.
CONTENTS: dict[str, list[bytes]] = {
    "kineto": [
        json.dumps({"traceEvents": [KINETO_EVENT]}).encode(),
        json.dumps([KINETO_EVENT]).encode(),
        json.dumps({"traceEvents": [KINETO_EVENT]}).encode("utf-16"),
        json.dumps({"traceEvents": [KINETO_EVENT]}).encode("utf-16-be"),
        b'{"schemaVersion": 1, "deviceProperties": [], "distributedInfo": {}}',
    ],
    "execution-trace": [
        b'{"schema": "1.1.0-chakra.0.0.4", "nodes": []}',
        b'{"workload_graph": []}',
    ],
    "rocprofv3-json": [json.dumps(make_json()).encode()],
    "rocprofv3-csv": [t.encode() for t in (KERNELS, COUNTERS, COPIES, STATS, CALLS, AGENTS)],
    "rocprof-csv": [
        b'"Index","KernelName","gpu-id","queue-id","DurationNs"\n0,"k.kd",0,0,5\n',
        b"Dispatch_ID,GPU_ID,Kernel_Name,Start_Timestamp,End_Timestamp\n0,0,k,1,2\n",
        b"Kernel_Name,Count,Sum(ns)\nk,2,10\n",
        REWRITTEN.encode(),
    ],
    "omniperf": [SYSTEM.encode(), ROOFLINE.encode()],
    "nsys-csv": [SUMMARY.encode(), TRACE.encode()],
    "nvprof-csv": [
        b'"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"\n',
        b"Name;Calls;Avg;Time;Time(%)\n",
        b"Start , Duration,Name\n",
        b"Kernel\tAvg\tMetric Name\tInvocations\n",
    ],
    "nvprof-console": [
        b"==12== NVPROF is profiling process 12, command: ./a\n",
        b"======== Profiling result:\n",
        b"            Type  Time(%)      Time     Calls       Avg       Min       Max  Name\n",
        b"   Start  Duration            Grid Size  Name\n",
        b"Invocations                    Metric Name      Metric Description\n",
        b"Invocations                    Event Name         Min\n",
    ],
    "onednn-verbose": [f"onednn_verbose,v1,primitive,exec,cpu,{TAIL}\n".encode()],
    "ncu-csv": [
        b'"ID","Kernel Name","Metric Name","Metric Value"\n',
        b"ID;Function Name;gpu__time_duration.sum\n",
        b"Kernel Name,dram__bytes.sum\n",
        b"ID,0\nDemangled Name,k\ngpu__time_duration.sum,5\n",
        b"==PROF== Connected to process 1\n",
    ],
    "tidy-csv": [b"name,time_s\nk,1\n", b"time_s;name\n1;k\n"],
}
SAMPLES = [(name, data) for name, kinds in CONTENTS.items() for data in kinds]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The readers that were imported for their formats, in order."""
    found: list[str] = []
    reader = formats.Format.reader.fget
    assert reader is not None

    def remembered(self: formats.Format) -> formats.Reader:
        found.append(self.module)
        return reader(self)

    monkeypatch.setattr(formats.Format, "reader", property(remembered))
    return found


def test_every_format_has_a_name_of_its_own_and_a_reader() -> None:
    assert len(MODULE_OF) == len(LISTED)
    for name in MODULE_OF:
        assert format_named(name).name == name
        assert callable(format_named(name).reader.read)
        assert format_named(name).sure or callable(format_named(name).reader.sniff)


@pytest.mark.parametrize("name", sorted(GOLDEN_FORMATS))
def test_a_golden_file_asks_one_reader(name: str, asked: list[str]) -> None:
    chosen = sniffed(open_input(GOLDEN / name))
    assert chosen is not None
    assert chosen.name == GOLDEN_FORMATS[name]
    own = MODULE_OF[chosen.name]
    assert set(asked) - SHARED.get(own, set()) == {own} - SURE


def test_files_with_a_magic_number_ask_one_reader(tmp_path: Path, asked: list[str]) -> None:
    save_run(
        SavedRun(Profile.of({"name": ["k"], "time_s": [1.0]}, Source(tool="t")), None),
        tmp_path / "r",
    )
    pl.DataFrame({"name": ["k"], "time_s": [1.0]}).write_parquet(tmp_path / "p")
    (tmp_path / "x").write_bytes(make_space())
    (tmp_path / "n").write_bytes(b"NVR\x00 and more")
    write_export(tmp_path / "s")
    write_rocpd(tmp_path / "d")
    modules = {"r": "saved_run", "p": "tidy", "x": "xla.xplane", "n": "nvidia.ncu_report",
               "s": "nvidia.nsys_sqlite", "d": "amd.rocpd"}  # fmt: skip
    for name, module in modules.items():
        asked.clear()
        chosen = sniffed(open_input(tmp_path / name))
        assert chosen is not None
        assert chosen.module == module
        assert asked == ([] if chosen.sure else [module])


@pytest.mark.parametrize(("name", "data"), SAMPLES)
def test_a_small_file_of_each_kind_asks_one_reader(
    name: str, data: bytes, asked: list[str]
) -> None:
    chosen = sniffed(in_memory(data))
    assert chosen is not None
    assert (chosen.name, set(asked)) == (name, {MODULE_OF[name]} - SURE)


@pytest.mark.parametrize("name", ["kineto", "tidy-csv", "nvprof-console", "ncu-console"])
def test_reading_one_file_imports_one_reader(name: str, tmp_path: Path) -> None:
    path = next((GOLDEN / n for n, f in GOLDEN_FORMATS.items() if f == name), tmp_path / "trace")
    if not path.exists():
        path.write_bytes(CONTENTS[name][0])
    code = (
        "import sys; from pathlib import Path; from timeroof.api.reports import load;"
        " load([Path(sys.argv[1])]); print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    readers = {f"timeroof.read.{listed.module}": listed.module for listed in LISTED}
    imported = {readers[module] for module in done.stdout.split() if module in readers}
    own = MODULE_OF[name]
    assert imported - SHARED.get(own, set()) == {own}


def assert_no_hint_holds_back(data: bytes) -> None:
    found = in_memory(data)
    start = Start(found.only)
    for listed in LISTED:
        if not listed.sure and formats._sniffs(listed, found):
            assert listed.hint(start), listed.module


@given(
    sample=st.sampled_from(SAMPLES),
    before=st.sampled_from([b"", b"\xef\xbb\xbf", b"\n", b"some output\r\n", b"step, 1\n"]),
    edits=st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 8), st.binary(max_size=4)), max_size=3
    ),
)
def test_a_hint_never_holds_back_what_a_sniff_accepts(
    sample: tuple[str, bytes], before: bytes, edits: list[tuple[float, int, bytes]]
) -> None:
    assert_no_hint_holds_back(before + mangled(sample[1], edits))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_hints_see_words_in_any_encoding(encoding: str) -> None:
    golden = [(GOLDEN / name).read_bytes() for name in GOLDEN_FORMATS]
    for data in [*golden, *(d for _, d in SAMPLES)]:
        assert_no_hint_holds_back(data.decode("utf-8", "replace").encode(encoding))


def test_a_folder_is_offered_whole_to_few(tmp_path: Path, asked: list[str]) -> None:
    for number in range(3):
        (tmp_path / f"rank{number}.json").write_bytes(CONTENTS["kineto"][0])
    found = open_input(tmp_path)
    assert sniffed(found) is None
    assert asked == []
    single = [sniffed(Input(e.name, (e,))) for e in found.entries]
    assert [f.name for f in single if f] == ["kineto"] * 3
    assert set(asked) == {"torch.kineto"}
