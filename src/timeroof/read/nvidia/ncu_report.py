"""Nsight Compute's binary reports (`.ncu-rep`), opened by NVIDIA's own `ncu-report` package.

It is opened in a process of its own: of a damaged report the package may end its process.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Protocol

import msgspec
import polars as pl

from timeroof.core.children import Child
from timeroof.core.errors import InputError
from timeroof.core.profile import Profile
from timeroof.read.formats import ReadOptions
from timeroof.read.nvidia import ncu_profile
from timeroof.read.nvidia.ncu_metrics import role_of
from timeroof.read.open import Input
from timeroof.read.text import plain_file

_GRID, _BLOCK = (tuple(f"launch__{w}_dim_{axis}" for axis in "xyz") for w in ("grid", "block"))
_CHIP = (
    "device__attribute_display_name",
    "device__attribute_compute_capability_major",
    "device__attribute_compute_capability_minor",
)


class _Metric(Protocol):
    def unit(self) -> object: ...
    def value(self) -> object: ...


class _Action(Protocol):
    """A launch, as NVIDIA's package shows it."""

    NameBase_DEMANGLED: int

    def name(self, base: int) -> object: ...
    def metric_names(self) -> tuple[str, ...]: ...
    def metric_by_name(self, name: str) -> _Metric | None: ...


class _Range(Protocol):
    def num_actions(self) -> int: ...
    def action_by_idx(self, index: int) -> _Action: ...


class _Report(Protocol):
    def num_ranges(self) -> int: ...
    def range_by_idx(self, index: int) -> _Range: ...


class _Opened(msgspec.Struct):
    """What the package shows of a report's launches, or why it shows nothing."""

    facts: list[tuple[str | None, ...]] = []
    values: dict[str, list[float | None]] = {}
    metrics: list[str] = []
    device: str | None = None
    capability: str | None = None
    version: str | None = None
    missing: str | None = None
    broken: str | None = None


def main() -> None:
    """Answer with what NVIDIA's package shows of a report."""
    # The package may print: only the answer goes to the parent.
    answer = os.dup(1)
    os.dup2(2, 1)
    try:
        opened = _shown(importlib.import_module("ncu_report"), sys.argv[1])
    except (ImportError, OSError) as error:
        opened = _Opened(missing=str(error))
    except (RuntimeError, ValueError, TypeError, AttributeError) as error:
        opened = _Opened(broken=str(error)[:300])
    with os.fdopen(answer, "wb") as out:
        out.write(msgspec.msgpack.encode(opened))


def _shown(module: ModuleType, path: str) -> _Opened:
    try:
        report = module.load_report(path)
    except OSError as error:
        raise ValueError(str(error)) from error
    actions = list(_actions(report))
    readings = _readings(actions[0]) if actions else {}
    device, major, minor = (_text(actions[0], m) if actions else None for m in _CHIP)
    return _Opened(
        facts=[_facts(action, index) for index, action in enumerate(actions)],
        values={role: _values(actions, ways) for role, ways in readings.items()},
        metrics=[str(metric) for action in actions[:1] for metric in action.metric_names()],
        device=device,
        capability=f"{major}.{minor}" if major and minor else None,
        version=getattr(module, "__version__", None),
    )


def _by_package(path: Path) -> _Opened:
    if importlib.util.find_spec("ncu_report") is None:  # no process is needed to know that
        return _Opened(missing="No module named 'ncu_report'")
    done = Child("timeroof.read.nvidia.ncu_report", (str(path),)).run()
    try:
        return msgspec.msgpack.decode(done.stdout, type=_Opened)
    except msgspec.DecodeError:
        code = done.returncode
        by = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return _Opened(broken=f"NVIDIA's package ends with {by} when it opens it")


def _opened(path: Path, where: str) -> _Opened:
    """What the package shows of a report, or an error that says how to get it."""
    opened = _by_package(path)
    if opened.missing is not None:
        what = "is a binary Nsight Compute report, and NVIDIA's package that opens it is not here"
        export = "ncu --import FILE --csv --page raw > FILE.csv"
        advice = f"pip install ncu-report, or export it: {export}"
        raise InputError(f"{what} ({opened.missing})", where, advice)
    if opened.broken is not None:
        what = f"is no whole Nsight Compute report ({opened.broken})"
        raise InputError(what, where, "record it again")
    return opened


def _part(opened: _Opened, name: str) -> ncu_profile.Part:
    """The launches of an opened report."""
    table = pl.DataFrame(
        opened.facts, schema=dict.fromkeys(ncu_profile.FACTS, pl.String), orient="row"
    )
    table = table.with_columns(
        pl.Series(role, v, dtype=pl.Float64) for role, v in opened.values.items()
    )
    collected = ncu_profile.some_metrics(set(opened.metrics))
    return ncu_profile.Part(name, "", table, collected, opened.device, opened.capability)


def _actions(report: _Report) -> Iterator[_Action]:
    for index in range(report.num_ranges()):
        current = report.range_by_idx(index)
        for action in range(current.num_actions()):
            yield current.action_by_idx(action)


def _facts(action: _Action, index: int) -> tuple[str | None, ...]:
    sizes = (_dimensions(action, metrics) for metrics in (_GRID, _BLOCK))
    name = str(action.name(action.NameBase_DEMANGLED))
    return f"#{index}", name, _text(action, "launch__stream_id"), *sizes


def _readings(action: _Action) -> dict[str, list[tuple[str, ncu_profile.Reading]]]:
    """Role -> metrics that play it in this report, the best first."""
    found: dict[str, list[tuple[str, ncu_profile.Reading]]] = {}
    for metric in action.metric_names():
        if role_of(metric) is None:
            continue
        found_metric = action.metric_by_name(metric)
        unit = str(found_metric.unit() or "") if found_metric is not None else ""
        if (reading := ncu_profile.reading_of(metric, unit)) is not None:
            found.setdefault(reading.role, []).append((metric, reading))
    return {role: sorted(ways, key=lambda way: way[1].rank) for role, ways in found.items()}


def _values(
    actions: list[_Action], ways: list[tuple[str, ncu_profile.Reading]]
) -> list[float | None]:
    return [
        next((v for metric, r in ways if (v := _number(action, metric, r)) is not None), None)
        for action in actions
    ]


def _number(action: _Action, metric: str, reading: ncu_profile.Reading) -> float | None:
    value = _value(action, metric)
    return float(value) * reading.factor if isinstance(value, int | float) else None


def _value(action: _Action, metric: str) -> object:
    found = action.metric_by_name(metric)
    return None if found is None else found.value()


def _text(action: _Action, metric: str) -> str | None:
    value = _value(action, metric)
    return None if value is None else str(value)


def _dimensions(action: _Action, metrics: tuple[str, ...]) -> str | None:
    sizes = [_text(action, m) for m in metrics]
    return f"({', '.join(s for s in sizes if s)})" if all(sizes) else None


def read(found: Input, options: ReadOptions) -> Profile:
    """The profile of all launches in all ranges."""
    with plain_file(found.only, ".ncu-rep") as path:
        opened = _opened(path, found.name)
    if not opened.facts:
        raise InputError("has no profiled kernel", where=found.name, advice="record it again")
    profile = ncu_profile.profile_of_parts([_part(opened, found.name)], found, options.architecture)
    return replace(profile, source=msgspec.structs.replace(profile.source, version=opened.version))


if __name__ == "__main__":
    main()
