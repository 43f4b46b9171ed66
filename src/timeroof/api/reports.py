"""What the package does for its users, joined from the rooms."""

from __future__ import annotations

import datetime
import os.path
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from timeroof.advice.advise import advise
from timeroof.core import VERSION, report as core_report
from timeroof.core.errors import Note, UsageError, as_notes
from timeroof.core.machine import is_resource
from timeroof.core.profile import Profile
from timeroof.core.run_file import SavedRun, save_run
from timeroof.machines.catalogue import find_machine, machine_for, machine_names
from timeroof.model.judge import RoofPair, judge, scope_for
from timeroof.model.totals import is_doubtful, totals, unexplained_words
from timeroof.read.formats import Progress, ReadOptions, silent
from timeroof.read.load import read_run
from timeroof.read.open import DEFAULT_MAX_BYTES
from timeroof.work.recorded import with_recorded_work

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.figure import Figure

    from timeroof.core.machine import Machine, Scope
    from timeroof.read.fleet import Fleet

HERE = "here"

__all__ = ["Report", "Why", "analyze", "load", "machine", "machine_names", "save", "scope_for"]


class Why(core_report.Why, frozen=True):
    """How every number of one row came about; printed it reads as `explain --row` does."""

    def __str__(self) -> str:
        """The lines that `timeroof explain --row` prints."""
        from timeroof.views.run_summary import why_text

        return why_text(self)

    def __repr__(self) -> str:
        """Whose numbers they are, on one line."""
        return f"<timeroof.Why of row {self.id}, {self.short_name!r}; lines: {len(self.lines)}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"


class Report(core_report.Report):
    """A profile judged on a machine, that saves and shows itself."""

    def save(self, path: str | Path) -> None:
        """Write it by suffix: .troof, html, json, md, csv, parquet, png, svg, pdf."""
        save(self, path)

    def why(self, row_id: int) -> Why:
        """How every number of one row came about: formula, sizes, ceiling, division.

        >>> row = load("tests/golden/read/tidy.csv", "v100-paper").why(0)  # doctest: +SKIP
        >>> row.line("bound_s").formula  # doctest: +SKIP
        'max(work_bound_s, overhead_time_s)'
        """
        from timeroof.model.why import why

        return Why(**msgspec.structs.asdict(why(self, row_id)))

    def figure(self, name: str = "combined") -> Figure:
        """A chart of the rows as a matplotlib figure: combined, complexity, time or roofline."""
        from timeroof.views.pictures.of_report import report_figure

        return report_figure([self], name)

    def __str__(self) -> str:
        """Warnings, what ran, how long it took and where the time goes, as in the terminal."""
        from timeroof.views.overview import overview
        from timeroof.views.style import plain_text

        seen = overview(self)
        facts = [f"{seen.time} {seen.time_label.lower()}{seen.of_kind}", seen.potential]
        doubts = [f"Warning: {doubt.text} {doubt.advice}".strip() for doubt in seen.doubts]
        lines = [*doubts, seen.title, " · ".join(filter(None, facts)), seen.sentence]
        return "\n".join(plain_text(line) for line in lines if line)

    def __repr__(self) -> str:
        """Where it is from and what it holds, on one line."""
        source = self.profile.source
        name = source.name or source.command or source.tool
        rows, findings = self.profile.kernels.height, len(self.findings)
        return f"<timeroof.Report of {name!r}; rows: {rows}, findings: {findings}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from timeroof.views.page.page import notebook_html

        return notebook_html(self)


def machine(name: str) -> Machine:
    """A machine by catalogue name, device name or TOML path; "here" is this computer.

    This computer is measured quickly where no measurement of it is kept.

    >>> machine("v100-paper").rate("byte/dram")
    828800000000.0
    """
    if name == HERE:
        from timeroof.probe.measure import load_or_measure

        return load_or_measure(quick=True).machine
    return find_machine(name)


def _machine_named(name: Machine | str | None) -> Machine | None:
    return machine(name) if isinstance(name, str) else name


def analyze(
    profile: Profile,
    machine: Machine | str | None = None,
    *,
    pair: RoofPair | None = None,
    roof: str | None = None,
    scope: Scope | None = None,
    findings: Iterable[core_report.Finding] | None = None,
) -> Report:
    """Judge a profile and say what to do; without a machine, on the device that it names.

    `roof` is the compute ceiling of the time coordinates, `pair` both of them; by default the
    run's headline pair.
    `scope` are the cores whose ceilings count: by default one core for a program of one
    thread, else all. `findings` replace those of the rules in `timeroof.advice`.
    """
    chosen, notes = machine_for(profile, _machine_named(machine))
    scope = scope or scope_for(profile.threads, chosen)
    verdicts = judge(profile, chosen, pair=pair, roof=roof, scope=scope)
    sums = totals(profile, verdicts, chosen, scope)
    report = Report(
        profile=profile,
        machine=chosen,
        verdicts=verdicts,
        totals=sums,
        notes=as_notes((*profile.notes, *notes, *verdicts.notes, *_doubts(sums))),
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        version=VERSION,
    )
    return replace(report, findings=tuple(advise(report) if findings is None else findings))


def _doubts(sums: core_report.Totals) -> list[Note]:
    """The warning that profiled steps do not show what an unprofiled one takes."""
    words = unexplained_words(sums)
    if words is None or not is_doubtful(sums):
        return []
    return [Note(words, "unexplained", "warning")]


def save(report: core_report.Report, path: str | Path) -> None:
    """Save a report by suffix: .troof (the run itself), html, json, md, csv, parquet, pictures."""
    path = Path(path)
    if path.suffix == ".troof":
        kinds = {name: _saved(report, kind) for name, kind in report.profile.kinds.items()}
        save_run(replace(_saved(report, report.profile), kinds=kinds), path, report.totals)
        return
    from timeroof.views.render import render

    render(report, path)


def _saved(report: core_report.Report, profile: Profile) -> SavedRun:
    from timeroof.read.saved_run import packed

    calls = packed(profile.calls)
    return SavedRun(profile, report.machine, report.created, report.version, calls)


def load(
    path: str | Path | Sequence[str | Path],
    machine: Machine | str | None = None,
    *,
    format: str | None = None,  # noqa: A002
    max_bytes: int = DEFAULT_MAX_BYTES,
    progress: Progress = silent,
    roof: str | None = None,
    fleet: Fleet | None = None,
    step_kind: str | None = None,
) -> Report:
    """Load a saved run or any profiler's file or files, count what was recorded, and judge it.

    Without a machine: the one that a saved run was judged on, else the device that the file
    names. Several paths are parts or ranks of one run; `fleet` says where many ranks are read, and
    which one is wanted. `roof` is the compute ceiling of the time coordinates, such as flop/fp32.
    `step_kind` names a kind of steps of a saved live run; by default the one with the most time.
    """
    if roof is not None and not (is_resource(roof) and roof.startswith("flop/")):
        raise UsageError(f"{roof!r} is no compute ceiling", advice="use for example flop/fp32")
    chosen = _machine_named(machine)
    paths = [path] if isinstance(path, str | Path) else list(path)
    architecture = (chosen.compute_capability or chosen.architecture) if chosen else None
    options = ReadOptions(progress=progress, architecture=architecture)
    run = read_run(
        [Path(p) for p in paths], options, format=format, max_bytes=max_bytes, machine=chosen,
        fleet=fleet,
    )  # fmt: skip
    if step_kind is not None:
        run = replace(run, profile=run.profile.of_kind(step_kind, _name_of(paths) or "this run"))
    if run.created:
        report = analyze(run.profile, chosen or run.machine, roof=roof)
        return replace(report, created=run.created, version=run.version)
    # Which units work counts for depends on the machine, one that is inferred, too.
    known = machine_for(run.profile, chosen)[0]
    source = msgspec.structs.replace(run.profile.source, name=_name_of(paths))
    profile = replace(run.profile, source=source)
    counted = profile if run.is_counted else with_recorded_work(profile, known)
    return analyze(counted, chosen, roof=roof)


def _name_of(paths: Sequence[str | Path]) -> str | None:
    """The file or folder that was read; of several files the folder that holds them."""
    whole = [os.path.abspath(path) for path in paths]  # noqa: PTH100
    folders = {os.path.dirname(path) for path in whole}  # noqa: PTH120
    shared = whole[0] if len(whole) == 1 else next(iter(folders)) if len(folders) == 1 else ""
    return os.path.basename(shared) or None  # noqa: PTH119
