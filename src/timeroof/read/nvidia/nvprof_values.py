"""How nvprof prints: units glued to numbers, powers of 1024, copies in brackets."""

from __future__ import annotations

import re

import polars as pl

from timeroof.read.numbers import in_base_units

_BINARY = {"": 1.0, "K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40}
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0}
_UNIT = re.compile(r"([KMGT]?)B(/s)?")
_GLUED = r"^(-?[\d.]+(?:e[+-]?\d+)?)([A-Za-z/%]*)$"

# Lines before the tables: "==1234== NVPROF is profiling …", "======== Profiling result:".
PREAMBLE = re.compile(
    r"(?m)^==(?:\d+|=+)== (?:NVPROF is profiling|Profiling (?:application|result)|Metric result)"
)
COMMAND = re.compile(r"^==(?:\d+|=+)== NVPROF is profiling process \d+, command: (.*)$")


def unit_value(unit: str) -> float | None:
    """What one of a unit is in seconds or bytes; nvprof's KB is 1024 bytes.

    >>> unit_value("us"), unit_value("KB"), unit_value("GB/s"), unit_value("%")
    (1e-06, 1024.0, 1073741824.0, None)
    """
    text = unit.strip()
    if text in _SECONDS:
        return _SECONDS[text]
    match = _UNIT.fullmatch(text)
    return _BINARY[match[1]] if match else None


def glued(column: pl.Series) -> pl.Series:
    """Numbers with a unit glued on, in seconds, bytes or as they are; the rest is null.

    >>> glued(pl.Series(["56.7454s", "2.0000KB", "12", "-", "99.72%", "Low (1)"])).to_list()
    [56.7454, 2048.0, 12.0, None, 99.72, None]
    """
    text = column.str.strip_chars()
    number = text.str.extract(_GLUED, 1).cast(pl.Float64, strict=False)
    units = text.str.extract(_GLUED, 2).fill_null("")
    factors = {u: unit_value(u) or 1.0 for u in units.unique().to_list()}
    table = pl.DataFrame({"value": number, "unit": units}).with_columns(
        pl.col("unit").replace_strict(factors, return_dtype=pl.Float64).alias("factor")
    )
    return table.select(in_base_units("value", "factor")).to_series().alias(column.name)


def kind_of_name() -> pl.Expr:
    """The kind of a row by its name: copies and memsets are in brackets."""
    name = pl.col("name")
    return (
        pl.when(name.str.contains(r"(?i)^\[.*memcpy"))
        .then(pl.lit("copy"))
        .when(name.str.contains(r"(?i)^\[.*memset"))
        .then(pl.lit("memset"))
        .when(name.str.contains(r"^(void )?nccl(Dev)?Kernel"))
        .then(pl.lit("collective"))
        .otherwise(pl.lit("kernel"))
        .alias("kind")
    )


def is_activity() -> pl.Expr:
    """Whether a row is work of the device; page faults are events in brackets."""
    name = pl.col("name")
    return ~name.str.contains(r"^\[") | name.str.contains(r"(?i)memcpy|memset")


def device_name(text: str) -> str:
    """A device without its number.

    >>> device_name("TITAN Xp (0)")
    'TITAN Xp'
    """
    return re.sub(r"\s*\(\d+\)\s*$", "", text.strip().strip('"'))
