"""Arithmetic intensity: what a parameter does to work, intensity, bound and time.

Along each sweep the exponents of FLOPs, bytes, intensity, bound and time over the parameter are
fitted (time ~ value^e, least squares of logarithms). A parameter moves *along the roof* where
intensity stays and time follows the work; it *changes intensity* where FLOP per byte move.
Intensity counts as a cause of time only where memory limits the poorer end, the rate (FLOP/s) moves
with intensity beyond the spread, and time follows the bound: where launching hides the work, or
compute limits throughout, FLOP per byte may move without any second moving with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from timeroof.core.machine import Machine, limiter_kind
from timeroof.model.stats import CONFIDENCE, Samples, resampled_medians
from timeroof.study.case import Case
from timeroof.study.factors.conclusion import (
    INCONCLUSIVE,
    Bar,
    Conclusion,
    Effect,
    Facts,
    compared,
    digits,
    leading,
    settle,
    times,
    undecided,
)
from timeroof.study.grid import DesignOptions
from timeroof.study.judged_cases import DRAM, Row, Sweep, level_of, limiter_words, ops, sweeps

# Intensity that moves by less than this over a whole sweep stays where it is.
MOVES = 1.15
# Seconds that grow by at least this power of the bound follow it.
FOLLOWS = 0.5
KERNELS = ("conv2d", "lstm")
# Sweeps that the sentence is about, if they decide anything.
FIRST = (("conv2d", "kernel"), ("conv2d", "filters"))


def design(options: DesignOptions) -> list[Case]:
    """One parameter at a time around the base case, forward passes of the paper's two kernels."""
    kernels = [k for k in options.kernels if k in KERNELS] or KERNELS
    return [case for kernel in kernels for case in options.cases(kernel, None, quick=options.quick)]


@dataclass(frozen=True)
class Movement:
    """How far a sweep moves everything, first value to last; exponents over the parameter."""

    sweep: Sweep
    ai: tuple[float, float]
    flops_ratio: float
    limiters: tuple[str, str]
    exponents: dict[str, float]
    # Power of the work's bound that time follows, with its interval; None where the bound stays.
    follows: tuple[float, float, float] | None
    # The level of memory whose bytes intensity is over.
    level: str = DRAM

    @property
    def ai_ratio(self) -> float:
        """Intensity of the last value over that of the first."""
        return self.ai[1] / self.ai[0]

    @property
    def moves_intensity(self) -> bool:
        """Whether intensity moves at all."""
        return abs(math.log(self.ai_ratio)) > math.log(MOVES)

    @property
    def moves_work(self) -> bool:
        """Whether the work moves: nearly equal shapes are no sweep of it."""
        return abs(math.log(self.flops_ratio)) > math.log(MOVES)


def conclude(rows: Sequence[Row], machine: Machine | None) -> Conclusion | None:
    """What the sweeps say; None where no numeric parameter was swept with known amounts."""
    every = [s for op in ops(rows) for s in sweeps(rows, op) if _is_numeric(s)]
    found = [m for s in every if (m := movement(s)) is not None]
    moved = [m for m in found if m.moves_intensity or m.moves_work]
    if not moved:
        return None
    ordered = sorted((m for m in moved if m.moves_intensity), key=_preference)
    pairs = [(m, e) for m in ordered if (e := _rate_effect(m)) is not None]
    effects = settle([e for _, e in pairs])
    causes = [(m, e) for m in moved for e in effects if _is_cause(m, e)]
    lead = leading(effects)
    about = next((m for (m, _), e in zip(pairs, effects, strict=True) if e is lead), None)
    return Conclusion(
        "intensity",
        bool(causes),
        _sentence(about, lead, moved),
        _points(moved, [(m, e) for (m, _), e in zip(pairs, effects, strict=True)]),
        effects,
        [r.id for m in moved for r in m.sweep.rows],
        {"sweeps": [_facts(m) for m in moved], "pair": _pair_facts(about)},
        always=(*_level_points(moved), *_untold(every, found, moved)),
        lead=lead,
        bars=_bars(about),
        open_because=None if lead is None else undecided(lead),
    )


def _preference(m: Movement) -> tuple[int, float]:
    """The paper's convolution and its size of filters first; then whatever moves most."""
    place = (m.sweep.op, m.sweep.parameter)
    rank = FIRST.index(place) if place in FIRST else len(FIRST)
    return rank, -abs(math.log(m.ai_ratio))


def _ends(m: Movement) -> tuple[Row, Row]:
    """The end with fewer FLOP per byte, and the one with more."""
    rows = m.sweep.rows
    return (rows[0], rows[-1]) if m.ai_ratio > 1 else (rows[-1], rows[0])


def _pair_facts(m: Movement | None) -> Facts | None:
    """What the sentence is about, for a script and for the paper's numbers beside it."""
    if m is None:
        return None
    poor, rich = _ends(m)
    return {
        "kernel": m.sweep.op,
        "parameter": m.sweep.parameter,
        "values": [poor.params[m.sweep.parameter], rich.params[m.sweep.parameter]],
        "work_ratio": digits((rich.flops or math.nan) / (poor.flops or math.nan)),
        "time_ratio": digits(rich.time_s / poor.time_s),
        "limiters": [poor.limiter, rich.limiter],
    }


def value_words(parameter: str, value: object) -> str:
    """A value of a parameter as the subject of a sentence.

    >>> value_words("kernel", 7), value_words("filters", 64), value_words("time_steps", 32)
    ('7×7 filters', '64 filters', 'time steps 32')
    """
    if parameter == "kernel":
        return f"{value}×{value} filters"
    return (
        f"{value} filters" if parameter == "filters" else f"{parameter.replace('_', ' ')} {value}"
    )


def _sentence(m: Movement | None, lead: Effect | None, moved: Sequence[Movement]) -> str:
    if m is None or lead is None:
        first = moved[0]
        return (
            f"{first.sweep.op} does {times(first.flops_ratio)} the work in"
            f" {times(first.sweep.time_ratio)} the time along {first.sweep.word}."
        )
    if lead.verdict == "unclear":
        return INCONCLUSIVE
    less, more = _by_work(m)
    name = m.sweep.parameter
    head, base = (value_words(name, row.params[name]) for row in (more, less))
    work = (more.flops or math.nan) / (less.flops or math.nan)
    subject = f"{head} do" if name in ("kernel", "filters") else f"{m.sweep.op} with {head} does"
    return (
        f"{subject} {times(work)} the work of {base} in"
        f" {times(more.time_s / less.time_s)} the time."
    )


def _by_work(m: Movement) -> list[Row]:
    """The ends with less and with more work: nobody does 0.12× the work."""
    return sorted(_ends(m), key=lambda row: row.flops or 0.0)


def _bars(m: Movement | None) -> list[Bar]:
    if m is None:
        return []
    less, more = _by_work(m)
    work = (more.flops or math.nan) / (less.flops or math.nan)
    values = {"work": work, "time": more.time_s / less.time_s}
    return [Bar(name, value, times(value)) for name, value in values.items()]


def _is_numeric(sweep: Sweep) -> bool:
    numbers = [v for v in sweep.values if isinstance(v, int | float) and not isinstance(v, bool)]
    return len(numbers) == len(sweep.values) and min(numbers, default=0) > 0


def movement(sweep: Sweep) -> Movement | None:
    """A sweep's movement, None where the parameter is no number or amounts are not known."""
    level = level_of(sweep.rows)
    work = [row.flops or 0.0 for row in sweep.rows]
    traffic = [row.bytes_by.get(level) or 0.0 for row in sweep.rows]
    if not _is_numeric(sweep) or min(*work, *traffic) <= 0:
        return None
    x = np.log(np.array(sweep.values, dtype=np.float64))
    f, b = np.array(work), np.array(traffic)
    bound = np.array([row.work_bound_s or math.nan for row in sweep.rows])
    known = bool(np.isfinite(bound).all())
    times = np.array([row.time_s for row in sweep.rows])
    columns = {"flops": f, "bytes": b, "ai": f / b, "time": times}
    columns |= {"bound": bound} if known else {}
    return Movement(
        sweep=sweep,
        ai=(float(f[0] / b[0]), float(f[-1] / b[-1])),
        flops_ratio=float(f[-1] / f[0]),
        limiters=(str(sweep.rows[0].limiter), str(sweep.rows[-1].limiter)),
        exponents={name: _slope(x, np.log(column)) for name, column in columns.items()},
        follows=_follows(np.log(bound), sweep.rows) if known else None,
        level=level,
    )


def _level_points(moved: Sequence[Movement]) -> list[str]:
    names: dict[str, set[str]] = {}
    for m in (m for m in moved if m.level != DRAM):
        names.setdefault(m.sweep.op, set()).add(m.level.upper())
    return [
        f"{op}: intensity is per byte at {' or '.join(sorted(levels))}, because some cases stay in"
        " the caches."
        for op, levels in names.items()
    ]


def _untold(
    every: Sequence[Sweep], found: Sequence[Movement], moved: Sequence[Movement]
) -> list[str]:
    known, told = ({m.sweep.op for m in some} for some in (found, moved))
    swept = dict.fromkeys(s.op for s in every)
    reasons = {
        "FLOPs or bytes are not known": [op for op in swept if op not in known],
        "neither work nor intensity changes": [op for op in swept if op in known - told],
    }
    return [f"{' and '.join(names)}: {why}." for why, names in reasons.items() if names]


def _slope(x: Samples, y: Samples) -> float:
    centred = x - x.mean()
    return float((centred * (y - y.mean())).sum() / (centred**2).sum())


def _follows(log_bound: Samples, rows: Sequence[Row]) -> tuple[float, float, float] | None:
    """Slope of log time over log bound, and its interval from the samples."""
    if float(np.ptp(log_bound)) < math.log(MOVES):
        return None
    drawn = np.log([resampled_medians(row.samples, i) for i, row in enumerate(rows)])
    centred = log_bound - log_bound.mean()
    slopes = (centred[:, None] * (drawn - drawn.mean(axis=0))).sum(axis=0) / (centred**2).sum()
    low, middle, high = np.quantile(slopes, ((1 - CONFIDENCE) / 2, 0.5, (1 + CONFIDENCE) / 2))
    return float(low), float(middle), float(high)


def _rate_effect(m: Movement) -> Effect | None:
    name, rows = m.sweep.parameter, m.sweep.rows
    poor, rich = (rows[0], rows[-1]) if m.ai_ratio > 1 else (rows[-1], rows[0])
    facts = {"parameter": name, "poor_limiter": poor.limiter}
    title = f"{m.sweep.op} {rows[0].series()}: seconds per FLOP"
    ends = (poor.case([name]), poor), (rich.case([name]), rich)
    return compared(title, *ends, facts, per=lambda row: row.flops)


def _is_cause(m: Movement, effect: Effect) -> bool:
    ends = {m.sweep.rows[0].id, m.sweep.rows[-1].id}
    same = effect.facts["parameter"] == m.sweep.parameter and set(effect.kernels) == ends
    follows = m.follows is not None and m.follows[0] > FOLLOWS
    memory = limiter_kind(str(effect.facts["poor_limiter"])) == "memory"
    return same and follows and memory and effect.verdict == "faster"


def _points(moved: Sequence[Movement], effects: Sequence[tuple[Movement, Effect]]) -> list[str]:
    """A sentence per kernel and parameter, shared by its series; differences that count first."""
    by_name: dict[tuple[str, str], list[Movement]] = {}
    for m in moved:
        by_name.setdefault((m.sweep.op, m.sweep.parameter), []).append(m)
    known = {(m.sweep.op, m.sweep.parameter): e for m, e in effects if e.verdict != "unclear"}
    ordered = sorted(by_name, key=lambda name: name not in known or not known[name].real)
    return [_sweep_point(by_name[name], known.get(name)) for name in ordered]


def _sweep_point(members: Sequence[Movement], effect: Effect | None) -> str:
    m = members[0]
    values = m.sweep.values
    head = f"{m.sweep.op}, {m.sweep.word} {values[0]} to {values[-1]}:"
    time = _span([x.sweep.time_ratio for x in members])
    work = _span([x.flops_ratio for x in members])
    moving = [x for x in members if x.moves_intensity]
    ai = _span([x.ai_ratio for x in (moving or members)])
    changed = [x.limiters for x in members if x.limiters[0] != x.limiters[1]]
    limits = ""
    if changed:
        poor, rich = (limiter_words(name) for name in changed[0])
        limits = f" The limit changes from {poor} to {rich}."
    if not moving:
        stays = f"{_number_span([a for x in members for a in x.ai])} FLOP/B"
        return f"{head} {work} the work in {time} the time at {stays}. {_roof(m)}{limits}"
    gain = ""
    if effect is not None and effect.verdict == "same":
        gain = " Time per FLOP does not change beyond the spread."
    elif effect is not None:
        moves = "falls" if effect.ratio.value < 1 else "rises"
        gain = f" Time per FLOP {moves} to {times(effect.ratio.value)} at the higher intensity."
    return f"{head} {work} the work in {time} the time, {ai} the intensity.{gain}{limits}"


def _roof(m: Movement) -> str:
    exponent = m.exponents["time"] / m.exponents["flops"] if m.exponents["flops"] else math.nan
    if exponent > 0.8:
        return "Time grows with the work."
    return "Time grows less than the work, so overhead takes part of it."


def _number_span(values: Sequence[float]) -> str:
    texts = (f"{v:.0f}" if v >= 9.5 else f"{v:.2g}" for v in (min(values), max(values)))
    return " to ".join(dict.fromkeys(texts))


def _span(values: Sequence[float]) -> str:
    return f"{_number_span(values)}×"


def _facts(m: Movement) -> Facts:
    return {
        "kernel": m.sweep.op,
        "parameter": m.sweep.parameter,
        "series": m.sweep.rows[0].series(),
        "values": [str(v) for v in m.sweep.values],
        "ai": [digits(a) for a in m.ai],
        "level": m.level,
        "flops_ratio": digits(m.flops_ratio),
        "time_ratio": digits(m.sweep.time_ratio),
        "exponents": {name: round(e, 3) for name, e in m.exponents.items()},
        "time_follows_bound": None if m.follows is None else [round(v, 3) for v in m.follows],
        "limiters": list(m.limiters),
    }
