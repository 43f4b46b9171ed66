"""From perf's events to amounts of resources."""

from __future__ import annotations

from dataclasses import dataclass

from timeroof.core.resources import FAULT
from timeroof.counters.perf_stat import WHOLE_TIME
from timeroof.counters.selecting import Selection
from timeroof.read.launches import shown_list


@dataclass(frozen=True)
class Counts:
    """Values of events per number of repetitions, and the share of time each was counted."""

    values: dict[int, dict[str, float]]
    shares: dict[str, float]
    subtract: bool = False

    def of(self, event: str) -> float | None:
        """What the region counts: all of it, or two repetitions less one.

        Less in two repetitions than in one is noise, and unknown.
        """
        one = self.values.get(1, {}).get(event)
        if not self.subtract or one is None:
            return one
        two = self.values.get(2, {}).get(event)
        return None if two is None or two < one else two - one


def amounts_of(selection: Selection, counts: Counts) -> tuple[dict[str, object], list[str]]:
    """A row's amounts and origins, and what to say about them."""
    row: dict[str, object] = {}
    lost, scaled = [], []
    for one in selection.selected:
        resource, factor = one.entry.resource, one.choice.factor or 1.0
        for event in one.choice.names:
            value = counts.of(event)
            if value is None:
                lost.append(event)
            elif counts.shares.get(event, 1.0) < WHOLE_TIME:
                scaled.append(event)
            _add(row, resource, None if value is None else factor * value)
        origin = "inferred" if set(one.choice.names) & set(scaled) else one.choice.origin
        _add_origin(row, resource, origin)
    # An amount of which a part was not counted is unknown.
    row |= dict.fromkeys(sorted(selection.unknown))
    faults = counts.of("page-faults")
    if faults is not None:
        row[FAULT] = faults
    return row, _notes(lost, scaled)


def _add(row: dict[str, object], resource: str, value: float | None) -> None:
    """Add to an amount; unknown and something is unknown."""
    held = row.get(resource, 0.0)
    known = isinstance(held, float) and value is not None
    row[resource] = held + value if known else None  # type: ignore[operator]


def _add_origin(row: dict[str, object], resource: str, origin: str) -> None:
    kind, _, level = resource.partition("/")
    name = "origin.flops" if kind == "flop" else f"origin.bytes/{level}"
    if row.get(name) != "inferred":
        row[name] = origin


def _notes(lost: list[str], scaled: list[str]) -> list[str]:
    notes = []
    if lost:
        notes.append(
            f"Lost in noise or not counted: {shown_list(lost)}; their amounts are unknown."
        )
    if scaled:
        notes.append(
            f"Counters took turns, so these are estimates: {shown_list(scaled)}. Fewer metrics"
            " per run make them exact."
        )
    return notes
