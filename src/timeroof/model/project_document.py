"""A run on several machines side by side, and its JSON, `timeroof.whatif/1`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from timeroof.core.machine import Machine
from timeroof.core.report import Report
from timeroof.core.resources import Scope
from timeroof.errors import UsageError
from timeroof.model.project import Change, Projection, project

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

    def document(self) -> dict[str, Any]:
        """The contract's JSON."""
        return {
            "schema": WHATIF_SCHEMA,
            "from": self.here.name,
            "measured_s": self.report.totals.ladder.measured_s,
            "measured_bound_s": self.report.totals.bound_s,
            "known_time_share": self.report.totals.known_time_share,
            "machines": [_machine(p) for p in self.projections],
            "rows": self._rows(),
            "notes": [MODEL, *dict.fromkeys(n for p in self.projections for n in p.notes)],
        }

    def _rows(self) -> list[dict[str, Any]]:
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
                        **{k: there[k] for k in ("bound_s", "predicted_s", "low_s", "high_s")},
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
    """Predicted seconds of rows whose limiter becomes another, by `from → to`."""
    changed: dict[str, float] = {}
    for row in projection.table.iter_rows(named=True):
        if row["limiter"] != row["limiter_now"]:
            key = f"{row['limiter_now']} → {row['limiter']}"
            changed[key] = changed.get(key, 0.0) + (row["predicted_s"] or 0.0)
    return dict(sorted(changed.items(), key=lambda item: -item[1]))


def what_if(
    report: Report,
    machines: Sequence[Machine],
    change: Change | None = None,
    here: Machine | None = None,
    scope_of: Callable[[Machine], Scope] = lambda machine: "all",
) -> WhatIf:
    """Project a judged run to machines; `here` is where it ran, if the report does not say.

    `scope_of` says which ceilings of a machine the run is held against (one core's or all).
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
        for there in machines or [origin]
    ]
    return WhatIf(report, origin, tuple(projections))
