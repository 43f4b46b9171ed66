"""`timeroof read` as a user types it."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import typer

from tests.conftest import texts
from timeroof.cli import main as cli
from timeroof.cli.main import main
from timeroof.cli.read import read

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "read"


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    cli._add_commands_once()
    if not any(c.callback is read for c in cli.app.registered_commands):
        app = typer.Typer(
            no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
        )
        app.callback()(cli.timeroof)
        for command in [*(c.callback for c in cli.app.registered_commands), read]:
            assert command is not None
            app.command()(command)
        monkeypatch.setattr(cli, "app", app)


def test_the_device_in_the_file_names_the_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["read", str(GOLDEN / "ncu_wide.csv"), "--json", "-"]) == 0
    report = msgspec.json.decode(capsys.readouterr().out)
    assert report["schema"] == "timeroof.report/2"
    assert report["machine"]["name"] == "a100-sxm4-40gb"
    assert report["source"]["files"][0]["name"] == "ncu_wide.csv"
    gemm = report["kernels"][0]
    assert gemm["flops"] == {"fp32": 8300, "fp16": None, "fp16-tensor": None}
    assert any("Not collected" in text for text in texts(report))


def test_a_named_machine_tells_the_chip(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = (GOLDEN / "ncu_long.csv").read_text().replace("volta_h884_gemm", "gemm")
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(text.encode()))
    flops = {}
    for machine in ("v100-paper", "a100-sxm4-40gb"):
        assert main(["read", str(path), "--machine", machine, "--json", "-"]) == 0
        report = msgspec.json.decode(capsys.readouterr().out)
        flops[machine] = report["kernels"][0]["flops"]["fp16-tensor"]
    assert flops == {"v100-paper": 32768, "a100-sxm4-40gb": None}


def test_a_file_without_a_device_name_is_judged_on_the_chip_that_it_tells(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["read", str(GOLDEN / "ncu_console.txt"), "--json", "-"]) == 0
    report = msgspec.json.decode(capsys.readouterr().out)
    assert report["machine"]["name"].startswith("a100")
    assert any("--machine" in note for note in texts(report))


def test_outputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved, out = tmp_path / "a.troof", tmp_path / "out"
    arguments = ["read", str(GOLDEN / "tidy.csv"), "--machine", "v100-paper"]
    assert main([*arguments, "--save", str(saved), "--out", str(out)]) == 0
    assert {"report.json", "run.troof", "kernels.csv"} <= {p.name for p in out.iterdir()}
    capsys.readouterr()
    assert main(["read", str(saved), "--json", "-"]) == 0
    again = msgspec.json.decode(capsys.readouterr().out)
    assert again["machine"]["name"] == "v100-paper"
    assert len(again["kernels"]) == 3
    assert main(["read", str(out / "kernels.csv"), "--json", "-"]) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["/no/such/file"], "/no/such/file: cannot be read"),
        ([], "no file is named"),
        ([str(GOLDEN / "tidy.csv"), "--format", "frob"], "no format is called 'frob'"),
        ([str(GOLDEN / "tidy.csv"), "--max-size", "10B"], "unpacks to more than 10 bytes"),
        ([str(GOLDEN / "tidy.csv"), "--machine", "frob"], "no machine is called 'frob'"),
        ([str(GOLDEN / "expected.json")], "JSON, but of no profiler"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["read", *arguments]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert err.count("\n") == 1


def test_formats_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["read", "--format", "list"]) == 0
    assert "ncu-csv" in capsys.readouterr().out


def test_an_empty_name_is_not_this_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["read", ""]) == 2
    assert "an empty name is given" in capsys.readouterr().err


@pytest.mark.parametrize("words", [
    ["read", "a.csv", "--json", ""], ["read", "a.csv", "--out", ""], ["report", "a.csv", "-o", ""],
    ["run", "--html=", "a.py"], ["run", ""], ["run", "-m", ""],
])  # fmt: skip
def test_an_output_or_program_without_a_name_is_refused(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert "empty" in capsys.readouterr().err


def test_json_to_a_closed_stdout_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("name,time_s\na,1\n")
    command = f'exec "{sys.executable}" -m timeroof read "{path}" --json - >&-'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "stdout is closed" in done.stderr
