"""Which device an xplane is of. The file holds its properties, seldom its name."""

from __future__ import annotations

from timeroof.core.notes import Note
from timeroof.read.xla import space

GIB = 2**30
# (maker, capability, cores, GiB at least, GiB at most) → the one product that fits.
_FITTING = (
    ("AMD", (9, 4), 304, 180, 200, "AMD Instinct MI300X"),
    ("AMD", (9, 4), 304, 240, 260, "AMD Instinct MI325X"),
    ("AMD", (9, 4), 228, 100, 130, "AMD Instinct MI300A"),
    ("NVIDIA", (9, 0), 132, 78, 82, "NVIDIA H100 80GB HBM3"),
    ("NVIDIA", (9, 0), 132, 135, 145, "NVIDIA H200"),
    ("NVIDIA", (9, 0), 114, 78, 82, "NVIDIA H100 PCIe"),
)


def device_of(planes: list[space.Plane]) -> tuple[str | None, list[Note]]:
    """The device's name as far as the planes tell it, and a note on how it is known."""
    names = {_named(plane) for plane in planes}
    if len(names) == 1 and (name := names.pop()):
        return name, []
    fitting = {_fitting(plane) for plane in planes}
    if len(fitting) == 1 and (name := fitting.pop()):
        text = f"The file names no device; cores, memory and capability fit {name}."
        return name, [Note(text, "inferred-device")]
    return None, []


def _named(plane: space.Plane) -> str | None:
    for key in ("device_name", "device_type_string", "device_type"):
        value = plane.stats.get(key)
        if isinstance(value, str) and value.strip():
            return value.strip()
    return None


def _fitting(plane: space.Plane) -> str | None:
    stats = plane.stats
    vendor = str(stats.get("device_vendor", "")).upper()
    capability = (stats.get("compute_cap_major"), stats.get("compute_cap_minor"))
    memory = stats.get("memory_size", 0)
    size = memory / GIB if isinstance(memory, int | float) else 0
    for maker, wanted, cores, low, high, name in _FITTING:
        alike = capability == wanted and stats.get("core_count") == cores
        if maker in vendor and alike and low <= size <= high:
            return name
    return None
