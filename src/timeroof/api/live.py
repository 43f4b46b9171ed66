"""A recording judged: the report of a live run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from timeroof.api.here import HERE, machine_for, scope_for
from timeroof.api.reports import analyze
from timeroof.core.errors import TimeroofError
from timeroof.core.machine import Machine
from timeroof.core.report import Finding, Report
from timeroof.live.building import build_profile
from timeroof.live.contention import contention_note, waiting_share
from timeroof.live.device import device_profile
from timeroof.live.torch.recording import Recording


def report_of(
    recording: Recording,
    machine: Machine | str | None = None,
    command: str | None = None,
    told: Callable[[str], None] | None = None,
) -> Report:
    """Build the profile of an average step and judge it on a machine, by default this one."""
    on_device = _device_report(recording, machine, command)
    if on_device is not None:
        return on_device
    found, notes = machine_for(machine, told)
    built = build_profile(recording, found, command)
    scope = scope_for(recording.threads, found)
    if len(built.profile):  # where nothing was measured there is nothing to judge or to disturb
        if scope == "core":
            notes.append("the program uses one thread: judged on one core's ceilings")
        contended = contention_note(waiting_share())
        if contended is not None:
            notes.append(contended)
    profile = replace(built.profile, notes=(*built.profile.notes, *notes))
    report = analyze(profile, found, scope=scope)
    extras = {"balance": built.balance, "partial": recording.partial}
    return replace(report, findings=_findings(report), extras=extras)


def _device_report(
    recording: Recording, machine: Machine | str | None, command: str | None
) -> Report | None:
    """The report of a GPU's kernels; None where the steps had none."""
    if not recording.device_traces:
        return None
    named = machine_for(machine)[0] if machine not in (None, HERE) else None
    try:
        found = device_profile(recording, named, command)
    except TimeroofError as error:
        recording.note(f"the device's kernels could not be read ({error})")
        return None
    if found is None:
        return None
    report = analyze(found[0], found[1])
    return replace(report, findings=_findings(report), extras={"partial": recording.partial})


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
