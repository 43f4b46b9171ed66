"""Kill a study with SIGKILL at random moments, again and again, and look at what its store has.

`python benchmarks/study_kill_loop.py [STARTS]`: 20 starts by default. Then the study is resumed
to its end: every case must be there exactly once, and SQLite must find its file whole.
"""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SIZES = [1 << p for p in range(4, 20)]
OPS = ["add", "mul", "relu", "gelu", "sigmoid"]


def command(folder: Path) -> list[str]:
    return [
        sys.executable, "-m", "timeroof", "study", "elementwise", "--resume", "--quick",
        "--set", f"elements={','.join(map(str, SIZES))}", "--set", f"op={','.join(OPS)}",
        "--pass", "forward,backward", "--db", str(folder / "study.sqlite"),
        "--json", str(folder / "study.json"),
    ]  # fmt: skip


def looked_at(path: Path) -> int:
    """Cases in the store; fails where the file is not whole."""
    if not path.exists():
        return 0
    with sqlite3.connect(path) as file:
        told = file.execute("PRAGMA integrity_check").fetchone()[0]
        assert told == "ok", told
        try:
            return int(file.execute("SELECT count(*) FROM cases").fetchone()[0])
        except sqlite3.OperationalError:  # killed before its tables were made
            return 0


def main(starts: int) -> None:
    moments = random.Random(2009)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        db = folder / "study.sqlite"
        for start in range(starts):
            process = subprocess.Popen(command(folder), stderr=subprocess.DEVNULL)
            time.sleep(moments.uniform(0.3, 5.0))
            process.kill()
            process.wait()
            print(f"start {start + 1}: killed, {looked_at(db)} cases kept")
        before = looked_at(db)
        subprocess.run(command(folder), check=True)
        with sqlite3.connect(db) as file:
            rows = file.execute("SELECT case_key, params, pass, status FROM cases").fetchall()
        cases = {(json.loads(p)["elements"], json.loads(p)["op"], pass_) for _, p, pass_, _ in rows}
        wanted = {(size, "add", p) for size in SIZES for p in ("forward", "backward")}
        wanted |= {(1 << 20, op, p) for op in OPS for p in ("forward", "backward")}
        assert cases == wanted, cases ^ wanted
        assert len(rows) == len(wanted) == looked_at(db)
        assert {status for *_, status in rows} == {"done"}
        document = json.loads((folder / "study.json").read_text(encoding="utf-8"))
        assert len(document["kernels"]) == len(wanted)
        print(
            f"{starts} starts killed: {before} cases kept then, all {len(wanted)} once after"
            " one resume; integrity_check ok"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
