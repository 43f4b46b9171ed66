"""One small file per format and shape of it, written by us: what both fuzzers begin with."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import polars as pl

from tests.conftest import make_machine
from tests.kineto_events import document
from tests.read import (
    test_execution_trace,
    test_nsys_csv,
    test_omniperf,
    test_onednn,
    test_rocprof_csv,
    test_rocprofv3,
    test_xplane,
)
from tests.read.test_ncu_report import written_report
from tests.read.test_nsys_sqlite import write_export
from tests.read.test_refused_or_misread import write_rpd
from timeroof.core.profile import Profile, Source
from timeroof.core.run_file import SavedRun, save_run

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "read"
_NOT_INPUTS = ("expected.json",)


_GOLDEN_FILES = {
    path.relative_to(GOLDEN).as_posix(): path
    for path in sorted(GOLDEN.rglob("*"))
    if path.is_file() and path.name not in _NOT_INPUTS
}


def corpus(folder: Path) -> dict[str, bytes]:
    """The files by name; `folder` is for those that want a path to be written."""
    found = {name: path.read_bytes() for name, path in _GOLDEN_FILES.items()}
    found |= {name: _written(write, folder / name) for name, write in _WRITTEN.items()}
    found |= {name: text.encode() for name, text in _TEXTS.items()}
    found["ncu_report"] = written_report(["gemm", "add"])
    found["xplane.pb"] = test_xplane.make_space()
    found["trace.json.gz"] = gzip.compress(found["trace.json"], mtime=0)
    found["ranks.zip"] = _zip(dict.fromkeys(("rank0.json", "rank1.json"), found["trace.json"]))
    found["execution_trace.zip"] = _zip(
        {name: found[name] for name in ("trace.json", "execution_trace.json")}
    )
    for several in ("ncu_metrics", "ncu_phases"):
        parts = {name: data for name, data in found.items() if name.startswith(f"{several}/")}
        # Alone most are refused for what the others have.
        found = {name: data for name, data in found.items() if name not in parts}
        found[f"{several}.zip"] = _zip({name.partition("/")[2]: parts[name] for name in parts})
    found["workload.tar"] = _tar(
        {
            "pmc_perf.csv": test_omniperf.COUNTERS.encode(),
            "timestamps.csv": test_omniperf.TIMES.encode(),
            "sysinfo.csv": test_omniperf.SYSTEM.encode(),
            "roofline.csv": test_omniperf.ROOFLINE.encode(),
        }
    )
    return found


_TEXTS = {
    "trace.json": json.dumps(document(test_execution_trace.kineto())),
    "execution_trace.json": json.dumps(test_execution_trace.ET),
    "rocprofv3.json": json.dumps(test_rocprofv3.make_json()),
    "nsys_summary.csv": test_nsys_csv.SUMMARY,
    "nsys_trace.csv": test_nsys_csv.TRACE,
    "v3_kernels.csv": test_rocprofv3.KERNELS,
    "v3_counters.csv": test_rocprofv3.COUNTERS,
    "v3_stats.csv": test_rocprofv3.STATS,
    "rocprof_v1.csv": test_rocprof_csv.V1,
    "rocprof_v2.csv": test_rocprof_csv.V2,
    "rocprof_rewritten.csv": test_rocprof_csv.REWRITTEN,
    "omniperf_times.csv": test_omniperf.TIMES,
    "onednn.txt": test_onednn.LOG,
    "tidy_all.csv": "name,time_s,kind,op,phase,module,dtype,shape,device,stream,rank,calls,launches,"
    "idle_before_s,flops_fp32,bytes_dram,link_nvlink,batch\n"
    'gemm,1e-3,kernel,aten::mm,forward,net,float32,"2x3, 3x4",V100,7,0,2,2,1e-6,48,120,,8\n'
    "ncclAllReduce,2e-3,collective,,backward,,,,V100,9,0,1,1,,,,1e6,8\n",
}


def _saved(path: Path) -> object:
    rows = [{"name": f"k{i}", "time_s": 1.0 + i, "shape": [[2, 3]], "samples": [1.0, 2.0], "op": "aten::mm",
             "flop/fp32": 1e9, "byte/dram": 1e6, "kind": "kernel"} for i in range(4)]  # fmt: skip
    timeline = pl.DataFrame({"start_s": [0.0], "duration_s": [1.0], "kernel": [0]})
    profile = Profile.of(rows, Source(tool="fuzz"), wall_s=20.0, kernel_s=9.0, timeline=timeline)
    return save_run(SavedRun(profile, machine=make_machine()), path)


def _table(path: Path) -> object:
    return pl.DataFrame({
        "name": ["a", "b"], "time_s": [1.0, 2.0], "shape": [[[2, 3]], None], "flops_fp32": [1.0, 2.0]
    }).write_parquet(path)  # fmt: skip


_WRITTEN: dict[str, Callable[[Path], object]] = {
    "nsys.sqlite": write_export,
    "rocpd.db": test_rocprofv3.write_rocpd,
    "run.rpd": write_rpd,
    "run.troof": _saved,
    "table.parquet": _table,
}


NAMES = (
    *(name for name in _GOLDEN_FILES if "/" not in name), *_WRITTEN, *_TEXTS,
    "ncu_report", "xplane.pb", "trace.json.gz", "ranks.zip", "execution_trace.zip",
    "ncu_metrics.zip", "ncu_phases.zip", "workload.tar",
)  # fmt: skip


def _written(write: Callable[[Path], object], path: Path) -> bytes:
    write(path)
    return path.read_bytes()


def _zip(members: dict[str, bytes]) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members.items():
            file.writestr(zipfile.ZipInfo(name), data)
    return held.getvalue()


def _tar(members: dict[str, bytes]) -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as file:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            file.addfile(info, io.BytesIO(data))
    return held.getvalue()
