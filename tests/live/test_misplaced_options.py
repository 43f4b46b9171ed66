"""Options of timeroof behind the script: told where a program refuses them, and only there."""

from __future__ import annotations

from pathlib import Path

import pytest

from timeroof.api.live import ended_of
from timeroof.cli.run import CommandLine, refused, say_misplaced, unread
from timeroof.core.errors import UsageError
from timeroof.live.running import Ended, program_command, record_folder, refuse_absent, run_recorded

OPTIONS = {"--html": "HTML", "--json": "JSON", "--steps": "STEPS", "--source": None, "-m": "MODULE"}
ARGPARSE = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--small", action="store_true")
parser.add_argument("--steps", type=int)
{more}
args = parser.parse_args()
"""
CLICK = """
import click
@click.command()
@click.option("--steps", type=int)
def main(steps): {body}
main()
"""
GETOPT = """
import getopt, sys
try:
    getopt.getopt(sys.argv[1:], "", ["small", "steps="])
except getopt.GetoptError as error:
    print(error)
    sys.exit(2)
"""
OPTPARSE = """
import optparse
parser = optparse.OptionParser()
parser.add_option("--steps")
parser.parse_args()
"""
FLAGS = """
import sys
class UnrecognizedFlagError(Exception): pass
try:
    raise UnrecognizedFlagError("Unknown command line flag 'html'. Did you mean: htm ?")
except UnrecognizedFlagError as error:
    sys.stderr.write(f"FATAL Flags parsing error: {error}")
    sys.exit(1)
"""
MESSAGE = "import sys; sys.exit(f'unknown option {sys.argv[1]}')"


def ended(folder: Path, text: str, *words: str) -> Ended:
    script = folder / "script.py"
    script.write_text(text)
    with record_folder({"listens": True}) as place:
        plain = run_recorded(program_command(None, [str(script), *words]), place)
        return ended_of(place, plain)


def line(
    *words: str, before: tuple[str, ...] = (), program: tuple[str, ...] = ("a.py",)
) -> CommandLine:
    return CommandLine.of([*before, *program, *words], list(words), OPTIONS)


def found(folder: Path, text: str, *words: str) -> list[str]:
    return refused(line(*words).behind(), ended(folder, text, *words), folder / "script.py")


@pytest.mark.parametrize(
    "text",
    [
        ARGPARSE.format(more=""), CLICK.format(body="pass"), GETOPT, OPTPARSE, FLAGS,
        MESSAGE,
    ],
    ids=["argparse", "click", "getopt", "optparse", "flags", "message"],
)  # fmt: skip
@pytest.mark.parametrize("words", [("--html", "r.html"), ("--html=r.html",)], ids=["two", "equals"])
def test_a_refused_option_is_told(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    assert found(tmp_path, text, *words) == ["--html"]


KNOWN = [
    # The option is the program's own, its value is wrong or something else is.
    (ARGPARSE.format(more=""), ("--steps", "many")),
    (ARGPARSE.format(more=""), ("--steps", "3", "--bogus")),
    (ARGPARSE.format(more="parser.add_argument('data')"), ("--steps", "3")),
    (ARGPARSE.format(more="") + "raise SystemExit(2)", ("--steps", "3")),
    (ARGPARSE.format(more="") + "parser.error('unknown --data')", ("--steps", "3")),
    (CLICK.format(body="raise SystemExit(2)"), ("--steps", "3")),
    (CLICK.format(body="click.get_current_context().exit(2)"), ("--steps", "3")),
    (CLICK.format(body="pass"), ("--steps", "many")),
    (CLICK.format(body="pass"), ("--steps", "3", "--bogus")),
    (GETOPT, ("--steps", "3", "--bogus")),
    (OPTPARSE, ("--steps", "3", "--bogus")),
    ("import sys; sys.exit('Usage: script.py --html FILE DATA')", ("--html", "r.html")),
    # No usage error.
    ("print('well')", ("--html", "r.html")),
    ("raise SystemExit(0)", ("--html", "r.html")),
    ("raise SystemExit(3)", ("--html", "r.html")),
    ("raise SystemExit('the disk is full')", ("--html", "r.html")),
    ("raise ValueError('unknown option --html')", ("--html", "r.html")),
    ("try:\n    import nowhere\nexcept ImportError:\n    raise SystemExit(2)", ("--html", "r")),
    # Not an option of ours, or no option.
    (ARGPARSE.format(more=""), ("--htm", "r.html")),
    (ARGPARSE.format(more=""), ("--html-file=r.html",)),
    (ARGPARSE.format(more=""), ("--bogus", "--", "--html")),
    (ARGPARSE.format(more=""), ("-m", "x")),
]


@pytest.mark.parametrize(("text", "words"), KNOWN)
def test_nothing_is_told_of_other_ends(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    assert found(tmp_path, text, *words) == []


@pytest.mark.parametrize(
    ("given", "wrong", "mended"),
    [
        (line("--small", "--html", "r.html"), ["--html"], "timeroof run --html r.html a.py --small"),
        (line("--html=a b", "x"), ["--html"], "timeroof run '--html=a b' a.py x"),
        (line("--source", "x", "--json", "-"), ["--source", "--json"],
         "timeroof run --source --json - a.py x"),
        (line("--steps", "3", "--html", "r"), ["--html"], "timeroof run --html r a.py --steps 3"),
        (line("--html", "r", before=("--steps", "3"), program=("-m", "pkg.train")), ["--html"],
         "timeroof run --steps 3 --html r -m pkg.train"),
        (line("--html", "r", program=("--", "a.py")), ["--html"], "timeroof run --html r -- a.py"),
        (line("--html"), ["--html"], "timeroof run --html HTML a.py"),
        (line("--html", "r", "--", "--html", "x"), ["--html"],
         "timeroof run --html r a.py -- --html x"),
        (line("it's", "--html", "r"), ["--html"], """timeroof run --html r a.py 'it'"'"'s'"""),
    ],
)  # fmt: skip
def test_the_command_as_it_is_meant(given: CommandLine, wrong: list[str], mended: str) -> None:
    assert given.mended(wrong) == mended


def test_it_is_one_line_and_only_where_no_step_ran(capsys: pytest.CaptureFixture[str]) -> None:
    end = Ended(2, complaint="unrecognized arguments: --html r --json j")
    given = line("--html", "r", "--json", "j")
    say_misplaced(given, end, None, ran_steps=True)
    assert capsys.readouterr().err == ""
    say_misplaced(given, end, None)
    assert capsys.readouterr().err == (
        "timeroof: --html, --json are timeroof's and go before the script:"
        " timeroof run --html r --json j a.py\n"
    )


def test_only_the_first_rank_speaks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        say_misplaced(
            line("--html", "r"), Ended(2, complaint="unrecognized arguments: --html r"), None
        )
    said = "timeroof: --html is an option of timeroof and goes before the script\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    ("text", "told"),
    [("print(1)", ["--html"]), ("import argparse", []), ("import sys; sys.argv", [])],
)
def test_an_option_that_a_program_without_arguments_never_saw_is_told(
    tmp_path: Path, text: str, told: list[str]
) -> None:
    words = ("--html", "x.html")
    end, script = ended(tmp_path, text, *words), tmp_path / "script.py"
    assert unread(line(*words).behind(), end, script) == told


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a.ipynb", r"is a notebook; put `with timeroof.profile\(\):` in a cell"),
        ("a.sh", "is a shell script; name the Python program"),
        ("trace.json.gz", "is no Python program; a profiler's file is read by `timeroof read`"),
    ],
)
def test_a_file_that_is_no_program_is_refused(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / name).write_text("{}")
    with pytest.raises(UsageError, match=words):
        refuse_absent(None, [str(tmp_path / name)])
