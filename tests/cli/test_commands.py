"""Commands as a user types them: outputs, messages, exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from timeroof.cli import main as cli
from timeroof.cli.main import main
from timeroof.core.machine import read_machine


def run(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "timeroof", *arguments],
        capture_output=True,
        text=True,
        check=False,
        **options,  # type: ignore[call-overload]
    )


def test_machine_shows_ceilings_with_their_sources(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["machine", "v100-paper"]) == 0
    out = capsys.readouterr().out
    assert "829 GB/s" in out
    assert "4.20 µs each" in out
    assert "2009.04598" in out


def test_machine_json_is_the_reports_machine_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["machine", "Tesla V100-SXM2-32GB", "--json", "-"]) == 0
    data = msgspec.json.decode(capsys.readouterr().out)
    assert data["name"] == "v100-sxm2-32gb"
    assert {"name", "device", "ceilings", "memory", "software"} <= set(data)


def test_a_saved_machine_can_be_named_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    assert (
        main(["machine", "h100-sxm", "--save", str(path), "--json", str(tmp_path / "x.json")]) == 0
    )
    assert read_machine(path).name == "h100-sxm"
    assert main(["machine", str(path)]) == 0


def test_a_machines_name_does_not_leave_the_folder(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    assert main(["machine", "h100-sxm", "--save", str(path)]) == 0
    path.write_text(path.read_text().replace('name = "h100-sxm"', 'name = "../../escaped"'))
    assert main(["machine", str(path), "--out", str(tmp_path / "a" / "b")]) == 0
    found = list(tmp_path.rglob("*.png"))
    assert [p.parent for p in found] == [tmp_path / "a" / "b"]


def test_what_cannot_be_written_or_measured_is_told_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["machine", "--save", str(tmp_path / "file" / "x.toml")]) == 2
    assert "cannot be written" in capsys.readouterr().err
    assert main(["machine", "--device", "nonsense"]) == 2
    assert "'nonsense' cannot be used" in capsys.readouterr().err


def test_machines_lists_and_filters(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["machines"]) == 0
    out = capsys.readouterr().out
    assert "h100-sxm" in out
    assert "apple-m1" in out
    assert main(["machines", "hopper"]) == 0
    out = capsys.readouterr().out
    assert "h100-sxm" in out
    assert "mi300x" not in out
    assert main(["machines", "hopper", "--json", "-"]) == 0
    assert all("Hopper" in m["architecture"] for m in msgspec.json.decode(capsys.readouterr().out))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["machine", "h100-sxn"], ["no machine is called 'h100-sxn'", "h100-sxm"]),
        (["machine", "none/such.toml"], ["none/such.toml", "cannot be read"]),
        (["machines", "zzz"], ["zzz"]),
        (["machines", "h1oo"], ["'h1oo'; the nearest are h100-"]),
        (["machine", "h100-sxm", "--fresh"], ["--fresh", "measuring"]),
        (["frobnicate"], ["frobnicate"]),
        (["machine", "a100", "--frob"], ["--frob"]),
        (["paper", "--figure", "mona_lisa"], ["mona_lisa", "--figure list"]),
        (["paper", "--format", "bmp"], ["bmp"]),
    ],
)
def test_bad_usage_is_one_line_and_exit_2(
    arguments: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("timeroof: ")
    assert captured.err.count("\n") == 1
    for word in words:
        assert word in captured.err


def test_a_file_that_is_no_machine_file_is_told_from_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["machine", "h100-sxm", "--json", "full.json", "--save", "mine.toml"]) == 0
    assert main(["paper", "--json", "paper.json", "--save", "paper.troof"]) == 0
    Path("trace.json").write_text('{"traceEvents": []}')
    Path("broken").write_text('name = "x')
    capsys.readouterr()
    kinds = {
        "full.json": "full.json: is a machine as JSON, for scripts, no machine file",
        str(tmp_path / "full.json"): "is a machine as JSON",
        "paper.json": "is a timeroof.report/2 document, for scripts",
        "paper.troof": "is a saved run or an archive, no machine file; `timeroof read",
        "trace.json": "is JSON, no machine file; `timeroof read",
        "broken": "is not valid TOML",
    }
    for name, words in kinds.items():
        for arguments in (["machine", name], ["read", "paper.troof", "--machine", name]):
            assert main(arguments) == 2
            err = capsys.readouterr().err
            assert words in err
            assert "--save FILE.toml" in err
            assert "--machine FILE.toml" in err
            assert err.count("\n") == 1


def test_a_machine_file_needs_no_suffix_and_a_name_goes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["machine", "h100-sxm", "--save", "mine.toml"]) == 0
    Path("mine.toml").rename("mine")
    Path("b200").write_text("some file")
    Path("h10").mkdir()
    capsys.readouterr()
    assert main(["machine", "mine"]) == 0
    assert "h100-sxm" in capsys.readouterr().out
    assert main(["machine", "b200"]) == 0
    assert "NVIDIA B200" in capsys.readouterr().out
    assert main(["machine", "h10"]) == 2
    assert "the nearest are h100-" in capsys.readouterr().err


def test_a_broken_machine_file_names_file_and_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_text(
        'schema = "timeroof.machine/1"\nname = "x"\ntitle = "x"\n'
        '[[ceilings]]\nresource = "byte/dram"\nrate = -5.0\n'
    )
    out = tmp_path / "out.toml"
    assert main(["machine", str(bad), "--save", str(out)]) == 2
    assert "bad.toml: ceilings[0] (byte/dram) has rate -5.0" in capsys.readouterr().err
    assert not out.exists()


def test_control_characters_never_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["machine", "\x1b[31mred\u202e"]) == 2
    err = capsys.readouterr().err
    assert "\x1b" not in err
    assert "\u202e" not in err


def test_paper_json_goes_to_stdout_alone() -> None:
    done = run("paper", "--json", "-")
    assert done.returncode == 0
    document = msgspec.json.decode(done.stdout)
    assert document["schema"] == "timeroof.report/2"
    assert len(document["kernels"]) == 264
    assert len(document["findings"]) == 5
    assert "Launch overhead" in done.stderr


def test_paper_draws_one_figure_and_saves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, save = tmp_path / "figures", tmp_path / "paper.troof"
    arguments = ["paper", "--figure", "lstm_time_hidden", "--format", "svg", "--out", str(out)]
    assert main([*arguments, "--save", str(save)]) == 0
    assert [p.name for p in out.iterdir()] == ["lstm_time_hidden.svg"]
    assert save.exists()
    assert main(["paper", "--figure", "list"]) == 0
    assert "conv2d_time_batch" in capsys.readouterr().out.splitlines()


def test_out_that_is_a_file_is_refused_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "taken").write_text("mine")
    assert main(["paper", "--out", str(tmp_path / "taken")]) == 2
    assert "is a file" in capsys.readouterr().err
    assert (tmp_path / "taken").read_text() == "mine"


def test_interrupt_internal_error_and_closed_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail_with(error: BaseException) -> None:
        def stub(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr(cli, "app", stub)

    monkeypatch.setattr(cli, "_add_commands_once", lambda: None)
    fail_with(KeyboardInterrupt())
    assert main([]) == 130
    fail_with(ZeroDivisionError("x"))
    monkeypatch.delenv("TIMEROOF_DEBUG", raising=False)
    assert main([]) == cli.EXIT_INTERNAL
    assert "please report" in capsys.readouterr().err
    monkeypatch.setenv("TIMEROOF_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        main([])


def test_a_reader_that_leaves_is_no_error() -> None:
    script = f"{sys.executable} -m timeroof machines | head -1"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        "paper",
        "machine",
        "machines",
        "read",
        "report",
        "explain",
        "compare",
        "check",
        "whatif",
        "run",
    ],
)
def test_every_command_has_help_with_an_example_and_a_docs_entry(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--help"]) == 0
    assert f"timeroof {command}" in capsys.readouterr().out
    docs = Path(__file__).resolve().parents[2] / "docs" / "commands.md"
    assert f"## timeroof {command}" in docs.read_text("utf-8")


def test_version_and_bare_call() -> None:
    assert run("--version").stdout.startswith("timeroof 0.")
    bare = run()
    assert bare.returncode == 2
    assert "Usage" in bare.stdout + bare.stderr


@pytest.mark.parametrize("arguments", [["machines"], ["machine", "h100-sxm"], ["--help"]])
def test_a_terminal_that_knows_only_ascii(arguments: list[str]) -> None:
    done = run(*arguments, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "arguments", [["machines"], ["--help"], ["--version"], ["machines", "--json", "-"]]
)
def test_a_full_or_closed_stdout(arguments: list[str]) -> None:
    if not Path("/dev/full").is_char_device():
        pytest.skip("no /dev/full here")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "timeroof", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr.startswith("timeroof: ")
    command = " ".join([sys.executable, "-m", "timeroof", *arguments])
    closed = subprocess.run(["sh", "-c", f"{command} >&-"], capture_output=True, check=False)
    assert closed.returncode == 0
    silent = f"{sys.executable} -m timeroof machine nosuch 2>&-"
    assert subprocess.run(["sh", "-c", silent], check=False).returncode == 2


def test_ctrl_c_is_130_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """Also where a callback swallows the exception: the flag is looked at between figures."""
    from timeroof.cli.main import _remember, listen, stop_if_pressed

    listen()
    stop_if_pressed()
    with pytest.raises(KeyboardInterrupt):
        _remember(2, None)
    with pytest.raises(KeyboardInterrupt):
        stop_if_pressed()
    listen()
    script = tmp_path / "press.py"
    script.write_text(
        "import os, signal, sys, threading\n"
        "from timeroof.cli.main import main\n"
        "from timeroof.paper import build\n"
        "draw = build.draw\n"
        "def pressed(*a):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    return draw(*a)\n"
        "build.draw = pressed\n"
        f"sys.exit(main(['paper', '--out', {str(tmp_path / 'out')!r}]))\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 130
    assert done.stderr == "timeroof: interrupted; run the same command again\n"
    assert not (tmp_path / "out").exists() or list((tmp_path / "out").iterdir()) == []
