"""What has to be said about a collection: what came from where, and what is missing."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import msgspec

from timeroof.counters.options import Collected
from timeroof.read.launches import shown_list

SHOWN = 12


def finished(collected: Collected, notes: list[str]) -> Collected:
    """A collection whose profile says how it came about."""
    profile = collected.profile
    source = msgspec.structs.replace(
        profile.source,
        tool=collected.tool,
        version=collected.version,
        command=" ".join(collected.commands[0]) if collected.commands else None,
    )
    first = (
        f"Counters are measured by {collected.tool} {collected.version} with the metric set"
        f" {collected.architecture}."
    )
    said = [first, *notes, *_missing(collected)]
    if collected.interrupted:
        said.append("Counting was interrupted: the rest of the program was not counted.")
    return replace(
        collected,
        profile=replace(
            profile, source=source, notes=tuple(dict.fromkeys([*said, *profile.notes]))
        ),
    )


def _missing(collected: Collected) -> list[str]:
    by_reason: dict[str, list[str]] = defaultdict(list)
    for metric, why in collected.not_collected.items():
        by_reason[why].append(metric)
    return [f"Not collected, as {why}: {shown_list(m, SHOWN)}." for why, m in by_reason.items()]
