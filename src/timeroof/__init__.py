"""timeroof: where the seconds of a deep-learning program go, and how many can come back.

Heavy libraries load on first use, so `import timeroof` costs next to nothing.
"""

from importlib import import_module

from timeroof.core import VERSION

# As in typing, which is not imported here: `python -m timeroof` would look for it in the
# working folder first (see timeroof.core).
TYPE_CHECKING = False
if TYPE_CHECKING:
    from timeroof.api.live import run
    from timeroof.api.profiling import profile
    from timeroof.api.reports import Report, analyze, load, machine
    from timeroof.core.errors import TimeroofError
    from timeroof.core.machine import Ceiling, Machine, MemoryLevel
    from timeroof.core.profile import Profile, Source
    from timeroof.core.report import Finding
    from timeroof.live.costing import cost
    from timeroof.study.sweep import sweep
    from timeroof.work.counting import cost_of
    from timeroof_recorder import step

_HOMES = {
    "analyze": "timeroof.api.reports",
    "load": "timeroof.api.reports",
    "machine": "timeroof.api.reports",
    "Ceiling": "timeroof.core.machine",
    "Machine": "timeroof.core.machine",
    "MemoryLevel": "timeroof.core.machine",
    "Profile": "timeroof.core.profile",
    "Source": "timeroof.core.profile",
    "Finding": "timeroof.core.report",
    "Report": "timeroof.api.reports",
    "TimeroofError": "timeroof.core.errors",
    "cost": "timeroof.live.costing",
    "cost_of": "timeroof.work.counting",
    "profile": "timeroof.api.profiling",
    "run": "timeroof.api.live",
    "step": "timeroof_recorder",
    "sweep": "timeroof.study.sweep",
}

__version__ = VERSION

__all__ = [
    "Ceiling",
    "Finding",
    "Machine",
    "MemoryLevel",
    "Profile",
    "Report",
    "Source",
    "TimeroofError",
    "__version__",
    "analyze",
    "cost",
    "cost_of",
    "load",
    "machine",
    "profile",
    "run",
    "step",
    "sweep",
]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        found: object = getattr(import_module(_HOMES[name]), name)
        return found
    raise AttributeError(f"module 'timeroof' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
