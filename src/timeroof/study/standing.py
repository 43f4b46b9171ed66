"""Where the paper's two kernels stand on this machine beside its V100, and how far to trust it.

The paper's numbers beside a study's: a few words per factor, from the published rows.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from timeroof.core.machine import Machine
from timeroof.core.report import Finding
from timeroof.core.units import format_amount, format_percent, format_seconds
from timeroof.paper import BASE_CASE
from timeroof.paper.build import build_paper
from timeroof.study.czaja import CODE as UTILISATION
from timeroof.study.factors.conclusion import Conclusion, times
from timeroof.study.factors.published import paper_findings, published_cases
from timeroof.study.judged_cases import Row, limiter_words, threads_words

FRAMEWORK = "PT"


@cache
def paper_rows() -> tuple[Row, ...]:
    """The published passes as cases of a study."""
    return tuple(published_cases(build_paper().rows))


@cache
def _findings() -> dict[str, Finding]:
    report = build_paper()
    assert report.machine is not None
    return {f.code.partition("/")[2]: f for f in paper_findings(report.rows, report.machine)}


def paper_case(op: str, **changed: object) -> Row | None:
    """The authors' forward pass in PyTorch, FP32, of a kernel; None where they have none."""
    wanted = BASE_CASE.get(op, {}) | changed
    return next(
        (
            row
            for row in paper_rows()
            if (row.op, row.framework, row.precision, row.pass_name)
            == (op, FRAMEWORK, "fp32", "forward")
            and row.params == wanted
        ),
        None,
    )


def paper_words(conclusion: Conclusion) -> str | None:
    """What the authors' numbers say of a factor, in a few words.

    >>> from timeroof.study.factors.conclusion import Conclusion
    >>> paper_words(Conclusion("autotune", True, "", []))
    'V100: up to 4.9×'
    """
    words = {
        "intensity": _intensity,
        "locality": _locality,
        "autotune": _autotune,
        "launch": _launch,
        "precision": _precision,
    }[conclusion.factor](conclusion)
    return f"V100: {words}" if words else None


def _intensity(conclusion: Conclusion) -> str | None:
    pair = conclusion.facts.get("pair")
    ends = (
        [paper_case(pair["kernel"], **{pair["parameter"]: value}) for value in pair["values"]]
        if pair
        else []
    )
    if len(ends) < 2 or ends[0] is None or ends[1] is None:
        return None
    poor, rich = ends[0], ends[1]
    work = (rich.flops or math.nan) / (poor.flops or math.nan)
    return f"{times(work)} the work in {times(rich.time_s / poor.time_s)} the time"


def _locality(conclusion: Conclusion) -> str | None:
    found = _findings()["locality"].evidence["time_ratio"]
    values = sorted(found) if isinstance(found, list) else sorted(found.values())
    # The authors compared frameworks, and neither layouts within one nor cold caches.
    other = "" if conclusion.lead is None or conclusion.lead.kind == "layout" else "not measured; "
    return f"{other}conv2d in TensorFlow, with layout kernels, takes {_span(values)} PyTorch's time"


def _autotune(conclusion: Conclusion) -> str | None:
    return f"up to {times(_findings()['autotune'].evidence['time_ratio'])}"


def _launch(conclusion: Conclusion) -> str | None:
    machine = build_paper().machine
    spans = _findings()["launch"].evidence["overhead_share"]
    shares = [v for name, span in spans.items() if name.startswith("lstm") for v in span]
    each = format_seconds(machine.launch_overhead_s, 2) if machine else "?"
    low, high = (f"{100 * share:.0f}" for share in (min(shares), max(shares)))
    return f"{each} per launch, {low}–{high} % of an LSTM"


def _precision(conclusion: Conclusion) -> str | None:
    gain = _findings()["tensor-cores"].evidence["gain_where_used"]
    return f"FP16 is {_span(gain)} as fast on tensor cores"


def _span(values: list[float]) -> str:
    low, high = (f"{value:.1f}" for value in (min(values), max(values)))
    return f"{low}–{high}×"


NAMES = {"conv2d": "conv2d", "lstm": "LSTM"}
CASES = {
    "conv2d": "112×112×64, 3×3, 64 filters, batch 16",
    "lstm": "16 steps, 32 → 16, batch 16",
}
# What a limit means where its name alone does not say it.
EXPLAINED = {
    "fault": "Page faults: the result is written to memory that the program has not touched before,"
    " and the system must map and clear each page first. Reuse result tensors or use huge pages."
}


class Standing(NamedTuple):
    """A kernel of the paper here: its row, and the authors'."""

    op: str
    row: Row
    paper: Row

    @property
    def times(self) -> float:
        """Its time over the V100's."""
        return self.row.time_s / self.paper.time_s

    @property
    def sentence(self) -> str:
        """Time, ratio, limit and share of the bound.

        Seconds of other threads or clocks are no other kernel: they are said beside the time.
        """
        share = self.row.efficiency
        reached = f", reaching {format_percent(share)} of that limit" if share is not None else ""
        return (
            f"{format_seconds(self.row.time_s)}, {times(self.times)} the V100's"
            f" {format_seconds(self.paper.time_s)}, limited by"
            f" {limiter_words(self.row.limiter)}{reached}."
        )

    def finding(self) -> Finding:
        """The same as a finding of a report."""
        row = self.row
        return Finding(
            code=f"study/{self.op}",
            title=f"{NAMES[self.op]}: {self.sentence}",
            why=f"Forward pass, FP32, {CASES[self.op]}, {threads_words(row)}.",
            kernels=[row.id],
            evidence={
                "time_s": row.time_s,
                "paper_time_s": self.paper.time_s,
                "times_the_paper": self.times,
                "limiter": row.limiter,
                "bound_s": row.bound_s,
                "share_of_bound": row.efficiency,
                "threads": row.threads,
                "clock": row.clock,
                "load": row.load,
            },
        )


def standings(rows: Sequence[Row]) -> list[Standing]:
    """The paper's kernels in their base case, forward in FP32, as far as they were measured."""
    found = []
    for op, case in BASE_CASE.items():
        plain = [row for row in rows if row.op == op and _is_plain(row)]
        base = [
            row
            for row in plain
            if case.items() <= row.params.items() and row.params.get("layout") != "channels_last"
        ]
        paper = paper_case(op)
        if base and paper is not None:
            # Most threads, unless other programs are in their seconds.
            best = max(base, key=lambda row: (not row.disturbed, row.threads or 0))
            found.append(Standing(op, best, paper))
    return found


def _is_plain(row: Row) -> bool:
    how = (row.pass_name, row.precision, row.variant, row.cache)
    if row.framework not in ("torch", ""):
        return False
    return how == ("forward", "fp32", "eager", "warm") and row.params.get("channels", 64) == 64


def machine_words(machine: Machine | None) -> str:
    """What the machine can do, in one line."""
    if machine is None:
        return "Unknown: this machine was not measured."
    roofs = machine.roofs()
    words = [
        f"{format_amount(roofs[name].rate, unit)} {word}"
        for name, word, unit in (
            ("flop/fp32", "FP32", "FLOP/s"),
            ("byte/dram", "DRAM", "B/s"),
        )
        if name in roofs
    ]
    if "launch" in roofs:
        words.append(f"{format_seconds(1 / roofs['launch'].rate, 2)} per op")
    cores = roofs["flop/fp32"].threads if "flop/fp32" in roofs else None
    of = f", {cores} core{'s' * (cores != 1)}" if cores else ""
    return f"{machine.device}{of}: {', '.join(words)}."


def load_of(rows: Sequence[Row]) -> float | None:
    """The share of the processor that others used beside busy cases, None where it was quiet."""
    loads = [row.load or 0.0 for row in rows if row.busy]
    return statistics.median(loads) if loads else None


def trust_words(
    rows: Sequence[Row], findings: Sequence[Finding], machine: Machine | None = None
) -> str:
    """What is not to be trusted, and why; what stayed open comes last."""
    load = load_of(rows)
    # A machine's notes say what disturbed its own measurement.
    roofs = machine is not None and any(note.startswith("other programs") for note in machine.notes)
    if load is None:
        spreads = [row.time_spread for row in rows if row.time_spread is not None]
        noise = (
            f": times vary by {format_percent(statistics.median(spreads), 2)}" if spreads else ""
        )
        words = [f"Nothing disturbed the run{noise} (median of {len(rows)} cases)."]
    else:
        alone = all(row.timed_alone for row in rows if row.busy)
        how = "Cases ran on 1 thread, in CPU time: directions hold, amounts mostly within 25 %."
        none = "Wall times are not the kernels' alone. Run it again with --fresh when it is quiet."
        words = [f"Other programs used {format_percent(load)} of the CPU.", how if alone else none]
    if roofs:
        words.append(
            "The roofs were measured beside other programs, so shares of the bound may be off."
        )
    opened = [f for f in findings if f.evidence.get("open_because")]
    if opened:
        texts = [
            f"{f.title.partition(':')[0].lower()} ({f.evidence['open_because']})" for f in opened
        ]
        words.append(f"Inconclusive: {'; '.join(texts)}.")
    return " ".join(words)


def summary_lines(
    rows: Sequence[Row], machine: Machine | None, findings: Sequence[Finding], page: str | None
) -> list[tuple[str, str]]:
    """The lines that a study ends with, what they are about before what they say."""
    lines = [("Machine", machine_words(machine))]
    lines += [(NAMES[s.op], s.sentence) for s in standings(rows)]
    lines += [("Utilisation", f.evidence["sentence"]) for f in findings if f.code == UTILISATION]
    for finding in findings:
        sentence = finding.evidence.get("sentence")
        if sentence and finding.evidence.get("concluded"):
            paper = finding.evidence.get("paper")
            beside = f" {paper}." if paper else ""
            lines.append((finding.title.partition(":")[0], f"{sentence}{beside}"))
    lines += [
        ("Frameworks", finding.evidence["across"])
        for finding in findings
        if finding.code == "study/launch/frameworks"
    ]
    # Of a user's function: the sweeps' own answer. The paper's kernels have their factors.
    own = [
        f for f in findings if f.code == "study/regimes" and ":" in f.title.partition(" over ")[0]
    ]
    lines += [(f.title.partition(": ")[0], f"{f.title.partition(': ')[2]}.") for f in own[:4]]
    lines.append(("Trust", trust_words(rows, findings, machine)))
    if page is not None:
        lines.append(("Page", page))
    return lines
