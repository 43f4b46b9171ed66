"""What people read: no raw codes in prose, no phrase that we gave up, no sentence that is too long.

Twenty-five words in a headline, a finding, a message or a help text, thirty-five in the docs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer

from tests.recorded_data import DATA, needs_recorded_data
from tests.views.live_sample import live_report
from tests.views.samples import step_report
from tests.words.reading import ROOT, faults_of, markdown_prose, page_prose, terminal_prose
from timeroof.api.reports import load, machine as find_machine
from timeroof.cli.main import _add_commands_once, app
from timeroof.core.report import Report
from timeroof.model.compare.compare import compare
from timeroof.model.whatif.project import what_if
from timeroof.views.compare import print_comparison
from timeroof.views.machine import print_measured
from timeroof.views.overview import overview
from timeroof.views.page import html_page
from timeroof.views.run_summary import print_explanation, print_run
from timeroof.views.terminal import print_machine, print_machines
from timeroof.views.whatif import print_whatif

IN_A_MESSAGE, IN_DOCS = 25, 35
PAGES = [ROOT / "README.md", *sorted((ROOT / "examples").rglob("*.md")),
         *sorted((ROOT / "docs").glob("*.md"))]  # fmt: skip
TEMPLATES = sorted((ROOT / "src").rglob("*.html.j2"))
GOLDEN = sorted((ROOT / "tests" / "golden" / "live").glob("*.troof"))
RECORDED = (
    "kineto/h100_qwen1.5_0.5b_chat.json.gz", "kineto/h100_bert_small_infer.json.gz",
    "kineto/h100_vit_nsfw_infer.json.gz", "kineto/mi300x_resnet_train_8gpu_rank0.json.gz",
    "kineto/mi300x_torch_compile_triton.json.gz", "kineto/mi300x_vllm_decode_hipgraph.json.gz",
    "kineto/a100_alexnet_no_shapes.json.gz", "kineto/mi250_minitoy_train.json.gz",
    "kineto/v100_dlrm_8rank", "kineto/v100_recsys_train_rank1of2.json.gz",
    "ncu/a100_resnet18_raw_wide.csv.gz", "ncu/v100_deepcam_pytorch_fp32-O0-Adam",
)  # fmt: skip


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_docs_read_well(page: Path) -> None:
    assert not faults_of(markdown_prose(page.read_text()), IN_DOCS)


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_templates_read_well(template: Path) -> None:
    assert not faults_of(page_prose(template.read_text()), IN_A_MESSAGE)


def command() -> Any:
    _add_commands_once()
    return typer.main.get_command(app)


def help_texts() -> Iterator[str]:
    whole = command()
    yield whole.help
    for each in whole.commands.values():
        yield each.help
        yield from (getattr(param, "help", None) or "" for param in each.params)


def test_help_reads_well() -> None:
    for text in help_texts():
        plain = re.sub(r"`[^`]+`", "Code", re.sub(r"\[default[^\]]*\]", "", text))
        assert not faults_of(plain, IN_A_MESSAGE), text


def test_help_has_no_paragraph_of_more_than_three_lines() -> None:
    for each in command().commands.values():
        for paragraph in re.split(r"\n\s*\n", each.help):
            assert len(" ".join(paragraph.split())) <= 3 * 98, paragraph


def own_words(report: Report) -> Iterator[str]:
    """What we say of a run: first screen, findings, notes."""
    seen = overview(report)
    yield from (seen.sentence, seen.potential, seen.counted, seen.together, seen.overlap)
    yield from (text for doubt in seen.doubts for text in (doubt.text, doubt.advice))
    for finding in report.findings:
        yield from (finding.title, finding.why, re.sub(r"`[^`]+`", "Code", finding.action or ""))
    yield from (str(note) for note in report.notes)


LIVE = {"step": step_report, "live": live_report, "slower": lambda: live_report(9.0),
        **{path.stem: (lambda path=path: load(path)) for path in GOLDEN},
        "trace": lambda: load(ROOT / "examples" / "trace.json.gz")}  # fmt: skip


@pytest.mark.parametrize("name", LIVE)
def test_runs_read_well(name: str) -> None:
    for text in own_words(LIVE[name]()):
        assert not faults_of(text, IN_A_MESSAGE)


@needs_recorded_data
@pytest.mark.parametrize("name", RECORDED)
def test_recorded_runs_read_well(name: str) -> None:
    if not (DATA / name).exists():
        pytest.skip("not among the recorded files here")
    for text in own_words(load(DATA / name)):
        assert not faults_of(text, IN_A_MESSAGE)


@pytest.mark.parametrize("name", LIVE)
def test_terminal_and_page_of_a_run_read_well(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    report = LIVE[name]()
    if report.machine is not None:
        # What was noted of a recorded machine is of that day.
        report = replace(report, machine=msgspec.structs.replace(report.machine, notes=[]))
    print_run(report, verbose=True, stderr=False)
    print_explanation(report, report.findings)
    assert not codes_and_phrases(terminal_prose(capsys.readouterr().out))
    assert not codes_and_phrases(page_prose(html_page(report)))


def test_terminal_of_other_commands_reads_well(capsys: pytest.CaptureFixture[str]) -> None:
    report, machine = step_report(), find_machine("h100-sxm")
    print_machine(machine)
    print_machines([machine])
    print_measured(machine)
    print_comparison(compare(report, live_report(), ("a", "b")).document(), stderr=False)
    print_whatif(what_if(report, [find_machine("b200"), find_machine("a100-sxm4-80gb")]).document())
    assert not codes_and_phrases(terminal_prose(capsys.readouterr().out))


def codes_and_phrases(text: str) -> list[str]:
    """Faults other than long sentences: lines of a terminal run into one another."""
    return faults_of(text, longest=10_000)


def option_uses(text: str) -> Iterator[tuple[str, str]]:
    """Command and option of every `timeroof …` in code of a page."""
    code = re.findall(r"`((?:\.venv/bin/)?timeroof [^`\n]+)`", text)
    code += [
        line for line in text.splitlines() if re.match(r"(?: {4}|\.venv/bin/)\S*timeroof ", line)
    ]
    for line in code:
        for part in re.split(r"[;|]|&&| # ", line):
            words = re.search(r"timeroof ([a-z]+)(.*)", part)
            if words is None:
                continue
            # What stands behind a program that is run is the program's.
            own = re.split(r"\s\S+\.py\b|\s-m\s", words[2])[0] if words[1] == "run" else words[2]
            yield words[1], ""
            yield from ((words[1], o) for o in re.findall(r"(?<![\w-])(--?[a-z][\w-]*)", own))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_options_of_the_docs_exist(page: Path) -> None:
    commands = command().commands
    for name, option in option_uses(page.read_text()):
        assert name in commands, (page.name, name)
        known = {o for p in commands[name].params for o in getattr(p, "opts", ())}
        assert not option or option in known | {"--help", "-h"}, (page.name, name, option)


def test_pictures_of_the_docs_are_small() -> None:
    for picture in (ROOT / "docs" / "images").iterdir():
        assert picture.stat().st_size < 300_000, picture.name
