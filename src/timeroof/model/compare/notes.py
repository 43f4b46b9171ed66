"""What a reader of a comparison has to know: whether the two runs can be compared at all."""

from __future__ import annotations

from typing import get_args

import msgspec
import polars as pl

from timeroof.core.machine import Scope
from timeroof.core.report import Report
from timeroof.core.units import format_percent, format_seconds
from timeroof.model.compare.causes import AMOUNTS, BY_MODULE, BY_PART
from timeroof.model.judge import scope_for
from timeroof.model.stats import PairedRuns

# Below this share of the time matched kernel by kernel a run may be compiled.
SAME_KERNELS = 0.5
# Below this share of either run's time, and of the rows, in layers, shapes or numbers of calls that
# both runs have, they are taken for different programs: an `aten::add_` alone is in all of them.
SAME_PROGRAM = 0.25
# Parts of the program compared as a whole are worth a word from this share on.
WORTH_A_WORD = 0.1
# Kernels that one run calls so many times more often were seen for longer, or do other work.
CALLS_DIFFER = 1.2
STRICT = "name kind op module shape dtype phase labels rank"


def matched_share(pairs: pl.DataFrame) -> float | None:
    """Share of both runs' seconds in rows that were matched as kernels; None without seconds."""
    seconds = pl.col("a.elapsed_s") + pl.col("b.elapsed_s")
    whole = float(pairs.select(seconds.sum()).item())
    both = (pl.col("a.elapsed_s") > 0) & (pl.col("b.elapsed_s") > 0)
    matched = pairs.filter(~pl.col("matched_by").is_in(BY_PART) & both)
    return float(matched.select(seconds.sum()).item()) / whole if whole > 0 else None


class InCommon(msgspec.Struct, frozen=True):
    """What two runs have in common: layers, shapes or numbers of calls, not only names of ops.

    `rows` are in both, `a_rows` and `b_rows` in each; `share` is that of the run's time which
    shares less.
    """

    rows: int
    a_rows: int
    b_rows: int
    share: float

    @property
    def is_same_program(self) -> bool:
        """Whether both look like one program: a slow loop that was mended takes nearly all of the
        time, but the rest of the program is as it was."""
        fewer = min(self.a_rows, self.b_rows)
        return max(self.share, self.rows / fewer if fewer else 0.0) >= SAME_PROGRAM


def in_common(a: Report, b: Report, pairs: pl.DataFrame) -> InCommon | None:
    """What matched rows of two runs have in common; None where one has no seconds."""
    seconds = pairs.select("a.elapsed_s", "b.elapsed_s").sum().row(0)
    if not all(s > 0 for s in seconds):
        return None
    both = pairs.filter(pl.col("a.elapsed_s") > 0, pl.col("b.elapsed_s") > 0)
    by_part = pl.col("matched_by").is_in(BY_PART)
    same_place = ~by_part & pl.col("matched_by").str.contains("module|shape")
    same_calls = ~by_part & (pl.col("a.calls") == pl.col("b.calls"))
    alike = (same_place | (pl.col("matched_by") == BY_MODULE), same_calls)
    shares = [
        max(float(both.filter(test)[f"{side}.elapsed_s"].sum()) / of_run for test in alike)
        for side, of_run in zip("ab", seconds, strict=True)
    ]
    timed = [int(report.rows["time_s"].count()) for report in (a, b)]
    return InCommon(both.filter(same_place).height, timed[0], timed[1], min(shares))


def unlike_notes(common: InCommon | None) -> list[str]:
    """A word where two runs do not look like one program."""
    if common is None or common.is_same_program:
        return []
    are = "kernel is" if common.rows == 1 else "kernels are"
    return [
        f"They look like two different programs: {common.rows:,} {are} in both, of"
        f" {common.a_rows:,} and {common.b_rows:,}. If it is one program, one of the runs is"
        " compiled or has other sizes."
    ]


def comparison_notes(
    a: Report, b: Report, pairs: pl.DataFrame, common: InCommon | None
) -> list[str]:
    """Notes on what makes two runs hard to compare."""
    return [
        *_matching(a, b, pairs, common),
        *_machines(a, b),
        *_windows(a, b, pairs),
        *_versions(a, b),
    ]


def _matching(a: Report, b: Report, pairs: pl.DataFrame, common: InCommon | None) -> list[str]:
    empty = [name for name, side in (("first", a), ("second", b)) if not len(side.profile)]
    if empty:
        return [f"The {' and the '.join(empty)} run has no kernels: there is nothing to match."]
    share = matched_share(pairs)
    if share is None:
        return ["No row of either run has a time: there is nothing to compare."]
    unlike = unlike_notes(common)
    if share == 0:
        return [*unlike, "No kernel of one run is in the other: only phases are compared."]
    if share < SAME_KERNELS:
        told = f"Only {format_percent(share)} of the time is in kernels of both runs"
        compiled = "" if unlike else ", as where one is compiled"
        return [*unlike, f"{told}{compiled}. The rest is compared by module and phase."]
    if 1 - share > WORTH_A_WORD:
        rest = format_percent(1 - share)
        return [*unlike, f"{rest} of the time is compared by module or phase, not by kernel."]
    return unlike


def _machines(a: Report, b: Report) -> list[str]:
    if (a.machine is None) != (b.machine is None):
        which = "first" if a.machine is None else "second"
        return [
            f"The machine of the {which} run is not known: what it explains is in `other`; name"
            " one with --machine."
        ]
    if a.machine is None or b.machine is None:
        return ["No machine is known, so causes cannot be told apart; name one with --machine."]
    if a.machine.name == b.machine.name and a.machine.ceilings != b.machine.ceilings:
        return [
            f"{a.machine.name} was measured anew between the two runs: what its ceilings differ by"
            " is in `machine`."
        ]
    if a.machine.name != b.machine.name:
        return [
            f"Two machines: the first run was on {a.machine.name}, the second on {b.machine.name}."
        ]
    if a.profile.threads != b.profile.threads:
        first, second = (r.profile.threads or "unknown" for r in (a, b))
        cores = judged_scope(a) != judged_scope(b)
        what = ": what the roofs of other cores explain is in `machine`" if cores else ""
        return [f"Other numbers of threads: {first}, then {second}{what}."]
    return []


def judged_scope(report: Report) -> Scope:
    """The cores whose ceilings a run was judged on; a report keeps the roofs, not their scope."""
    machine, likely = report.machine, scope_for(report.profile.threads, report.machine)
    if machine is None:
        return likely
    scopes: tuple[Scope, ...] = (likely, *get_args(Scope))
    return next((s for s in scopes if machine.roofs(s) == report.verdicts.roofs), likely)


def _windows(a: Report, b: Report, pairs: pl.DataFrame) -> list[str]:
    """Windows of files hold as many steps as were recorded; live runs are one average step."""
    counts = [_steps(side) for side in (a, b)]
    if counts[0] and counts[1] and counts[0] != counts[1]:
        return [
            f"The first run's window has {counts[0]} steps, the second's {counts[1]}: seconds are"
            " those of the whole windows."
        ]
    if (_is_step(a) != _is_step(b)) and len(a.profile) and len(b.profile):
        which = "first" if _is_step(a) else "second"
        return [f"The {which} run is one average step, the other a whole recording."]
    return _calls(pairs)


def _calls(pairs: pl.DataFrame) -> list[str]:
    same = pairs.filter(
        pl.col("matched_by") == STRICT, (pl.col("a.calls") > 0) & (pl.col("b.calls") > 0)
    )
    if not same.height:
        return []
    ratio = float((same["b.calls"] / same["a.calls"]).median() or 1.0)  # type: ignore[arg-type]
    if 1 / CALLS_DIFFER <= ratio <= CALLS_DIFFER:
        return []
    times = f"{ratio:.3g} times as often" if ratio > 1 else f"1/{1 / ratio:.3g} as often"
    return [f"The second run calls the same kernels {times}: a longer window, or other work."]


def _is_step(report: Report) -> bool:
    return report.totals.steps is not None and report.totals.steps.unprofiled_s is not None


def _steps(report: Report) -> int | None:
    steps = report.totals.steps
    return None if steps is None or _is_step(report) else steps.count


def _versions(a: Report, b: Report) -> list[str]:
    first, second = a.profile.source, b.profile.source
    if first.tool == second.tool and first.version and second.version != first.version:
        return [f"Other versions: {first.tool} {first.version} and {second.version or 'unknown'}."]
    return []


def pace_notes(shift: float, names: tuple[str, str]) -> list[str]:
    """A word where the machine itself was slower in one of the runs."""
    if not shift:
        return []
    slower, explained = (names[1], shift) if shift > 0 else (names[0], -shift / (1 + shift))
    upto = f"{explained:.0%}" if explained < 1 else f"{1 + explained:.3g} times the time"
    return [
        f"The machine itself was slower during {slower}, by a fixed piece of work timed beside the"
        f" steps. That explains up to {upto}. Run both again, in turns."
    ]


# What a comparison says beside its numbers: which test decided, and which amounts differ.

# Amounts that differ by less than this share are the same, rounded.
SAME_WORK = 1e-6
# Kinds of work, and the columns of a pair's sides that hold their amounts.
WORK = {
    "flops": ("flops",),
    "bytes": tuple(c for c in AMOUNTS if c.startswith("byte/")),
    "launches": ("launches",),
}


def why_not(runs: PairedRuns) -> str | None:
    """The first test that the difference of two runs does not pass, in a phrase.

    >>> why_not(PairedRuns(10.0, 0.5, 0.5, noise_s=0.1, threshold=0.07))
    'below 7 % of the run'
    >>> why_not(PairedRuns(10.0, 2.0, 0.0, noise_s=0.1, threshold=0.07))
    'the fastest steps of both runs do not confirm it'
    """
    if runs.failed is None:
        return None
    if runs.failed == "fastest" and runs.confirmed_s:
        differ, needed = format_seconds(abs(runs.confirmed_s)), format_seconds(runs.needed_s)
        return f"the fastest steps differ by {differ} only, {needed} are needed"
    return {
        "size": f"below {format_percent(runs.threshold)} of the run",
        "noise": f"within the noise of the samples, {format_seconds(runs.noise_s)}",
        "fastest": "the fastest steps of both runs do not confirm it",
        "pace": "the machine's own pace explains all but"
        f" {format_seconds(abs(runs.beyond_pace_s))} of it",
    }[runs.failed]


def differing_work() -> pl.Expr:
    """Which of FLOPs, bytes and launches the sides of a pair have different amounts of, as a list.

    What is unknown on a side differs from nothing.
    """
    kinds = [
        pl.when(pl.any_horizontal(*(_differs(c) for c in columns))).then(pl.lit(kind))
        for kind, columns in WORK.items()
    ]
    return pl.concat_list(kinds).list.drop_nulls()


def _differs(column: str) -> pl.Expr:
    a, b = pl.col(f"a.{column}"), pl.col(f"b.{column}")
    apart = (a - b).abs() > SAME_WORK * pl.max_horizontal(a.abs(), b.abs())
    return apart.fill_null(False)
