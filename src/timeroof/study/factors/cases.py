"""Cases side by side: which rows differ in one thing only, and what a row says of itself."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from timeroof.core.profile import LABEL, ORIGIN
from timeroof.core.resources import Scope

# Labels of how a case was run; equal ones make a series.
SERIES = ("framework", "device", "precision", "pass", "cache", "threads", "variant")
# Parameters of a row's own kernel; whatever else a case has for labels is none.
PARAMETER = "param."

# Share of all processor time that others may use before a time says nothing of a kernel.
BUSY = 0.15

Row = dict[str, Any]


@dataclass(frozen=True)
class Sweep:
    """Rows of one series in which one parameter moves, in its order."""

    op: str
    parameter: str
    rows: list[Row]

    @property
    def series(self) -> str:
        """What the rows have in common, in words."""
        return series_text(self.rows[0])

    @property
    def values(self) -> list[str]:
        """Values of the parameter, in order."""
        return [row[f"{LABEL}{self.parameter}"] for row in self.rows]


def with_parameters(rows: pl.DataFrame, names: Mapping[str, Collection[str]]) -> pl.DataFrame:
    """Judged rows as factors take them: what `names` lists by op are its parameters.

    A study's cases and the paper's are two sources of the same rows.
    """
    labels = [c.removeprefix(LABEL) for c in rows.columns if c.startswith(LABEL)]
    columns = []
    for name in labels:
        of = [op for op, own in names.items() if name in own]
        if of:
            value = pl.when(pl.col("op").is_in(of)).then(pl.col(f"{LABEL}{name}"))
            columns.append(value.alias(f"{PARAMETER}{name}"))
    return rows.with_columns(columns)


def parameters(rows: pl.DataFrame, op: str) -> list[str]:
    """Names of an op's parameters."""
    part = rows.filter(pl.col("op") == op)
    names = [c for c in rows.columns if c.startswith(PARAMETER)]
    return [n.removeprefix(PARAMETER) for n in names if part[n].null_count() < part.height]


def ops(rows: pl.DataFrame) -> list[str]:
    """Kernels of a study by name: rows come by time, which says nothing of their order."""
    units = rows.filter(pl.col("kind") == "unit", pl.col("op").is_not_null())
    return sorted(units["op"].unique().to_list())


def groups(rows: pl.DataFrame, op: str, free: Sequence[str]) -> Iterator[list[Row]]:
    """Rows of an op that are equal in all labels but those named, two or more at a time.

    Rows without a time are left out: a comparison needs one.
    """
    part = rows.filter(pl.col("op") == op, pl.col("time_s") > 0)
    fixed = [
        f"{LABEL}{name}"
        for name in (*SERIES, *parameters(rows, op))
        if name not in free and f"{LABEL}{name}" in rows.columns
    ]
    if not fixed:
        yield from ([part.to_dicts()] if part.height > 1 else [])
        return
    for _, members in part.group_by(fixed, maintain_order=True):
        if members.height > 1:
            yield members.to_dicts()


def sweeps(rows: pl.DataFrame, op: str) -> list[Sweep]:
    """All sweeps of an op: equal in everything but one parameter, which has two values or more."""
    found = []
    for parameter in parameters(rows, op):
        for members in groups(rows, op, (parameter,)):
            ordered = in_order(members, parameter)
            if len({row[f"{LABEL}{parameter}"] for row in ordered}) > 1:
                found.append(Sweep(op, parameter, ordered))
    return found


def in_order(members: list[Row], parameter: str) -> list[Row]:
    """Rows by a parameter's value: as numbers where all are, else as they came."""
    column = f"{LABEL}{parameter}"
    known = [row for row in members if row.get(column) is not None]
    if any(number(row[column]) is None for row in known):
        return known
    return sorted(known, key=lambda row: number(row[column]) or 0.0)


def number(text: object) -> float | None:
    """A label as a number, None where it is none.

    >>> number("16"), number("channels_last"), number(None)
    (16.0, None, None)
    """
    try:
        return float(str(text))
    except ValueError:
        return None


def label(row: Row, name: str) -> str | None:
    """A label of a row, None where it has none."""
    value = row.get(f"{LABEL}{name}")
    return None if value is None else str(value)


def flops(row: Row) -> float | None:
    """FLOPs of all precisions, None where one of them is not known."""
    amounts = [v for k, v in row.items() if k.startswith("flop/")]
    return None if not amounts or None in amounts else float(sum(amounts))


def defined_flops(row: Row) -> float | None:
    """FLOPs by the definition of the work: products by formula, whatever ran or a counter saw."""
    formula = number(label(row, "formula_flops"))
    value = formula or row.get("contraction_flops")
    return float(value) if value else flops(row)


def scope(row: Row) -> Scope:
    """Whose ceilings bound a row: those of one core or of all."""
    return "core" if label(row, "scope") == "core" else "all"


def launches(row: Row) -> float | None:
    """Launches of one execution; None where a table with their origins says none for this row.

    >>> launches({"launches": 3.0}), launches({"launches": 1.0, "origin.launches": None})
    (3.0, None)
    """
    if f"{ORIGIN}launches" in row and row[f"{ORIGIN}launches"] is None:
        return None
    return row.get("launches")


def moved_bytes(row: Row) -> float | None:
    """Bytes at DRAM, None where they are not known."""
    value = row.get("byte/dram")
    return None if value is None else float(value)


def origin(row: Row, what: str) -> str | None:
    """How an amount of a row came about."""
    value = row.get(f"{ORIGIN}{what}")
    return None if value is None else str(value)


def busy(*rows: Row) -> bool:
    """Whether other programs took part of the processor while any of these ran on it.

    The samples cannot show it: a neighbour that stays slows all of them.

    >>> busy({"label.load": "0.5", "label.device": "cpu"}), busy({"label.load": "0.02"}), busy({})
    (True, False, False)
    """
    return any(
        (label(row, "device") or "cpu") == "cpu" and (number(label(row, "load")) or 0.0) > BUSY
        for row in rows
    )


def samples(row: Row) -> list[float]:
    """Seconds of single executions; the median alone where no samples were kept."""
    kept = row.get("samples")
    return list(kept) if kept else [float(row["time_s"])]


def series_text(row: Row, without: Sequence[str] = ()) -> str:
    """How a row ran, in words: what is usual is not said.

    >>> series_text({"label.framework": "torch", "label.pass": "forward", "label.precision": "fp32",
    ...              "label.variant": "eager", "label.cache": "cold", "label.threads": "2"})
    'forward, fp32, cold, 2 threads'
    """
    usual = {"framework": "torch", "device": "cpu", "cache": "warm", "variant": "eager"}
    words = []
    for name in ("framework", "device", "pass", "precision", "variant", "cache", "threads"):
        value = label(row, name)
        if value is None or name in without or usual.get(name) == value:
            continue
        words.append(f"{value} thread{'s' * (value != '1')}" if name == "threads" else value)
    return ", ".join(words)


def group_titles(members: Sequence[list[Row]], free: str) -> list[str]:
    """What each group of a comparison is about: the op, and what tells it from the other groups."""
    firsts = [group[0] for group in members]
    usual = [n for n in ("framework", "device", "threads", "cache") if not _varies(firsts, n)]
    titles = []
    for row in firsts:
        same_op = [r for r in firsts if r["op"] == row["op"]]
        names = [
            name
            for column in row
            if column.startswith(PARAMETER)
            and (name := column.removeprefix(PARAMETER)) != free
            and _varies(same_op, name)
        ]
        how, case = series_text(row, [free, *usual]), case_text(row, names)
        titles.append(f"{row['op']}{' ' * bool(case)}{case}{f' ({how})' if how else ''}")
    return titles


def _varies(rows: Sequence[Row], name: str) -> bool:
    return len({label(row, name) for row in rows}) > 1


def case_text(row: Row, names: Sequence[str]) -> str:
    """A row's parameters in words.

    >>> case_text({"label.batch": "16", "label.hidden": None}, ["batch", "hidden"])
    'batch 16'
    """
    told = [(name, label(row, name)) for name in names]
    return " ".join(f"{name.replace('_', ' ')} {value}" for name, value in told if value)


# The level of memory a comparison is drawn at: DRAM, or the nearest that all its cases use. A warm
# case whose working set stays in a cache moves nothing at DRAM: that is known, and 0. Such cases
# have no intensity there, so what is compared with them is looked at nearer to the cores.

DRAM = "dram"
# Away from the cores first.
LEVELS = (DRAM, "l3", "l2", "l1")


def bytes_at(row: Row, level: str) -> float | None:
    """Bytes of a row at a level, None where they are not known."""
    value = row.get(f"byte/{level}")
    return None if value is None else float(value)


def intensity_at(row: Row, level: str) -> float | None:
    """FLOP per byte at a level, None where there are no bytes or an amount is not known."""
    work, moved = flops(row), bytes_at(row, level)
    return work / moved if work is not None and moved else None


def level_of(rows: Sequence[Row], among: Collection[str] = LEVELS) -> str:
    """The level nearest to DRAM at which every row moves bytes, else that of most rows.

    >>> warm, large = {"byte/dram": 0.0, "byte/l1": 8.0}, {"byte/dram": 4.0, "byte/l1": 9.0}
    >>> level_of([large]), level_of([warm, large])
    ('dram', 'l1')
    """
    counts = {
        level: sum((bytes_at(row, level) or 0.0) > 0 for row in rows)
        for level in LEVELS
        if level in among
    }
    # The first of equal ones is the one nearest to DRAM.
    return max(counts, key=lambda level: counts[level], default=DRAM)


def level_title(level: str) -> str:
    """A level as it is written.

    >>> level_title("l1"), level_title("dram")
    ('L1', 'DRAM')
    """
    return level.upper()


def level_note(rows: Sequence[Row], level: str) -> str:
    """Why bytes are those of a cache and not of DRAM; nothing where they are DRAM's."""
    if level == DRAM:
        return ""
    none = sum(bytes_at(row, DRAM) == 0 for row in rows)
    unknown = sum(bytes_at(row, DRAM) is None for row in rows)
    told = [
        f"{none} of {len(rows)} cases move none at DRAM (they stay in the caches)" if none else "",
        f"DRAM bytes of {unknown} of {len(rows)} cases are not known" if unknown else "",
    ]
    why = ", ".join(text for text in told if text)
    return f"Bytes and FLOP/B are those at {level_title(level)}: {why}."
