"""A recording judged: the report of a live run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from timeroof.api.reports import analyze
from timeroof.api.reports import machine as find_machine
from timeroof.core.children import Child
from timeroof.core.errors import TimeroofError
from timeroof.core.machine import Machine
from timeroof.core.notes import Note
from timeroof.core.report import Report
from timeroof.live.building import build_profile
from timeroof.live.contention import contention_note, waiting_share
from timeroof.live.device import device_profile
from timeroof.live.torch.recording import Recording
from timeroof.model.judge import scope_for

# The machine that a live run is judged on: the named one, or this one, measured once.


__all__ = ["HERE", "machine_for", "scope_for"]

HERE = "here"
LIMIT_S = 180


def machine_for(
    name: str | Machine | None, told: Callable[[str], None] | None = None
) -> tuple[Machine | None, list[str]]:
    """A machine, and notes on how it came about; None where this one cannot be measured."""
    if isinstance(name, Machine):
        return name, []
    if name not in (None, HERE):
        return find_machine(str(name)), []
    try:
        return _this_machine(told)
    except Exception as error:  # a report without bounds is better than none
        words = f"this machine could not be measured ({error}): nothing is bounded"
        return None, [Note(words, "machine-not-measured", "warning")]


def _this_machine(told: Callable[[str], None] | None) -> tuple[Machine, list[str]]:
    from timeroof.probe.measure import cached_machine

    found = cached_machine()
    if found is not None:
        return found, []
    if told is not None:
        told("measuring this machine once (a few seconds)")
    # In a process of its own: the program may hold memory, threads and settings of torch.
    done = Child("timeroof.probe.measure_here").run(capture_output=True, timeout=LIMIT_S)
    found = cached_machine()
    if found is None:
        reason = (done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no reason"])[-1]
        raise RuntimeError(reason)
    words = "the machine was measured quickly; `timeroof machine` measures it in full"
    return found, [Note(words, "machine-quick")]


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
            words = "the program uses one thread: judged on one core's ceilings"
            notes.append(Note(words, "one-thread"))
        contended = contention_note(waiting_share())
        if contended is not None:
            notes.append(Note(contended, "cpu-contended", "warning"))
    profile = replace(built.profile, notes=(*built.profile.notes, *notes))
    report = analyze(profile, found, scope=scope)
    extras = {"balance": built.balance, "partial": recording.partial}
    return replace(report, extras=extras)


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
    return replace(report, extras={"partial": recording.partial})
