"""Files of every format with parts replaced by nonsense: a report that can be true, or a message.

`make test` tries a few; `python -m tests.fuzz.test_structure --minutes 60` many, with a fresh seed,
and keeps what fails in a folder.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

import pytest

from tests.fuzz.corpus import corpus
from tests.fuzz.structure import mutated
from tests.fuzz.test_readers import check
from tests.recorded_data import looked_at

FEW = 6
# A recorded file takes part where it is small: many are tried.
LARGEST_BYTES = 40_000
RARELY = 20
# One file takes this much CPU time at most.
SLOWEST_S = 10.0


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


def main() -> int:
    """Try files until the time is over; what fails is kept."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"))
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        return _tried(options, seed, Path(folder))


def _tried(options: argparse.Namespace, seed: int, folder: Path) -> int:
    samples = {name: data for name, data in corpus(folder).items() if options.only in name}
    small = [path for path in looked_at() if path.stat().st_size < LARGEST_BYTES]
    recorded = {f"recorded/{path.name}": path.read_bytes() for path in small}
    recorded = {name: data for name, data in recorded.items() if options.only in name}
    turn = 0
    end_s, count, failures = time.monotonic() + 60 * options.minutes, 0, Counter[str]()
    slowest, path = (0.0, ""), folder / "file"
    spent = dict.fromkeys(samples | recorded, 0.0)
    while time.monotonic() < end_s:
        turn += 1
        # Recorded files are larger: one turn of them to many of ours.
        chosen = recorded if recorded and turn % RARELY == 0 else samples or recorded
        # Equal time rather than equal numbers: a slow format waits for the quicker ones.
        fair_s = sorted(spent[name] for name in chosen)[len(chosen) // 4]
        for name, data in chosen.items():
            if spent[name] > fair_s:
                continue
            chance = random.Random(f"{seed} {count} {name}")
            made = time.process_time()
            path.write_bytes(mutated(data, chance, folder) or b"x")
            began = time.process_time()
            if (what := _failure(path)) is not None:
                failures[what] += 1
                if failures[what] == 1:
                    _keep(options.keep, name, what, path.read_bytes())
            slowest = max(slowest, (time.process_time() - began, f"{name} {count}"))
            if time.process_time() - began > SLOWEST_S:
                _keep(options.keep, name, f"slow {count}", path.read_bytes())
            spent[name] += time.process_time() - made
            count += 1
        with contextlib.suppress(OSError):
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            print(f"\rseed {seed}: {count} files, {sum(failures.values())} failures, slowest"
                  f" {slowest[0]:.1f} s ({slowest[1]}), holds {_held_mb()} MB, peak {peak} MB",
                  end="", flush=True)  # fmt: skip
    print()
    for what, times in failures.most_common():
        print(f"{times} x {what}")
    return 1 if failures else 0


def _held_mb() -> int:
    """What the process holds now: growth of it is a leak, that of the peak is one large file."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() >> 20


def _failure(path: Path) -> str | None:
    """Where a file breaks what reads it."""
    try:
        check(path)
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
