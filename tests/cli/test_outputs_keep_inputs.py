"""No output option may overwrite what a command reads: refused before anything is written."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.test_explain import rows, run, save_run
from timeroof.cli.options import keep_inputs
from timeroof.core.errors import UsageError

Files = dict[str, Path]


@pytest.fixture
def runs(tmp_path: Path) -> Files:
    first = save_run(tmp_path / "a.troof", rows())
    link = tmp_path / "link.troof"
    link.symlink_to(first)
    table = tmp_path / "t.csv"
    table.write_text("name,time_s\nk,0.5\n", "utf-8")
    machine = tmp_path / "m.toml"
    machine.write_text("not read: refused before\n", "utf-8")
    second = save_run(tmp_path / "b.troof", rows())
    script = tmp_path / "train.py"
    script.write_text("print('run all the same')\n", "utf-8")
    (tmp_path / "same.py").hardlink_to(script)
    return {
        "a": first, "b": second, "link": link, "csv": table, "toml": machine,
        "script": script, "same": tmp_path / "same.py",
    }  # fmt: skip


@pytest.mark.parametrize(
    "words",
    [
        "compare {a} {b} --json {a}",
        "compare {a} {b} --json {link}",
        "compare {link} {b} --json {a}",
        "compare {a} {b} --markdown {b}",
        "compare {a} {b} --machine {toml} --json {toml}",
        "explain {a} --json {a}",
        "whatif {a} --machine h100-sxm --json {a}",
        "whatif {a} {toml} --json {toml}",
        "check {a} --baseline {b} --json {a}",
        "check {a} --baseline {b} --json {b}",
        "check {a} --baseline {b} --markdown {b}",
        "read {a} --save {a}",
        "read {csv} --json {csv}",
        "read {folder} --json {csv}",
        "read {a} {b} --json {b}",
        "report {csv} -o {csv}",
        "report {a} {csv} -o {csv}",
        "run --json {script} {script}",
        "run --json {same} {script}",
        "run --json {script} {script} --json -",
    ],
)
def test_an_input_is_never_overwritten(
    words: str, runs: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    parts = [word.format(**runs, folder=tmp_path) for word in words.split()]
    assert run(*parts) == 2
    shown = capsys.readouterr()
    assert "would be overwritten" in shown.err
    assert shown.err.count("\n") == 1
    assert shown.out == ""
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_folder_of_outputs_keeps_the_run_that_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = save_run(tmp_path / "run.troof", rows())
    assert run("read", saved, "--out", tmp_path) == 2
    assert "run.troof is read by this command" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["run.troof"]


@pytest.mark.parametrize(
    ("name", "words"),
    [("page.html", "--html"), ("run.troof", "--save"), ("out/report.json", "--out")],
)
def test_whatever_the_script_is_called_it_is_kept(
    name: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / name
    script.parent.mkdir(exist_ok=True)
    script.write_text("print('run all the same')\n", "utf-8")
    target = script.parent if words == "--out" else script
    assert run("run", words, target, script) == 2
    shown = capsys.readouterr()
    assert (f"{script.name} is read by this command" in shown.err, shown.out) == (True, "")
    assert script.read_text("utf-8") == "print('run all the same')\n"


def test_a_program_that_is_a_folder_keeps_its_main_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main = tmp_path / "__main__.py"
    main.write_text("print('run all the same')\n", "utf-8")
    assert run("run", "--json", main, tmp_path) == 2
    assert "__main__.py is read by this command" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("read {csv} --json {new} --html b.wrong", "'b.wrong' is no page's name"),
        ("read {csv} --json {new} --save b.wrong", "'b.wrong' is no run's name"),
        ("read {csv} --json {new} --html {folder}/d.html", "d.html is a folder"),
        ("read {csv} --json {new} --save {csv}/b.troof", "b.troof cannot be written"),
        ("read {csv} --json {new} --html {loop}.html", "loop.html cannot be written"),
        ("read {csv} --json {new} --html {new}/b.html --out {csv}", "t.csv is a file"),
        # Nothing is read before: the file is not even there.
        ("read none.csv --json {new} --html b.wrong", "'b.wrong' is no page's name"),
        ("paper --json {new} --html b.wrong", "'b.wrong' is no page's name"),
        ("paper --json {new} --save b.wrong", "'b.wrong' is no run's name"),
        ("study gemm --json {new} --html b.wrong", "'b.wrong' is no page's name"),
        ("study gemm --json {new} --db {new}", "is to be written twice"),
        ("run --json {new} --html b.wrong {script}", "'b.wrong' is no page's name"),
    ],
)
def test_every_output_is_checked_before_the_first_is_written(
    words: str, message: str, runs: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "d.html").mkdir()
    (tmp_path / "loop.html").symlink_to(tmp_path / "loop.html")
    new = tmp_path / "new.json"
    names = {**runs, "folder": tmp_path, "new": new, "loop": tmp_path / "loop"}
    assert run(*(word.format(**names) for word in words.split())) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert (shown.err.count("\n"), shown.out) == (1, "")
    assert not new.exists()


def test_two_outputs_do_not_share_a_file(
    runs: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = tmp_path / "x.json"
    assert run("compare", runs["a"], runs["b"], "--json", one, "-o", one) == 2
    assert "written twice" in capsys.readouterr().err
    assert not one.exists()


def test_other_files_are_written_again_and_again(runs: Files, tmp_path: Path) -> None:
    target = tmp_path / "out" / "x.json"
    for _ in range(2):
        assert run("compare", runs["a"], runs["b"], "--json", target) == 0
        assert run("read", runs["csv"], "--html", tmp_path / "out" / "x.html") == 0
    assert target.exists()


@pytest.mark.parametrize(
    "outputs",
    [("-", "-"), (os.devnull, os.devnull), (None, None), ("new.json", "other.json")],
)
def test_what_is_no_file_or_a_new_one_is_allowed(
    outputs: tuple[str | None, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    keep_inputs(("h100-sxm", None, "in.troof"), outputs)
    # The same names are refused once one of them is what is read.
    Path("new.json").touch()
    with pytest.raises(UsageError, match="would be overwritten"):
        keep_inputs(("new.json",), (*outputs, "new.json"))
    assert [p.name for p in tmp_path.iterdir()] == ["new.json"]


@pytest.mark.parametrize("way", [os.symlink, os.link])
def test_links_in_either_direction_are_seen(
    way: Callable[[Path, Path], None], tmp_path: Path
) -> None:
    real, other = tmp_path / "real", tmp_path / "other"
    real.write_text("x", "utf-8")
    way(real, other)
    for read, written in ((real, other), (other, real)):
        with pytest.raises(UsageError, match="would be overwritten"):
            keep_inputs((read,), (written,))


def test_a_folder_that_is_read_may_get_a_page_but_no_file_of_it_is_lost(tmp_path: Path) -> None:
    page, trace = tmp_path / "report.html", tmp_path / "trace.json"
    for path in (page, trace):
        path.write_text("{}", "utf-8")
    keep_inputs((tmp_path,), (page, tmp_path / "new.json"))
    with pytest.raises(UsageError, match="would be overwritten"):
        keep_inputs((tmp_path,), (trace,))


def test_names_that_cannot_be_are_refused_in_one_line(
    runs: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for name in (loop, tmp_path / ("x" * 300)):
        assert run("explain", runs["a"], "--json", name) == 2
        shown = capsys.readouterr().err
        assert "cannot be written" in shown
        assert shown.count("\n") == 1
