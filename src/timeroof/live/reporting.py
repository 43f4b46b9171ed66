"""A recording judged: the report of a live run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from timeroof.api import analyze
from timeroof.core.machine import Machine
from timeroof.core.report import Finding, Report
from timeroof.live.building import build_profile
from timeroof.live.here import machine_for, scope_for
from timeroof.sources.live.torch_run.recording import Recording


def report_of(
    recording: Recording,
    machine: Machine | str | None = None,
    command: str | None = None,
    told: Callable[[str], None] | None = None,
) -> Report:
    """Build the profile of an average step and judge it on a machine, by default this one."""
    found, notes = machine_for(machine, told)
    built = build_profile(recording, found, command)
    scope = scope_for(recording.threads, found)
    if scope == "core":
        notes.append("the program uses one thread: judged on one core's ceilings")
    profile = replace(built.profile, notes=(*built.profile.notes, *notes))
    report = analyze(profile, found, scope=scope)
    extras = {"balance": built.balance, "partial": recording.partial}
    return replace(report, findings=_findings(report), extras=extras)


def _findings(report: Report) -> tuple[Finding, ...]:
    """Advice, where this installation has it."""
    try:
        from timeroof.advice.advise import advise
    except ImportError:
        return ()
    try:
        return tuple(advise(report))
    except Exception:  # advice must not cost the report
        return ()
