"""Reading small files: CPU seconds and peak memory of this checkout beside those of a commit.

    python benchmarks/read_small.py [--old 67f4b69] [--rounds 7]

Two jobs as fresh processes, old and new by turns so that a busy machine slows both: a Kineto
trace of 1 MB to a page, and a folder of eight ranks of 7 MB to a page. The traces are made up
here (`small_traces.py`). CPU is user and system time with all child processes; the peak is of
the largest process. The old commit lies in a git worktree of its own, removed afterwards.
Byte code and caches are warm, as in the second command of a user's day.

Required: at most 0.75 of the CPU for the small trace, at most 0.45 for the ranks.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from small_traces import write_trace

ROOT = Path(__file__).resolve().parents[1]
OLD = "67f4b69"
RANKS = 8
LIMITS = {"1 MB trace": 0.75, "8 ranks of 7 MB": 0.45}


@contextmanager
def worktree(commit: str, folder: Path) -> Iterator[Path]:
    """The sources of a commit, in a worktree that is removed afterwards."""
    git = ["git", "-C", str(ROOT), "worktree"]
    subprocess.run([*git, "add", "--quiet", "--detach", str(folder), commit], check=True)
    try:
        yield folder / "src"
    finally:
        subprocess.run([*git, "remove", "--force", str(folder)], check=True)


def environment(source: Path, caches: Path) -> dict[str, str]:
    """Variables under which Python takes timeroof from a folder and keeps what it compiles."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    # What the other commit needs and this one does not (plotly) may be on the caller's path.
    path = [str(source), *filter(None, [kept.get("PYTHONPATH")])]
    return kept | {
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONPYCACHEPREFIX": str(caches / "bytecode"),
        "TIMEROOF_HOME": str(caches / "home"),
    }


# A process counts the memory of the one that started it until it is replaced: a small one starts
# each command, and tells its exit code, CPU seconds and peak.
STARTER = """
import os, resource, sys
null = os.open(os.devnull, os.O_WRONLY)
files = [(os.POSIX_SPAWN_DUP2, null, 1), (os.POSIX_SPAWN_DUP2, null, 2)]
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=files)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(code, used.ru_utime + used.ru_stime, used.ru_maxrss)
"""


def measured(command: list[str], variables: dict[str, str], folder: Path) -> tuple[float, float]:
    """CPU seconds with children and peak megabytes of one process."""
    started = [sys.executable, "-S", "-c", STARTER, *command]
    done = subprocess.run(started, env=variables, cwd=folder, capture_output=True, check=True)
    code, cpu_s, peak_kb = map(float, done.stdout.split())
    if code:
        raise SystemExit(f"{' '.join(command)} failed with PYTHONPATH={variables['PYTHONPATH']}")
    return cpu_s, peak_kb * 1024 / 1e6


def measure(variables: dict[str, str], what: Path, page: Path) -> tuple[float, float]:
    """What reading something to a page takes."""
    command = [sys.executable, "-P", "-m", "timeroof", "read", str(what), "--html", str(page)]
    return measured(command, variables, page.parent)


def compare(
    job: str, what: Path, sides: dict[str, dict[str, str]], rounds: int, page: Path
) -> bool:
    """Measure one job by turns, print both sides; whether the limit holds."""
    found: dict[str, list[tuple[float, float]]] = {side: [] for side in sides}
    for number in range(rounds + 1):
        for side in list(sides) if number % 2 else reversed(list(sides)):
            one = measure(sides[side], what, page)
            if number:  # the first fills the caches
                found[side].append(one)
    for side, results in found.items():
        cpu_s, peak_mb = (statistics.median(values) for values in zip(*results, strict=True))
        least_s = min(cpu for cpu, _ in results)
        print(
            f"{job:16} {side:4} CPU {cpu_s:6.3f} s (least {least_s:6.3f})  peak {peak_mb:4.0f} MB"
        )
    pairs = zip(found["new"], found["old"], strict=True)
    ratio = statistics.median(new / old for (new, _), (old, _) in pairs)
    holds = ratio <= LIMITS[job]
    print(f"{job:16} {'holds' if holds else 'FAILS'}: {ratio:.2f} (at most {LIMITS[job]})")
    return holds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--old", default=OLD, metavar="COMMIT")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="read_small.") as name:
        folder = Path(name)
        (folder / "ranks").mkdir()
        write_trace(folder / "trace.json", 10**6)
        for rank in range(RANKS):
            write_trace(folder / "ranks" / f"rank{rank}.json", 7 * 10**6, rank, RANKS)
        jobs = dict(zip(LIMITS, (folder / "trace.json", folder / "ranks"), strict=True))
        with worktree(options.old, folder / "old") as source:
            sides = {
                "old": environment(source, folder / "old_caches"),
                "new": environment(ROOT / "src", folder / "new_caches"),
            }
            page = folder / "page.html"
            held = [compare(j, what, sides, options.rounds, page) for j, what in jobs.items()]
    sys.exit(0 if all(held) else 1)


if __name__ == "__main__":
    main()
