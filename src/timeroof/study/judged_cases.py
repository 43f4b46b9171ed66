"""Judged cases as typed rows, a study's and the paper's alike, and which differ in one thing only.

Here, and nowhere else, the labels of a report's rows become what they stand for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import polars as pl

from timeroof.core.columns import BOUND, BYTE, FLOP
from timeroof.core.machine import SCOPES, Scope, limiter_kind
from timeroof.core.profile import LABEL, ORIGIN
from timeroof.study.case import BUSY, MACHINE, NODE, Value
from timeroof.views.style import LIMITER_WORDS

# How a case was run; equal ones make a series.
SERIES = (
    "framework", "device", "precision", "pass_name", "cache", "threads", "variant", "machine",
)  # fmt: skip
USUAL = {"framework": "torch", "device": "cpu", "cache": "warm", "variant": "eager"}
DRAM = "dram"
# Away from the cores first.
LEVELS = (DRAM, "l3", "l2", "l1")

_PLAIN = (
    "id", "op", "name", "time_s", "time_spread", "owed_flops", "contraction_flops", "limiter",
    "bound_s", "work_bound_s", "efficiency", "above_roof", "overhead_time_s", "inside_overhead_box",
)  # fmt: skip
_WORDS = (
    "implementation", "algorithm", "formats", "emulated", "contains", "executed_because", "clock",
    "turn", "doubt", "placed", NODE,
)  # fmt: skip
_NUMBERS = ("load", "reorders", "reorder_s", "working_set_bytes", "formula_flops")
# Labels that are no parameters: a parameter of a user's function may be called the same.
_TAKEN = {
    *SERIES, *_WORDS, *_NUMBERS, "pass", "scope", "executions_per_sample", "confidence", "leaks",
    "executed_per_needed", "jaxpr_flops", "uncounted", "counted_on", "counters", "input_bytes",
    "placed",
}  # fmt: skip
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?(e[+-]?\d+)?", re.ASCII)


def parameter_label(name: str) -> str:
    """The label that holds a parameter of a case.

    >>> parameter_label("batch"), parameter_label("device")
    ('batch', 'parameter.device')
    """
    return f"parameter.{name}" if name in _TAKEN else name


def parameter_value(text: str) -> Value:
    """A parameter's value from its label: a number where it looks like one.

    >>> [parameter_value(text) for text in ("8", "0.5", "relu")]
    [8, 0.5, 'relu']
    """
    if not _NUMBER.fullmatch(text):
        return text
    return int(text) if text.lstrip("+-").isdigit() else float(text)


@dataclass(frozen=True)
class Row:
    """One judged case: what it is, how it ran, what it used, and what the model says of it. What
    nobody knows is None. A warm case whose working set stays in a cache moves nothing at DRAM: that
    is known, and 0."""

    op: str = ""
    params: Mapping[str, Value] = field(default_factory=dict)
    time_s: float = math.nan
    id: int = 0
    name: str = ""
    # How it ran.
    framework: str = "torch"
    device: str = "cpu"
    precision: str = "fp32"
    pass_name: str = "forward"
    cache: str = "warm"
    threads: int | None = None
    variant: str = "eager"
    scope: Scope = "all"
    # The kind of machine that ran it, where it is not the one of most cases; and its node.
    machine: str = ""
    node: str | None = None
    # What it took: seconds of single executions, the median alone where no samples were kept.
    samples: tuple[float, ...] = ()
    time_spread: float | None = None
    launches: float | None = None
    flops_by: Mapping[str, float | None] = field(default_factory=dict)
    bytes_by: Mapping[str, float | None] = field(default_factory=dict)
    owed_flops: float | None = None
    contraction_flops: float | None = None
    fault_s: float | None = None
    origins: Mapping[str, str] = field(default_factory=dict)
    # What was seen while it ran.
    load: float | None = None
    reorders: float | None = None
    reorder_s: float | None = None
    working_set_bytes: float | None = None
    # FLOPs of products by the definition, where other ones ran.
    formula_flops: float | None = None
    implementation: str | None = None
    algorithm: str | None = None
    # Layouts of its tensors, by oneDNN's own line.
    formats: str | None = None
    emulated: str | None = None
    contains: str | None = None
    # Why other products ran than the definition has.
    executed_because: str | None = None
    # How it was timed: by which clock, in turns with which others, and why not to be trusted.
    clock: str | None = None
    turn: str | None = None
    doubt: str | None = None
    # The cores that it was bound to, and the memory.
    placed: str | None = None
    # What bounds it.
    limiter: str | None = None
    bound_s: float | None = None
    work_bound_s: float | None = None
    # The least time of its FLOPs alone.
    compute_s: float | None = None
    efficiency: float | None = None
    above_roof: str | None = None
    overhead_time_s: float | None = None
    inside_overhead_box: bool | None = None

    @property
    def flops(self) -> float | None:
        """FLOPs of all precisions, None where one of them is not known."""
        known = [v for v in self.flops_by.values() if v is not None]
        return sum(known) if known and len(known) == len(self.flops_by) else None

    @property
    def defined_flops(self) -> float | None:
        """FLOPs by the definition of the work: products by formula, whatever ran or was counted."""
        return self.formula_flops or self.contraction_flops or self.flops

    @property
    def busy(self) -> bool:
        """Whether other programs took part of the processor while this ran on it.

        Samples of wall time cannot show it: a neighbour that stays slows all of them.

        >>> Row(load=0.5).busy, Row(load=0.02).busy, Row(load=0.5, device="cuda").busy
        (True, False, False)
        """
        return self.device == "cpu" and (self.load or 0.0) > BUSY

    @property
    def timed_alone(self) -> bool:
        """Whether its seconds are the CPU time of one thread, which neighbours hardly change."""
        return self.clock == "cpu" and self.threads == 1 and self.doubt is None

    @property
    def disturbed(self) -> bool:
        """Whether other programs are in its seconds."""
        return self.busy and not self.timed_alone

    @property
    def utilisation(self) -> float | None:
        """The share of the compute roof that it reaches."""
        return None if self.compute_s is None else self.compute_s / self.time_s

    @property
    def attainable(self) -> float | None:
        """The share of the compute roof that it could reach at its intensity.

        >>> row = Row(time_s=4.0, compute_s=1.0, work_bound_s=2.0)
        >>> row.utilisation, row.attainable
        (0.25, 0.5)
        """
        return self.compute_s / self.work_bound_s if self.compute_s and self.work_bound_s else None

    def measured(self, what: str) -> bool:
        """Whether counters gave an amount."""
        return self.origins.get(what) == "measured"

    def intensity_at(self, level: str) -> float | None:
        """FLOP per byte at a level, None where there are no bytes or an amount is not known."""
        work, moved = self.flops, self.bytes_by.get(level)
        return work / moved if work is not None and moved else None

    def series(self, *without: str) -> str:
        """How it ran, in words: what is usual is not said."""
        told = {n: getattr(self, n) for n in (*SERIES[:2], "pass_name", "precision", "variant")}
        told |= {"cache": self.cache, "machine": self.machine}
        words = [v for n, v in told.items() if v and n not in without and USUAL.get(n) != v]
        if self.threads is not None and "threads" not in without:
            words.append(f"{self.threads} thread{'s' * (self.threads != 1)}")
        return ", ".join(words)

    def case(self, names: Iterable[str]) -> str:
        """Parameters in words.

        >>> Row(params={"batch": 16}).case(["batch", "hidden"])
        'batch 16'
        """
        told = [(n.replace("_", " "), self.params[n]) for n in names if n in self.params]
        return " ".join(f"{name} {value}" for name, value in told)

    def but(self, *free: str) -> tuple[object, ...]:
        """All that tells a case from others of its op, but for what is named."""
        how = [getattr(self, name) for name in SERIES if name not in free]
        return (*how, *sorted((n, v) for n, v in self.params.items() if n not in free))


def typed_rows(table: pl.DataFrame, parameters: Mapping[str, Collection[str]]) -> list[Row]:
    """Judged rows by what they stand for; `parameters` names those of every op."""
    rows = table.filter(pl.col("kind") == "unit", pl.col("op").is_not_null())
    return [_row(values, parameters.get(values["op"], ())) for values in rows.to_dicts()]


def _row(values: dict[str, Any], names: Collection[str]) -> Row:
    def under(head: str) -> dict[str, Any]:
        return {k.removeprefix(head): v for k, v in values.items() if k.startswith(head)}

    labels = {name: value for name, value in under(LABEL).items() if value is not None}
    counted = values.get(f"{ORIGIN}launches", "") is not None
    own = {n: labels[parameter_label(n)] for n in names if parameter_label(n) in labels}
    known: dict[str, Any] = {n: values.get(n) for n in _PLAIN}
    known |= {n: labels.get(n) for n in _WORDS}
    known |= {n: float(labels[n]) for n in _NUMBERS if n in labels}
    of_series = ("framework", "precision", "cache", "variant", MACHINE)
    known |= {n: labels.get(n, "") for n in of_series}
    return Row(
        **known,
        device=labels.get("device") or "cpu",
        pass_name=labels.get("pass", ""),
        threads=int(labels["threads"]) if "threads" in labels else None,
        scope=cast("Scope", labels["scope"]) if labels.get("scope") in SCOPES else "all",
        params={n: parameter_value(v) for n, v in own.items()},
        samples=tuple(values.get("samples") or [values["time_s"]]),
        launches=values.get("launches") if counted else None,
        flops_by=under(FLOP),
        bytes_by=under(BYTE),
        fault_s=values.get(f"{BOUND}fault"),
        compute_s=_largest(under(f"{BOUND}{FLOP}").values()),
        origins={k: v for k, v in under(ORIGIN).items() if v is not None},
    )


def _largest(bounds: Iterable[float | None]) -> float | None:
    return max((bound for bound in bounds if bound is not None), default=None)


def limiter_words(resource: str | None) -> str:
    """What limits a case, as it is written in a sentence.

    >>> limiter_words("fault"), limiter_words("flop/fp32"), limiter_words("byte/l2")
    ('page faults', 'compute', 'L2 bandwidth')
    """
    kind = limiter_kind(resource or "")
    if kind == "memory":
        return f"{str(resource).partition('/')[2].upper()} bandwidth"
    if kind == "latency":
        return "overhead"
    return LIMITER_WORDS[kind] if kind != "unknown" else "an unknown limit"


def threads_words(row: Row) -> str:
    """On how many threads and by which clock.

    >>> threads_words(Row(threads=1, clock="cpu")), threads_words(Row(threads=2))
    ('1 thread in CPU time', '2 threads')
    """
    count = "?" if row.threads is None else row.threads
    clock = " in CPU time" if row.clock == "cpu" else ""
    return f"{count} thread{'s' * (count != 1)}{clock}"


@dataclass(frozen=True)
class Sweep:
    """Rows of one series in which one parameter moves, in its order."""

    op: str
    parameter: str
    rows: list[Row]

    @property
    def word(self) -> str:
        """The parameter as it is written."""
        return self.parameter.replace("_", " ")

    @property
    def values(self) -> list[Value]:
        """Values of the parameter, in order."""
        return [row.params[self.parameter] for row in self.rows]

    @property
    def time_ratio(self) -> float:
        """Time at the last value over that at the first."""
        return self.rows[-1].time_s / self.rows[0].time_s


def parameters_of(rows: Sequence[Row], op: str) -> list[str]:
    """Names of an op's parameters."""
    return list(dict.fromkeys(name for row in rows if row.op == op for name in row.params))


def ops(rows: Sequence[Row]) -> list[str]:
    """Kernels of a study by name: rows come by time, which says nothing of their order."""
    return sorted({row.op for row in rows})


def groups(rows: Sequence[Row], op: str, *free: str) -> list[list[Row]]:
    """Rows of an op that are equal in all but what is named, two or more at a time. Rows without a
    time are left out: a comparison needs one."""
    found: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        if row.op == op and row.time_s > 0:
            found.setdefault(row.but(*free), []).append(row)
    return [members for members in found.values() if len(members) > 1]


def sweeps(rows: Sequence[Row], op: str) -> list[Sweep]:
    """All sweeps of an op: equal in everything but one parameter, which has two values or more."""
    found = [
        Sweep(op, parameter, in_order(members, parameter))
        for parameter in parameters_of(rows, op)
        for members in groups(rows, op, parameter)
    ]
    return [sweep for sweep in found if len(set(sweep.values)) > 1]


def in_order(members: Iterable[Row], parameter: str) -> list[Row]:
    """Rows by a parameter's value: as numbers where all are, else as they came."""
    known = [row for row in members if parameter in row.params]
    if any(isinstance(row.params[parameter], str) for row in known):
        return known
    return sorted(known, key=lambda row: row.params[parameter])


def group_titles(members: Sequence[Sequence[Row]], free: str) -> list[str]:
    """What each group of a comparison is about: the op, and what tells it from the other groups."""
    firsts = [group[0] for group in members]
    how_run = ("framework", "device", "threads", "cache")
    same = [name for name in how_run if len({getattr(row, name) for row in firsts}) == 1]
    titles = []
    for row in firsts:
        alike = [r for r in firsts if r.op == row.op]
        names = [n for n in row.params if n != free and len({r.params.get(n) for r in alike}) > 1]
        how, case = row.series(free, *same), row.case(names)
        titles.append(f"{row.op}{' ' * bool(case)}{case}{f' ({how})' if how else ''}")
    return titles


def level_of(rows: Sequence[Row], among: Collection[str] = LEVELS) -> str:
    """The level nearest to DRAM at which every row moves bytes, else that of most rows.

    Cases that stay in a cache have no intensity at DRAM, so what is compared with them is looked
    at nearer to the cores.

    >>> warm, large = Row(bytes_by={"dram": 0.0, "l1": 8.0}), Row(bytes_by={"dram": 4.0, "l1": 9.0})
    >>> level_of([large]), level_of([warm, large])
    ('dram', 'l1')
    """
    counts = {
        level: sum((row.bytes_by.get(level) or 0.0) > 0 for row in rows)
        for level in LEVELS
        if level in among
    }
    # The first of equal ones is the one nearest to DRAM.
    return max(counts, key=lambda level: counts[level], default=DRAM)


def level_note(rows: Sequence[Row], level: str) -> str:
    """Why bytes are those of a cache and not of DRAM; nothing where they are DRAM's."""
    if level == DRAM:
        return ""
    none = sum(row.bytes_by.get(DRAM) == 0 for row in rows)
    unknown = sum(row.bytes_by.get(DRAM) is None for row in rows)
    told = [
        f"{none} of {len(rows)} cases move none at DRAM (they stay in the caches)" if none else "",
        f"DRAM bytes of {unknown} of {len(rows)} cases are not known" if unknown else "",
    ]
    why = ", ".join(text for text in told if text)
    return f"Bytes and FLOP/B are those at {level.upper()}: {why}."
