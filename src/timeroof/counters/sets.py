"""Metric sets as data (TOML): which counters tell an architecture's time, FLOPs and bytes."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources

import msgspec

from timeroof.core.errors import InputError, UsageError
from timeroof.core.resources import Origin, is_resource
from timeroof.core.schema import check_schema
from timeroof.read.nvidia.ncu_metrics import capability_of

SCHEMA = "timeroof.counters/1"
# The resource of metrics that tell a kernel's seconds.
TIME = "time"


class Choice(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Metrics that together tell one amount: their sum times a factor.

    Without a factor the metric counts something without a fixed size: zero means none, and
    more means that the amount is unknown.
    """

    names: list[str]
    factor: float | None = None
    origin: Origin = "measured"
    # "machine": counts all programs, so perf has to watch the whole machine.
    scope: str = "program"


class Entry(Choice, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """An amount of one resource, and what to collect instead where a profiler lacks it."""

    resource: str
    meaning: str
    pass_: int = msgspec.field(default=1, name="pass")
    # A chip that lacks it has no unit for it either: nothing is missing.
    optional: bool = False
    instead: list[Choice] = []

    @property
    def choices(self) -> list[Choice]:
        """All ways to tell the amount, the best first."""
        own = Choice(names=self.names, factor=self.factor, origin=self.origin, scope=self.scope)
        return [own, *self.instead]


class MetricSet(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The metrics of one architecture for one profiler."""

    schema: str
    tool: str
    architecture: str
    title: str
    source: str
    entry: list[Entry] = []
    extends: str | None = None
    matches: list[str] = []
    notes: list[str] = []


@cache
def set_names() -> tuple[str, ...]:
    """Names of all metric sets."""
    files = _folder().iterdir()
    return tuple(sorted(f.name.removesuffix(".toml") for f in files if f.name.endswith(".toml")))


@cache
def load_set(name: str) -> MetricSet:
    """A metric set by its file's name; entries take the place of those it extends.

    >>> [e.factor for e in load_set("volta").entry if e.resource == "flop/fp16-tensor"]
    [512.0]
    """
    where = f"sets/{name}.toml"
    found = parse_set((_folder() / f"{name}.toml").read_text(encoding="utf-8"), where)
    if found.extends is None:
        return found
    base = load_set(found.extends)
    own = {e.resource for e in found.entry}
    entries = [*(e for e in base.entry if e.resource not in own), *found.entry]
    entries.sort(key=lambda e: e.resource != TIME)
    return msgspec.structs.replace(found, entry=entries, notes=[*base.notes, *found.notes])


def parse_set(text: str, where: str) -> MetricSet:
    """A metric set from TOML, checked."""
    try:
        raw = tomllib.loads(text)
        check_schema(raw.get("schema"), SCHEMA, where)
        found = msgspec.convert(raw, MetricSet)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise InputError(f"is no metric set ({error})", where=where) from error
    for entry in found.entry:
        if entry.resource != TIME and not is_resource(entry.resource):
            raise InputError(f"{entry.resource!r} is no resource", where=where)
    return found


def find_set(tool: str, architecture: str) -> MetricSet:
    """The set for an architecture's name, compute capability or gfx number.

    >>> find_set("ncu", "sm_90").architecture, find_set("rocprofv3", "gfx942").architecture
    ('Hopper', 'CDNA3')
    """
    plain = architecture.strip().lower()
    wanted = {plain, plain.split(":", maxsplit=1)[0], capability_of(architecture) or plain}
    known = [s for s in map(load_set, set_names()) if s.tool == tool and s.matches]
    for candidate in known:
        names = {candidate.architecture.lower(), *(m.lower() for m in candidate.matches)}
        if wanted & names or _is_zen(plain, candidate):
            return candidate
    raise UsageError(
        f"{tool} has no metric set for {architecture!r}",
        advice=f"use one of {', '.join(s.architecture for s in known)}",
    )


def _is_zen(plain: str, candidate: MetricSet) -> bool:
    return candidate.architecture == "Zen" and plain.startswith("zen")


def _folder() -> resources.abc.Traversable:
    return resources.files("timeroof.counters") / "sets"
