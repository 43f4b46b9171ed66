"""A run on several machines side by side, and its JSON, `timeroof.whatif/1`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from timeroof.core.errors import UsageError
from timeroof.core.machine import Machine
from timeroof.core.report import Report
from timeroof.core.resources import Scope
from timeroof.model.whatif.project import Change, Projection, project

# From this share of the predicted time on, a change of limiter is worth telling.
LEAST_SHARE = 1e-3
WHATIF_SCHEMA = "timeroof.whatif/1"
MODEL = (
    "A model, not a measurement: rows keep today's efficiency; the interval is what other limiters"
    " in play and today's differences between like rows allow."
)


@dataclass(frozen=True)
class WhatIf:
    """One run projected to several machines."""

    report: Report
    here: Machine
    projections: tuple[Projection, ...]
    notes: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """The JSON document, `timeroof.whatif/1`."""
        return {
            "schema": WHATIF_SCHEMA,
            "from": self.here.name,
            "measured_s": self.report.totals.ladder.measured_s,
            "measured_bound_s": self.report.totals.bound_s,
            "measured_by_limiter": self.report.totals.by_limiter,
            "known_time_share": self.report.totals.known_time_share,
            "machines": [_machine(p) for p in self.projections],
            "rows": self._rows(),
            "notes": [
                MODEL,
                *dict.fromkeys([*self.notes, *(n for p in self.projections for n in p.notes)]),
            ],
        }

    def _rows(self) -> list[dict[str, Any]]:
        """Like beside like: `predicted_s` is what becomes of `time_s`, the kernel alone.

        `predicted_elapsed_s` is what becomes of `elapsed_s`, with the idle before it.
        """
        kernels = self.report.profile.kernels
        rows: list[dict[str, Any]] = [
            {**row, "machines": []}
            for row in kernels.select(
                "id", "name", "short_name", "module", "shape", "time_s"
            ).iter_rows(named=True)
        ]
        for projection in self.projections:
            for row, there in zip(rows, projection.table.iter_rows(named=True), strict=True):
                row["limiter"] = there["limiter_now"]
                row["elapsed_s"] = there["elapsed_s"]
                row["machines"].append(
                    {
                        "name": projection.machine.name,
                        "bound_s": there["bound_s"],
                        "predicted_s": there["busy_s"],
                        "low_s": there["busy_low_s"],
                        "high_s": there["busy_high_s"],
                        "predicted_elapsed_s": there["predicted_s"],
                        "limiter": there["limiter"],
                        "limiter_changes": there["limiter"] != there["limiter_now"],
                    }
                )
        return rows


def _machine(projection: Projection) -> dict[str, Any]:
    return {
        "name": projection.machine.name,
        "device": projection.machine.device,
        "bound_s": projection.bound_s,
        "predicted_s": projection.predicted_s,
        "low_s": projection.low_s,
        "high_s": projection.high_s,
        "by_limiter": projection.by_limiter,
        "outside_s": projection.outside_s,
        "limiter_changes_s": limiter_changes(projection),
    }


def limiter_changes(projection: Projection) -> dict[str, float]:
    """Predicted seconds of rows whose limiter becomes another, by `from → to`, longest first.

    Less than a thousandth of the run's is left out.
    """
    if projection.predicted_s is None:
        return {}
    changed = (
        projection.table.filter(pl.col("limiter") != pl.col("limiter_now"))
        .group_by("limiter_now", "limiter")
        .agg(pl.col("busy_s").fill_null(0.0).sum())
        .filter(pl.col("busy_s") >= LEAST_SHARE * projection.predicted_s)
        .sort("busy_s", "limiter_now", "limiter", descending=[True, False, False])
    )
    return {f"{now} → {then}": seconds for now, then, seconds in changed.iter_rows()}


def what_if(
    report: Report,
    machines: Sequence[Machine],
    change: Change | None = None,
    here: Machine | None = None,
    scope_of: Callable[[Machine], Scope] = lambda machine: "all",
    notes: Sequence[str] = (),
) -> WhatIf:
    """Project a judged run to machines; `here` is where it ran, if the report does not say.

    `scope_of` says which ceilings of a machine the run is held against (one core's or all).
    A machine that is named twice stands there once.
    """
    origin = here or report.machine
    if origin is None:
        raise UsageError(
            "the run does not say on which machine it was measured",
            advice="name it with --from, for example --from v100-sxm2",
        )
    measured_s = report.totals.ladder.measured_s
    projections = [
        project(
            report.profile,
            origin,
            there,
            change,
            measured_s=measured_s,
            scopes=(scope_of(origin), scope_of(there)),
        )
        for there in _once(machines) or [origin]
    ]
    return WhatIf(report, origin, tuple(projections), tuple(notes))


def _once(machines: Sequence[Machine]) -> list[Machine]:
    """Every machine once, in their order; one name may mean several."""
    found: list[Machine] = []
    for machine in machines:
        if machine not in found:
            found.append(machine)
    return found
