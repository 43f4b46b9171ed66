"""Hostile programs end under `timeroof run` with the code and the output that Python gives them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.faults.hostile_programs import PROGRAMS, TRAINING, source_of, training
from tests.live.live_programs import MACHINE

# Whole programs, seconds each.
pytestmark = pytest.mark.slow
INPUT = b"one\ntwo\xff\n" + bytes(range(256))


def outcome(
    folder: Path, *words: str | bytes, environment: dict[str, str] | None = None
) -> tuple[int, bytes, bytes]:
    """Exit code (of a signal: negative), stdout, stderr."""
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, input=INPUT, capture_output=True, check=False,
        env=os.environ | {"TMPDIR": str(temporary)} | (environment or {}), timeout=120,
    )  # fmt: skip
    return done.returncode, _plain(done.stdout), _plain(done.stderr)


def _plain(text: bytes) -> bytes:
    """Without what differs from run to run: addresses, places, seconds."""
    text = re.sub(rb"0x[0-9a-f]{6,}", b"0x", text).replace(b"/alone/", b"/under/")
    # Torch's profiler tells stderr when it starts, and that it lacks descriptors, with its process.
    text = re.sub(
        rb"(USDT:[^\n]* profiler_(start|stop)|Failed to read process name for pid \d+)\n", b"", text
    )
    return re.sub(rb"in \d+\.\d+s", b"in s", text)


def both(
    tmp_path: Path,
    make: dict[str, bytes],
    *words: str | bytes,
    environment: dict[str, str] | None = None,
) -> tuple[tuple[int, bytes, bytes], tuple[int, bytes, bytes]]:
    """The outcome alone and under `run`, each in a folder of its own with the same files."""
    found = []
    for kind in ("alone", "under"):
        folder = tmp_path / kind / "app"
        folder.mkdir(parents=True)
        (tmp_path / kind / "toy.toml").write_text(MACHINE)
        for name, data in make.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        begin = ["-m", "timeroof", "run", "--machine", "../toy.toml"] if kind == "under" else []
        found.append(outcome(folder, *begin, *words, environment=environment))
    return found[0], found[1]


def check_same(
    alone: tuple[int, bytes, bytes], under: tuple[int, bytes, bytes], folder: Path
) -> None:
    assert under[0] == alone[0], under[2].decode("utf-8", "replace")
    assert under[1] == alone[1]
    words = alone[2]
    assert under[2].startswith(words), (words.decode(), under[2].decode("utf-8", "replace"))
    ours = under[2][len(words) :].decode("utf-8", "replace")
    assert "Traceback" not in ours
    assert "Exception ignored" not in ours
    left = folder / "under" / "app" / "tmp"
    assert not [p.name for p in left.glob("timeroof*")], ours


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=[] if i % 8 == 0 else [pytest.mark.long])
        for i, n in enumerate(PROGRAMS)
    ],
)
def test_a_hostile_program_ends_as_it_does_alone(name: str, tmp_path: Path) -> None:
    alone, under = both(
        tmp_path, {"train.py": source_of(name).encode("utf-8", "replace")}, "train.py"
    )
    check_same(alone, under, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", TRAINING)
def test_a_hostile_training_ends_as_it_does_alone(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    alone, under = both(tmp_path, {"train.py": training(name).encode()}, "train.py")
    check_same(alone, under, tmp_path)


@pytest.mark.long
def test_a_training_that_removes_torch_at_its_end(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    end = "for k in list(sys.modules):\n    if k.startswith('torch'): del sys.modules[k]\nsys.exit(1)\n"
    program = "import sys\n" + training("gc disabled") + end
    alone, under = both(tmp_path, {"train.py": program.encode()}, "train.py")
    check_same(alone, under, tmp_path)


def _zipapp(folder: Path) -> bytes:
    path = folder / "made.pyz"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("__main__.py", "import sys; print(__name__); sys.exit(3)")
    return path.read_bytes()


SOURCES: dict[str, tuple[dict[str, bytes], list[str]]] = {
    "a framework that fails": ({"a.py": b"import torch", "torch.py": b"import no_such_module"}, ["a.py"]),
    "BOM": ({"a.py": b"\xef\xbb\xbfprint('bom')\n"}, ["a.py"]),
    "latin-1": ({"a.py": b"# coding: latin-1\nprint(ascii('\xe9'))\n"}, ["a.py"]),
    "not UTF-8": ({"a.py": b"print('\xe9')\n"}, ["a.py"]),
    "unknown coding": ({"a.py": b"# coding: nonsense\n"}, ["a.py"]),
    "UTF-16": ({"a.py": "print(1)".encode("utf-16")}, ["a.py"]),
    "random bytes": ({"a.py": bytes(range(256)) * 9}, ["a.py"]),
    "CRLF": ({"a.py": b"print(1)\r\nraise SystemExit(3)\r\n"}, ["a.py"]),
    "a space": ({"a b.py": b"import sys; print(sys.argv); sys.exit(4)"}, ["a b.py", "x y"]),
    "a line break": ({"a\nb.py": b"raise SystemExit(5)"}, ["a\nb.py"]),
    "a dash": ({"-a.py": b"raise SystemExit(6)"}, ["./-a.py"]),
    "no suffix": ({"script": b"raise SystemExit(7)"}, ["script"]),
    "other suffix": ({"a.txt": b"import sys; print(__file__); sys.exit(8)"}, ["a.txt"]),
    "module": ({"pkg/__init__.py": b"", "pkg/go.py": b"print(__name__, __package__); raise SystemExit(9)"},
               ["-m", "pkg.go", "-x", "--html"]),
    "package": ({"pkg/__init__.py": b"print('in')", "pkg/__main__.py": b"raise SystemExit(10)"}, ["-m", "pkg"]),
    "module without a main": ({"pkg/__init__.py": b""}, ["-m", "pkg"]),
    "module that fails": ({"mod.py": b"1/0"}, ["-m", "mod"]),
    "folder": ({"app/__main__.py": b"import sys; print(sys.path[0][-3:]); sys.exit(11)"}, ["app"]),
    "folder with a package": ({"app/__main__.py": b"import other; raise SystemExit(other.n)", "app/other.py": b"n = 12"},
                              ["app/"]),
    "options like ours": ({"a.py": b"import sys; print(sys.argv); sys.exit(13)"},
                          ["a.py", "--html", "x.html", "--steps", "3", "--", "-m", "y"]),
    "deep folder": ({"a/b/c/d.py": b"import sys; print(sys.path[0].endswith('c')); sys.exit(14)"}, ["a/b/../b/c/d.py"]),
    "bytecode": ({}, ["a.pyc"]),
    "code": ({}, ["-c", "import sys; print(sys.argv, __name__); sys.exit(4)", "--html", "x"]),
    "code that fails": ({}, ["-c", "1/0"]),
}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=[] if i % 5 == 0 else [pytest.mark.long])
        for i, n in enumerate(SOURCES)
    ],
)
def test_scripts_of_every_form_run_as_they_do_alone(name: str, tmp_path: Path) -> None:
    files, words = SOURCES[name]
    if name == "bytecode":
        import py_compile

        (tmp_path / "a.py").write_text("raise SystemExit(15)\n")
        py_compile.compile(str(tmp_path / "a.py"), str(tmp_path / "a.pyc"))
        files = {"a.pyc": (tmp_path / "a.pyc").read_bytes()}
    alone, under = both(tmp_path, files, *words)
    check_same(alone, under, tmp_path)


def test_a_zipapp_a_link_and_a_name_that_is_no_text(tmp_path: Path) -> None:
    alone, under = both(tmp_path, {"app.pyz": _zipapp(tmp_path)}, "app.pyz")
    check_same(alone, under, tmp_path)
    folder = tmp_path / "under" / "app"
    (folder / "real").mkdir()
    (folder / "real" / "go.py").write_text("import sys; print(sys.path[0][-4:]); sys.exit(4)")
    (folder / "link.py").symlink_to(folder / "real" / "go.py")
    odd = os.fsencode(folder) + b"/na\xff\xfeme.py"
    Path(os.fsdecode(odd)).write_text("import sys; print(ascii(sys.argv[0][-9:])); sys.exit(5)")
    for script, code in (("link.py", 4), (odd, 5)):
        plain = outcome(folder, script)
        ours = outcome(
            folder, "-m", "timeroof", "run", "--machine", "../toy.toml", "--json", "r.json", script
        )
        assert plain[0] == code
        check_same(plain, ours, tmp_path)
        assert (folder / "r.json").is_file() or b"no report" in ours[2]


@pytest.mark.parametrize("words", [["-m", "this"], ["../a.py"]], ids=["module", "script"])
def test_a_program_runs_in_a_folder_that_is_gone(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "toy.toml").write_text(MACHINE)
    (tmp_path / "a.py").write_text("raise SystemExit(4)")
    words = [word.replace("..", str(tmp_path)) for word in words]
    gone = ["-c", 'mkdir gone; cd gone; rmdir ../gone; exec "$@"', "sh", sys.executable]
    ours = ["-m", "timeroof", "run", "--machine", str(tmp_path / "toy.toml")]
    alone, under = (
        subprocess.run(["/bin/sh", *gone, *begin, *words], cwd=tmp_path, capture_output=True, check=False)
        for begin in ([], ours)
    )  # fmt: skip
    assert (under.returncode, under.stdout) == (alone.returncode, alone.stdout), under.stderr


@pytest.mark.parametrize("what", ["absent", "unreadable", "a folder", "empty name"])
def test_a_script_that_cannot_be_run_is_refused(what: str, tmp_path: Path) -> None:
    script = tmp_path / "a.py"
    words = {"absent": "b.py", "a folder": str(tmp_path), "empty name": ""}.get(what, "a.py")
    script.write_text("print('ran')")
    if what == "unreadable":
        if os.geteuid() == 0:
            pytest.skip("root reads everything")
        script.chmod(0)
    code, out, err = outcome(tmp_path, "-m", "timeroof", "run", words)
    assert (code, out) == (2, b"")
    assert err.count(b"\n") == 1


# Python's own settings are the program's: our process, which shares them, adds nothing to them.
SHOWN = (
    b"import sys, os, warnings\nprint(sys.flags, sys.warnoptions, sys.stdout.encoding)\n"
    b"print(sorted(k for k in os.environ if k.startswith(('PYTHON', 'LC_', 'LANG'))))\n"
    b"open(__file__)\nwarnings.warn('soon', FutureWarning)\nsys.exit(3)\n"
)
SETTINGS: dict[str, dict[str, str]] = {
    "asks on at the end": {"PYTHONINSPECT": "1"},
    "warnings are errors": {"PYTHONWARNINGS": "error"},
    "the C locale, which Python changes": {"LANG": "C", "LC_ALL": "", "LC_CTYPE": ""},
    "the C locale": {"LC_ALL": "C", "PYTHONUTF8": "0"},
    "developers' mode": {"PYTHONDEVMODE": "1"},
    "no docstrings": {"PYTHONOPTIMIZE": "2"},
    "debugged memory": {"PYTHONMALLOC": "debug"},
    "traced memory": {"PYTHONTRACEMALLOC": "3"},
    "a fixed hash": {"PYTHONHASHSEED": "0"},
    "a safe path": {"PYTHONSAFEPATH": "1"},
    "another encoding": {"PYTHONIOENCODING": "latin-1"},
    "modules named like ours": {"PYTHONPATH": "theirs"},
}


@pytest.mark.long
@pytest.mark.parametrize("name", SETTINGS)
def test_python_settings_are_for_the_program(name: str, tmp_path: Path) -> None:
    theirs = {f"theirs/{module}.py": b"mine = 1" for module in ("polars", "json", "rich")}
    alone, under = both(tmp_path, {"a.py": SHOWN, **theirs}, "a.py", environment=SETTINGS[name])
    check_same(alone, under, tmp_path)
    assert b"no report" not in under[2]


@pytest.mark.long
def test_where_no_file_can_be_written_the_program_runs(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("print('ran')\nraise SystemExit(3)\n")
    words = [sys.executable, "-m", "timeroof", "run", "a.py"]
    done = subprocess.run(
        ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *words],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (3, "ran\n")
    assert done.stderr.count("\n") == 1
    assert "nothing can be recorded (File too large)" in done.stderr
