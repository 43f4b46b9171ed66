"""How many of our modules run functions in a command: a measure of how far one has to read.

    python tools/modules_touched.py read FILE          # read FILE --html
    python tools/modules_touched.py run SCRIPT         # run SCRIPT --html
    python tools/modules_touched.py --json - read FILE

A module counts where a function of it was called; importing it is not enough. Folders that hold
one file per rule, family, kernel or machine do not count: nobody reads all of them.
"""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import json
import os
import runpy
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType

REGISTRIES = frozenset({"rules", "families", "kernels", "machines"})


def main(arguments: list[str] | None = None) -> int:
    """Run the command in a process of its own and print the modules."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write the list as JSON, '-' to stdout")
    parser.add_argument("--most", type=int, help="exit with 1 where more modules run than this")
    parser.add_argument("command", choices=("read", "run"))
    parser.add_argument("words", nargs="+", help="the input, and further words of the command")
    asked = parser.parse_args(arguments)
    code, modules = touched_by(asked.command, asked.words)
    if asked.json == "-":
        print(json.dumps(modules))
    else:
        if asked.json:
            Path(asked.json).write_text(json.dumps(modules), encoding="utf-8")
        print(*modules, sep="\n")
        print(f"{len(modules)} modules run in `timeroof {asked.command} --html`")
    if code:
        print(f"the command ended with exit code {code}", file=sys.stderr)
        return code
    return 1 if asked.most is not None and len(modules) > asked.most else 0


def touched_by(command: str, words: list[str]) -> tuple[int, list[str]]:
    """Exit code of `timeroof COMMAND --html … WORDS`, and the modules that it ran."""
    with tempfile.TemporaryDirectory() as scratch:
        environment = os.environ | {"TIMEROOF_HOME": scratch}
        if command == "run" and "--machine" not in words:
            # Measuring this machine is a command of its own and happens once.
            measure = [sys.executable, "-m", "timeroof", "machine", "--quick"]
            subprocess.run(measure, check=True, env=environment, stdout=subprocess.DEVNULL)
        answer = Path(scratch) / "modules.json"
        page = str(Path(scratch) / "page.html")
        inside = [sys.executable, "-P", str(Path(__file__).resolve()), "--inside", str(answer)]
        told = [*inside, command, "--html", page, *words]
        done = subprocess.run(told, env=environment, stdout=subprocess.DEVNULL, check=False)
        found = json.loads(answer.read_text(encoding="utf-8")) if answer.exists() else []
        return done.returncode, found


def _inside(answer: Path, words: list[str]) -> int:
    """Run the command line here, noting the file of every function that is called."""
    files: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        # Bodies of modules and classes are no functions; comprehensions are part of theirs.
        code = frame.f_code
        if event != "call" or not code.co_flags & inspect.CO_OPTIMIZED:
            return
        if not code.co_name.startswith("<") or code.co_name == "<lambda>":
            files.add(code.co_filename)

    sys.argv = ["timeroof", *words]
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        runpy.run_module("timeroof", run_name="__main__", alter_sys=False)
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 0
    finally:
        sys.setprofile(None)
        answer.write_text(json.dumps(counted_modules(files, _packages())), encoding="utf-8")
    return 0


def _packages() -> list[Path]:
    """Our packages: timeroof, and what lies beside it in a checkout."""
    spec = importlib.util.find_spec("timeroof")
    assert spec is not None
    assert spec.submodule_search_locations
    ours = Path(spec.submodule_search_locations[0]).resolve()
    beside = [p for p in ours.parent.iterdir() if (p / "__init__.py").is_file()]
    return beside if ours.parent.name == "src" else [ours]


def counted_modules(files: set[str], packages: list[Path]) -> list[str]:
    """Names of our modules among files, registries aside."""
    names = set()
    for file in files:
        path = Path(file)
        for package in packages:
            if path.is_relative_to(package):
                parts = path.relative_to(package.parent).with_suffix("").parts
                if not REGISTRIES & set(parts[:-1]):
                    names.add(".".join(parts).removesuffix(".__init__"))
    return sorted(names)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        sys.exit(_inside(Path(sys.argv[2]), sys.argv[3:]))
    sys.exit(main())
