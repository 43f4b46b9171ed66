"""Ten recorded files of ten readers, added up here with the standard library alone.

Nothing of the project computes the expected side: seconds, launches, FLOPs and bytes come from the
files' own lines. `python -m tests.read.test_by_hand` prints both sides.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import re
import sqlite3
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.recorded_data import DATA, needs_recorded_data
from timeroof.api.reports import load
from timeroof.core.report import Report


class Sums(NamedTuple):
    """What a file adds up to; None is not asked for."""

    time_s: float
    calls: float
    busy_s: float | None = None
    flops: float | None = None
    dram_bytes: float | None = None


def text_of(path: Path) -> str:
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return raw.decode("utf-8-sig")


def united(spans: Iterable[tuple[float, float]]) -> float:
    """Seconds under at least one span, in the spans' unit."""
    total, reached = 0.0, -math.inf
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def kineto(path: Path) -> Sums:
    """Device events; FLOPs of products from the sizes of the ops that were called."""
    events = json.loads(text_of(path))["traceEvents"]
    device = [e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    spans = [(float(e["ts"]), float(e["ts"]) + float(e["dur"])) for e in device]
    flops = 0.0
    for event in events:
        sizes = event.get("args", {}).get("Input Dims")
        if event.get("cat") != "cpu_op" or not sizes:
            continue
        if event["name"] == "aten::mm":
            (m, k), (_, n) = sizes[:2]
            flops += 2 * m * k * n
        elif event["name"] == "aten::addmm":
            (m, k), (_, n) = sizes[1:3]
            flops += 2 * m * k * n
        elif event["name"] == "aten::bmm":
            (b, m, k), (_, _, n) = sizes[:2]
            flops += 2 * b * m * k * n
        elif event["name"] == "aten::_scaled_dot_product_flash_attention":
            (b, h, q, e), (_, _, s, _), (_, _, _, v) = sizes[:3]
            flops += 2 * b * h * q * s * (e + v)
    time_s = sum(float(e["dur"]) for e in device) * 1e-6
    return Sums(time_s, len(device), united(spans) * 1e-6, flops or None)


def rows_of(path: Path, header: str) -> list[dict[str, str]]:
    """The lines of a table behind whatever stands before its header."""
    text = text_of(path)
    begin = text.index(header)
    return list(csv.DictReader(io.StringIO(text[begin:])))


def nsys_sqlite(path: Path) -> Sums:
    with tempfile.NamedTemporaryFile(suffix=".sqlite") as copy:
        copy.write(gzip.decompress(path.read_bytes()))
        copy.flush()
        tables = sqlite3.connect(copy.name)
        spans = []
        for table in ("KERNEL", "MEMCPY", "MEMSET"):
            name = f"CUPTI_ACTIVITY_KIND_{table}"
            if tables.execute("select 1 from sqlite_master where name = ?", (name,)).fetchone():
                spans += tables.execute(f"select start, end from {name}").fetchall()
        tables.close()
    return Sums(sum(e - s for s, e in spans) * 1e-9, len(spans), united(spans) * 1e-9)


def nsys_kernel_sums(path: Path) -> Sums:
    rows = rows_of(path, "Time (%)")
    time_ns = sum(int(r["Total Time (ns)"]) for r in rows)
    return Sums(time_ns * 1e-9, sum(int(r["Instances"]) for r in rows))


def nvprof_trace(path: Path) -> Sums:
    units, *rows = rows_of(path, '"Start","Duration"')
    unit_s = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
    # Page faults are counted while kernels run: they are no work of their own.
    kept = [r for r in rows if r["Duration"] and "page faults" not in r["Name"]]
    lengths = [float(r["Duration"]) * unit_s[units["Duration"]] for r in kept]
    return Sums(sum(lengths), len(kept))


_TIME = re.compile(r"([\d.]+)(s|ms|us|ns)$")


def nvprof_summary(path: Path) -> Sums:
    """The lines under `GPU activities`: share, time, calls, mean, least, most, name."""
    lines = text_of(path).splitlines()
    begin = next(i for i, line in enumerate(lines) if "GPU activities:" in line)
    time_s = calls = 0.0
    for line in lines[begin:]:
        if "API calls:" in line:
            break
        fields = line.replace("GPU activities:", "").split()
        found = _TIME.match(fields[1]) if len(fields) > 6 else None
        if found:
            time_s += float(found[1]) * {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[found[2]]
            calls += int(fields[2])
    return Sums(time_s, calls)


def ncu_single_metrics(folder: Path) -> Sums:
    """One metric per file, long form: seconds are cycles over cycles a second, per launch."""
    values: dict[str, dict[int, float]] = defaultdict(dict)
    for path in sorted(folder.glob("out.*")):
        for number, row in enumerate(rows_of(path, '"ID","Process ID"')):
            values[row["Metric Name"]][number] = _in_base(row["Metric Value"], row["Metric Unit"])

    def total(metric: str) -> float:
        return sum(values[metric].values())

    per_s = values["sm__cycles_elapsed.avg.per_second"]
    cycles = values["sm__cycles_elapsed.avg"]
    flops = 512 * total("sm__inst_executed_pipe_tensor.sum")
    for letter in "fh":
        executed = f"sm__sass_thread_inst_executed_op_{letter}{{}}_pred_on.sum"
        flops += total(executed.format("add")) + total(executed.format("mul"))
        flops += 2 * total(executed.format("fma"))
    time_s = sum(cycles[n] / per_s[n] for n in cycles)
    return Sums(time_s, len(cycles), None, flops, total("dram__bytes.sum"))


_PREFIXES = {"": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def _in_base(text: str, unit: str) -> float:
    prefix = re.match(r"(Kilo|[KMGTnum])?(?=byte|second|inst|cycle|$|hz)", unit, re.IGNORECASE)
    factor = 1.0
    if "second" in unit and "/" in unit:  # cycle/nsecond, cycle/usecond
        factor = 1 / _PREFIXES[unit.split("/")[1].removesuffix("second")]
    elif prefix and unit.lower().endswith("byte"):
        factor = _PREFIXES[(unit[:-4] or "")]
    return float(text.replace(",", "")) * factor


def ncu_wide(path: Path) -> Sums:
    units, *rows = rows_of(path, '"ID","Process ID"')
    unit = units["gpu__time_duration.sum"]
    scale = {"nsecond": 1e-9, "usecond": 1e-6, "ns": 1e-9, "us": 1e-6}[unit]
    times = [float(r["gpu__time_duration.sum"].replace(",", "")) for r in rows]
    return Sums(sum(times) * scale, len(times))


def rocprofv3_trace(path: Path) -> Sums:
    rows = rows_of(path, '"Kind"')
    spans = [(int(r["Start_Timestamp"]), int(r["End_Timestamp"])) for r in rows]
    return Sums(sum(e - s for s, e in spans) * 1e-9, len(rows), united(spans) * 1e-9)


def rocpd(path: Path) -> Sums:
    with tempfile.NamedTemporaryFile(suffix=".db") as copy:
        copy.write(gzip.decompress(path.read_bytes()))
        copy.flush()
        database = sqlite3.connect(copy.name)
        spans = database.execute("select start, end from rocpd_kernel_dispatch").fetchall()
        database.close()
    return Sums(sum(e - s for s, e in spans) * 1e-9, len(spans), united(spans) * 1e-9)


def rocprof_counters(path: Path) -> Sums:
    """CDNA: 64 lanes per vector instruction, 512 operations per matrix count."""
    rows = rows_of(path, "Dispatch_ID")
    flops = 0.0
    for row in rows:
        for kind in ("F16", "F32", "F64"):
            vector = (float(row[f"SQ_INSTS_VALU_{op}_{kind}"]) for op in ("ADD", "MUL", "TRANS"))
            flops += 64 * (sum(vector) + 2 * float(row[f"SQ_INSTS_VALU_FMA_{kind}"]))
        for kind in ("F16", "BF16", "F32", "F64", "F8"):
            flops += 512 * float(row.get(f"SQ_INSTS_VALU_MFMA_MOPS_{kind}") or 0)
    times = [float(r["End_Timestamp"]) - float(r["Start_Timestamp"]) for r in rows]
    return Sums(sum(times) * 1e-9, len(rows), None, flops)


FILES: dict[str, Callable[[Path], Sums]] = {
    "kineto/h100_bert_small_infer.json.gz": kineto,
    "kineto/mi300x_vit_nsfw_infer.json.gz": lambda path: kineto(path)._replace(flops=None),
    "nsys/rtx3090_tensorrt_conv.sqlite.gz": nsys_sqlite,
    "nsys/rtx5090_deepseek_ocr_all-stage_cuda_gpu_kern_sum.csv": nsys_kernel_sums,
    "nvprof/titanxp_cfd_gpu_trace.csv.gz": nvprof_trace,
    "nvprof/p100_deepspeech_bs64-fp32_summary_console.txt": nvprof_summary,
    "ncu/v100_deepcam_pytorch_fp32-O0-Adam/fw": ncu_single_metrics,
    "ncu/a100_resnet18_raw_wide.csv.gz": ncu_wide,
    "rocprof/rocprofv3_gfx1151_llama_decode/decode_kernel_trace.csv": rocprofv3_trace,
    "rocprof/rocprofv3_mi300x_ck_bmm_rocpd.db.gz": rocpd,
    "rocprof/rocprof_compute_mi300x_bmm1/pmc_perf.csv.gz": rocprof_counters,
}


def reported(report: Report, expected: Sums) -> Sums:
    """The same sums in a report, as far as they are asked for."""
    rows, totals = report.rows, report.totals
    counted = [n for n in (totals.flops or {}).values() if n is not None]
    # Ops have FLOPs beside those of products; counters see all that ran.
    flops = totals.contraction_flops if report.profile.calls else sum(counted)
    return Sums(
        float(rows["time_s"].sum()),
        float(rows["calls"].sum()),
        None if expected.busy_s is None else totals.kernel_s,
        None if expected.flops is None else flops,
        None if expected.dram_bytes is None else totals.bytes["dram"],
    )


@needs_recorded_data
@pytest.mark.parametrize("name", FILES)
def test_a_report_adds_up_to_what_the_file_says(name: str) -> None:
    expected = FILES[name](DATA / name)
    assert expected.time_s > 0
    found = reported(load(DATA / name), expected)
    for what, mine, theirs in zip(Sums._fields, expected, found, strict=True):
        if mine is not None:
            assert theirs == pytest.approx(mine, rel=1e-3), f"{what} of {name}"


if __name__ == "__main__":
    for one, reader in FILES.items():
        by_hand = reader(DATA / one)
        print(one, *zip(Sums._fields, by_hand, reported(load(DATA / one), by_hand), strict=True))
