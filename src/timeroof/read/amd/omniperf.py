"""Omniperf / rocprof-compute workload folders."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath

import polars as pl

from timeroof.core.errors import InputError, Note
from timeroof.core.profile import Profile
from timeroof.read.amd import rocprof_csv
from timeroof.read.amd.counters import (
    KEYS,
    OCCURRENCE,
    UNDER_COUNTERS,
    is_useful,
    number_occurrences,
)
from timeroof.read.csv import Header, Names, find_header, read_table
from timeroof.read.events import Whole
from timeroof.read.formats import ReadOptions, source_of
from timeroof.read.open import Entry, Input


def is_roofline(names: Names) -> bool:
    """Whether a header is that of roofline.csv."""
    return {"device", "hbmbw", "l2bw"} <= names


# The folder of one Omniperf / rocprof-compute workload.
# ``pmc_perf.csv`` holds the counters of all passes, one row per dispatch; ``timestamps.csv``,
# where there is one, the times of a run without counters, which are the better ones;
# ``sysinfo.csv`` the device; ``roofline.csv`` measured ceilings. Files are told apart by their
# columns, so a renamed or zipped folder reads the same.
Found = tuple[Entry, Header]
_COUNTERS = ("SQ_", "TCC_", "TCP_", "TA_", "TD_", "GRBM_", "SPI_", "CPC_")


@dataclass
class _Workload:
    """The tables of one workload."""

    counters: list[Found] = field(default_factory=list)
    times: list[Found] = field(default_factory=list)
    system: list[Found] = field(default_factory=list)
    roofline: list[Found] = field(default_factory=list)


def sniff(found: Input) -> bool:
    """A folder with counters and a sysinfo, or one of its tables that has no kernels."""
    workload = _sorted(found)
    return bool(workload.system or workload.roofline) and (
        len(found.entries) == 1 or bool(workload.counters)
    )


def _sorted(found: Input) -> _Workload:
    workload = _Workload()
    for entry in found.entries:
        header = find_header(entry, _is_ours)
        if header is None:
            continue
        if is_roofline(header.plain):
            workload.roofline.append((entry, header))
        elif _is_system(header.plain):
            workload.system.append((entry, header))
        elif any(name.startswith(_COUNTERS) for name in header.names):
            workload.counters.append((entry, header))
        else:
            workload.times.append((entry, header))
    return workload


def _is_ours(names: Names) -> bool:
    return is_roofline(names) or _is_system(names) or rocprof_csv.is_dispatches(names)


def _is_system(names: Names) -> bool:
    return {"gpu_arch", "gpu_model", "cu_per_gpu"} <= names or {"gpu_soc", "workload_name"} <= names


def read(found: Input, options: ReadOptions) -> Profile:
    """The profile of the workload."""
    workload = _sorted(found)
    if not workload.counters:
        what = "ceilings" if workload.roofline else "the system's description"
        advice = "name the workload's folder, which also has pmc_perf.csv"
        raise InputError(f"holds only {what}, no kernels", found.name, advice)
    folders = sorted({str(PurePosixPath(e.name).parent) for e, _ in workload.system})
    if len(folders) > 1:
        what = f"holds several workloads ({', '.join(folders[:5])}{' …' if folders[5:] else ''})"
        raise InputError(what, found.name, "name the folder of one of them")
    tables = [rocprof_csv.read_dispatches(*table) for table in workload.counters]
    # pmc_perf has by far the most counters; the level files beside it repeat some.
    main = max(tables, key=lambda t: (sum(map(is_useful, t.columns)), t.height))
    dispatches, notes = _with_better_times(main, workload.times)
    system = _system(workload)
    device = system.get("gpu_model") or system.get("gpu_soc") or None
    version = system.get("version")
    tool = "rocprof-compute" if (version or "0")[:1] >= "3" else "Omniperf"
    source = source_of(tool, found, version=version, command=system.get("command"))
    return rocprof_csv.profile_of_dispatches(dispatches, Whole(source, device, tuple(notes)))


def _with_better_times(main: pl.DataFrame, others: list[Found]) -> tuple[pl.DataFrame, list[Note]]:
    """Dispatches with the times of the run without counters, where it has usable ones."""
    for table in others:
        timed = rocprof_csv.read_dispatches(*table)
        if not rocprof_csv.has_times(timed):
            continue
        clean = number_occurrences(timed, KEYS).select(
            *KEYS, OCCURRENCE, pl.col("start_ns").alias("_start"), pl.col("end_ns").alias("_end")
        )
        joined = number_occurrences(main, KEYS).join(
            clean, on=[*KEYS, OCCURRENCE], how="left", nulls_equal=True, maintain_order="left"
        )
        lost = joined["_end"].null_count()
        better = {f"{at}_ns": pl.coalesce(f"_{at}", f"{at}_ns") for at in ("start", "end")}
        joined = joined.with_columns(**better)
        text = "Times are of the run without counters (timestamps.csv)."
        if lost:
            text += f" {lost} dispatches are not in it and keep the times under counters."
        return joined.drop("_start", "_end", OCCURRENCE), [Note(text, "clean-times")]
    return main, [UNDER_COUNTERS]


def _system(workload: _Workload) -> dict[str, str]:
    """The one row of sysinfo.csv."""
    for entry, header in workload.system:
        table = read_table(entry, header, lambda _: True)
        if table.height:
            return {k: str(v) for k, v in table.row(0, named=True).items() if v is not None}
    return {}
