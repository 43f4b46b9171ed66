"""Measurements kept under the user's data folder, one file per machine and set-up."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from timeroof.core.errors import InputError
from timeroof.core.kept import HOME_VARIABLE
from timeroof.core.machine import check_machine
from timeroof.core.writing import write_atomically
from timeroof.probe.measurement import MEASUREMENT_SCHEMA, Measurement


def home() -> Path:
    """The folder for what timeroof keeps; the variable TIMEROOF_HOME overrides it."""
    given = os.environ.get(HOME_VARIABLE)
    if given:
        return Path(given)
    import platformdirs

    return Path(platformdirs.user_data_path("timeroof", appauthor=False))


def path_of(fingerprint: str, *, quick: bool) -> Path:
    """Where the measurement of a machine is kept; quick ones never replace full ones."""
    return home() / "measured" / f"{fingerprint}{'-quick' if quick else ''}.json"


def save(measurement: Measurement) -> Path:
    """Keep a measurement; an interrupted write leaves the one before intact."""
    path = path_of(measurement.fingerprint, quick=measurement.quick)
    write_atomically(path, msgspec.json.format(msgspec.json.encode(measurement), indent=1))
    return path


def load(fingerprint: str, *, quick: bool) -> tuple[Measurement | None, str | None]:
    """The kept measurement, or None and, where a file is there but unusable, why."""
    path = path_of(fingerprint, quick=quick)
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Measurement)
        check_machine(found.machine, str(path))
    except (FileNotFoundError, NotADirectoryError):
        return None, None
    except (OSError, msgspec.MsgspecError, InputError, UnicodeDecodeError) as error:
        return None, f"the kept measurement {path.name} cannot be used ({error})"
    if found.schema != MEASUREMENT_SCHEMA or found.fingerprint != fingerprint:
        return None, f"the kept measurement {path.name} is of another version"
    return found, None


def load_best(fingerprint: str) -> tuple[Measurement | None, list[str]]:
    """The full measurement if there is one, else the quick one; and what went wrong."""
    notes = []
    for quick in (False, True):
        found, note = load(fingerprint, quick=quick)
        if note:
            notes.append(note)
        if found is not None:
            return found, notes
    return None, notes
