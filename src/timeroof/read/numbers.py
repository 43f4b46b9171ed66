"""Numbers and units as profilers print them, turned into plain numbers of base units."""

from __future__ import annotations

import re
from functools import lru_cache

import polars as pl

# Decimal prefixes; nvprof alone means powers of 1024 by them.
_PREFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}
_SMALL = {"": 1.0, "m": 1e-3, "u": 1e-6, "µ": 1e-6, "n": 1e-9, "p": 1e-12}
_SECOND = re.compile(r"(m|u|µ|n|p)?s(?:ec|econd)?s?")
_HERTZ = re.compile(r"(k|m|g|t)?hz")
_AMOUNT = re.compile(r"(k|m|g|t|p)?(byte|b|cycle|inst|sector|request|op|flop|thread|warp)s?")
# 1.234,5 or 12,34: a comma that cannot separate thousands.
_COMMA_DECIMAL = r"^-?\d+(\.\d{3})*,(\d{1,2}|\d{4,})$|\.\d{3},\d"


def numbers(column: pl.Series) -> pl.Series:
    """Cells as numbers: thousands separators and instance counts off, the rest null.

    >>> numbers(pl.Series(["1,234.5", "n/a", "66 {21}", "", "7"])).to_list()
    [1234.5, None, 66.0, None, 7.0]
    """
    text = column.str.strip_chars().str.replace(r"\s*\{[\d,.]+\}$", "")
    if text.str.contains(_COMMA_DECIMAL).any():
        text = text.str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
    else:
        text = text.str.replace_all(",", "", literal=True)
    return text.cast(pl.Float64, strict=False)


def in_base_units(value: str, factor: str) -> pl.Expr:
    """A column times the factors of its units; a small factor divides, which rounds only once.

    >>> table = pl.DataFrame({"ns": [800.0], "factor": [1e-9]})
    >>> table.select(in_base_units("ns", "factor")).item()
    8e-07
    """
    times = pl.col(factor)
    divided = pl.col(value) / (1.0 / times).round()
    return pl.when(times < 1).then(divided).otherwise(pl.col(value) * times).alias(value)


@lru_cache(maxsize=4096)
def unit_factor(unit: str) -> tuple[float, str] | None:
    """What one of a unit is in base units, and of which kind: second, 1/second, byte, …

    >>> unit_factor("usecond"), unit_factor("Kbyte"), unit_factor("cycle/nsecond")
    ((1e-06, 'second'), (1000.0, 'byte'), (1000000000.0, '1/second'))
    >>> unit_factor("Gbyte/s"), unit_factor("inst"), unit_factor("%")
    ((1000000000.0, 'byte/second'), (1.0, 'count'), None)
    """
    over, _, under = unit.strip().lower().partition("/")
    if match := _HERTZ.fullmatch(over):
        return (_PREFIXES[match[1] or ""], "1/second") if not under else None
    top = _simple_unit(over)
    if top is None or not under:
        return top
    bottom = _simple_unit(under)
    if bottom is None:
        return None
    # Per nanosecond is a thousand million times, not 1 / 1e-9, which is rounded.
    factor = top[0] * round(1 / bottom[0]) if bottom[0] < 1 else top[0] / bottom[0]
    if bottom[1] == "second":
        return factor, "byte/second" if top[1] == "byte" else "1/second"
    return factor, "ratio"


def _simple_unit(unit: str) -> tuple[float, str] | None:
    if unit == "":
        return 1.0, "count"
    if match := _SECOND.fullmatch(unit):
        return _SMALL[match[1] or ""], "second"
    if match := _AMOUNT.fullmatch(unit):
        kind = "byte" if match[2] in ("byte", "b") else "count"
        return _PREFIXES[match[1] or ""], kind
    return None
