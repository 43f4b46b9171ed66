"""Options that several commands share mean, say and do the same everywhere."""

import inspect
import signal
import typing
from importlib import import_module
from pathlib import Path

import pytest

from tests.views.samples import step_report
from timeroof.cli import main
from timeroof.cli.main import COMMANDS
from timeroof.cli.options import REPORT_FILES, RunOutputs, write_outputs

SHARED = ("machine", "json", "html", "out", "save", "markdown")
# These mean another thing: machines to predict for, a machine's own file and pictures.
OTHER = {("whatif", "machine"), ("machine", "save"), ("machine", "out")}


def options(command: str) -> dict[str, typing.Any]:
    function = inspect.unwrap(getattr(import_module(f"timeroof.cli.{command}"), command))
    hints = typing.get_type_hints(function, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items() if name in SHARED}


@pytest.mark.parametrize("name", SHARED)
def test_an_option_of_several_commands_has_one_text(name: str) -> None:
    texts = {
        option.help.split(" [default")[0]
        for command in COMMANDS
        for known, option in options(command).items()
        if known == name and (command, name) not in OTHER
    }
    assert len(texts) == 1


@pytest.mark.parametrize("command", [c for c in COMMANDS if "machine" in options(c)])
def test_every_command_with_a_machine_says_that_here_is_one(command: str) -> None:
    assert "'here'" in options(command)["machine"].help


def test_run_writes_the_same_files_into_a_folder_as_read(tmp_path: Path) -> None:
    report = step_report()
    RunOutputs.of(tmp_path / "run", None, None, None).write(report)
    write_outputs(report, out=tmp_path / "read")
    written = [sorted(p.name for p in (tmp_path / name).iterdir()) for name in ("run", "read")]
    assert written == [sorted(REPORT_FILES)] * 2


def test_a_bar_raises_the_interrupt_that_a_callback_swallowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(main, "_pressed", [signal.SIGINT])
    with pytest.raises(KeyboardInterrupt), main.share_bar("reading", after_s=60) as tell:
        tell("file", 0.5)


def test_a_late_bar_is_not_made_for_short_work(monkeypatch: pytest.MonkeyPatch) -> None:
    # A test of a signal may have run in this process before.
    monkeypatch.setattr(main, "_pressed", [])
    made: list[str] = []
    started = main._started
    monkeypatch.setattr(main, "_started", lambda what: (made.append(what), started(what))[1])
    with main.share_bar("reading", after_s=3600) as tell:
        tell("[red]name", 0.5)
    assert not made
    with main.progress_bar("drawing", 2) as advance:
        advance("[/one]")
        advance("two")
    assert made == ["drawing"]


def test_counting_has_the_options_that_change_what_is_counted() -> None:
    from timeroof.cli.run import run

    names = [name for name in inspect.signature(run).parameters if name.startswith("counter")]
    assert names == [
        "counters",
        "counter_metrics_per_run",
        "counter_whole_machine",
        "counter_chip",
        "counter_folder",
    ]
