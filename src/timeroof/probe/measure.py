"""The probe's front door: measure this machine, or take what was measured before.

`python -m timeroof.probe.measure` measures quickly, keeps the result and prints the machine.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import msgspec

from timeroof.core.errors import InputError
from timeroof.core.files import HOME_VARIABLE, home, keep_bytes, regular_bytes
from timeroof.core.machine import PAGES, Ceiling, Machine, check_machine
from timeroof.core.units import format_cores, format_rate, resource_words
from timeroof.probe import torch_device
from timeroof.probe.cpu.ceilings import widened
from timeroof.probe.cpu.ir import host_cpu_name
from timeroof.probe.cpu.probe import CpuFindings, measure_cpu
from timeroof.probe.cpu.reduced import Reduced, describe_without_torch, measure_reduced
from timeroof.probe.cpu.threads import pages_of_region
from timeroof.probe.cpu.topology import (
    Topology,
    find_microarchitecture,
    is_virtual,
    read_topology,
    total_memory,
)
from timeroof.probe.launch import LaunchCost, TorchLaunches, launch_ceiling, why_no_torch
from timeroof.probe.sampling import (
    MEASUREMENT_SCHEMA,
    Budget,
    Measurement,
    Plan,
    Progress,
    Steps,
    Watch,
    spread_warning,
)

# Measurements kept under the user's data folder, one file per machine and set-up.


def path_of(fingerprint: str, *, quick: bool) -> Path:
    """Where the measurement of a machine is kept; quick ones never replace full ones."""
    return home() / "measured" / f"{fingerprint}{'-quick' if quick else ''}.json"


def save(measurement: Measurement) -> Path:
    """Keep a measurement; an interrupted write leaves the one before intact."""
    path = path_of(measurement.fingerprint, quick=measurement.quick)
    keep_bytes(path, msgspec.json.format(msgspec.json.encode(measurement), indent=1))
    return path


def load(fingerprint: str, *, quick: bool) -> tuple[Measurement | None, str | None]:
    """The kept measurement, or None and, where a file is there but unusable, why."""
    path = path_of(fingerprint, quick=quick)
    try:
        found = msgspec.json.decode(regular_bytes(path), type=Measurement)
        check_machine(found.machine, str(path))
    except (FileNotFoundError, NotADirectoryError):
        return None, None
    except (OSError, msgspec.MsgspecError, InputError, UnicodeDecodeError) as error:
        return None, f"The kept measurement {path.name} cannot be used ({error})."
    if found.schema != MEASUREMENT_SCHEMA or found.fingerprint != fingerprint:
        return None, f"The kept measurement {path.name} is of another version."
    return found, None


def load_best(fingerprint: str, *, quick: bool = True) -> tuple[Measurement | None, list[str]]:
    """The full measurement, else, where that does, the quick one; and what went wrong."""
    notes = []
    for kind in (False, True) if quick else (False,):
        found, note = load(fingerprint, quick=kind)
        notes += [note] if note else []
        if found is not None:
            return found, notes
    return None, notes


# The key of a measurement: the same hardware and software give the same fingerprint.


def software() -> dict[str, str]:
    """Versions that a measured figure may depend on."""
    system = f"{platform.system()} {platform.release()}".strip()
    found = {"python": platform.python_version(), "os": system}
    for package in ("timeroof", "torch", "llvmlite"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


def hardware(topology: Topology, cpu_name: str, memory_bytes: int | None) -> dict[str, object]:
    """What the machine is made of, as plain data."""
    caches = sorted((c.level, c.size_bytes, len(c.cpus)) for c in topology.caches)
    return {
        "model": topology.model_name,
        "cpu": cpu_name,
        "architecture": platform.machine(),
        "cores": len(topology.cores),
        "sockets": len(topology.sockets),
        "caches": caches,
        # Whole GiB: what the kernel keeps for itself changes from boot to boot.
        "memory_gib": round(memory_bytes / 2**30) if memory_bytes else None,
    }


def fingerprint(*parts: object) -> str:
    """A short hash of plain data."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


# The ceiling that two measurements of one machine are compared by: resource and scope.
DRAM = ("byte/dram", "all")
VENDORS = ("AMD", "Intel", "Apple", "Arm", "Fujitsu")
# Seconds that the micro-kernels may take; torch's import, launches and products come on top.
VIRTUAL = (
    "This is a virtual machine: its memory bandwidth is what the host gave it at that time, and may"
    " be another later. `timeroof machine --fresh` measures it anew."
)
# A bandwidth that differs by more between two measurements is worth a word.
MOVED = 1.25
CPU_LIMIT_S = {True: 5.5, False: 40.0}
TOTAL_WEIGHT = 28.0


def measure(
    *, quick: bool = False, threads: int | None = None, device: str = "cpu",
    progress: Progress | None = None,
) -> Measurement:  # fmt: skip
    """Measure this machine's CPU, or another device through torch; keeps nothing. `progress` is
    called with the name of each step and the share done so far."""
    if _plain(device) != "cpu":
        return _measure_torch_device(device, quick=quick, progress=progress)
    budget = Budget(CPU_LIMIT_S[quick])
    watch = Watch()
    steps = Steps(progress, TOTAL_WEIGHT)
    found = measure_cpu(quick=quick, threads=threads, steps=steps, budget=budget)
    reduced, launches, notes = _through_torch(found, steps, quick=quick)
    ceilings = [*found.ceilings, *widened(reduced.ceilings)]
    launch = launch_ceiling(launches)
    ceilings += [launch] if launch is not None else []
    steps.end()
    notes = [*found.notes, *reduced.notes, *notes, *([VIRTUAL] if is_virtual() else [])]
    disturbed = watch.warnings()
    spreads = _spread_warnings(ceilings, disturbed=bool(disturbed))
    warnings = [*disturbed, *found.warnings, *spreads]
    created = datetime.now(UTC).isoformat(timespec="seconds")
    # A machine file travels: what disturbed its figures, and when they were taken, goes with it.
    how = f"measured {'quickly ' if quick else ''}on {created}"
    return Measurement(
        machine=_machine(found, ceilings, reduced, [how, *notes, *warnings]),
        created=created,
        quick=quick,
        duration_s=budget.used_s(),
        fingerprint=current_fingerprint(threads=threads),
        clocks=found.clocks,
        sweep=found.sweep,
        notes=notes,
        warnings=warnings,
        is_disturbed=bool(disturbed),
        errors=found.errors,
    )


def _plain(device: str) -> str:
    """A torch device; this computer's CPU has one name, however it is numbered.

    >>> _plain("cpu:0"), _plain("cuda:1")
    ('cpu', 'cuda:1')
    """
    return "cpu" if re.fullmatch(r"cpu(:\d+)?", device) else device


def _through_torch(
    found: CpuFindings, steps: Steps, *, quick: bool
) -> tuple[Reduced, list[LaunchCost], list[str]]:
    """What only a framework can tell: launching, and products of short numbers."""
    missing = why_no_torch()
    if missing is not None:
        nothing = f"{missing}: no cost of launching, hence no launch ceiling"
        return describe_without_torch(found.features), [], [nothing]
    steps.begin("launching (torch)", 3.0)
    launches = TorchLaunches(Plan(sample_s=1e-3) if quick else Plan(sample_s=3e-3, most=40))
    launches.take()
    steps.begin("matrix products of short numbers (torch)", 3.0)
    reduced = measure_reduced(found.features, found.cpus, quick=quick)
    launches.take()
    return reduced, launches.costs(), []


def _machine(
    found: CpuFindings, ceilings: list[Ceiling], reduced: Reduced, notes: list[str]
) -> Machine:
    core = find_microarchitecture(host_cpu_name())
    title = core.title if core else ""
    name = found.topology.model_name or title or platform.processor() or platform.machine()
    machine = Machine(
        name="here",
        device=name,
        ceilings=ceilings,
        memory=found.memory,
        software=software() | pages_measured(),
        vendor=next((v for v in VENDORS if v in (title or name)), ""),
        kind="cpu",
        architecture=title or host_cpu_name(),
        launching="synchronous",
        emulated=reduced.emulated,
        notes=notes,
    )
    return check_machine(machine, "the measured machine")


def pages_measured() -> dict[str, str]:
    """In which pages the memory of the micro-kernels lies: huge, 4 kB, or both; nothing where the
    system does not say."""
    found = pages_of_region()
    return {} if found is None else {PAGES: found}


def _spread_warnings(ceilings: list[Ceiling], *, disturbed: bool) -> list[str]:
    # Scopes with the same cores have the same figures: each counts once.
    spreads = {
        (c.resource, c.threads): (_measured_on(c), c.spread)
        for c in ceilings
        if c.spread is not None and c.scope != "socket"
    }
    warning = spread_warning(dict(spreads.values()), disturbed=disturbed)
    return [warning] if warning else []


def _measured_on(ceiling: Ceiling) -> str:
    """A ceiling in words, with the cores that it was measured on."""
    on = f" on {format_cores(ceiling.threads)}" if ceiling.threads else ""
    return f"{resource_words(ceiling.resource)}{on}"


def _measure_torch_device(device: str, *, quick: bool, progress: Progress | None) -> Measurement:
    budget = Budget(0.0)
    settings = torch_device.QUICK if quick else torch_device.Settings()
    found = torch_device.measure_device(device, settings, progress)
    machine = Machine(
        name="here",
        device=found.name,
        ceilings=found.ceilings,
        memory=found.memory,
        software=software(),
        kind="gpu" if device != "cpu" else "cpu",
        notes=found.notes,
    )
    return Measurement(
        machine=check_machine(machine, f"the measured device {device}"),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        quick=quick,
        duration_s=budget.used_s(),
        fingerprint=current_fingerprint(device=device),
        sweep=found.sweep,
        notes=found.notes,
        # Nobody watches a device: what disturbed it is not known.
        warnings=_spread_warnings(found.ceilings, disturbed=True),
    )


def current_fingerprint(*, threads: int | None = None, device: str = "cpu") -> str:
    """The key of this machine as it is now."""
    shape = hardware(read_topology(), host_cpu_name(), total_memory())
    return fingerprint(shape, software(), threads, device)


def cached_machine() -> Machine | None:
    """The kept machine, full before quick, or None if this one was never measured."""
    kept, _ = load_best(current_fingerprint())
    return None if kept is None else kept.machine


def load_or_measure(
    *, fresh: bool = False, quick: bool = False, threads: int | None = None, device: str = "cpu",
    progress: Progress | None = None, measuring: Callable[..., Measurement] | None = None,
    frameworks: bool = False, calm: bool = False,
) -> Measurement:  # fmt: skip
    """The kept measurement if there is a good enough one, else a new one, which is kept. A full one
    serves where a quick one is asked for, not the other way round; one that other programs
    disturbed does not serve where a `calm` one is asked for. The file is only replaced once the new
    measurement is complete: Ctrl-C leaves it as it was. `frameworks` adds launch costs of all that
    are installed, each in a process of its own."""
    device = _plain(device)
    key = current_fingerprint(threads=threads, device=device)
    notes: list[str] = []
    if not fresh:
        kept, notes = load_best(key, quick=quick)
        if kept is not None and calm and kept.is_disturbed:
            quick = quick and kept.quick  # the same is replaced
            notes.append("The kept measurement was disturbed by other programs: measured again.")
        elif kept is not None:
            full = _with_frameworks(kept, progress) if frameworks and device == "cpu" else kept
            if full.machine != kept.machine:
                with contextlib.suppress(InputError, OSError):
                    save(full)
            return msgspec.structs.replace(full, notes=[*notes, *full.notes])
        else:
            notes = [f"{note} It was measured again." for note in notes]
    before, _ = load_best(key)
    new = (measuring or measure)(quick=quick, threads=threads, device=device, progress=progress)
    new = msgspec.structs.replace(new, fingerprint=key)
    new = _with_frameworks(new, progress) if frameworks and device == "cpu" else new
    try:
        save(new)
    except (InputError, OSError) as error:
        notes.append(
            f"The measurement could not be kept ({error}). Set {HOME_VARIABLE} to a folder"
            " that can be written to."
        )
    # What went wrong with the file before, and what was measured then, is of this run only.
    moved = [] if before is None else _moved(before, new)
    return msgspec.structs.replace(new, notes=[*notes, *moved, *new.notes])


def _moved(before: Measurement, now: Measurement) -> list[str]:
    """A word where memory is faster or slower than when it was measured the last time."""
    rates = [
        next((c.rate for c in m.machine.ceilings if (c.resource, c.scope) == DRAM), None)
        for m in (before, now)
    ]
    if rates[0] is None or rates[1] is None or 1 / MOVED <= rates[1] / rates[0] <= MOVED:
        return []
    then, today = (format_rate(DRAM[0], rate) for rate in (rates[0], rates[1]))
    return [
        f"Memory gives {today} now; measured on {before.created[:10]} it gave {then}. Runs that"
        " were judged before are compared with the earlier figure."
    ]


def _with_frameworks(found: Measurement, progress: Progress | None) -> Measurement:
    """The measurement with launch costs of JAX and TensorFlow, where they are installed."""
    from timeroof.probe.launch import with_frameworks

    if progress is not None:
        progress("launching (JAX, TensorFlow)", 0.99)
    machine, notes = with_frameworks(found.machine)
    return msgspec.structs.replace(found, machine=machine, notes=[*found.notes, *notes])


if __name__ == "__main__":
    # The caller needs it also where it cannot be kept.
    sys.stdout.buffer.write(msgspec.json.encode(load_or_measure(quick=True).machine) + b"\n")
