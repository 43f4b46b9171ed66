"""The catalogue: machines by their names and by the device names that profilers print."""

from __future__ import annotations

import difflib
import re
from functools import cache
from importlib import resources
from pathlib import Path

from timeroof.core.machine import Machine
from timeroof.core.machine_file import parse_machine, read_machine
from timeroof.errors import UnknownMachineError

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
    file = resources.files("timeroof.machines") / f"{name}.toml"
    return parse_machine(file.read_text(encoding="utf-8"), where=f"machines/{name}.toml")


def find_machine(name: str) -> Machine:
    """A machine by catalogue name, by the device name a profiler prints, or by a TOML file's path.

    >>> find_machine("Tesla V100-SXM2-32GB").architecture
    'Volta'
    """
    if name in machine_names():
        return catalogue_machine(name)
    path = Path(name)
    if path.suffix == ".toml" or (path.parent != Path() and path.exists()):
        return read_machine(path)
    found = machine_of_device(name)
    if found is None:
        raise unknown_machine(name)
    return found


def machine_of_device(device: str) -> Machine | None:
    """The machine whose name, title or device names equal `device`, spelling aside."""
    name = _device_index().get(_plain(device))
    return None if name is None else catalogue_machine(name)


def unknown_machine(name: str) -> UnknownMachineError:
    """The error for a name that the catalogue does not have, with the nearest that it has."""
    near = nearest_machines(name)
    return UnknownMachineError(
        f"no machine is called {_shown(name)}",
        advice=(f"the nearest are {', '.join(near)}; " if near else "")
        + "`timeroof machines` lists all, and a TOML file of your own works too",
    )


def nearest_machines(name: str) -> list[str]:
    """Names in the catalogue that come closest to a name."""
    plain = _plain(name)
    index = _device_index()
    words = set(plain.split())
    shared = sorted(
        ((len(words & set(key.split())), key) for key in index), key=lambda pair: -pair[0]
    )
    by_word = [index[key] for count, key in shared if count and _telling(words, key)]
    if not by_word:
        by_word = [index[key] for key in index if _nearly_shares(words, key)]
    by_letter = [index[key] for key in difflib.get_close_matches(plain[:80], index, NEAREST, 0.6)]
    return list(dict.fromkeys([*by_word, *by_letter]))[:NEAREST]


def _telling(words: set[str], key: str) -> bool:
    """Whether a shared word says which chip it is: it has a digit and is no memory size."""
    common = words & set(key.split())
    return any(re.search(r"\d", w) and not re.fullmatch(r"\d+(gb|core)?", w) for w in common)


def _nearly_shares(words: set[str], key: str) -> bool:
    """Whether a word with a digit is one slip away from a word of a known name."""
    telling = [w for w in words if re.search(r"\d", w)]
    return any(difflib.get_close_matches(w[:40], key.split(), 1, 0.74) for w in telling)


@cache
def _device_index() -> dict[str, str]:
    index: dict[str, str] = {}
    for name in machine_names():
        machine = catalogue_machine(name)
        for known in (name, machine.device, *machine.device_names):
            index.setdefault(_plain(known), name)
    return index


def _plain(name: str) -> str:
    """A name without case, maker and punctuation.

    >>> _plain("NVIDIA A100-SXM4-40GB"), _plain("Intel(R) Xeon(R) Platinum 8280 CPU @ 2.70GHz")
    ('a100 sxm4 40gb', 'xeon platinum 8280 cpu 2.70ghz')
    """
    return _GAP.sub(" ", _NOISE.sub(" ", name.lower())).strip()


def _shown(name: str) -> str:
    return repr(name if len(name) <= 60 else name[:57] + "...")
