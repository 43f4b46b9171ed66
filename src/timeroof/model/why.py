"""Unfold every number of a judged row: formula, sizes, their source, ceiling, division.

Amounts come from `work.recorded`, which counts the row's call once more with named sizes; a
formula is shown only where it gives the row's own number. Everything else follows from columns
of the row by the divisions of `model.judge`, written here as formulas over those columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, cast

from timeroof.core.columns import BOUND, BYTE, COLUMNS, FLOP, ORIGIN, Number, Row, flop_columns
from timeroof.core.errors import UsageError
from timeroof.core.machine import DRAM, FAULT, LAUNCH, PIPES, Ceiling, is_resource, limiter_kind
from timeroof.core.profile import Profile
from timeroof.core.report import WHY_SCHEMA, Report, Why, WhyLine
from timeroof.core.units import format_percent, format_rate, format_seconds
from timeroof.model import bounds as of
from timeroof.work.families.hlo import INSTRUCTION
from timeroof.work.recorded import RecordedCall, derived_amounts, unknown_reason
from timeroof.work.traced import Written, evaluated

# A formula may differ from the row's number by rounding only.
ROUNDING = 1e-9
_COLUMNS = {c.name: c for c in COLUMNS}
COUNTERS = ("ncu", "nsight", "nvprof", "rocprof", "omniperf", "perf")


def why(report: Report, row_id: int) -> Why:
    """How every number of a row came about.

    Raises `UsageError` where no row has the id.
    """
    ids = report.rows["id"].to_list()
    if row_id not in ids:
        many = f"ids are 0 to {report.rows.height - 1}" if report.rows.height else "it has no rows"
        advice = f"{many}; the page and --json list them"
        raise UsageError(f"no row has the id {row_id}", advice=advice)
    row = report.rows.row(ids.index(row_id), named=True)
    lines = list(why_lines(report, row))
    return Why(
        schema=WHY_SCHEMA,
        id=row_id,
        **{c: row[c] for c in ("name", "short_name", "op", "module", "shape", "calls")},
        lines=lines,
        change=list(_changes(report, row)),
    )


def why_lines(report: Report, row: Row) -> Iterator[WhyLine]:
    """How the numbers of one of the report's rows came about, those that others follow from first.

    `why` without what would change them, for pages of many rows.
    """
    return _Unfolding(report, row).lines()


@cache
def variable(name: str) -> str:
    """A column's name as formulas have it.

    >>> variable("flop/fp16-tensor"), variable("bound.byte/dram"), variable("time_s")
    ('flops_fp16_tensor', 'bound_bytes_dram_s', 'time_s')
    """
    bound = name.startswith(BOUND)
    plain = name.removeprefix(BOUND).replace(FLOP, "flops_").replace(BYTE, "bytes_")
    word = "".join(c if c.isalnum() else "_" for c in plain)
    return f"bound_{word}_s" if bound else word


class _Unfolding:
    """The lines of one row."""

    def __init__(self, report: Report, row: Row) -> None:
        self.report, self.row = report, row
        self.profile: Profile = report.profile
        self.roofs: Mapping[str, Ceiling] = report.verdicts.roofs
        calls = cast("Mapping[int, RecordedCall]", self.profile.calls)
        self.recorded = calls.get(row["id"])
        self.variables: dict[str, Any] = {variable(name): value for name, value in row.items()}
        self.counted = self._counted()

    def lines(self) -> Iterator[WhyLine]:
        """All numbers, those that others follow from first."""
        yield from self._times()
        yield from self._amounts()
        yield from self._sums()
        yield from self._bounds()
        yield from self._verdicts()

    def _counted(self) -> dict[str, Written]:
        """Formulas of the row's amounts that give the row's numbers."""
        if self.recorded is None:
            return {}
        formulas = derived_amounts(self.recorded, self.row, self.report.machine)
        return {
            resource: formula
            for resource, formula in formulas.items()
            if is_close(self.row.get(resource), formula)
        }

    def _times(self) -> Iterator[WhyLine]:
        for name in ("calls", "launches"):
            yield self._given(name, self._tool())
        yield self._given("time_s", self._time_source())
        for name in ("timed_s", "exclusive_s", "alone_s", "idle_before_s", "time_spread"):
            if self.row[name] is not None:
                yield self._given(name, self._tool())
        formula = "time_s" if self.row["idle_before_s"] is None else "time_s + idle_before_s"
        yield self._worked("elapsed_s", formula)

    def _amounts(self) -> Iterator[WhyLine]:
        resources = [c for c in self.row if is_resource(c) and c != LAUNCH]
        for resource in (*resources, "contraction_flops", "padding_flops"):
            if self.row[resource] is None and resource == "padding_flops":
                continue
            yield self._amount(resource)

    def _amount(self, resource: str) -> WhyLine:
        value, unit = self.row[resource], _unit(resource)
        title = _resource_title(resource)
        if value is None:
            return WhyLine(
                name=resource, title=title, value=None, unit=unit, unknown=self._unknown(resource)
            )
        formula = self.counted.get(resource)
        return WhyLine(
            name=resource, title=title, value=value, unit=unit,
            formula=formula.text if formula else None,
            sizes=formula.sizes if formula else {},
            source=self._sizes_source() if formula else self._amount_source(resource),
        )  # fmt: skip

    def _sums(self) -> Iterator[WhyLine]:
        flops = flop_columns(list(self.row))
        names = " + ".join(variable(c) for c in flops)
        yield self._worked("total_flops", names or "0")
        padding = " - padding_flops" if self.row["padding_flops"] else ""
        yield self._worked("owed_flops", f"total_flops{padding}")
        yield self._worked("achieved_flop_per_s", "owed_flops / time_s")
        if DRAM in self.row:
            yield self._worked("achieved_byte_per_s", f"{variable(DRAM)} / time_s")
            yield self._worked("ai", f"owed_flops / {variable(DRAM)}")

    def _bounds(self) -> Iterator[WhyLine]:
        bounded = [
            c.removeprefix(BOUND) for c in self.row
            if c.startswith(BOUND) and (c.removeprefix(BOUND) in {*self.roofs, *PIPES})
        ]  # fmt: skip
        for resource in bounded:
            yield self._bound(resource)
        work = [r for r in bounded if r not in (FAULT, LAUNCH, *PIPES)]
        parts = [variable(f"{BOUND}{r}") for r in work if self._known(r)]
        yield self._worked("work_bound_s", _largest(parts))
        launching = variable(f"{BOUND}{LAUNCH}") if LAUNCH in bounded else None
        yield self._worked("overhead_time_s", launching)
        pipes = [variable(f"{BOUND}{p}") for p in PIPES if p in bounded and self._known(p)]
        yield self._worked("bound_s", self._whole_bound(FAULT in bounded, pipes))

    def _known(self, resource: str) -> bool:
        return self.row[f"{BOUND}{resource}"] is not None

    def _whole_bound(self, has_faults: bool, pipes: list[str]) -> str | None:
        """The bound as one formula; a vendor's percentages are in it where they settled it."""
        plain = self._bound_of_work(has_faults)
        if not pipes or self.row["bound_s"] is None:
            return plain
        known = Written(plain, self._sizes(plain, {})) if plain else None
        if known is not None and is_close(self.row["bound_s"], known):
            return plain
        return _largest([*([plain] if plain else []), *pipes])

    def _bound_of_work(self, has_faults: bool) -> str | None:
        fault = variable(f"{BOUND}{FAULT}") if has_faults and self._known(FAULT) else None
        work = "work_bound_s" if self.row["work_bound_s"] is not None else None
        launch = "overhead_time_s" if self.row["overhead_time_s"] is not None else None
        busy = [name for name in (work, fault) if name]
        if self.report.verdicts.asynchronous:
            return _largest([*busy, *([launch] if launch else [])])
        return " + ".join(part for part in (_largest(busy), launch) if part) or None

    def _bound(self, resource: str) -> WhyLine:
        name = f"{BOUND}{resource}"
        if resource in PIPES:
            title = f"bound by {_resource_title(resource)}"
            source = "the time at which the vendor's own throughput would be 100 %"
            return self._worked(name, variable(resource), title=title, source=source)
        ceiling = self.roofs[resource]
        amount = "launches" if resource == LAUNCH else variable(resource)
        owed = self.row["padding_flops"] and resource.startswith(FLOP)
        share = "·(1 - padding_flops / total_flops)" if owed else ""
        formula = f"{amount}{share} / rate"
        words = _resource_title(resource)
        return self._worked(
            name, formula, title=f"bound by {words}", more={"rate": ceiling.rate},
            source=self._ceiling_source(resource, ceiling),
        )  # fmt: skip

    def _verdicts(self) -> Iterator[WhyLine]:
        yield WhyLine(
            name="limiter", title="limiter", value=self.row["limiter"], source=self._limiter()
        )
        inside = self.row["inside_overhead_box"]
        gap = "max(elapsed_s - bound_s, 0)" if inside else "elapsed_s - bound_s"
        yield self._worked("gap_s", gap)
        yield self._worked("kernel_efficiency", "work_bound_s / time_s")
        yield self._worked("efficiency", "bound_s / elapsed_s")
        yield from self._coordinates()
        if self.row["above_roof"] is not None:
            excess = format_percent(self.row["kernel_efficiency"])
            yield WhyLine(
                name="above_roof", title="above roof", value=self.row["above_roof"],
                source=f"The time is shorter than the work bound ({excess} of it).",
            )  # fmt: skip

    def _coordinates(self) -> Iterator[WhyLine]:
        pair = self.report.verdicts.pair
        if pair is None:
            return
        for name, amount, resource in (
            ("compute_at_roof_s", "owed_flops", pair.compute),
            ("memory_at_roof_s", variable(pair.memory), pair.memory),
        ):
            ceiling = self.roofs.get(resource)
            if ceiling is not None and self.row[name] is not None:
                source = self._ceiling_source(resource, ceiling)
                more = {"rate": ceiling.rate}
                yield self._worked(name, f"{amount} / rate", more=more, source=source)
        if self.row["compute_time_s"] is None:
            return
        compute, memory = "compute_at_roof_s", "memory_at_roof_s"
        is_compute = self.row[compute] > self.row[memory]
        along = f"time_s·{memory} / {compute}" if is_compute else f"time_s·{compute} / {memory}"
        yield self._worked("compute_time_s", "time_s" if is_compute else along)
        yield self._worked("bandwidth_time_s", along if is_compute else "time_s")

    # One line

    def _given(self, name: str, source: str) -> WhyLine:
        column = _COLUMNS[name]
        value = self.row[name]
        unknown = None if value is not None else "the source does not tell it"
        return WhyLine(
            name=name, title=column.title, value=value, unit=column.unit,
            source=source if value is not None else None, unknown=unknown,
        )  # fmt: skip

    def _worked(
        self, name: str, formula: str | None, *, title: str | None = None,
        more: Mapping[str, Number] | None = None, source: str | None = None,
    ) -> WhyLine:  # fmt: skip
        """A number that follows from others of the row."""
        column = _COLUMNS.get(name)
        value = self.row[name]
        title = title or (column.title if column else name)
        unit = column.unit if column else "s"
        if value is None or formula is None:
            reason = self._missing(formula, more or {})
            return WhyLine(name=name, title=title, value=value, unit=unit, unknown=reason)
        sizes = self._sizes(formula, more or {})
        return WhyLine(
            name=name, title=title, value=value, unit=unit, formula=formula, sizes=sizes,
            source=source,
        )  # fmt: skip

    def _sizes(self, formula: str, more: Mapping[str, Number]) -> dict[str, Number]:
        """The numbers that a formula names."""
        held = self.variables
        named = ((n, more[n] if n in more else held.get(n, held)) for n in _names_in(formula))
        return {n: value for n, value in named if value is not held}

    # Words

    def _missing(self, formula: str | None, more: Mapping[str, Number]) -> str:
        """Why a number is unknown that follows from others."""
        if self.report.machine is None:
            return "no machine is known: name one with --machine"
        if formula is None:
            return "nothing that bounds it is known"
        values = {**self.variables, **more}
        lacking = [n for n in _names_in(formula) if values.get(n) is None]
        if lacking:
            return f"{' and '.join(lacking)} {'is' if len(lacking) == 1 else 'are'} unknown"
        if self.row["limiter"] == of.UNKNOWN:
            return "the limiter is unknown, so that nothing is claimed"
        return "it would be divided by 0"

    def _tool(self) -> str:
        source = self.profile.source
        version = f" {source.version}" if source.version else ""
        return f"recorded by {source.tool}{version}"

    def _time_source(self) -> str:
        origin = self.row.get(f"{ORIGIN}time") or "measured"
        calls = self.row["calls"]
        over = "one call" if calls == 1 else f"{calls:,.6g} calls"
        return f"{origin}: {self._tool()}, sum over {over}"

    def _sizes_source(self) -> str:
        """Where the sizes in a formula are from."""
        op = self.recorded.call.op if self.recorded is not None else ""
        if self.row.get(f"{ORIGIN}flops") == "inferred" or self.row.get("label.inferred"):
            return (
                f"sizes of {op}, inferred from the kernel's name, grid and like kernels"
                f" ({self._tool()})"
            )
        if op == INSTRUCTION:
            return f"sizes in the compiled program (HLO), {self._tool()}"
        return f"sizes of the call of {op}, {self._tool()}"

    def _amount_source(self, resource: str) -> str:
        origin = self.row.get(_origin_of(resource))
        if self.row[resource] == 0 and origin != "measured":
            return "the row does none of it"
        words = {
            "measured": "measured by counters",
            "counted": "counted from the shapes of its calls, which differ",
            "modelled": "modelled: what an ideal cache must move, or what the op's kind implies",
            "inferred": "inferred from the kernel's name and grid",
            "user": "stated by the user",
            "published": "published",
        }
        return f"{words.get(origin or '', 'stated by the source')}; {self._tool()}"

    def _unknown(self, resource: str) -> str:
        """Why an amount is unknown."""
        if self.row["kind"] == "copy" and resource.startswith(("byte/", "link/")):
            return "the file does not say how much is copied, or between which memories"
        if self.recorded is not None:
            together = "the op's work belongs to its kernels together; this part is not known"
            said = unknown_reason(self.recorded) or together
            # An op around a collective (record_param_comms) is nothing to state a cost of.
            if self.row["kind"] != "collective" or not said.startswith("no formula"):
                return said
        row, tool = self.row, self.profile.source.tool.lower()
        reasons = (
            (any(word in tool for word in COUNTERS),
             f"the file has no counter for {_resource_title(resource)}"),
            (row["kind"] == "collective",
             "the file does not say how many bytes the collective sends"),
            (row["op"] is None and row.get("label.link") == "graph",
             "no op is recorded for what a graph replays, so that its sizes are not known"),
            (row["op"] is None,
             "no op is recorded for this kernel, so that its sizes are not known"),
            (row["shape"] is None, f"no shapes are recorded for {row['op']}"),
        )  # fmt: skip
        formula = f"no formula counts it for {row['op']}"
        return next((words for holds, words in reasons if holds), formula)

    def _ceiling_source(self, resource: str, ceiling: Ceiling) -> str:
        machine = self.report.machine
        name = machine.name if machine is not None else "?"
        said = f" ({ceiling.source})" if ceiling.source else ""
        words = f"{format_rate(resource, ceiling.rate)} of {name}, {ceiling.origin}{said}"
        best = machine.achievable_rate(resource) if machine is not None else None
        if best is not None:
            words += (
                f"; {format_rate(resource, best.rate)} is the best published for real kernels"
                f" ({format_percent(best.rate / ceiling.rate)}; {best.source})"
            )
        if machine is not None and machine.emulated.get(resource):
            words += f"; emulated on {_resource_title(machine.emulated[resource])}"
        return words

    def _limiter(self) -> str:
        return limiter_words(self.report, self.row)


def _largest(names: Sequence[str]) -> str | None:
    """The largest of some numbers as a formula."""
    if len(names) < 2:
        return names[0] if names else None
    return f"max({', '.join(names)})"


def limiter_words(report: Report, row: Row) -> str:
    """Why a row has its limiter, in one or two sentences."""
    limiter = row["limiter"]
    bounds = known_bounds(row)
    if report.machine is None:
        return "No machine is known, so nothing is bounded."
    largest = bounds[0] if bounds else None
    share = ""
    if largest is not None and row["elapsed_s"]:
        share = format_percent(largest[1] / row["elapsed_s"])
    if limiter == of.UNKNOWN:
        if largest is None:
            return "No bound is known."
        known = row["total_flops"] is not None and row.get(DRAM) is not None
        what = "What the link takes is unknown" if known else "FLOPs or DRAM bytes are unknown"
        return (
            f"{what}, and the largest known bound"
            f" ({_resource_title(largest[0])}) explains only {share} of the time."
        )
    if limiter == "latency":
        cost_s = of.launch_cost_s(report.machine)
        per = f" A launch costs {format_seconds(cost_s)}." if cost_s else ""
        return f"Neither launching nor its work explains the time: at most {share}.{per}"
    if largest is None or limiter not in dict(bounds):
        return "The source says so."
    return f"The bound by {_resource_title(limiter)} is the largest: {share} of the elapsed time."


def known_bounds(row: Row) -> list[tuple[str, float]]:
    """The bounds of a row by resource, largest first."""
    found = {c.removeprefix(BOUND): v for c, v in row.items() if c.startswith(BOUND) and v}
    return sorted(found.items(), key=lambda item: -item[1])


_CHANGES = {
    "compute": "fewer FLOPs, or a faster unit (a narrower number format)",
    "memory": "fewer bytes (fusion, a narrower number format), or data that stay in a cache",
    "launch": "fewer launches (fusion, graphs), or more work in each",
    "fault": "memory that is reused, or huge pages",
    "link": "fewer bytes over the link, or communication beside computation",
    "latency": "more work per kernel: nothing else in it is the limit",
    "unknown": "recording what is unknown: shapes, counters or a stated cost",
}


def _changes(report: Report, row: Row) -> Iterator[str]:
    """What would make the row faster, and how far."""
    if report.machine is None:
        yield "A machine: --machine gives every bound."
        return
    kind = limiter_kind(row["limiter"])
    yield f"It changes with {_CHANGES[kind]}."
    bounds = [b for b in known_bounds(row) if b[0] != row["limiter"]]
    if row["gap_s"] and row["gap_s"] > 0:
        yield (
            f"A better kernel for the same work saves at most {format_seconds(row['gap_s'])}"
            f" of {format_seconds(row['elapsed_s'])}."
        )
    best = report.machine.achievable_rate(row["limiter"])
    rate = row["achieved_flop_per_s"] if kind == "compute" else row["achieved_byte_per_s"]
    if best is not None and rate:
        yield (
            f"It reaches {format_percent(rate / best.rate)} of the best rate published for real"
            f" kernels on this device ({format_rate(row['limiter'], best.rate)})."
        )
    if kind in ("compute", "memory", "launch", "fault", "link") and bounds:
        resource, seconds = bounds[0]
        yield f"The next bound is that by {_resource_title(resource)}, {format_seconds(seconds)}."


def is_close(value: Number | None, formula: Written) -> bool:
    """Whether a formula gives a row's own number."""
    if value is None:
        return False
    found = evaluated(formula.text, formula.sizes)
    return math.isclose(found, value, rel_tol=ROUNDING, abs_tol=ROUNDING)


@cache
def _names_in(formula: str) -> tuple[str, ...]:
    words = "".join(c if c.isalnum() or c == "_" else " " for c in formula).split()
    named = (w for w in words if not w[0].isdigit() and w not in ("max", "min"))
    return tuple(dict.fromkeys(named))


def _unit(resource: str) -> str:
    head = resource.split("/", maxsplit=1)[0]
    units = {"flop": "FLOP", "byte": "B", "link": "B", "fault": "pages", "pipe": "s"}
    return units.get(head, "FLOP")


def _origin_of(resource: str) -> str:
    head, _, tail = resource.partition("/")
    return f"{ORIGIN}{head}s/{tail}" if head in ("byte", "link") else f"{ORIGIN}flops"


def _resource_title(resource: str) -> str:
    """A resource in words.

    >>> _resource_title("flop/fp16-tensor"), _resource_title("byte/dram"), _resource_title("fault")
    ('FP16 tensor FLOPs', 'DRAM bytes', 'page faults')
    """
    head, _, tail = resource.partition("/")
    if head == "flop":
        return f"{tail.upper().replace('-TENSOR', ' tensor')} FLOPs"
    if head == "byte":
        return f"{tail.upper()} bytes"
    if head == "pipe":
        return f"{tail} throughput"
    if head == "link":
        return f"{tail} bytes"
    named = {FAULT: "page faults", LAUNCH: "launching"}
    return named.get(resource) or resource.replace("_", " ").replace("flops", "FLOPs")
