"""Tables in terminals of every width: figures keep their digits, names and columns give way."""

from __future__ import annotations

import dataclasses
import io
import re
from collections.abc import Callable

import pytest
from rich.cells import cell_len
from rich.console import Console

from tests.views.live_sample import live_report
from tests.views.samples import step_report
from tests.views.test_tables import replace_machine
from timeroof.api.reports import analyze, machine as find_machine
from timeroof.core.units import format_seconds
from timeroof.model.check.gate import Limits, check
from timeroof.model.check.limits import parse_rule
from timeroof.model.compare.compare import compare
from timeroof.model.whatif.project import what_if
from timeroof.views.check import print_check
from timeroof.views.compare import print_comparison
from timeroof.views.machine import print_measured
from timeroof.views.run_summary import print_explanation, print_run, print_summary
from timeroof.views.terminal import Bar, Column, fitted_table, print_machine, print_machines
from timeroof.views.whatif import print_whatif

WIDTHS = (40, 60, 80, 120, 200)
MACHINES = ("a100-sxm4-80gb", "v100-sxm2-32gb", "b200")
# A number and its unit, which no cut may change.
FIGURE = re.compile(
    r"(?<![\w.…])[-+]?(?:\d[\d.,]* (?:[numkMGTP]?(?:s|B|FLOP|OP)(?:/s)?|µs|%)|\d+\.\d+x)(?!\w)"
)


def _checked() -> None:
    rules = [
        parse_rule(text) for text in ("phase=backward:time<12.3456ms", "op=aten::mm:efficiency>60%")
    ]
    print_check(
        check(step_report(), None, Limits(max_launches=100, rules=rules)).document(), stderr=False
    )


def _predicted() -> None:
    print_whatif(what_if(step_report(), [find_machine(name) for name in MACHINES]).document())


PRINTERS: dict[str, Callable[[], None]] = {
    "whole": lambda: print_run(step_report(), stderr=False),
    "summary": lambda: print_summary(step_report(), stderr=False),
    "explain": lambda: print_explanation(step_report(), step_report().findings),
    "compare": lambda: print_comparison(compare(step_report(), step_report(3)).document()),
    "check": _checked,
    "whatif": _predicted,
    "run": lambda: print_run(live_report()),
    "machine": lambda: print_machine(find_machine("h100-sxm")),
    "machines": lambda: print_machines([find_machine(name) for name in MACHINES]),
    "measured": lambda: print_measured(find_machine("h100-sxm")),
    "hostile machine": lambda: print_machine(replace_machine(find_machine("h100-sxm"))),
}  # fmt: skip


@pytest.fixture
def shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[Callable[[], None], int], str]:
    """What a printer says to a terminal of a width."""

    def printed(printer: Callable[[], None], width: int) -> str:
        monkeypatch.setenv("COLUMNS", str(width))
        printer()
        captured = capsys.readouterr()
        return captured.out + captured.err

    return printed


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PRINTERS)
def test_no_line_is_too_long_and_no_figure_is_another_one(
    name: str, width: int, shown: Callable[[Callable[[], None], int], str]
) -> None:
    text = shown(PRINTERS[name], width)
    assert max(map(cell_len, text.splitlines())) <= width
    assert not re.search(r"\s[-+]?\d+\.\d*…", text)
    true = set(FIGURE.findall(shown(PRINTERS[name], 400)))
    assert set(FIGURE.findall(text)) <= true


def kernel_lines(text: str) -> list[str]:
    lines = text.splitlines()
    head = next(k for k, line in enumerate(lines) if line.startswith("Largest "))
    return lines[head + 1 : head + 6]


@pytest.mark.parametrize("width", WIDTHS)
def test_largest_kernels_keep_times_and_the_names_take_the_cut(
    width: int, shown: Callable[[Callable[[], None], int], str]
) -> None:
    lines = kernel_lines(shown(PRINTERS["whole"], width))
    wide = [line.split("  ") for line in kernel_lines(shown(PRINTERS["whole"], 400))]
    for line, parts in zip(lines, wide, strict=True):
        name, time, *_ = [part.strip() for part in parts if part.strip()]
        assert f" {time}" in line
        assert line[:8] == name[:8]
        bounded = any(word in line for word in ("memory", "compute", "launch", "unknown"))
        assert bounded or width < 60


def test_kernels_are_listed_without_a_machine(
    shown: Callable[[Callable[[], None], int], str],
) -> None:
    profile = dataclasses.replace(step_report().profile, device=None)
    report = analyze(profile, None)
    assert report.machine is None
    text = shown(lambda: print_run(report, stderr=False), 120)
    assert "Largest kernels" in text
    assert "FLOP/s" in text
    assert "of its limit" not in text
    assert "Warning: No machine is named" in text


@pytest.mark.parametrize("width", WIDTHS)
def test_a_live_run_keeps_the_time_of_every_op_on_one_line(
    width: int, shown: Callable[[Callable[[], None], int], str]
) -> None:
    text = shown(PRINTERS["run"], width)
    for name, time_s in (("convolution", 6.0), ("norm", 2.5), ("reorder", 1.4)):
        found = [line for line in text.splitlines() if line.startswith(f"{name} ")]
        assert found
        assert format_seconds(time_s) in found[0]


@pytest.mark.parametrize("width", [80, 120, 200])
def test_nothing_is_a_paragraph_of_more_than_three_lines(
    width: int, shown: Callable[[Callable[[], None], int], str]
) -> None:
    """Lines of a table are short of the width or have columns; prose is neither."""
    for name in ("whole", "run"):
        prose = 0
        for line in shown(PRINTERS[name], width).splitlines():
            is_prose = bool(line.strip()) and not re.search(r"\S {2,}\S", line)
            prose = prose + 1 if is_prose else 0
            assert prose <= 3, (name, line)


def test_notes_are_counted_and_printed_where_they_are_asked_for(
    shown: Callable[[Callable[[], None], int], str],
) -> None:
    report = step_report()
    assert report.notes
    quiet = shown(lambda: print_run(report, stderr=False), 120)
    loud = shown(lambda: print_run(report, verbose=True, stderr=False), 120)
    assert f"{len(report.notes)} notes: -v" in quiet
    assert "Note: " not in quiet
    assert f"Note: {report.notes[0]}" in loud


def rendered(columns: list[Column], rows: list[list[str | Bar]], width: int) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width).print(fitted_table(columns, list(rows), width))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_bars_give_way_first_then_names_then_columns() -> None:
    columns = [
        Column("name", "name"), Column("time", "figure"), Column("", "bar", least=4, most=10, leaves=1),
    ]  # fmt: skip
    rows: list[list[str | Bar]] = [["elementwise kernel", "12.3 ms", Bar([(1.0, "█", "")])]]
    assert rendered(columns, rows, 60)[1] == "elementwise kernel  12.3 ms  ██████████"
    assert rendered(columns, rows, 35)[1] == "elementwise kernel  12.3 ms  ██████"
    assert rendered(columns, rows, 24)[1] == "elementwise ke…  12.3 ms"
    assert rendered(columns, rows, 12)[1] == "el…  12.3 ms"


def test_paths_keep_their_ends() -> None:
    columns = [Column("", "figure"), Column("", "path")]
    rows: list[list[str | Bar]] = [["1 s", "project/models/unet.py:41"]]
    assert rendered(columns, rows, 19) == ["1 s  …ls/unet.py:41"]
    assert rendered(columns, rows, 40) == ["1 s  project/models/unet.py:41"]
