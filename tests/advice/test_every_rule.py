"""Every rule there is: it fires, it stays silent, and between two near cases lies its boundary.

A rule without an entry here fails, so that none comes without its tests.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import polars as pl
import pytest

from tests.advice.cases import ceiling, fine, found, machine_with, report_of
from tests.advice.test_arithmetic import double, layer, product
from tests.advice.test_launching import CAUSES, adam, one_by_one, thin, tiny
from tests.advice.test_traffic import chained, copy, fresh, moved, slow
from tests.conftest import make_machine
from timeroof.advice import RULES
from timeroof.core.machine import HUGE_PAGES
from timeroof.core.report import Report


@dataclass(frozen=True)
class Cases:
    """Reports of one rule: `at(x)` crosses its boundary from `fires_at` to `silent_at`."""

    fires: Callable[[], Report]
    silent: Callable[[], Report]
    at: Callable[[float], Report]
    fires_at: float
    silent_at: float


def idle(cause: str, seconds: float) -> Report:
    return report_of([fine(100 - seconds)], wall_s=100.0, idle_by_cause={cause: seconds})


def idle_cases(cause: str, least: float) -> Cases:
    return Cases(
        lambda: idle(cause, 40.0),
        lambda: report_of([fine(100.0)], wall_s=100.0),
        lambda seconds: idle(cause, seconds),
        100 * least * 1.01,
        100 * least * 0.99,
    )


def near(share: float) -> Report:
    return report_of([fine(10.0, **{"byte/dram": 100.0 * share})])


def resident(share: float) -> Report:
    """Bytes that fit the cache (50) at some multiple of the memory's speed."""
    row = {"name": "relu", "time_s": 1.0, "flop/fp32": 1.0, "byte/dram": 40.0}
    return report_of([row, fine(1.0 / share - 1.0)])


def efficient(share: float) -> Report:
    return report_of([product(dtype="fp32", **{"flop/fp32": 1000.0 * share})])


def attention(time_s: float, scores: int = 8) -> list[dict[str, Any]]:
    """Two products and the softmax between them; `scores` is the length of its rows."""
    row = {"time_s": time_s, "module": "attention", "byte/dram": 3.2, "flop/fp32": 1.0}
    return [
        {**row, "name": "qk", "op": "aten::bmm", "shape": [[2, 8, 4], [2, 4, 8]]},
        {**row, "name": "softmax", "op": "aten::_softmax", "shape": [[2, 8, scores]]},
        {**row, "name": "pv", "op": "aten::bmm", "shape": [[2, 8, 8], [2, 8, 4]]},
    ]


def optimizer(time_s: float, op: str = "aten::addcdiv_") -> Report:
    """An optimizer's ops, and the bound of its phase as one kernel, 0.2 s with its launch."""
    row = {"name": op, "op": op, "kind": "op", "phase": "optimizer", "time_s": time_s}
    rows = [{**row, "byte/dram": 1.0, "flop/fp32": 0.0, "launches": 1.0}, fine(100.0 - time_s)]
    rungs = pl.DataFrame(
        [{"name": "fused", "kind": "unit", "phase": "optimizer", "time_s": time_s,
          "byte/dram": 1.0, "calls": 1.0, "launches": 1.0}]
    )  # fmt: skip
    return report_of(rows, make_machine(kind="cpu", launching="synchronous"), rungs=rungs)


def paged(time_s: float, setting: str = "madvise") -> Report:
    """A CPU's op on large arrays, where huge pages are given to those who ask."""
    cpu = make_machine(
        ceilings=[ceiling("flop/fp32", 1e12), ceiling("byte/dram", 1e9), ceiling("launch", 1e9)],
        kind="cpu", launching="synchronous", software={HUGE_PAGES: setting},
    )  # fmt: skip
    large = {"name": "mul", "op": "aten::mul", "kind": "op", "flop/fp32": 1.0, "launches": 1.0}
    small = {**large, "name": "add", "op": "aten::add", "calls": 1e6}
    return report_of(
        [
            {**large, "time_s": time_s, "byte/dram": 0.9e9 * time_s},
            {**small, "time_s": 100.0 - time_s, "byte/dram": 0.9e9 * (100.0 - time_s)},
        ],
        cpu,
    )


def ranks(slow_s: float) -> Report:
    rows = [fine(10.0, rank=0), fine(10.0, rank=1), fine(slow_s, rank=2)]
    return report_of(rows, wall_s=20.0)


def unknown(share: float) -> Report:
    row = {"name": "custom", "time_s": 10.0 * share, "flop/fp32": None, "byte/dram": None}
    return report_of([row, fine(10.0 * (1 - share))])


def above(flops: float) -> Report:
    row = {"name": "mm", "op": "aten::mm", "time_s": 1.0, "flop/fp32": flops, "byte/dram": 1.0}
    return report_of([row])


def wide(time_s: float) -> Report:
    """A product in FP32 of some seconds in a run of a hundred."""
    row = product(dtype="fp32", time_s=time_s, **{"flop/fp32": 80.0 * time_s})
    return report_of([{**row, "contraction_flops": 80.0 * time_s}, fine(100.0 - time_s)])


def silent() -> Report:
    return report_of([fine(100.0)])


def mixed(flops: float) -> Report:
    """A product of which some FLOPs run on matrix units."""
    return report_of([product(**{"flop/fp32": 800.0 - flops, "flop/fp16-tensor": flops})])


def repeated(time_s: float) -> Report:
    return report_of([layer("forward", time_s=100.0 - time_s), layer("backward", time_s=time_s)])


def masked(ratio: float) -> Report:
    """A compiled kernel that executes so many times its defined products."""
    rows = [layer("backward", contraction_flops=100.0, defined_flops=100.0 / ratio)]
    return report_of([layer("forward", contraction_flops=100.0, defined_flops=100.0), *rows])


def chain(rest_s: float) -> Report:
    return report_of([chained("mul"), chained("add"), fine(rest_s)])


FP64 = machine_with(ceiling("flop/fp64", 50.0))
ROWS: dict[str, Cases] = {
    "TR101": Cases(
        lambda: report_of([tiny(), fine(10.0)]),
        silent,
        lambda time_s: report_of([tiny(time_s=time_s)]),
        40.0,
        40.1,
    ),
    "TR102": Cases(
        lambda: report_of([thin()]),
        silent,
        lambda side: report_of([thin(f"[[{side:.0f}, 64], [64, 64]]")]),
        8,
        9,
    ),
    "TR103": Cases(
        lambda: report_of([adam(), fine(50.0)]),
        silent,
        lambda launches: report_of([adam(launches, time_s=20.0)]),
        50,
        49,
    ),
    "TR110": Cases(
        lambda: one_by_one(40.0),
        lambda: one_by_one(40.0, ops=7.0),
        one_by_one,
        5.05,
        4.95,
    ),
    "TR201": Cases(
        lambda: report_of([fine(90.0), copy(10.0)]),
        silent,
        lambda time_s: report_of([fine(100.0 - time_s), copy(time_s)]),
        5.1,
        4.9,
    ),
    "TR202": Cases(
        lambda: report_of([moved(4.0)]),
        silent,
        lambda factor: report_of([moved(factor)]),
        2.0,
        1.9,
    ),
    "TR203": Cases(lambda: chain(1.0), lambda: report_of([chained("mul")]), chain, 330.0, 350.0),
    "TR204": Cases(lambda: near(0.95), lambda: near(0.5), near, 0.81, 0.79),
    "TR205": Cases(lambda: resident(0.9), silent, resident, 0.051, 0.049),
    "TR206": Cases(
        lambda: report_of([fresh(12.0)]),
        lambda: report_of([fresh(0.0)]),
        lambda faults: report_of([fresh(faults)]),
        5.0,
        4.9,
    ),
    "TR207": Cases(
        lambda: report_of([slow(0.3)]),
        lambda: report_of([slow(0.8)]),
        lambda share: report_of([slow(share)]),
        0.49,
        0.51,
    ),
    "TR208": Cases(
        lambda: report_of(attention(20.0)),
        lambda: report_of(attention(20.0, scores=6)),
        lambda time_s: report_of([*attention(time_s), fine(100.0 - 3 * time_s)]),
        1.8,
        1.6,
    ),
    "TR209": Cases(
        lambda: optimizer(20.0),
        lambda: optimizer(20.0, op="aten::_fused_adamw_"),
        optimizer,
        3.1,
        2.9,
    ),
    "TR210": Cases(lambda: paged(50.0), lambda: paged(50.0, "always"), paged, 10.1, 9.9),
    "TR301": Cases(lambda: mixed(0.0), lambda: mixed(800.0), mixed, 399.0, 401.0),
    "TR302": Cases(
        lambda: report_of([double()], FP64),
        lambda: report_of([double(dtype="float32")], FP64),
        lambda time_s: report_of([double(time_s=time_s), fine(100.0)]),
        6.1,
        5.9,
    ),
    "TR303": Cases(lambda: wide(50.0), silent, wide, 2.1, 1.9),
    "TR304": Cases(lambda: efficient(0.3), lambda: efficient(0.9), efficient, 0.49, 0.51),
    "TR305": Cases(lambda: repeated(30.0), silent, repeated, 3.1, 2.9),
    "TR306": Cases(lambda: masked(32.0), lambda: masked(1.0), masked, 1.21, 1.19),
    "TR401": Cases(lambda: ranks(13.0), lambda: ranks(10.0), ranks, 10.9, 10.6),
    "TR901": Cases(
        lambda: report_of([fine(1.0, time_spread=0.5)]),
        silent,
        lambda spread: report_of([fine(1.0, time_spread=spread)]),
        0.2,
        0.19,
    ),
    "TR902": Cases(lambda: unknown(0.5), silent, unknown, 0.11, 0.09),
    "TR903": Cases(lambda: above(200.0), lambda: above(50.0), above, 106.0, 102.0),
    **{code: idle_cases(cause, least) for code, cause, least in CAUSES},
}


def test_no_rule_is_without_cases_and_no_case_without_a_rule() -> None:
    assert sorted(ROWS) == [rule.code for rule in RULES]


@pytest.mark.parametrize("code", [rule.code for rule in RULES])
def test_it_fires_stays_silent_and_has_a_boundary(code: str) -> None:
    cases = ROWS[code]
    finding = found(code, cases.fires())
    assert finding, "must fire"
    assert re.search(r"\d", finding[0].title), "a title is the finding with its number"
    assert not found(code, cases.silent()), "must not fire"
    assert found(code, cases.at(cases.fires_at)), "must fire on this side of its boundary"
    assert not found(code, cases.at(cases.silent_at)), "must not fire beyond its boundary"


@pytest.mark.parametrize("code", [rule.code for rule in RULES])
def test_nothing_fires_on_a_kernel_at_its_roof(code: str) -> None:
    if code not in ("TR204",):
        assert not found(code, report_of([fine(50.0), fine(49.0, name="other")]))


def test_every_rule_has_words_for_every_kind_of_reader() -> None:
    for rule in RULES:
        for action in rule.actions.values():
            assert action.endswith("."), rule.code


# Codes of resources and turns of phrase that no reader should have to learn.
BANNED = re.compile(
    r"flop/|byte/|link/|\bfault\b|judge|\btold\b|at the roof|come back|rows? that| fp32| bf16 uni"
)


@pytest.mark.parametrize("code", [rule.code for rule in RULES])
def test_words_are_short_sentences_of_the_field(code: str) -> None:
    for finding in found(code, ROWS[code].fires()):
        texts = [finding.title, finding.why, finding.action or ""]
        for text in texts:
            assert not BANNED.search(text.replace("torch.", "")), text
            for sentence in re.split(r"(?<=[.:;])\s", re.sub(r"`[^`]*`", "", text)):
                assert len(sentence.split()) <= 25, sentence
        assert finding.title[0].isupper() or finding.title[0].isdigit()
        assert finding.why.endswith(".")
