"""Which metrics to collect: those of the set that the installed profiler knows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from timeroof.counters.sets import Choice, Entry, MetricSet


@dataclass(frozen=True)
class Selected:
    """One entry of a set and the way chosen to tell it."""

    entry: Entry
    choice: Choice


@dataclass(frozen=True)
class Selection:
    """What is collected, and why the rest is not."""

    selected: tuple[Selected, ...]
    left_out: dict[str, str] = field(default_factory=dict)
    # Resources of which a part cannot be counted.
    unknown: frozenset[str] = frozenset()

    @property
    def metrics(self) -> tuple[str, ...]:
        """All metrics in order, each once."""
        return tuple(dict.fromkeys(n for s in self.selected for n in s.choice.names))

    def groups(self, most: int | None) -> list[tuple[str, ...]]:
        """The metrics of each run: by the set's passes, or at most so many together."""
        if most is not None:
            names = self.metrics
            return [names[i : i + most] for i in range(0, len(names), most)]
        passes: dict[int, list[str]] = {}
        for one in self.selected:
            passes.setdefault(one.entry.pass_, []).extend(one.choice.names)
        return [tuple(dict.fromkeys(passes[p])) for p in sorted(passes)]

    def without(self, metrics: Iterable[str], why: str) -> Selection:
        """The selection without some metrics that turned out not to be there."""
        gone = set(metrics)
        kept = tuple(s for s in self.selected if not gone & set(s.choice.names))
        lost = {s.entry.resource for s in self.selected if s not in kept}
        left_out = self.left_out | dict.fromkeys(sorted(gone), why)
        return Selection(kept, left_out, self.unknown | lost)


def select(
    metrics: MetricSet, knows: Callable[[str], bool], why: str, *, whole_machine: bool = False
) -> Selection:
    """The best way of every entry that the profiler knows; what it does not is left out."""
    selected, left_out, unknown = [], dict[str, str](), set[str]()
    for entry in metrics.entry:
        ways = [c for c in entry.choices if c.scope != "machine" or whole_machine]
        chosen = next((c for c in ways if all(map(knows, c.names))), None)
        if chosen is not None:
            selected.append(Selected(entry, chosen))
        elif not entry.optional:
            left_out |= dict.fromkeys(ways[0].names if ways else entry.names, why)
            unknown.add(entry.resource)
    return Selection(tuple(selected), left_out, frozenset(unknown))


def base_name(metric: str) -> str:
    """A metric without its roll-up, as profilers list it.

    >>> base_name("sm__cycles_elapsed.avg.per_second")
    'sm__cycles_elapsed'
    """
    return metric.split(".", maxsplit=1)[0]


def words(text: str) -> set[str]:
    """The names in a profiler's listing, whatever its layout."""
    return set(re.findall(r"[A-Za-z][A-Za-z0-9_]{3,}", text))
