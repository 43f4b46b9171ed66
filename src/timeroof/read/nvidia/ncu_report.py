"""Nsight Compute's binary reports (`.ncu-rep`), opened by NVIDIA's own `ncu-report` package."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import msgspec
import polars as pl

from timeroof.core.errors import InputError
from timeroof.core.profile import Profile
from timeroof.read.formats import ReadOptions
from timeroof.read.nvidia.ncu_metrics import role_of
from timeroof.read.nvidia.ncu_profile import (
    FACTS,
    Part,
    Reading,
    profile_of_parts,
    reading_of,
    some_metrics,
)
from timeroof.read.open import Input
from timeroof.read.text import plain_file

MAGIC = b"NVR\x00"
_GRID = ("launch__grid_dim_x", "launch__grid_dim_y", "launch__grid_dim_z")
_BLOCK = ("launch__block_dim_x", "launch__block_dim_y", "launch__block_dim_z")
_DEVICE = "device__attribute_display_name"
_MAJOR = "device__attribute_compute_capability_major"
_MINOR = "device__attribute_compute_capability_minor"


def package(where: str) -> ModuleType:
    """NVIDIA's package, or an error that says how to get it."""
    try:
        return importlib.import_module("ncu_report")
    except (ImportError, OSError) as error:
        raise InputError(
            "is a binary Nsight Compute report, and NVIDIA's package that opens it is not here"
            f" ({error})",
            where=where,
            advice="pip install ncu-report, or export it:"
            " ncu --import FILE --csv --page raw > FILE.csv",
        ) from error


def part_of(report: Any, name: str) -> Part:
    """The launches of an opened report."""
    actions = list(_actions(report))
    metrics = {metric for action in actions[:1] for metric in action.metric_names()}
    facts = [_facts(action, index) for index, action in enumerate(actions)]
    table = pl.DataFrame(facts, schema=dict.fromkeys(FACTS, pl.String), orient="row")
    readings = _readings(actions[0]) if actions else {}
    values = {role: _values(actions, ways) for role, ways in readings.items()}
    return Part(
        name,
        "",
        table.with_columns(pl.Series(role, v, dtype=pl.Float64) for role, v in values.items()),
        some_metrics(metrics),
        device=_text(actions[0], _DEVICE) if actions else None,
        capability=_capability(actions[0]) if actions else None,
    )


def _actions(report: Any) -> Iterator[Any]:
    for index in range(report.num_ranges()):
        current = report.range_by_idx(index)
        for action in range(current.num_actions()):
            yield current.action_by_idx(action)


def _facts(action: Any, index: int) -> tuple[str | None, ...]:
    return (
        f"#{index}",
        str(action.name(action.NameBase_DEMANGLED)),
        _text(action, "launch__stream_id"),
        _dimensions(action, _GRID),
        _dimensions(action, _BLOCK),
    )


def _readings(action: Any) -> dict[str, list[tuple[str, Reading]]]:
    """Role -> metrics that play it in this report, the best first."""
    found: dict[str, list[tuple[str, Reading]]] = {}
    for metric in action.metric_names():
        if role_of(metric) is None:
            continue
        unit = str(action.metric_by_name(metric).unit() or "")
        reading = reading_of(metric, unit)
        if reading is not None:
            found.setdefault(reading.role, []).append((metric, reading))
    return {role: sorted(ways, key=lambda way: way[1].rank) for role, ways in found.items()}


def _values(actions: list[Any], ways: list[tuple[str, Reading]]) -> list[float | None]:
    return [
        next((v for metric, r in ways if (v := _number(action, metric, r)) is not None), None)
        for action in actions
    ]


def _number(action: Any, metric: str, reading: Reading) -> float | None:
    value = _value(action, metric)
    return float(value) * reading.factor if isinstance(value, int | float) else None


def _value(action: Any, metric: str) -> object:
    found = action.metric_by_name(metric)
    return None if found is None else found.value()


def _text(action: Any, metric: str) -> str | None:
    value = _value(action, metric)
    return None if value is None else str(value)


def _dimensions(action: Any, metrics: tuple[str, ...]) -> str | None:
    sizes = [_text(action, m) for m in metrics]
    return f"({', '.join(s for s in sizes if s)})" if all(sizes) else None


def _capability(action: Any) -> str | None:
    major, minor = _text(action, _MAJOR), _text(action, _MINOR)
    return f"{major}.{minor}" if major and minor else None


@dataclass(frozen=True)
class NcuReport:
    """Reports of Nsight Compute."""

    name: str = "ncu-report"
    title: str = "Nsight Compute report"

    def sniff(self, found: Input) -> bool:
        """Its magic number."""
        return found.only.head.startswith(MAGIC)

    def read(self, found: Input, options: ReadOptions) -> Profile:
        """The profile of all launches in all ranges."""
        entry = found.only
        module = package(entry.name)
        with plain_file(entry, ".ncu-rep") as path:
            try:
                report = module.load_report(str(path))
                part = part_of(report, entry.name)
            except (RuntimeError, ValueError, OSError, TypeError, AttributeError) as error:
                raise InputError(
                    f"is no whole Nsight Compute report ({error})",
                    where=entry.name,
                    advice="record it again",
                ) from error
        if not part.table.height:
            raise InputError("has no profiled kernel", where=entry.name, advice="record it again")
        profile = profile_of_parts(
            [part], entry.name, is_folder=False, architecture=options.architecture
        )
        version = getattr(module, "__version__", None)
        source = msgspec.structs.replace(profile.source, version=version)
        return replace(profile, source=source)


FORMAT = NcuReport()
