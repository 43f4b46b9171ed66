"""Files of every format with parts replaced by nonsense: a report that can be true, or a message.

`make test` tries a few; `python -m tests.fuzz.test_structure --minutes 60` many, with a fresh seed:
of each file in turn one with other parts and one with other bytes. What fails is kept in a folder,
what was tried is added to a log, whose sum `--sum` prints.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import hashlib
import json
import random
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.fuzz import test_readers
from tests.fuzz.corpus import corpus
from tests.fuzz.structure import mutated
from tests.fuzz.test_readers import check
from tests.recorded_data import looked_at
from timeroof.api import reports
from timeroof.core.profile import Profile
from timeroof.core.run_file import SavedRun

FEW = 6
# A recorded file takes part where it is small: many are tried.
LARGEST_BYTES = 40_000
RARELY = 20
# One file takes this much CPU time at most.
SLOWEST_S = 10.0
# One that takes this much longer hangs: the process ends and says where it was.
HANGS_S = 300
LOGGED_S = 60.0
MOST_REMEMBERED = 20_000


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return corpus(tmp_path_factory.mktemp("corpus"))


@pytest.mark.parametrize("turn", range(FEW))
def test_a_file_with_other_parts_is_read_or_refused(
    samples: dict[str, bytes], turn: int, tmp_path: Path
) -> None:
    for name, data in samples.items():
        chance = random.Random(f"{turn} {name}")
        path = tmp_path / "file"
        path.write_bytes(mutated(data, chance, tmp_path) or b"x")
        check(path)


class JudgedBefore(Exception):  # noqa: N818
    """A file that holds a profile as one before: a judgement would be the same, too."""


class Novelty:
    """`read_run` of the reports, which ends where the profile was judged before.

    Most of the time goes into judging, and every third file that is read differs from another one
    in what no profile has.
    """

    def __init__(self) -> None:
        self.seen: set[bytes] = set()
        self.read_run = reports.read_run

    def __call__(self, *args: object, **kwargs: object) -> SavedRun:
        run = self.read_run(*args, **kwargs)  # type: ignore[arg-type]
        key = self._digest(run)
        if key in self.seen:
            raise JudgedBefore
        if len(self.seen) > MOST_REMEMBERED:
            self.seen.clear()
        self.seen.add(key)
        return run

    def _digest(self, run: SavedRun) -> bytes:
        held = hashlib.blake2b(digest_size=16)
        for profile in (run.profile, *run.profile.kinds.values()):
            for table in (profile.kernels, profile.timeline, profile.rungs):
                if table is not None:
                    held.update(table.write_ipc(None, compression="uncompressed").getbuffer())
            held.update(_beside_tables(profile).encode("utf-8", "replace"))
        held.update(repr((run.machine, run.calls)).encode("utf-8", "replace"))
        return held.digest()


def _beside_tables(profile: Profile) -> str:
    """What a profile says beside its tables; of its files nothing."""
    source = profile.source
    told = {k: v for k, v in vars(profile).items() if k not in {"kernels", "timeline", "rungs"}}
    told |= {"kinds": list(profile.kinds), "source": (source.tool, source.command, source.ranks)}
    return repr((told, source.frameworks, source.version))


def main() -> int:
    """Try files until the time is over; what fails is kept."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"))
    parser.add_argument("--log", type=Path, default=Path("fuzz-log.jsonl"))
    parser.add_argument("--sum", action="store_true", help="what the log says was tried")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    if options.sum:
        return _summed(options.log)
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        return _tried(options, seed, Path(folder))


def _summed(log: Path) -> int:
    """Print what all pieces of a log tried, by file."""
    inputs, read, failures = Counter[str](), 0, Counter[str]()
    for line in log.read_text().splitlines():
        piece = json.loads(line)
        inputs.update(piece["inputs"])
        failures.update(piece["failures"])
        read += piece["read"]
    for name, count in inputs.most_common():
        print(f"{count:9,} {name}")
    print(f"{inputs.total():9,} in all, {read:,} of them read, {failures.total()} failures")
    for what, times in failures.most_common():
        print(f"{times} x {what}")
    return 0


class Piece:
    """What was tried since the log was last written."""

    def __init__(self) -> None:
        self.began_s = time.monotonic()
        self.inputs, self.failures, self.read = Counter[str](), Counter[str](), 0

    def write(self, seed: int, log: Path) -> None:
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        told = {"seed": seed, "cpu_s": round(time.process_time()), "holds_mb": _held_mb(),
                "peak_mb": peak_mb, "read": self.read, "inputs": self.inputs,
                "failures": self.failures}  # fmt: skip
        with log.open("a") as file:
            file.write(json.dumps(told) + "\n")


def _tried(options: argparse.Namespace, seed: int, folder: Path) -> int:
    samples = {name: data for name, data in corpus(folder).items() if options.only in name}
    small = [path for path in looked_at() if path.stat().st_size < LARGEST_BYTES]
    recorded = {f"recorded/{path.name}": path.read_bytes() for path in small}
    recorded = {name: data for name, data in recorded.items() if options.only in name}
    reports.read_run = Novelty()  # type: ignore[assignment]
    # All that is loaded stays: a collection need not look at it again and again.
    gc.collect()
    gc.freeze()
    tried, spent_s = Counter[tuple[str, str]](), defaultdict[tuple[str, str], float](float)
    end_s, piece, failed, turn = time.monotonic() + 60 * options.minutes, Piece(), 0, 0
    while time.monotonic() < end_s:
        turn += 1
        # Recorded files are larger: one turn of them to many of ours.
        chosen = recorded if recorded and turn % RARELY == 0 else samples or recorded
        mean_s = sum(spent_s.values()) / max(1, tried.total())
        for name, kind in ((name, kind) for name in chosen for kind in ("parts", "bytes")):
            # What costs more than most takes every second turn.
            if turn % 2 and spent_s[name, kind] > mean_s * tried[name, kind]:
                continue
            began_s = time.process_time()
            _try(folder, f"{seed} {turn} {kind} {name}", chosen[name], options.keep, piece)
            spent_s[name, kind] += time.process_time() - began_s
            tried[name, kind] += 1
        is_over = time.monotonic() >= end_s
        if is_over or time.monotonic() > piece.began_s + LOGGED_S:
            piece.write(seed, options.log)
            failed, piece = failed + piece.failures.total(), Piece()
    return 1 if failed else 0


def _try(folder: Path, label: str, data: bytes, keep: Path, piece: Piece) -> None:
    """One mutated file, which follows from its label."""
    chance, path = random.Random(label), folder / "file"
    _, _, kind, name = label.split(" ", 3)
    if kind == "parts":
        changed = mutated(data, chance, folder)
    else:
        changed = test_readers.mutated(data, test_readers.drawn(chance))
    path.write_bytes(changed or b"x")
    began_s = time.process_time()
    faulthandler.dump_traceback_later(HANGS_S, exit=True)
    what = _failure(path, piece)
    faulthandler.cancel_dump_traceback_later()
    if what is None and time.process_time() - began_s > SLOWEST_S:
        what = f"more than {SLOWEST_S:g} s of {name}"
    piece.inputs[name] += 1
    if what is not None:
        piece.failures[what] += 1
        if piece.failures[what] == 1:
            _keep(keep, name, what, path.read_bytes())


def _held_mb() -> int:
    """What the process holds now: growth of it is a leak, that of the peak is one large file."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() >> 20


def _failure(path: Path, piece: Piece) -> str | None:
    """Where a file breaks what reads it."""
    try:
        piece.read += check(path)
    except JudgedBefore:
        piece.read += 1
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        ours = [
            f
            for f in traceback.extract_tb(error.__traceback__)
            if "timeroof" in f.filename or "fuzz" in f.filename
        ]
        last = ours[-1]
        return f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno} {str(error)[:80]!r}"
    return None


def _keep(folder: Path, name: str, what: str, data: bytes) -> None:
    folder.mkdir(exist_ok=True)
    label = "".join(c if c.isalnum() else "_" for c in f"{what[:70]} {name}")[-120:]
    (folder / label).write_bytes(data)
    print(f"\n{what}: kept as {folder / label}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
