"""Units: seconds, FLOPs and bytes inside; prefixes only where a person reads or types them.

FLOP convention, stated once: a multiply-add is 2 FLOPs. GB is 1e9 bytes, GiB 2**30.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from timeroof.core.errors import UsageError
from timeroof.core.machine import FAULT, LAUNCH

FLOPS_PER_FMA = 2

_PREFIXES = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_SMALL = ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
_FACTORS = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0}


def format_amount(value: float | None, unit: str, digits: int = 3) -> str:
    """A number with an SI prefix.

    >>> format_amount(3.6e9, "FLOP"), format_amount(828.8e9, "B/s"), format_amount(None, "B")
    ('3.60 GFLOP', '829 GB/s', '?')
    """
    if value is None:
        return "?"
    if not math.isfinite(value):
        return f"{value} {unit}"
    factor, prefix = next((p for p in _PREFIXES if _reaches(value, p[0], digits)), _PREFIXES[-1])
    return f"{_digits(value / factor, digits)} {prefix}{unit}"


def format_seconds(value: float | None, digits: int = 3) -> str:
    """Seconds as a person reads them.

    >>> format_seconds(0.0003528), format_seconds(4.2e-6), format_seconds(61.5)
    ('353 µs', '4.20 µs', '61.5 s')
    """
    if value is None:
        return "?"
    if value == 0 or not math.isfinite(value):
        return f"{value:g} s"
    size = abs(value)
    factor, prefix = next((p for p in _SMALL if _reaches(size, p[0], digits)), _SMALL[-1])
    return f"{_digits(value / factor, digits)} {prefix}s"


def format_bytes_binary(value: int) -> str:
    """A memory size.

    >>> format_bytes_binary(6291456), format_bytes_binary(17179869184)
    ('6 MiB', '16 GiB')
    """
    for factor, prefix in ((2**40, "Ti"), (2**30, "Gi"), (2**20, "Mi"), (2**10, "Ki")):
        if value >= factor:
            return f"{value / factor:.3g} {prefix}B"
    return f"{value} B"


def format_cores(count: int) -> str:
    """A number of cores in words.

    >>> format_cores(1), format_cores(2)
    ('1 core', '2 cores')
    """
    return "1 core" if count == 1 else f"{count} cores"


def format_percent(share: float | None, digits: int = 2) -> str:
    """A share as a percentage.

    >>> format_percent(0.5478), format_percent(None), format_percent(1.0)
    ('55 %', '?', '100 %')
    """
    if share is None:
        return "?"
    percent = share * 100
    if 0 < abs(percent) < 0.01:
        return "under 0.01 %"
    return f"{percent:.0f} %" if abs(percent) >= 10 ** (digits - 1) else f"{percent:.{digits}g} %"


def parse_seconds(text: str) -> float:
    """A duration that a person typed.

    >>> parse_seconds("4.2us"), parse_seconds("3 ms")
    (4.2e-06, 0.003)
    """
    match = re.fullmatch(r"\s*([0-9.eE+-]+?)\s*(s|ms|us|µs|ns|min|h)?\s*", text)
    if match is None:
        raise UsageError(f"{text!r} is no duration", advice="write for example 4.2us, 3ms or 0.5s")
    return _number(match[1], text) * _SECONDS[match[2] or "s"]


def parse_size(text: str) -> float:
    """A size in bytes that a person typed.

    >>> parse_size("64GB"), parse_size("4 KiB")
    (64000000000.0, 4096.0)
    """
    match = re.fullmatch(r"\s*([0-9.eE+-]+?)\s*([kKMGTPE]|[KMGT]i)?B?\s*", text)
    if match is None:
        raise UsageError(f"{text!r} is no size", advice="write for example 64GB, 512MiB or 1000")
    size = _number(match[1], text) * (_FACTORS | _BINARY)[match[2] or ""]
    if not 0 < size < math.inf:
        raise UsageError(f"{text!r} is no size", advice="sizes are above 0")
    return size


def _number(digits: str, text: str) -> float:
    try:
        return float(digits)
    except ValueError:
        raise UsageError(f"{text!r} is no number") from None


def _reaches(value: float, factor: float, digits: int) -> bool:
    """Whether a value is at least 1 of a prefix once it is rounded to its digits."""
    return abs(value) / factor >= 1 - 0.5 * 10.0**-digits


def _digits(value: float, digits: int) -> str:
    if value == 0:
        return "0"
    places = digits - 1 - math.floor(math.log10(abs(value)) + 1e-12)
    return f"{value:.{max(0, min(places, digits - 1))}f}"


# Units of amounts and rates: integer operations are operations, no floating-point ones.

INTEGER = "flop/int"


def work_unit(resource: str) -> str:
    """What a resource is counted in.

    >>> [work_unit(r) for r in ("flop/fp32", "flop/int8-tensor", "byte/dram", "link/nvlink")]
    ['FLOP', 'OP', 'B', 'B']
    """
    if not resource.startswith("flop/"):
        return "B"
    return "OP" if resource.startswith(INTEGER) else "FLOP"


def resource_words(resource: str) -> str:
    """A resource as people call it; its code is for tables of code and JSON.

    >>> [resource_words(r) for r in ("flop/fp32", "flop/bf16-tensor", "byte/dram", "fault")]
    ['FP32', 'BF16 tensor', 'DRAM bandwidth', 'page fault']
    >>> [resource_words(r) for r in ("launch", "link/nvlink", "pipe/compute")]
    ['launch overhead', 'nvlink bandwidth', 'compute throughput']
    """
    head, _, tail = resource.partition("/")
    if head == "flop":
        return tail.upper().replace("-TENSOR", " tensor")
    if head == "byte":
        return f"{tail.upper()} bandwidth"
    if head in ("link", "pipe"):
        return f"{tail} {'bandwidth' if head == 'link' else 'throughput'}"
    return {LAUNCH: "launch overhead", FAULT: "page fault"}.get(resource, resource)


def format_rate(resource: str, rate: float) -> str:
    """A rate as a person reads it; launches and faults as seconds each.

    >>> format_rate("flop/int8", 2e11), format_rate("byte/l2", 4.66e11), format_rate("launch", 1e7)
    ('200 GOP/s', '466 GB/s', '100 ns each')
    """
    if resource in (LAUNCH, FAULT):
        return f"{format_seconds(1 / rate)} each"
    return format_amount(rate, f"{work_unit(resource)}/s")


def format_work(amounts: Mapping[str, float | None]) -> list[str]:
    """Operations by precision as totals: floating-point ones, then integer ones.

    >>> format_work({"fp32": 1e9, "fp16-tensor": 2e9, "int8": 5e8, "fp64": None})
    ['3.00 GFLOP', '500 MOP']
    """
    sums: dict[str, float] = {}
    for precision, amount in amounts.items():
        if amount is not None:
            unit = work_unit(f"flop/{precision}")
            sums[unit] = sums.get(unit, 0.0) + float(amount)
    # No operations at all are said once, as those that most programs have.
    said = {u: s for u, s in sums.items() if s > 0} or dict(list(sums.items())[:1])
    return [format_amount(said[unit], unit) for unit in ("FLOP", "OP") if unit in said]
