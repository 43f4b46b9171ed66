"""Omniperf / rocprof-compute workload folders."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath

import polars as pl

from timeroof.core.errors import InputError
from timeroof.core.machine import Ceiling
from timeroof.core.profile import Profile, Source, SourceFile
from timeroof.core.units import format_amount
from timeroof.read.amd.counters import is_useful
from timeroof.read.amd.rocprof_csv import (
    OCCURRENCE,
    has_times,
    is_dispatches,
    number_occurrences,
    profile_of_dispatches,
    read_dispatches,
)
from timeroof.read.csv import Header, Names, find_header, number, read_table
from timeroof.read.events import Whole
from timeroof.read.formats import ReadOptions
from timeroof.read.open import Entry, Input, short_name
from timeroof.read.sqlite import table_errors

# The ceilings that Omniperf / rocprof-compute measure on the device (``roofline.csv``).


# Column → resource; bandwidths are in GB/s, the rest in GFLOP/s. L3 is MALL, the Infinity Cache.
_RESOURCES = {
    "HBMBw": "byte/dram",
    "MALLBw": "byte/l3",
    "L2Bw": "byte/l2",
    "L1Bw": "byte/l1",
    "FP16Flops": "flop/fp16",
    "BF16Flops": "flop/bf16",
    "FP32Flops": "flop/fp32",
    "FP64Flops": "flop/fp64",
    "I8Ops": "flop/int8",
    "MFMAF4Flops": "flop/fp4-tensor",
    "MFMAF8Flops": "flop/fp8-tensor",
    "MFMAF16Flops": "flop/fp16-tensor",
    "MFMABF16Flops": "flop/bf16-tensor",
    "MFMAF64Flops": "flop/fp64-tensor",
    "MFMAI8Ops": "flop/int8-tensor",
}


def is_roofline(names: Names) -> bool:
    """Whether a header is that of roofline.csv."""
    return {"device", "hbmbw", "l2bw"} <= names


def measured_ceilings(entry: Entry, header: Header) -> list[Ceiling]:
    """One ceiling per resource: the median over the devices that were measured."""
    table = read_table(entry, header, lambda name: name in _RESOURCES)
    medians = table.select(number(c).median().alias(c) for c in table.columns)
    found = []
    for column, resource in _RESOURCES.items():
        value = medians[column][0] if column in medians.columns and medians.height else None
        if value:
            source = f"roofline.csv, column {column}, median of {table.height} devices"
            found.append(
                Ceiling(resource=resource, rate=value * 1e9, origin="measured", source=source)
            )
    return found


def ceilings_note(ceilings: list[Ceiling]) -> list[str]:
    """A sentence with the measured ceilings, for the report."""
    if not ceilings:
        return []
    unit = {"b": "B/s", "f": "FLOP/s"}
    shown = [f"{c.resource} {format_amount(c.rate, unit[c.resource[0]])}" for c in ceilings]
    return [f"ceilings that the tool measured on this device: {', '.join(shown)}"]


# The folder of one Omniperf / rocprof-compute workload.
#
# ``pmc_perf.csv`` holds the counters of all passes, one row per dispatch; ``timestamps.csv``,
# where there is one, the times of a run without counters, which are the better ones;
# ``sysinfo.csv`` the device; ``roofline.csv`` measured ceilings. Files are told apart by their
# columns, so a renamed or zipped folder reads the same.


_KEYS = ["name", "grid"]
Found = tuple[Entry, Header]


@dataclass
class _Workload:
    """The tables of one workload."""

    counters: list[Found] = field(default_factory=list)
    times: list[Found] = field(default_factory=list)
    system: list[Found] = field(default_factory=list)
    roofline: list[Found] = field(default_factory=list)


class Omniperf:
    """Omniperf / rocprof-compute."""

    name = "omniperf"
    title = "Omniperf / rocprof-compute workload folder"

    def sniff(self, found: Input) -> bool:
        """A folder with counters and a sysinfo, or one of its tables that has no kernels."""
        workload = _sorted(found)
        if len(found.entries) == 1:
            return bool(workload.system or workload.roofline)
        return bool(workload.counters) and bool(workload.system or workload.roofline)

    def read(self, found: Input, options: ReadOptions) -> Profile:
        """The profile of the workload."""
        workload = _sorted(found)
        if not workload.counters:
            what = "ceilings" if workload.roofline else "the system's description"
            raise InputError(
                f"holds only {what}, no kernels",
                where=found.name,
                advice="name the workload's folder, which also has pmc_perf.csv",
            )
        options.progress("reading counters", 0.2)
        with table_errors(found.name):
            return _read(workload, found)


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
        elif any(_is_counter(name) for name in header.names):
            workload.counters.append((entry, header))
        else:
            workload.times.append((entry, header))
    return workload


def _is_ours(names: Names) -> bool:
    return is_roofline(names) or _is_system(names) or is_dispatches(names)


def _is_system(names: Names) -> bool:
    return {"gpu_arch", "gpu_model", "cu_per_gpu"} <= names or {
        "gpu_soc",
        "workload_name",
    } <= names


def _is_counter(name: str) -> bool:
    return name.startswith(("SQ_", "TCC_", "TCP_", "TA_", "TD_", "GRBM_", "SPI_", "CPC_"))


def _read(workload: _Workload, found: Input) -> Profile:
    _refuse_several(workload, found)
    tables = [read_dispatches(*table) for table in workload.counters]
    # pmc_perf has by far the most counters; the level files beside it repeat some.
    main = max(tables, key=lambda t: (sum(map(is_useful, t.columns)), t.height))
    dispatches, notes = _with_better_times(main, workload.times)
    system = _system(workload)
    device = system.get("gpu_model") or system.get("gpu_soc") or None
    if device is None:
        notes.append("the folder has no sysinfo.csv that names the device")
    for table in workload.roofline:
        notes += ceilings_note(measured_ceilings(*table))
    newer = (system.get("version") or "0")[:1] >= "3"
    source = Source(
        tool="rocprof-compute" if newer else "Omniperf",
        version=system.get("version"),
        files=[SourceFile(name=short_name(entry.name)) for entry in found.entries],
        command=system.get("command"),
    )
    return profile_of_dispatches(dispatches, Whole(source, device, tuple(notes)))


def _refuse_several(workload: _Workload, found: Input) -> None:
    """Counters of several workloads are not one run."""
    folders = sorted({str(PurePosixPath(e.name).parent) for e, _ in workload.system})
    if len(folders) > 1:
        raise InputError(
            f"holds several workloads ({', '.join(folders[:5])}{' …' if folders[5:] else ''})",
            where=found.name,
            advice="name the folder of one of them",
        )


def _with_better_times(main: pl.DataFrame, others: list[Found]) -> tuple[pl.DataFrame, list[str]]:
    """Dispatches with the times of the run without counters, where it has usable ones."""
    for table in others:
        timed = read_dispatches(*table)
        if not has_times(timed):
            continue
        clean = number_occurrences(timed, _KEYS).select(
            *_KEYS,
            OCCURRENCE,
            pl.col("start_ns").alias("_start"),
            pl.col("end_ns").alias("_end"),
        )
        joined = number_occurrences(main, _KEYS).join(
            clean, on=[*_KEYS, OCCURRENCE], how="left", nulls_equal=True, maintain_order="left"
        )
        lost = joined["_end"].null_count()
        joined = joined.with_columns(
            pl.coalesce("_start", "start_ns").alias("start_ns"),
            pl.coalesce("_end", "end_ns").alias("end_ns"),
        )
        notes = ["times are of the run without counters (timestamps.csv)"]
        if lost:
            notes.append(f"{lost} dispatches are not in it and keep the times under counters")
        return joined.drop("_start", "_end", OCCURRENCE), notes
    return main, ["times are from a run under counters"]


def _system(workload: _Workload) -> dict[str, str]:
    """The one row of sysinfo.csv."""
    for entry, header in workload.system:
        table = read_table(entry, header, lambda _: True)
        if table.height:
            return {k: str(v) for k, v in table.row(0, named=True).items() if v is not None}
    return {}


FORMAT = Omniperf()


__all__ = ["FORMAT"]
