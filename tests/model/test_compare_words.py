"""What a comparison says in words: the deciding test, the layer, candidates, other work."""

from __future__ import annotations

import random
from typing import Any

import polars as pl
import pytest

from tests.model.test_compare import clean, paced, report, row
from timeroof.core.report import Report
from timeroof.model.compare.compare import compare
from timeroof.model.compare.notes import WORK, differing_work
from timeroof.views.compare import (
    CANDIDATES,
    NOTHING_MOVED,
    cells,
    headline,
    markdown_comparison as markdown,
    told_rows,
)
from timeroof.views.compare_page import comparison_page


def said(a: Report, b: Report) -> str:
    return headline(compare(a, b).document())


def test_a_difference_below_the_threshold_says_so() -> None:
    assert "below 7 % of the run" in said(clean(*[1.0] * 8), clean(*[1.05] * 8))
    plain = said(report([row(10.0)]), report([row(10.3)]))
    assert "below 5 % of the run" in plain


def test_a_difference_within_the_samples_says_so() -> None:
    wide = [1.0, 2.0, 1.5, 1.1, 1.9, 1.4, 1.6, 1.2]
    assert "within the noise of the samples" in said(clean(*wide), clean(*(s + 0.3 for s in wide)))


def test_fastest_steps_that_do_not_differ_are_named() -> None:
    quiet, disturbed = [1.0] * 9, [1.0, *[1.3] * 8]
    got = said(clean(*quiet), clean(*disturbed))
    assert "no significant change (+300 ms: the fastest steps" in got
    assert "do not confirm it" in got
    some = said(clean(*quiet), clean(1.02, *[1.3] * 8))
    assert "differ by 20.0 ms only" in some


def test_the_pace_of_the_machine_is_named() -> None:
    got = said(paced(*[1.0] * 8, pace=1.0), paced(*[1.3] * 8, pace=1.5))
    assert "the machine's own pace explains all but" in got


def test_a_difference_that_counts_has_no_excuse() -> None:
    document = compare(clean(*[1.0] * 8), clean(*[1.3] * 8)).document()
    assert document["total"]["significant"] is True
    assert document["total"]["reason"] is None
    same = compare(clean(*[1.0] * 8), clean(*[1.0] * 8)).document()
    assert same["total"]["reason"] is None


@pytest.mark.parametrize(
    ("sides", "words"),
    [
        ({"a.flops": 2.0, "b.flops": 2.0}, []),
        ({"a.flops": 2.0, "b.flops": 3.0}, ["flops"]),
        ({"a.flops": None, "b.flops": 3.0}, []),
        ({"a.byte/l2": 1.0, "b.byte/l2": 2.0, "a.launches": 1, "b.launches": 2},
         ["bytes", "launches"]),
        ({"a.flops": 1.0, "b.flops": 1.0 + 1e-9}, []),
    ],
)  # fmt: skip
def test_amounts_that_differ_are_named(sides: dict[str, Any], words: list[str]) -> None:
    columns = [f"{side}.{c}" for side in "ab" for kind in WORK.values() for c in kind]
    pair = pl.DataFrame([dict.fromkeys(columns) | sides], schema=dict.fromkeys(columns, pl.Float64))
    assert pair.select(differing_work()).item().to_list() == words


@pytest.mark.parametrize(
    ("factor", "named"), [(1.0, []), (1.0 + 1e-9, []), (1.0 + 1e-5, ["flops"]), (2.0, ["flops"])]
)
def test_the_work_that_is_named_is_the_work_that_halves_the_limit(
    factor: float, named: list[str]
) -> None:
    """One check decides both: 0.7 % of the run counts only where the work is not the same."""
    rest = row(99.0, name="rest", op="o::rest")
    sides = [report([row(t, w), rest]) for t, w in ((1.0, 500.0), (1.7, 500.0 * factor))]
    document = compare(*sides).document()
    small = next(r for r in document["rows"] if r["name"] != "rest")
    assert small["differs_in"] == named
    assert small["significant"] is bool(named)


def three_layers(times: float = 1.0) -> Report:
    return report([row(t * times, module=f"m.{t}") for t in (3, 4, 5)])


def test_every_row_that_changed_has_its_layer() -> None:
    document = compare(three_layers(), three_layers(2.0)).document()
    heads, lines = cells([r for r in document["rows"] if r["significant"]])
    assert heads[:2] == ["kernel", "where"]
    assert [line[1] for line in lines] == ["m.5", "m.4", "m.3"]
    for layer in ("m.3", "m.4", "m.5"):
        assert layer in markdown(document)
        assert layer in comparison_page(document, [])
    one = compare(report([row(1.0)]), report([row(2.0)])).document()
    assert "m.0" in markdown(one)


def test_a_shape_stands_in_for_a_layer_and_nothing_for_neither() -> None:
    shaped = [report([row(t, module=None)]) for t in (1.0, 2.0)]
    assert "4x4" in markdown(compare(*shaped).document())
    bare = [report([row(t, module=None, shape=None)]) for t in (1.0, 2.0)]
    assert "where" not in markdown(compare(*bare).document())


def many_small(times: float, launches: float = 1.0) -> Report:
    """Hundreds of rows, each too small to be called a change by itself."""
    shake = random.Random(7)
    return report(
        [
            row(times * shake.uniform(0.9, 1.1), name=f"k{i}", op=f"o::{i}", launches=launches)
            for i in range(300)
        ]
    )


def test_a_run_that_changed_without_one_kernel_lists_candidates() -> None:
    document = compare(many_small(0.01), many_small(0.012, 3.0)).document()
    assert document["total"]["significant"] is True
    lead, rows = told_rows(document)
    assert lead == CANDIDATES
    assert len(rows) == 5
    assert all(r["delta_s"] > 0 and not r["significant"] for r in rows)
    text = markdown(document)
    assert CANDIDATES in text
    assert text.count("noise is unknown") == 1
    assert "launches" in text
    assert CANDIDATES in comparison_page(document, [])


def test_runs_that_are_the_same_have_no_candidates() -> None:
    document = compare(many_small(0.01), many_small(0.01)).document()
    assert told_rows(document) == (NOTHING_MOVED, [])
    assert CANDIDATES not in markdown(document)
