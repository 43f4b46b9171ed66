"""Limits in words: `phase=backward:time<12ms`, `op=aten::mm:efficiency>60%`, `launches<=500`."""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass

import polars as pl

from timeroof.core.errors import UsageError
from timeroof.core.profile import LABEL
from timeroof.core.shapes import parse_shape, shape_text, shown_shapes
from timeroof.core.units import parse_seconds, parse_size

METRICS = ("time", "launches", "efficiency", "kernel_efficiency", "bytes", "flops", "share", "gap")
_RATIOS = ("efficiency", "kernel_efficiency", "share")
_CONDITION = re.compile(r"^\s*([a-z_]+)\s*(<=|>=|<|>)\s*(.+?)\s*$")
_SELECTION = re.compile(r"^\s*([A-Za-z_][\w.]*)\s*=\s*(.*?)\s*$")
# What comes behind a comma that joins two pairs; other commas are part of a value.
_NEXT_PAIR = re.compile(r"\s*(?:[A-Za-z_][\w.]*\s*=|,|$)")
_HOLDS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_BRACKETS = {")": "(", "]": "[", "}": "{", ">": "<"}


@dataclass(frozen=True)
class LimitRule:
    """A metric of some rows with a limit: absolute, or relative to the same rows of a baseline."""

    text: str
    where: tuple[tuple[str, str], ...]
    metric: str
    sign: str
    value: float
    relative: bool = False

    def rows(self, table: pl.DataFrame) -> pl.DataFrame:
        """The rows that the rule is about."""
        for column, value in self.where:
            found = next((c for c in (column, f"{LABEL}{column}") if c in table.columns), None)
            if found is None:
                raise UsageError(
                    f"rule {self.text!r}: rows have no {column!r}",
                    advice="use phase, op, module, name, kind, dtype, limiter or a label",
                )
            if found == "shape":
                written = shape_text(parse_shape(value)) or value
                table = table.filter(shown_shapes(table, most=None) == written)
                continue
            table = table.filter(pl.col(found).cast(pl.String) == value)
        return table

    @property
    def at_most(self) -> bool:
        """Whether the rule allows no more than its limit, not no less."""
        return self.sign.startswith("<")

    def allows_the_same(self, base: float) -> bool:
        """Whether what the baseline has may stay; nothing (0) always may."""
        return base == 0 or (self.value >= 1 if self.at_most else self.value <= 1)

    def holds(self, value: float, limit: float) -> bool:
        """Whether a value keeps the limit."""
        return bool(_HOLDS[self.sign](value, limit))


def parse_rule(text: str) -> LimitRule:
    """A rule as a person types it.

    >>> parse_rule("phase=backward,op=aten::mm:time<12ms").where
    (('phase', 'backward'), ('op', 'aten::mm'))
    >>> parse_rule("shape=[4, 4], [4],phase=forward:time<12ms").where
    (('shape', '[4, 4], [4]'), ('phase', 'forward'))
    >>> parse_rule("time<105%").relative
    True
    """
    selection, _, condition = text.rpartition(":")
    if not _CONDITION.match(condition) and _CONDITION.match(text):
        selection, condition = "", text
    match = _CONDITION.match(condition)
    if match is None or match[1] not in METRICS:
        raise _refused(text)
    value, relative = _value(match[1], match[3], text)
    if not 0 <= value < float("inf") or (value == 0 and match[2] == "<"):
        raise UsageError(f"rule {text!r} can never hold", advice="use a limit above 0")
    if match[1] in ("efficiency", "share") and match[2].startswith(">") and value > 1:
        raise UsageError(f"rule {text!r} asks for more than 100 %", advice="use a share up to 100%")
    if match[1] == "share" and value > 1:
        what = f"rule {text!r} can never be broken: no share is above 100 %"
        raise UsageError(what, advice="use a share up to 100%")
    where = tuple(_pair(part, text) for part in _parts(selection) if part.strip())
    return LimitRule(text, where, match[1], match[2], value, relative)


def _parts(selection: str) -> list[str]:
    """The pairs of a selection; commas of shapes, argument lists and templates join none.

    >>> _parts("name=f<int, n=2>,phase=forward"), _parts("name=operator<,phase=forward")
    (['name=f<int, n=2>', 'phase=forward'], ['name=operator<', 'phase=forward'])
    """
    inside = _bracketed(selection)
    places = [
        place
        for place, letter in enumerate(selection)
        if letter == "," and not inside[place] and _NEXT_PAIR.match(selection, place + 1)
    ]
    starts, ends = [0, *(place + 1 for place in places)], [*places, len(selection)]
    return [selection[start:end] for start, end in zip(starts, ends, strict=True)]


def _bracketed(text: str) -> list[bool]:
    """Per letter whether a pair of brackets is around it; brackets without a partner are none."""
    inside = [False] * len(text)
    opened: list[int] = []
    for place, letter in enumerate(text):
        if letter in _BRACKETS.values():
            opened.append(place)
        partner = next((o for o in reversed(opened) if text[o] == _BRACKETS.get(letter)), None)
        if partner is not None:
            inside[partner:place] = [True] * (place - partner)
            del opened[opened.index(partner) :]
    return inside


def _pair(part: str, text: str) -> tuple[str, str]:
    match = _SELECTION.match(part)
    if match is None:
        raise _refused(text)
    return match[1], match[2]


def _value(metric: str, written: str, text: str) -> tuple[float, bool]:
    """The limit as a number; a percentage of a metric that is no ratio is one of the baseline."""
    if written.endswith("%"):
        return parse_percent(written), metric not in _RATIOS
    try:
        if metric in ("time", "gap"):
            return parse_seconds(written), False
        if metric in ("bytes", "flops"):
            return parse_size(written.removesuffix("FLOP")), False
        value = float(written)
    except (ValueError, UsageError):
        raise _refused(text) from None
    if metric in _RATIOS and 1 < value < float("inf"):
        raise _meant_percent(f"rule {text!r} means {value * 100:.12g} %", value)
    return value, False


def parse_percent(text: str, plain_up_to: float = float("inf")) -> float:
    """A share that a person typed as a percentage or a number; the latter up to a limit.

    >>> parse_percent("5%"), parse_percent("0.05"), parse_percent("500%", plain_up_to=1.0)
    (0.05, 0.05, 5.0)
    """
    number = text.strip()
    try:
        value = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    except ValueError:
        raise UsageError(f"{text!r} is no share", advice="write for example 5% or 0.05") from None
    if not 0 <= value < float("inf"):
        raise UsageError(f"{text!r} is no share", advice="write for example 5% or 0.05")
    if value > plain_up_to and not number.endswith("%"):
        raise _meant_percent(f"{text!r} without % means {value * 100:.12g} %", value)
    return value


def _meant_percent(means: str, value: float) -> UsageError:
    """A number above 1 where a share is asked for: most likely the sign was forgotten."""
    return UsageError(means, advice=f"write {value:.12g}% or {value / 100:.12g} for {value:.12g} %")


def _refused(text: str) -> UsageError:
    return UsageError(
        f"{text!r} is no rule",
        advice="write for example 'phase=backward:time<12ms', 'op=aten::mm:efficiency>60%' or"
        f" 'time<105%' (of the baseline); metrics: {', '.join(METRICS)}",
    )
