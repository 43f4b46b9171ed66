"""The ceilings that Omniperf / rocprof-compute measure on the device (``roofline.csv``)."""

from __future__ import annotations

from timeroof.core.machine import Ceiling
from timeroof.core.units import format_amount
from timeroof.read.amd.rocprof_csv_table import Header, Names, number, read_table
from timeroof.read.opening import Entry

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
