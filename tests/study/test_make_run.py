"""What `make run` ends with: the last ten lines and the first screen say what study.json says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.study.factor_samples import study_machine
from timeroof.core.units import format_percent, format_seconds
from timeroof.paper import BASE_CASE
from timeroof.paper.build import build_paper
from timeroof.study.case import Case, Result
from timeroof.study.factors import designs
from timeroof.study.factors.conclusion import times
from timeroof.study.grid import DesignOptions, all_cores, unique
from timeroof.study.judged_cases import limiter_words
from timeroof.study.output.page import write_study
from timeroof.study.output.utilisation import print_study
from timeroof.study.report import judged_study

FACTORS = ("intensity", "locality", "autotune", "launch", "precision")
NUMBER = re.compile(r"\d")


def seconds(case: Case) -> float:
    """What a case takes on a machine of our own making, in which every factor matters."""
    base_s = 10e-3
    if case.kernel == "conv2d":
        slower = {"im2col": 4.0, "no-onednn": 1.8}.get(case.variant, 1.0)
        laid_out = 0.5 if case.params["layout"] == "channels_last" else 1.0
        side = int(case.params["kernel"]) / 3
        return base_s * slower * laid_out * side * int(case.params["batch"]) / 16
    if case.kernel == "lstm":
        steps = int(case.params["time_steps"])
        return steps * (60e-6 if case.variant == "cell-loop" else 10e-6)
    if case.kernel == "elementwise":
        return 1e-6 + int(case.params["elements"]) * (6e-10 if case.cache == "cold" else 1e-10)
    return 3e-3 if case.precision == "fp32" else 1e-3


def result(case: Case, place: int, *, busy: bool) -> Result:
    """A case as a worker would have measured it, quiet or beside others."""
    noise = (0.99, 1.0, 1.01, 1.0)
    flops = 2e9 if case.kernel == "gemm" else 3.6e9
    if case.kernel == "conv2d":
        flops *= int(case.params["batch"]) / 16 * (int(case.params["kernel"]) / 3) ** 2
    if case.kernel == "elementwise":
        flops = float(case.params["elements"])
    labels = {"clock": "cpu", "turn": case.kernel} if busy else {"clock": "wall"}
    if case.kernel == "elementwise":
        labels["working_set_bytes"] = str(12 * int(case.params["elements"]))
    if busy:
        case = msgspec.structs.replace(case, threads=1)
    loops = case.variant == "cell-loop"
    return Result(
        case=case,
        status="done",
        samples_s=[seconds(case) * noise[(n + place) % 4] for n in range(12)],
        launches=14.0 * int(case.params["time_steps"]) if loops else 1.0,
        amounts={"flop/fp32": flops, "byte/dram": 6e7, "fault": 0.0},
        contraction_flops=flops,
        labels=labels,
        load=0.9 if busy else 0.01,
    )


def cases() -> list[Case]:
    options = DesignOptions(
        kernels=["conv2d", "lstm"], threads=all_cores(), quick=True, machine=study_machine()
    )
    return unique(designs(["all"], options))


class Shown(HTMLParser):
    """Texts of the first screen of the page, without styles."""

    def __init__(self) -> None:
        super().__init__()
        self.text, self._skipped, self._over = "", 0, False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._skipped += tag == "style"
        self._over = self._over or dict(attrs).get("id") == "chart"

    def handle_endtag(self, tag: str) -> None:
        self._skipped -= tag == "style"

    def handle_data(self, data: str) -> None:
        if not self._skipped and not self._over:
            self.text += f" {data}"


def first_screen(page: Path) -> str:
    shown = Shown()
    shown.feed(page.read_text("utf-8"))
    return " ".join(shown.text.split())


def check(document: dict[str, Any], lines: list[str], screen: str) -> None:
    """Ten lines and the first screen against the JSON."""
    findings = {f["code"].partition("/")[2]: f["evidence"] for f in document["findings"]}
    words = {line.split("  ")[0]: line for line in lines}
    for op, name in (("conv2d", "conv2d"), ("lstm", "LSTM")):
        facts = findings[op]
        wanted = [
            format_seconds(facts["time_s"]),
            times(facts["times_the_paper"]),
            limiter_words(facts["limiter"]),
            format_percent(facts["share_of_bound"]),
        ]
        assert all(text in words[name] for text in wanted), (wanted, words[name])
        assert all(text in screen for text in wanted), wanted
    for factor in FACTORS:
        facts = findings[factor]
        if facts["concluded"]:
            assert NUMBER.search(facts["sentence"]), facts["sentence"]
            assert any(facts["sentence"] in line for line in lines)
            assert len(facts["sentence"].split()) <= 25
        assert facts["sentence"] in screen
        assert facts["paper"] in screen
    # Nothing inconclusive before a conclusion.
    order = [
        findings[f["code"].partition("/")[2]].get("concluded", True) for f in document["findings"]
    ]
    assert order == sorted(order, reverse=True)
    assert not any("nconclusive" in line for line in lines[:-2])
    assert lines[0].startswith("Machine")
    assert lines[-2].startswith("Trust")
    assert lines[-1].startswith("Page")


@pytest.mark.parametrize("busy", [False, True])
def test_ten_lines_and_the_first_screen_agree_with_the_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], busy: bool
) -> None:
    results = [result(case, place, busy=busy) for place, case in enumerate(cases())]
    study = judged_study(results, study_machine())
    page = write_study(study, tmp_path, overlay=build_paper())
    print_study(study, str(page))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 10
    document = msgspec.json.decode((tmp_path / "study.json").read_bytes())
    assert all(f["evidence"].get("concluded", True) for f in document["findings"])
    check(document, lines, first_screen(page))
    assert ("90 % of the CPU" in lines[-2]) == busy
    assert str(page) in lines[-1]


def test_beside_others_the_same_directions_are_found_as_on_a_quiet_machine() -> None:
    found = []
    for busy in (False, True):
        results = [result(case, place, busy=busy) for place, case in enumerate(cases())]
        study = judged_study(results, study_machine())
        leads = {f.code: f.evidence.get("lead") for f in study.report.findings}
        found.append({code: lead["verdict"] for code, lead in leads.items() if lead})
    assert found[0] == found[1]
    assert len(found[0]) == 5


def test_what_stays_open_comes_last_with_its_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Algorithms that differ by a sixth are too close to tell beside others."""
    results = [
        msgspec.structs.replace(r, samples_s=[s / 3.4 for s in r.samples_s])
        if r.case.variant == "im2col"
        else r
        for place, case in enumerate(cases())
        if case.variant != "no-onednn"
        for r in [result(case, place, busy=True)]
    ]
    study = judged_study(results, study_machine())
    page = write_study(study, tmp_path)
    print_study(study, str(page))
    lines = capsys.readouterr().err.splitlines()
    document = msgspec.json.decode((tmp_path / "study.json").read_bytes())
    check(document, lines, first_screen(page))
    assert "Inconclusive: auto-tuning" in lines[-2]
    assert "too close to tell beside other programs" in lines[-2]
    assert document["findings"][-1]["code"] == "study/autotune"


def test_the_base_cases_are_those_of_the_paper() -> None:
    plain = [c for c in cases() if c.variant == "eager" and c.cache == "warm"]
    for op, case in BASE_CASE.items():
        assert any(c.kernel == op and case.items() <= c.params.items() for c in plain)


@pytest.mark.long
def test_the_command_of_make_run_ends_with_them(tmp_path: Path) -> None:
    makefile = (Path(__file__).parents[2] / "Makefile").read_text("utf-8")
    typed = re.search(r"timeroof (study .*?) --out", makefile)
    assert typed is not None
    done = subprocess.run(
        [sys.executable, "-m", "timeroof", *typed[1].split(), "--out", str(tmp_path)],
        capture_output=True, text=True, check=True, env=os.environ,
    )  # fmt: skip
    document = msgspec.json.decode((tmp_path / "study.json").read_bytes())
    lines = done.stderr.splitlines()
    # Regimes of our own kernels have no line of their own.
    with_lines = [f for f in document["findings"] if f["code"] != "study/regimes"]
    count = sum(f["evidence"].get("concluded", True) for f in with_lines)
    check(document, lines[-(count + 3) :], first_screen(tmp_path / "index.html"))
