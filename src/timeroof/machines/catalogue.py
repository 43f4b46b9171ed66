"""The catalogue: machines by their names and by the device names that profilers print."""

from __future__ import annotations

import difflib
import re
import zipfile
from collections.abc import Iterable
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from timeroof.core.errors import InputError, Note, UnknownMachineError
from timeroof.core.machine import LARGEST_FILE_BYTES, Machine, parse_machine, read_machine

if TYPE_CHECKING:
    from timeroof.core.profile import Profile

# A file that is named as a machine: a machine file under another suffix, or what it is instead.


_WAY = "`timeroof machine NAME --save FILE.toml` writes a machine file, which `--machine FILE.toml`"
HOW_TO = f"{_WAY} of any command takes"
HOW_TO_READ = f"`timeroof read FILE --machine NAME` reads it; {HOW_TO}"


def machine_in_file(path: Path) -> Machine:
    """The machine in a TOML file whose name does not end in .toml; other files are refused."""
    if not path.is_file():
        return read_machine(path)
    kind = _kind(path)
    if kind is not None:
        what, advice = kind
        raise InputError(f"{what}, no machine file", where=str(path), advice=advice)
    try:
        return read_machine(path)
    except InputError as error:
        advice = f"{error.advice}; {HOW_TO}" if error.advice else HOW_TO
        raise InputError(error.what, where=error.where, advice=advice) from error


def _kind(path: Path) -> tuple[str, str] | None:
    """What a file is and what to do with it; None for one that may be a machine file."""
    try:
        if zipfile.is_zipfile(path):
            return "is a saved run or an archive", HOW_TO_READ
        with path.open("rb") as stream:
            raw = stream.read(LARGEST_FILE_BYTES + 1)
    except OSError:
        return None  # whoever reads it says why it cannot be read
    if raw.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        return _json_kind(msgspec.json.decode(raw))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None if len(raw) <= LARGEST_FILE_BYTES else _json_kind(None)


def _json_kind(data: object) -> tuple[str, str]:
    fields = data if isinstance(data, dict) else {}
    schema = fields.get("schema")
    if isinstance(schema, str) and schema.startswith("timeroof."):
        return f"is a {schema[:40]} document, for scripts", HOW_TO
    if {"name", "ceilings", "memory"} <= set(fields):
        return "is a machine as JSON, for scripts", HOW_TO
    return "is JSON", HOW_TO_READ


# How close a name that nobody knows comes to a name of the catalogue.


# Below this likeness of letters two names have nothing to do with one another.
LEAST_LIKENESS = 0.7
# From here on a chip or a beginning is shared, not only like letters.
SHARED = 1
LONGEST = 80

_SIZE = re.compile(r"\d{1,2}|[\d.]+(gb|core|ghz)")
# The letter that is typed for a digit.
_SLIP = str.maketrans("o", "0")


def closeness(name: str, known: str) -> float:
    """How close a name comes to a known one, 0 where it does not; both plain, in lower case.

    A shared word that says which chip it is counts most, then a beginning, then like letters.

    >>> closeness("h100 96gb", "h100 80gb hbm3") > closeness("h10", "h100 nvl") > 1
    True
    >>> closeness("h1oo", "h100 nvl") > closeness("h1oo", "a100 pcie 40gb") > 0
    True
    >>> closeness("h10", "m2 10 core")
    0
    """
    asked, theirs = name[:LONGEST].split(), known.split()
    one, other = _joined(asked), _joined(theirs)
    like = _likeness(one, other)
    shared = set(asked) & set(theirs)
    if any(_tells(word) for word in shared):
        return SHARED + 1 + 0.1 * len(shared) + 0.05 * like
    if len(one) >= 2 and other.startswith(one):
        return SHARED + 0.05 * like
    # A slip in the beginning, or in one word of several.
    starts = [_likeness(one, other[: len(one)])] if len(one) >= 3 else []
    words = [_likeness(_joined([a]), t) for a in asked if _tells(a) for t in theirs if _tells(t)]
    nearest = max([like, *starts, *words])
    return nearest if nearest >= LEAST_LIKENESS else 0


def _tells(word: str) -> bool:
    """Whether a word says which chip it is: it has a digit and is no size, count or clock."""
    return re.search(r"\d", word) is not None and not _SIZE.fullmatch(word)


def _joined(words: list[str]) -> str:
    return "".join(words).translate(_SLIP)


def _likeness(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other, autojunk=False).ratio()


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


@cache
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
    words = frozenset(asked.split())
    # Files whose own names share words with the device's come first: most devices need one file.
    for name in sorted(machine_names(), key=lambda name: -len(words.intersection(name.split("-")))):
        if _may_name(name, asked) and asked in _known_as(name):
            return catalogue_machine(name)
    return None


# Words that make another chip, or a part of one, of a chip's number.
_OTHER_CHIP = frozenset({"ti", "super", "xt", "xtx", "laptop", "mig"})
# Kernels built for these run on nothing else; `sm80_…` runs on later generations, too.
_BUILT_FOR = re.compile(r"sm_?(?P<major>9|10|12)(?P<minor>\d)a?_")


def inferred_machine(device: str | None, kernels: Iterable[str] = ()) -> Machine | None:
    """The GPU of the catalogue that a device of another name must be like; of several the fastest.

    The fastest, because a bound must not exceed what the device takes. A device's name tells its
    chip (`NVIDIA H100`) or its architecture (`gfx942`); where a file names no device, names of
    kernels may tell what they were built for.

    >>> inferred_machine("Tesla V100-DGXS-32GB").name, inferred_machine("NVIDIA H100").name
    ('v100-sxm2-32gb', 'h100-sxm')
    >>> inferred_machine("gfx942").name, inferred_machine(None, ["sm90_xmma_gemm_bf16"]).name
    ('mi325x', 'h200')
    >>> inferred_machine("AMD Radeon Graphics"), inferred_machine("NVIDIA RTX 4090 Laptop GPU")
    (None, None)
    """
    built_for = {f"{m['major']}.{m['minor']}" for name in kernels if (m := _BUILT_FOR.search(name))}
    words = set(_plain(device).split()) if device else built_for
    found = [machine for name in machine_names() if (machine := _of_chip(name, words))]
    return max(found, key=lambda machine: _likeness_and_speed(machine, words), default=None)


# What a device reports of its memory is a little less than what it has.
_REPORTED_MEMORY = (0.85, 1.02)
# First-level caches come in pieces of this size per core; NVIDIA's per multiprocessor are one size
# per compute capability (CUDA C++ Programming Guide, unified data cache).
_CACHE_PIECE_BYTES = 8192
_CACHE_KIB = {
    "7.0": 128, "7.5": 96, "8.0": 192, "8.6": 128, "8.7": 192, "8.9": 128, "9.0": 256,
    "10.0": 256, "12.0": 128,
}  # fmt: skip


def fitting_machine(
    capability: str, memory_bytes: float | None = None, cores: int | None = None
) -> Machine | None:
    """The GPU of the catalogue that a device's properties fit; of several the fastest.

    `capability` is NVIDIA's compute capability (`9.0`), AMD's architecture (`gfx942`) or the
    beginning of it (`gfx94`), which is all that some tools record.

    >>> gib = 2**30
    >>> fitting_machine("gfx94", 192 * gib, 304).name, fitting_machine("gfx90", 64 * gib, 104).name
    ('mi300x', 'mi210')
    >>> fitting_machine("9.0", 79.1 * gib, 114).name, fitting_machine("12.0").name
    ('h100-pcie', 'rtx-pro-6000')
    >>> fitting_machine("9.0", 16 * gib), fitting_machine("3.5")
    (None, None)
    """
    found = [
        machine
        for name in machine_names()
        if capability in _toml(name) and _fits(machine := catalogue_machine(name), capability)
        if _has_memory(machine, memory_bytes) and _has_cores(machine, cores)
    ]
    return max(found, key=lambda machine: _likeness_and_speed(machine, set()), default=None)


def _fits(machine: Machine, capability: str) -> bool:
    known = machine.compute_capability or ""
    begins = capability.startswith("gfx") and known.startswith(capability)
    return machine.kind == "gpu" and bool(machine.device_names) and (begins or known == capability)


def _has_memory(machine: Machine, memory_bytes: float | None) -> bool:
    sizes = [m.size_bytes for m in machine.memory if m.level == "dram"]
    if not memory_bytes or not sizes:
        return True
    least, most = _REPORTED_MEMORY
    return least * sizes[0] <= memory_bytes <= most * sizes[0]


def _has_cores(machine: Machine, cores: int | None) -> bool:
    """Whether its first-level caches can be those of so many cores."""
    sizes = [m.size_bytes for m in machine.memory if m.level == "l1"]
    if not cores or not sizes:
        return True
    per_core = _CACHE_KIB.get(machine.compute_capability or "")
    if per_core is not None:
        return int(sizes[0]) == cores * per_core * 1024
    return int(sizes[0]) % (cores * _CACHE_PIECE_BYTES) == 0


def _of_chip(name: str, words: set[str]) -> Machine | None:
    """The machine if it is a GPU that the words name; a bare number must be its whole name."""
    if not any(_tells(word) and word in f"{name}\n{_toml(name)}".lower() for word in words):
        return None
    machine = catalogue_machine(name)
    named = _words_of(machine)
    shared = {word for word in words & named if _tells(word)}
    if machine.kind != "gpu" or not machine.device_names or not shared:
        return None
    if (words - named) & _OTHER_CHIP:
        return None
    whole = set(_plain(machine.name).split()) <= words
    return machine if whole or not all(word.isdecimal() for word in shared) else None


def _words_of(machine: Machine) -> set[str]:
    names = (machine.name, machine.device, *machine.device_names, machine.compute_capability or "")
    return set(_plain(" ".join(names)).split())


def _likeness_and_speed(machine: Machine, words: set[str]) -> tuple[float, ...]:
    """By words, then by arithmetic, memory and links; rates are equal to two digits."""

    def fastest(of: str) -> float:
        rates = (c.rate for c in machine.ceilings if c.resource.startswith(of))
        return float(f"{max(rates, default=0.0):.1e}")

    speeds = (fastest(of) for of in ("flop/", "byte/dram", "link/"))
    return (len(words & _words_of(machine)), *speeds)


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


# Chips have short names; a damaged file's may be megabytes, and is compared with every machine.
LONGEST_NAME = 400


def _plain(name: str) -> str:
    """A name without case, maker and punctuation.

    >>> _plain("NVIDIA A100-SXM4-40GB"), _plain("Intel(R) Xeon(R) Platinum 8280 CPU @ 2.70GHz")
    ('a100 sxm4 40gb', 'xeon platinum 8280 cpu 2.70ghz')
    """
    return _spaced(_NOISE.sub(" ", name[:LONGEST_NAME].lower()))


def _spaced(name: str) -> str:
    return _GAP.sub(" ", name.lower()).strip()


def _shown(name: str) -> str:
    return repr(name if len(name) <= 60 else name[:57] + "...")


def machine_for(profile: Profile, named: Machine | None) -> tuple[Machine | None, list[Note]]:
    """The machine that was named, else the profile's device, or one that must be like it."""
    device = profile.device
    own = machine_of_device(device) if device else None
    if named is not None:
        return named, _other_device(own, named)
    found = own
    if found is not None:
        return found, []
    found = inferred_machine(device, profile.kernels["name"].unique().to_list())
    if found is not None:
        said = f"names {device!r}" if device else "names no device"
        words = f"The file {said}: it is compared with {found.name}, the fastest that it can be."
        return found, [Note(f"{words} --machine names another.", "inferred-machine", "warning")]
    if device is None:
        return None, []
    words = f"The device {device!r} is not in the catalogue: name a machine with --machine."
    return None, [Note(words, "unknown-device", "warning")]


def _other_device(own: Machine | None, named: Machine) -> list[Note]:
    """That times and bounds are of two GPUs; figures of the user's own keep the GPU's name."""
    if own is None or own.launching != "asynchronous" or own.name == named.name:
        return []
    like = machine_of_device(named.device) if named.device else None
    if named.device == own.device or (like is not None and like.name == own.name):
        return []
    if any(device in (named.device or "") for device in own.device_names):
        return []  # "Tesla V100-SXM2-16GB as measured for ..."
    words = (
        f"Measured on {own.name}, compared with {named.name}: bounds are for that device, times are"
        f" from {own.name}. `timeroof whatif` predicts times."
    )
    return [Note(words, "other-device", "warning")]
