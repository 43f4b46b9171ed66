"""A recording judged: the report of a live run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import msgspec
import polars as pl

from timeroof.api.reports import analyze, machine as find_machine
from timeroof.core.children import Child
from timeroof.core.errors import Note, TimeroofError, UsageError
from timeroof.core.files import cache_folder, home, why_not_kept
from timeroof.core.machine import HUGE_PAGES, Machine
from timeroof.core.profile import Profile, in_unprofiled_seconds
from timeroof.core.report import Report
from timeroof.live.accounting import clean_durations_s, contention_note
from timeroof.live.building import build_profile, live_source, live_steps, own_notes, partial_notes
from timeroof.live.calibration import keep_calibration, kept_calibrations
from timeroof.live.calls import compiled_cost
from timeroof.live.reading import recordings_of
from timeroof.live.recording import CompiledKernel, Described, Recording
from timeroof.live.records import ProcessSeen, read_folder
from timeroof.live.rows import matrix_units
from timeroof.machines.catalogue import machine_of_device
from timeroof.model.judge import scope_for
from timeroof.work.cost import amounts as amounts_of
from timeroof.work.recorded import with_recorded_work
from timeroof_recorder.marks import WINDOW

if TYPE_CHECKING:
    from timeroof.live.running import Ended


# The machine that a live run is judged on: the named one, or this one, measured once.

__all__ = ["HERE", "machine_for", "scope_for"]

HERE = "here"
LIMIT_S = 180
HUGE_PAGE_SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def machine_for(
    name: str | Machine | None, told: Callable[[str], None] | None = None
) -> tuple[Machine | None, list[str]]:
    """A machine, and notes on how it came about; None where this one cannot be measured."""
    if isinstance(name, Machine):
        return name, []
    if name not in (None, HERE):
        return find_machine(str(name)), []
    try:
        found, notes = _this_machine(told)
        return with_page_setting(found), notes
    except Exception as error:  # a report without bounds is better than none
        words = f"This machine could not be measured ({error}): nothing is bounded."
        return None, [Note(words, "machine-not-measured", "warning")]


def with_page_setting(machine: Machine, setting: Path = HUGE_PAGE_SETTING) -> Machine:
    """The machine with a word on who gets huge pages, where the system says so."""
    try:
        chosen = re.search(r"\[(\w+)\]", setting.read_text())
    except OSError:
        return machine
    if chosen is None:
        return machine
    software = machine.software | {HUGE_PAGES: chosen[1]}
    return msgspec.structs.replace(machine, software=software)


def _this_machine(told: Callable[[str], None] | None) -> tuple[Machine, list[str]]:
    from timeroof.probe.measure import cached_machine

    found = cached_machine()
    if found is not None:
        return found, []
    if told is not None:
        told("measuring this machine once (a few seconds)")
    # In a process of its own: the program may hold memory, threads and settings of torch.
    done = Child("timeroof.probe.measure").run(LIMIT_S)
    found = _printed_machine(done.stdout)
    if found is None:
        reason = (done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no reason"])[-1]
        raise RuntimeError(reason)
    words = "The machine was measured quickly; `timeroof machine` measures it in full."
    return found, [Note(words, "machine-quick")]


def _printed_machine(text: bytes) -> Machine | None:
    try:
        return msgspec.json.decode(text.splitlines()[-1], type=Machine)
    except (msgspec.MsgspecError, IndexError):
        return None


def report_of(
    recording: Recording,
    machine: Machine | str | None = None,
    command: str | None = None,
    told: Callable[[str], None] | None = None,
    others: Sequence[Recording] = (),
) -> Report:
    """Build the profile of an average step and judge it on a machine, by default this one. Profiles
    of `others`, the recordings of all kinds of steps, come with it."""
    on_device = _device_report(recording, machine, command)
    if on_device is not None:
        return on_device
    found, notes = machine_for(machine, told)
    profile = _profile_of(recording, found, command, notes)
    profile = _with_kinds(profile, [
        (recording.kind, profile) if other is recording
        else (other.kind, _profile_of(other, found, command, notes))
        for other in others
    ])  # fmt: skip
    return analyze(profile, found, scope=scope_for(recording.threads, found))


def _with_kinds(profile: Profile, named: list[tuple[str, Profile]]) -> Profile:
    """A profile with those of all kinds of steps, where there are several."""
    kinds = {name: kind for name, kind in named if len(kind)}
    return replace(profile, kinds=kinds) if len(kinds) > 1 else profile


def _profile_of(
    recording: Recording, found: Machine | None, command: str | None, more: Sequence[str]
) -> Profile:
    built = build_profile(recording, found, command)
    return _with_notes(built, [recording], found, more)


def _with_notes(
    built: Profile, recordings: Sequence[Recording], found: Machine | None, more: Sequence[str]
) -> Profile:
    """With what has to be said of how it was measured: on how many cores, and beside whom. Of
    several ranks the one counts that waited most."""
    notes: list[Note | str] = list(more)
    if len(built):  # where nothing was measured there is nothing to judge or to disturb
        if scope_for(recordings[0].threads, found) == "core":
            words = "The program uses one thread: it is compared with one core's ceilings."
            notes.append(Note(words, "one-thread"))
        waits = max(recordings, key=lambda r: r.waiting_share or 0.0)
        contended = contention_note(waits.waiting_share, waits.own_waiting)
        if contended is not None:
            notes.append(contended)
    return replace(built, notes=(*built.notes, *notes))


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
        recording.note(f"The device's kernels could not be read ({error}).")
        return None
    if found is None:
        return None
    return analyze(found[0], found[1])


# What the recorders of a run wrote, as recordings.


def recordings_in(folder: Path) -> list[list[Recording]]:
    """The recordings of each process that took steps, kinds with most time first; one that says
    why there is nothing, where no process did."""
    processes = read_folder(folder)
    kept = kept_calibrations()
    for seen in processes:
        if seen.frameworks:
            keep_calibration(" ".join(seen.frameworks[0]), seen.rounds)
    stepping = [seen for seen in processes if seen.has_steps] or _most_telling(processes)
    # A launcher that waits for its ranks has no steps, only windows of time.
    stepping = [seen for seen in stepping if seen.marker != WINDOW] or stepping
    return [recordings_of(seen, folder, kept) for seen in stepping] or [[Recording()]]


def _most_telling(processes: list[ProcessSeen]) -> list[ProcessSeen]:
    """Of processes without steps the first that had a framework, or the first."""
    return [seen for seen in processes if seen.frameworks][:1] or processes[:1]


def ended_of(folder: Path, ended: Ended) -> Ended:
    """How the program ended, with what its recorder knows of the reason."""
    processes = read_folder(folder)
    first = processes[0] if processes else None
    if first is None:
        return ended
    early, error = ended.early, first.ended
    if early is None and first.ended is None:
        early = f"it ended by os._exit or an exec, with code {ended.code}"
    elif early is None and error and ended.code and error != "SystemExit":
        early = f"it raised {error}"
    return replace(ended, early=early, complaint=first.refused)


def run(
    script: str | Path,
    arguments: Sequence[str] = (),
    *,
    machine: Machine | str | None = None,
    warmup: int = 2,
    steps: int = 20,
    step_kind: str | None = None,
) -> Report:
    """Run a program in a process of its own and report on it, as `timeroof run` does.

    Its output goes where this process's does. A program that fails leaves a report of the steps
    before, with the reason among its notes.

    >>> timeroof.run("train.py", ["--epochs", "1"]).save("report.html")  # doctest: +SKIP
    """
    from timeroof.live import running

    words = [str(script), *arguments]
    running.refuse_absent(None, words)
    plan = {
        "warmup": warmup, "steps": steps, "marker": "auto",
        "calibrated": running.known_calibrations(), "namesake": running.has_namesake(None, words),
    }  # fmt: skip
    with running.record_folder(plan) as folder:
        command = running.program_command(None, words)
        ended = ended_of(folder, running.run_recorded(command, folder))
        told = " ".join(["timeroof run", *words])
        return report_of_run(
            folder, machine, told, ended=ended, step_kind=step_kind, all_kinds=True
        )[0]  # fmt: skip


def report_of_run(
    folder: Path,
    machine: Machine | str | None = None,
    command: str | None = None,
    told: Callable[[str], None] | None = None,
    *,
    ended: Ended | None = None,
    step_kind: str | None = None,
    all_kinds: bool = False,
) -> tuple[Report, Recording]:
    """The report of a recorded run, and the recording it is of: one kind of steps, and of several
    processes all that are ranks of one program. With `all_kinds` it holds the profiles of the
    others too, to be saved."""
    by_process = recordings_in(folder)
    unkept = unkept_note()
    for recordings in by_process:
        for recording in recordings:
            _say_end(recording, ended)
            if unkept is not None:
                recording.note(unkept)
    chosen = [_of_kind(recordings, step_kind) for recordings in by_process]
    ranks = {recording.rank for recording in chosen}
    if len(chosen) > 1 and len(ranks) == len(chosen) and None not in ranks:
        order = sorted(range(len(chosen)), key=lambda place: chosen[place].rank or 0)
        kinds = [by_process[place] for place in order] if all_kinds else []
        return _of_ranks([chosen[place] for place in order], machine, command, told, kinds)
    # Processes that know nothing of one another: the one with most time is reported.
    main = max(chosen, key=lambda r: sum(kind.total_s or 0.0 for kind in r.kinds))
    if len(chosen) > 1:
        others = len(chosen) - 1
        more = "1 other process" if others == 1 else f"{others} other processes"
        main.note(f"{more} of the program took steps too; this is the one with the most time.")
    of_process = next(own for own, one in zip(by_process, chosen, strict=True) if one is main)
    return report_of(main, machine, command, told, of_process if all_kinds else ()), main


def _say_end(recording: Recording, ended: Ended | None) -> None:
    if ended is None:
        return
    recording.partial = ended.early
    if ended.code and ended.early is None:
        recording.note(f"The program exited with code {ended.code}.")


def _of_kind(recordings: list[Recording], name: str | None) -> Recording:
    """The recording of the kind that was asked for, else that with most time."""
    if name is None:
        return recordings[0]
    for recording in recordings:
        if recording.kind == name:
            return recording
    known = ", ".join(recording.kind for recording in recordings)
    raise UsageError(f"no steps of the kind {name!r} were timed", advice=f"there are: {known}")


def _of_ranks(
    chosen: list[Recording],
    machine: Machine | str | None,
    command: str | None,
    told: Callable[[str], None] | None,
    others: Sequence[Sequence[Recording]],
) -> tuple[Report, Recording]:
    found, notes = machine_for(machine, told)
    profile = _merged(chosen, found, command, notes)
    named = [
        (kind, _merged(same, found, command, notes)) for kind, same in _same_kinds(others).items()
    ]
    profile = _with_kinds(profile, named)
    return analyze(profile, found, scope=scope_for(chosen[0].threads, found)), chosen[0]


def _same_kinds(by_rank: Sequence[Sequence[Recording]]) -> dict[str, list[Recording]]:
    """Recordings of the kinds of steps that all ranks have, by name."""
    found = [{recording.kind: recording for recording in own} for own in by_rank]
    names = [name for name in found[0] if all(name in own for own in found)] if found else []
    return {name: [own[name] for own in found] for name in names}


def _merged(
    recordings: Sequence[Recording], found: Machine | None, command: str | None, more: Sequence[str]
) -> Profile:
    built = [build_profile(recording, found, command) for recording in recordings]
    from timeroof.read.ranks import merged_ranks

    merged = merged_ranks(built, [f"rank {recording.rank}" for recording in recordings])
    merged = replace(merged, steps=merged.steps or built[0].steps)
    return _with_notes(merged, recordings, found, more)


DEVICE_KINDS = ("kernel", "collective", "copy", "memset")


def device_profile(
    recording: Recording, machine: Machine | None, command: str | None
) -> tuple[Profile, Machine | None] | None:
    """The device's kernels of a typical step, and its machine; None where no kernel was seen. A
    machine that is named wins; else it is the one that the trace names."""
    from timeroof.read.load import read_files

    read = [read_files([path]) for path in recording.device_traces]
    seen = [p for p in read if p.kernels["kind"].is_in(DEVICE_KINDS).any()]
    if not seen:
        return None
    typical = sorted(seen, key=lambda p: p.wall_s or 0.0)[len(seen) // 2]
    chosen = machine or (machine_of_device(typical.device) if typical.device else None)
    counted = with_compiled(with_recorded_work(typical, chosen), recording.compiled, chosen)
    table = counted.kernels.with_columns(pl.lit(recording.rank, pl.Int64).alias("rank"))
    clean = clean_durations_s(recording.clean)
    steps = live_steps(recording, median(clean) if clean else None, typical.wall_s)
    source = live_source(recording, command)
    notes = (*own_notes(recording), *counted.notes, *partial_notes(recording))
    profile = replace(counted.with_kernels(table), source=source, steps=steps, notes=notes)
    return in_unprofiled_seconds(profile), chosen


def with_compiled(
    profile: Profile, compiled: Sequence[CompiledKernel], machine: Machine | None
) -> Profile:
    """Amounts of Inductor's kernels by name: one name may stand for one kernel only."""
    known = {k.name: k for k in compiled if not k.symbolic}
    times = Counter(k.name for k in compiled)
    rows = profile.kernels
    names = [n for n in rows["name"].unique().to_list() if n in known and times[n] == 1]
    if not names:
        return profile
    lines = [_amounts(known[name], machine) for name in names]
    found = pl.DataFrame(lines, infer_schema_length=None)
    joined = rows.join(found, on="name", how="left", suffix=".compiled", maintain_order="left")
    filled = []
    for column in found.columns[1:]:
        is_new = column not in rows.columns
        value = pl.col(column if is_new else f"{column}.compiled")
        if not column.startswith(("op", "origin.")):
            value = value * pl.col("calls")
        filled.append((value if is_new else pl.coalesce(value, pl.col(column))).alias(column))
    return profile.with_kernels(
        joined.with_columns(filled).drop(pl.selectors.ends_with(".compiled"))
    )


def _amounts(kernel: CompiledKernel, machine: Machine | None) -> dict[str, object]:
    cost = compiled_cost(kernel, Described(kernel.name, None, 0, -1, 0, "", (), ()))
    amounts: dict[str, object] = {"name": kernel.name, "op": " + ".join(kernel.ops)}
    amounts |= dict(amounts_of(cost, matrix_units(machine)))
    return amounts | {"origin.flops": "counted", "origin.bytes/dram": "counted"}


def unkept_note() -> Note | None:
    """What a run could not keep for the next one, and why."""
    reason = why_not_kept((home() / "measured", cache_folder()))
    if reason is None:
        return None
    text = f"The machine's ceilings and the profiler's own cost were not kept: {reason}."
    return Note(f"{text} The next run measures them again.", "nothing-kept", "warning")
