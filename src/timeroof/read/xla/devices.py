"""Which device an xplane is of. The file holds its properties, seldom its name."""

from __future__ import annotations

from timeroof.core.notes import Note
from timeroof.read.events import fitting_device
from timeroof.read.xla import space


def device_of(planes: list[space.Plane]) -> tuple[str | None, list[Note]]:
    """The device's name as far as the planes tell it, and a note on how it is known."""
    names = {_named(plane) for plane in planes}
    if len(names) == 1 and (name := names.pop()):
        return name, []
    facts = {_facts(plane) for plane in planes}
    return fitting_device(None, *facts.pop()) if len(facts) == 1 else (None, [])


def _named(plane: space.Plane) -> str | None:
    for key in ("device_name", "device_type_string", "device_type"):
        value = plane.stats.get(key)
        if isinstance(value, str) and value.strip():
            return value.strip()
    return None


def _facts(plane: space.Plane) -> tuple[str | None, float | None, int | None]:
    """Architecture, memory and cores."""
    keys = ("compute_cap_major", "compute_cap_minor", "memory_size", "core_count")
    values = (plane.stats.get(key) for key in keys)
    major, minor, memory, cores = (v if isinstance(v, int) else None for v in values)
    vendor = str(plane.stats.get("device_vendor", "")).upper()
    if major is None or minor is None:
        return None, None, None
    capability = f"gfx{major}{minor}" if "AMD" in vendor else f"{major}.{minor}"
    return capability, memory, cores
