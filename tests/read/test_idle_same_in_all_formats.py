"""The same events as a Kineto trace, an Nsight Systems export and a rocpd database.

What a device waited for does not depend on who wrote it down: rows and idle causes are equal.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from timeroof.core.profile import Profile
from timeroof.core.vocabulary import IdleCause
from timeroof.read.formats import Format, ReadOptions, format_named, sniffed
from timeroof.read.open import open_input

LAUNCH = "cudaLaunchKernel"
PROCESS = 7 << 24


class Call(NamedTuple):
    """A call of the host; times in microseconds."""

    start: int
    end: int
    name: str = LAUNCH
    correlation: int = 0


class Kernel(NamedTuple):
    start: int
    end: int
    correlation: int
    stream: int = 7
    name: str = "k"


class Run(NamedTuple):
    kernels: list[Kernel]
    calls: list[Call]
    # Ranges in which the program loads data.
    loads: list[tuple[int, int]] = []


def as_kineto(run: Run, path: Path) -> Path:
    def event(cat: str, name: str, at: Any, tid: int, **args: Any) -> dict[str, Any]:
        times = {"ts": at.start, "dur": at.end - at.start}
        return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, **times, "args": args}

    events = [
        event("kernel", k.name, k, k.stream, stream=k.stream, device=0, correlation=k.correlation)
        for k in run.kernels
    ]
    events += [event("cuda_runtime", c.name, c, 1, correlation=c.correlation) for c in run.calls]
    events += [event("user_annotation", "enumerate(DataLoader)", Call(*r), 1) for r in run.loads]
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


def fill(path: Path, tables: dict[str, tuple[str, Iterable[tuple[object, ...]]]]) -> Path:
    with sqlite3.connect(path) as database:
        for name, (columns, cells) in tables.items():
            database.execute(f"CREATE TABLE `{name}` ({columns})")
            marks = ",".join("?" * len(columns.split(",")))
            database.executemany(f"INSERT INTO `{name}` VALUES ({marks})", cells)
    database.close()
    return path


def as_nsys(run: Run, path: Path) -> Path:
    names = sorted({k.name for k in run.kernels} | {c.name for c in run.calls})
    number = {name: n for n, name in enumerate(names)}
    # Nsight Systems writes the version of a function into its name, the driver's has one anyway.
    texts = [(n, f"{t}_v3020" if t.startswith("cuda") else t) for t, n in number.items()]
    thread = PROCESS + 5
    return fill(
        path,
        {
            "StringIds": ("id,value", texts),
            "CUPTI_ACTIVITY_KIND_KERNEL": (
                "start,end,deviceId,streamId,correlationId,globalPid,demangledName,shortName",
                [
                    (k.start * 1000, k.end * 1000, 0, k.stream, k.correlation, PROCESS, n, n)
                    for k in run.kernels
                    for n in [number[k.name]]
                ],
            ),
            "CUPTI_ACTIVITY_KIND_RUNTIME": (
                "start,end,globalTid,correlationId,nameId",
                [
                    (c.start * 1000, c.end * 1000, thread, c.correlation, number[c.name])
                    for c in run.calls
                ],
            ),
            "NVTX_EVENTS": (
                "start,end,eventType,globalTid,text,textId",
                [(a * 1000, b * 1000, 59, thread, "dataloader", None) for a, b in run.loads],
            ),
        },
    )


def as_rocpd(run: Run, path: Path) -> Path:
    names = ["HIP_RUNTIME_API", "MARKER_CORE_API", "dataloader", *{c.name for c in run.calls}]
    symbols = {name: n for n, name in enumerate(sorted({k.name for k in run.kernels}))}
    regions: list[tuple[int, int, str, int, int]] = [
        (c.start, c.end, c.name, c.correlation, 0) for c in run.calls
    ]
    regions += [(a, b, "dataloader", 0, 1) for a, b in run.loads]
    first = len(run.kernels)
    tables: dict[str, tuple[str, list[tuple[object, ...]]]] = {
        "kernel_dispatch": (
            "start,end,agent_id,kernel_id,queue_id,stream_id,event_id",
            [
                (k.start * 1000, k.end * 1000, 2, symbols[k.name], 1, k.stream, n)
                for n, k in enumerate(run.kernels)
            ],
        ),
        "info_kernel_symbol": ("id,display_name", [(n, name) for name, n in symbols.items()]),
        "info_agent": ("id,product_name", [(2, "AMD Instinct MI300X")]),
        "event": (
            "id,stack_id,correlation_id,category_id",
            [
                *((n, k.correlation, 0, 0) for n, k in enumerate(run.kernels)),
                *((first + n, r[3], 0, r[4]) for n, r in enumerate(regions)),
            ],
        ),
        "string": ("id,string", list(enumerate(names))),
        "region": (
            "start,end,tid,name_id,event_id",
            [
                (start * 1000, end * 1000, 5, names.index(name), first + n)
                for n, (start, end, name, _, _) in enumerate(regions)
            ],
        ),
    }
    return fill(path, {f"rocpd_{name}_0001": table for name, table in tables.items()})


FORMATS: dict[str, tuple[Format, Callable[[Run, Path], Path]]] = {
    "kineto.json": (format_named("kineto"), as_kineto),
    "nsys.sqlite": (format_named("nsys-sqlite"), as_nsys),
    "rocpd.db": (format_named("rocpd"), as_rocpd),
}


def profiles(run: Run, folder: Path) -> dict[str, Profile]:
    found = {}
    for name, (format_, write) in FORMATS.items():
        opened = open_input(write(run, folder / name))
        assert sniffed(opened) is format_
        found[name] = format_.read(opened, ReadOptions())
    return found


def causes(profile: Profile) -> dict[str, float]:
    return {cause: round(s * 1e6, 6) for cause, s in profile.idle_by_cause.items()}


def rows(profile: Profile) -> list[tuple[object, ...]]:
    columns = ("kind", "name", "stream", "calls", "launches", "time_s", "idle_before_s")
    table = profile.kernels.select(columns).sort(columns[:3])
    return [tuple(round(v, 12) if isinstance(v, float) else v for v in r) for r in table.rows()]


def timeline(profile: Profile) -> list[tuple[object, ...]]:
    assert profile.timeline is not None
    table = profile.timeline.select("start_s", "duration_s", "stream", "idle_cause")
    return [tuple(round(v, 12) if isinstance(v, float) else v for v in r) for r in table.rows()]


def starved_after(call: str) -> Run:
    """A kernel from 10 to 20, a call from 12 to 21, and a kernel from 60 that is launched at 50."""
    return Run(
        [Kernel(10, 20, 1), Kernel(60, 70, 2, name="b")],
        [Call(0, 2, correlation=1), Call(12, 21, call, 9), Call(50, 52, correlation=2)],
    )


@pytest.mark.parametrize(
    ("call", "cause"),
    [
        ("cudaDeviceSynchronize", IdleCause.HOST_SYNC),
        ("cuCtxSynchronize", IdleCause.HOST_SYNC),
        ("hipStreamSynchronize", IdleCause.HOST_SYNC),
        ("cudaEventSynchronize", IdleCause.HOST_SYNC),
        # Frees wait for the device without being asked to …
        ("cudaFree", IdleCause.HOST_SYNC),
        ("cudaFreeHost", IdleCause.HOST_SYNC),
        ("cuMemFree_v2", IdleCause.HOST_SYNC),
        ("hipFree", IdleCause.HOST_SYNC),
        ("hipHostFree", IdleCause.HOST_SYNC),
        # … unless a stream orders them; allocations do not.
        ("cudaFreeAsync", IdleCause.LAUNCH_STARVED),
        ("cudaMalloc", IdleCause.LAUNCH_STARVED),
        # Copies between host and device wait, those within a device and asynchronous ones do not.
        ("cudaMemcpy", IdleCause.HOST_SYNC),
        ("cudaMemcpy2D", IdleCause.HOST_SYNC),
        ("cuMemcpyDtoH_v2", IdleCause.HOST_SYNC),
        ("hipMemcpyWithStream", IdleCause.HOST_SYNC),
        ("cuMemcpyDtoD_v2", IdleCause.LAUNCH_STARVED),
        ("cudaMemcpyPeer", IdleCause.LAUNCH_STARVED),
        ("cudaMemcpyAsync", IdleCause.LAUNCH_STARVED),
        ("cudaMemset", IdleCause.LAUNCH_STARVED),
        ("cudaStreamQuery", IdleCause.LAUNCH_STARVED),
    ],
)
def test_a_call_waits_in_every_format_or_in_none(
    tmp_path: Path, call: str, cause: IdleCause
) -> None:
    found = profiles(starved_after(call), tmp_path)
    assert [causes(profile) for profile in found.values()] == [{cause: 40.0}] * len(FORMATS)


RUNS = {
    "device": Run(
        [Kernel(10, 20, 1), Kernel(22, 30, 2)],
        [Call(0, 2, correlation=1), Call(3, 5, correlation=2)],
    ),
    "other-stream": Run(
        [Kernel(10, 20, 1), Kernel(22, 30, 2, stream=8)],
        [Call(0, 2, correlation=1), Call(3, 5, correlation=2)],
    ),
    "unknown": Run([Kernel(10, 20, 1), Kernel(22, 30, 2, name="b")], [Call(0, 2, correlation=1)]),
    # The host waited, but for a device that had long been idle.
    "launch-starved": Run(
        [Kernel(10, 20, 1), Kernel(60, 70, 2)],
        [Call(0, 2, correlation=1), Call(40, 41, "cudaFree", 9), Call(50, 52, correlation=2)],
    ),
    "data": Run(
        [Kernel(10, 20, 1), Kernel(60, 70, 2)],
        [Call(0, 2, correlation=1), Call(50, 52, correlation=2)],
        [(21, 48)],
    ),
    # A launch that returns only when its work is done was in time.
    "blocking": Run(
        [Kernel(10, 20, 1), Kernel(22, 30, 2)],
        [Call(0, 2, correlation=1), Call(3, 35, "cudaMemcpy", 2)],
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_equal_events_give_equal_rows_causes_and_timelines(tmp_path: Path, name: str) -> None:
    one, *others = profiles(RUNS[name], tmp_path).values()
    assert list(causes(one)) == ["device" if name == "blocking" else name]
    for other in others:
        assert causes(other) == causes(one)
        assert rows(other) == rows(one)
        assert timeline(other) == timeline(one)
        assert (other.wall_s, other.kernel_s) == pytest.approx((one.wall_s, one.kernel_s))
