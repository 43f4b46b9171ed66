"""Pages and terminal: hostile text stays text."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from timeroof.api.reports import analyze
from timeroof.core.machine import Ceiling, Machine
from timeroof.core.profile import Profile, Source
from timeroof.core.report import Finding, Report
from timeroof.views import run_summary, terminal
from timeroof.views.page.templates import Table, static_page
from timeroof.views.render import csv_bytes

HOSTILE = "<script>alert(1)</script>\"'[bold]\x1b[31m\u202e"


@pytest.fixture
def report(machine: Machine) -> Report:
    rows = [{"name": HOSTILE, "time_s": 1.0, "flop/fp32": 1.0, "byte/dram": 5.0}]
    made = analyze(Profile.of(rows, Source(tool="t"), notes=(HOSTILE,)), machine)
    finding = Finding(code="X", title=HOSTILE, why=HOSTILE, action=HOSTILE)
    return replace(made, findings=(finding,))


def test_the_page_escapes_everything() -> None:
    table = Table(HOSTILE, (HOSTILE,), [[HOSTILE]], HOSTILE)
    html = static_page(HOSTILE, HOSTILE, notes=[HOSTILE], tables=[table])
    assert html.count("<script") == 2
    assert "&lt;script&gt;" in html


def test_csv_leaves_out_what_says_nothing(report: Report) -> None:
    table = csv_bytes(report.rows).decode()
    assert table.splitlines()[0].startswith("id,kind,name")
    assert "module" not in table.splitlines()[0]


def test_the_terminal_shows_hostile_names_as_text(
    report: Report, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = io.StringIO()
    for view in (terminal, run_summary):
        monkeypatch.setattr(view, "console", lambda **_: Console(file=out, width=80))
    bad = replace_machine(machine)
    run_summary.print_run(report)
    terminal.print_titles(report.findings)
    terminal.print_notes(report.notes)
    terminal.print_machine(bad)
    terminal.print_machines([bad])
    text = out.getvalue()
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "[bold]" in text
    assert max(map(len, text.splitlines())) <= 80


def replace_machine(machine: Machine) -> Machine:
    import msgspec

    ceiling = Ceiling(
        resource="flop/fp32", rate=1.0, origin="user", scope="core", source=HOSTILE,
        variants={HOSTILE: 2.0},
    )  # fmt: skip
    return msgspec.structs.replace(
        machine, device=HOSTILE, ceilings=[ceiling], device_names=[HOSTILE], notes=[HOSTILE]
    )
