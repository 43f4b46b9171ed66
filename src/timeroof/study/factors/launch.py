"""Launch overhead: the same work in other numbers of launches.

The same LSTM runs as a Python loop over cells, as the fused layer, compiled, and on GPUs as a
graph: equal FLOPs, other launches, other time. Over all such groups

    time = (work of the group) + cost x launches

is fitted by least squares with one constant per group, so that only differences between ways of
running the same work tell the cost of a launch. Its interval holds both the samples' spread
(bootstrap) and how badly a line fits (Student's t on the residuals). Launching counts as found
where the cost is above 0 with 99 % certainty and takes a tenth of the time of some case or more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from timeroof.core.machine import Machine
from timeroof.core.units import format_percent, format_seconds
from timeroof.model import stats
from timeroof.model.stats import Samples, student_quantile
from timeroof.study.case import Case
from timeroof.study.factors.conclusion import (
    INCONCLUSIVE,
    Bar,
    Conclusion,
    Effect,
    Facts,
    compared,
    leading,
    settle,
    times,
    undecided,
)
from timeroof.study.grid import DesignOptions
from timeroof.study.judged_cases import Row, group_titles, groups, ops

VARIANTS = ("cell-loop", "cell-loop-compile", "eager", "fused", "compile", "graph")
# Forms that exist to change the number of launches; without one, a group compares something else.
SPLIT = ("cell-loop", "cell-loop-compile", "graph")
# Work counts as equal within this; forms of one layer differ by a bias or a copy.
SAME_WORK = 1.05
# A share of the time below this is not what a program waits for.
WORTH_SHARE = 0.1
# Launches that differ by less say nothing of their cost.
FEWEST_MORE = 2.0
SMALLEST_SPREAD = 0.02
# What a form is called in a sentence.
FORMS = {
    "cell-loop": "a loop of cells",
    "cell-loop-compile": "a loop of compiled cells",
    "eager": "one fused layer",
    "compile": "compiled code",
    "graph": "a CUDA graph",
}
# PyTorch's recurrent layers have these; everything else, and every other framework, has its own.
RECURRENT = ("lstm", "gru", "rnn")
OTHER_FORMS = {
    "eager": "single ops", "graph": "a graph", "session": "a session",
    **dict.fromkeys(("compile", "compiled", "xla"), "compiled code"),
}  # fmt: skip
ACTION = "Fewer, larger launches: fused layers, compiled code, or a graph on a GPU."


def design(options: DesignOptions) -> list[Case]:
    """One small LSTM in every form, over a few numbers of time steps."""
    skipped = ("fused", "graph") if options.device == "cpu" else ("fused",)
    variants = [v for v in VARIANTS if v not in skipped]
    if options.quick:
        variants = [v for v in variants if not v.endswith("compile")]
    return options.cases("lstm", {"time_steps": [16, 32, 64]}, variants=variants)


class LaunchFit(NamedTuple):
    """The fitted cost of a launch in seconds, its interval, and the share of variance explained."""

    cost_s: float
    low_s: float
    high_s: float
    explained: float
    # Below the cost with the certainty that a claim needs.
    sure_s: float


class WorkGroup(NamedTuple):
    """The same work in two or more ways of running it."""

    title: str
    rows: list[Row]


def work_groups(rows: Sequence[Row], tells: Callable[[Row], bool] | None = None) -> list[WorkGroup]:
    """Rows of equal work and other launches: those that `tells` chooses, or that may be fitted."""
    found = []
    for op in ops(rows):
        for members in groups(rows, op, "variant"):
            known = _equal_work([row for row in members if (tells or _tells)(row)])
            counts = [_count(row) for row in known]
            if not any(row.variant in SPLIT for row in known):
                continue
            if len(known) > 1 and max(counts) / min(counts) >= FEWEST_MORE:
                found.append(known)
    titles = group_titles(found, "variant")
    return [WorkGroup(title, known) for title, known in zip(titles, found, strict=True)]


def _count(row: Row) -> float:
    return row.launches or 0.0


def _is_form(row: Row) -> bool:
    return row.variant in VARIANTS and bool(row.launches)


def _tells(row: Row) -> bool:
    alone = not row.busy or row.timed_alone
    return _is_form(row) and alone and len(row.samples) >= stats.FEWEST_SAMPLES


def _equal_work(members: list[Row]) -> list[Row]:
    """Those whose FLOPs agree with the smallest that are known; unknown FLOPs are not equal."""
    known = [row for row in members if row.defined_flops]
    least = min((row.defined_flops or 0.0 for row in known), default=0.0)
    return [row for row in known if (row.defined_flops or 0.0) <= least * SAME_WORK]


def fit_launches(members: Sequence[WorkGroup]) -> LaunchFit | None:
    """The cost per launch over all groups; None where there is nothing to fit. Times scatter in
    proportion to their size: a case weighs by the inverse of its variance."""
    rows = [row for group in members for row in group.rows]
    freedom = len(rows) - len(members) - 1
    if freedom < 1:
        return None
    group_of = np.repeat(np.arange(len(members)), [len(group.rows) for group in members])
    drawn = np.array([stats.resampled_medians(row.samples, i) for i, row in enumerate(rows)])
    weights = np.array([_weight(row) for row in rows])
    counts, times = np.array([[_count(row), row.time_s] for row in rows]).T
    x, y = (_centred(values, group_of, weights) for values in (counts, times))
    square = float((weights * x**2).sum())
    cost = float((weights * x * y).sum()) / square
    moved = _centred(drawn, group_of, weights)
    slopes = ((weights * x)[:, None] * moved).sum(axis=0) / square
    rest = float((weights * (y - cost * x) ** 2).sum())
    error = math.hypot(float(slopes.std()), math.sqrt(rest / freedom / square))
    error *= stats.WIDER_BESIDE_OTHERS if any(row.busy for row in rows) else 1.0
    wide = student_quantile(freedom, stats.CONFIDENCE) * error
    total = float((weights * y**2).sum())
    explained = 1 - rest / total if total > 0 else 0.0
    sure_s = cost - student_quantile(freedom, 1 - 2 * stats.ALPHA) * error
    return LaunchFit(cost, cost - wide, cost + wide, explained, sure_s)


def _weight(row: Row) -> float:
    spread = max(SMALLEST_SPREAD, stats.deviation(stats.positive(row.samples)))
    return float(1 / (spread * row.time_s) ** 2)


def _centred(values: Samples, group_of: NDArray[np.int64], weights: Samples) -> Samples:
    every = range(int(group_of.max()) + 1)
    means = np.stack(
        [np.average(values[group_of == g], axis=0, weights=weights[group_of == g]) for g in every]
    )
    centred: Samples = values - means[group_of]
    return centred


def _start_s(group: WorkGroup, fit: LaunchFit) -> float:
    left = [row.time_s - fit.cost_s * _count(row) for row in group.rows]
    return float(np.average(left, weights=[_weight(row) for row in group.rows]))


def conclude(rows: Sequence[Row], machine: Machine | None) -> Conclusion | None:
    """The cost of a launch; None where no work ran in several numbers of launches."""
    members = work_groups(rows)
    fit = fit_launches(members) if members else None
    if fit is None:
        return _nothing_to_fit(work_groups(rows, _is_form))
    every = [row for group in members for row in group.rows]
    effects = settle([_most_against_fewest(group) for group in members])
    lead = leading(effects)
    heaviest = max(every, key=lambda row: _count(row) / row.time_s)
    share = fit.cost_s * _count(heaviest) / heaviest.time_s
    t0 = machine.launch_overhead_s if machine else None
    found = fit.sure_s > 0 and share >= WORTH_SHARE
    if lead is not None and lead.beside_others:  # a slope needs more than neighbours leave
        found = lead.verdict == "slower"
    cost = format_seconds(fit.cost_s, 2)
    interval = f"{format_seconds(fit.low_s, 2)} to {format_seconds(fit.high_s, 2)}"
    basis = f"{len(every)} cases in {len(members)} group{'s' * (len(members) > 1)} of equal work"
    if found:
        points = [
            _largest_gain(members),
            f"Over {basis} a launch costs {cost} (95 %: {interval}). This explains"
            f" {format_percent(max(0.0, fit.explained))} of the differences in time.",
            f"Launching is up to {format_percent(min(share, 1.0))} of a case ({heaviest.variant},"
            f" {heaviest.launches:.0f} launches).",
            _against_machine(fit, t0),
        ]
        if fit.sure_s <= 0:  # the forms differ, and too few cases tell by how much per launch
            points[1:] = [
                f"Over {basis} the cost of a launch cannot be distinguished from 0"
                f" (95 %: {interval})."
            ]
    else:
        why = "It is real but below a tenth of the time of every case."
        if fit.sure_s <= 0:
            why = "It cannot be distinguished from 0."
        points = [f"Over {basis} the fitted cost per launch is {cost} (95 %: {interval}). {why}"]
    decided = found or lead is None or undecided(lead) is None
    return Conclusion(
        "launch",
        found,
        _sentence(lead, cost, found=found),
        points,
        effects,
        [row.id for row in every],
        _facts(members, fit, share, t0),
        ACTION if found else None,
        lead=lead,
        bars=_bars(lead),
        open_because=None if decided or lead is None else undecided(lead),
    )


def _most_against_fewest(group: WorkGroup) -> Effect | None:
    few, many = (pick(group.rows, key=_count) for pick in (min, max))
    facts = {
        "launches": [few.launches, many.launches],
        "time_s": [few.time_s, many.time_s],
        "forms": [_form(few), _form(many)],
    }
    return compared(group.title, (few.variant, few), (many.variant, many), facts)


def _form(row: Row) -> str:
    fused = row.op in RECURRENT and row.framework not in ("jax", "tensorflow")
    return (FORMS if fused else OTHER_FORMS).get(row.variant, row.variant)


def _sentence(lead: Effect | None, cost: str, *, found: bool) -> str:
    if lead is None or (found and lead.verdict == "unclear"):
        return f"Each launch costs {cost}." if found else "No cost per launch was found."
    if lead.verdict == "unclear":
        return INCONCLUSIVE
    few, many = (f"{n:.0f}" for n in lead.facts["launches"])
    op, form = lead.group.split()[0], lead.facts["forms"][-1]
    op = op.upper() if op in RECURRENT else op
    if lead.verdict == "same" or not found:
        return f"{op} as {form} takes {times(lead.ratio.value)} as long, {many} launches or {few}."
    return (
        f"{op} as {form} makes {many} launches instead of {few} and takes"
        f" {times(lead.ratio.value)} as long."
    )


def _bars(lead: Effect | None) -> list[Bar]:
    if lead is None:
        return []
    facts = lead.facts
    return [
        Bar(f"{form}, {count:.0f} launches", s, format_seconds(s))
        for form, count, s in zip(facts["forms"], facts["launches"], facts["time_s"], strict=True)
    ]


def _nothing_to_fit(members: Sequence[WorkGroup]) -> Conclusion | None:
    every = [row for group in members for row in group.rows]
    lost = sum(row.busy for row in every)
    why = "too few cases have both samples and a count of launches"
    if lost:
        why = f"other programs used the processor while {lost} of {len(every)} cases ran"
    points = [f"No line can be fitted, because {why}."]
    return (
        Conclusion(
            "launch",
            False,
            INCONCLUSIVE,
            points,
            kernels=[row.id for row in every],
            open_because=why,
        )
        if every
        else None
    )


def _against_machine(fit: LaunchFit, t0: float | None) -> str:
    if t0 is None:
        return "The machine's own cost of a launch is not known."
    more = fit.cost_s / t0
    if more < 1.5:
        return f"That is the machine's own cost of a launch ({format_seconds(t0, 2)})."
    return (
        f"The machine needs at least {format_seconds(t0, 2)} per launch; the other"
        f" {times(more - 1)} of that are the framework's and Python's."
    )


def _largest_gain(members: Sequence[WorkGroup]) -> str:
    ends = [(max(g.rows, key=_count), min(g.rows, key=_count), g.title) for g in members]
    many, few, title = max(ends, key=lambda end: end[0].time_s / end[1].time_s)
    return (
        f"The same work in {many.launches:.0f} launches ({many.variant}) instead of"
        f" {few.launches:.0f} ({few.variant}) takes {times(many.time_s / few.time_s)} as long"
        f" ({title})."
    )


def _facts(members: Sequence[WorkGroup], fit: LaunchFit, share: float, t0: float | None) -> Facts:
    return {
        "cost_per_launch_s": fit.cost_s,
        "cost_interval_s": [fit.low_s, fit.high_s],
        "explained_share": round(fit.explained, 4),
        "largest_share_of_time": round(share, 4),
        "machine_launch_s": t0,
        "groups": [
            {
                "title": g.title,
                "start_s": _start_s(g, fit),
                "variants": [row.variant for row in g.rows],
                "launches": [row.launches for row in g.rows],
                "time_s": [row.time_s for row in g.rows],
                "quartiles_s": [np.quantile(row.samples, (0.25, 0.75)).tolist() for row in g.rows],
            }
            for g in members
        ],
    }
