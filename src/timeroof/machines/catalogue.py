"""The catalogue: machines by their names and by the device names that profilers print."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from pathlib import Path

from timeroof.core.errors import UnknownMachineError
from timeroof.core.machine import Machine
from timeroof.core.machine_file import parse_machine, read_machine
from timeroof.machines.named_file import machine_in_file
from timeroof.machines.nearest import SHARED, closeness

NEAREST = 5

_NOISE = re.compile(r"\((r|tm)\)|®|™|\b(nvidia|amd|intel|apple|corporation|graphics|gpu)\b")
_GAP = re.compile(r"[\s_/@,-]+")


@cache
def machine_names() -> tuple[str, ...]:
    """Names of all machines in the catalogue, in order."""
    files = resources.files("timeroof.machines").iterdir()
    return tuple(sorted(f.name.removesuffix(".toml") for f in files if f.name.endswith(".toml")))


@cache
def catalogue_machine(name: str) -> Machine:
    """One machine of the catalogue by its own name."""
    return parse_machine(_toml(name), where=f"machines/{name}.toml")


def _toml(name: str) -> str:
    return (resources.files("timeroof.machines") / f"{name}.toml").read_text(encoding="utf-8")


def find_machine(name: str) -> Machine:
    """A machine by catalogue name, by the device name a profiler prints, or by a TOML file's path.

    >>> find_machine("Tesla V100-SXM2-32GB").architecture
    'Volta'
    """
    if name in machine_names():
        return catalogue_machine(name)
    path = Path(name)
    if path.suffix == ".toml":
        return read_machine(path)
    found = machine_of_device(name)
    if found is not None:
        return found
    if _exists(path):
        return machine_in_file(path)
    raise unknown_machine(name)


def _exists(path: Path) -> bool:
    try:
        # A folder that happens to bear a short name is not what was meant.
        return path.is_file() or (path.parent != Path() and path.exists())
    except OSError:
        return False  # longer than any file's name


def machine_of_device(device: str) -> Machine | None:
    """The machine whose name, title or device names equal `device`, spelling aside."""
    asked = _plain(device)
    for name in machine_names():
        if _may_name(name, asked) and asked in _known_as(name):
            return catalogue_machine(name)
    return None


def _may_name(name: str, asked: str) -> bool:
    """Whether a machine's file has all words that are asked for: parsing is for those that do.

    Where TOML writes characters as escapes, its text says nothing.
    """
    text = _toml(name)
    if "\\" in text:
        return True
    plain = f"{name}\n{text}".lower()
    return all(word in plain for word in asked.split())


def _known_as(name: str) -> list[str]:
    """The plain names of a machine of the catalogue."""
    machine = catalogue_machine(name)
    return [_plain(known) for known in (name, machine.device, *machine.device_names)]


def unknown_machine(name: str) -> UnknownMachineError:
    """The error for a name that the catalogue does not have, with the nearest that it has."""
    near = nearest_machines(name)
    return UnknownMachineError(
        f"no machine is called {_shown(name)}",
        advice=(f"the nearest are {', '.join(near)}; " if near else "")
        + "`timeroof machines` lists all, and a TOML file of your own works too",
    )


def nearest_machines(name: str) -> list[str]:
    """Names in the catalogue that come closest to a name, the closest first.

    >>> nearest_machines("h1oo")[:3]
    ['h100-nvl', 'h100-sxm', 'h100-pcie']
    """
    # The maker is part of some names (apple-m1) and left out of others.
    asked = [text for text in dict.fromkeys([_plain(name), _spaced(name)]) if text]
    best: dict[str, float] = {}
    for known, machine in _device_index().items():
        for key in (known, _spaced(machine)):
            close = max((closeness(text, key) for text in asked), default=0)
            best[machine] = max(best.get(machine, 0), close)
    # Where a chip or a beginning is shared, names of like letters are of other chips.
    least = SHARED if max(best.values()) >= SHARED else 0
    found = sorted((m for m in best if best[m] > 0), key=lambda m: (-best[m], m))
    return [m for m in found if best[m] >= least][:NEAREST]


@cache
def _device_index() -> dict[str, str]:
    index: dict[str, str] = {}
    for name in machine_names():
        for known in _known_as(name):
            index.setdefault(known, name)
    return index


def _plain(name: str) -> str:
    """A name without case, maker and punctuation.

    >>> _plain("NVIDIA A100-SXM4-40GB"), _plain("Intel(R) Xeon(R) Platinum 8280 CPU @ 2.70GHz")
    ('a100 sxm4 40gb', 'xeon platinum 8280 cpu 2.70ghz')
    """
    return _spaced(_NOISE.sub(" ", name.lower()))


def _spaced(name: str) -> str:
    return _GAP.sub(" ", name.lower()).strip()


def _shown(name: str) -> str:
    return repr(name if len(name) <= 60 else name[:57] + "...")
