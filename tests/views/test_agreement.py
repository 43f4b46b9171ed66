"""Every view of a report says the same: JSON, page, pictures, notebook, CSV, Markdown, terminal.

The JSON is what others script against, so it is what the views are held against. Ten and more
reports of every kind of source; the recorded ones where the folder of recorded data is there.
"""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.conftest import make_machine
from tests.recorded_data import DATA
from tests.views.samples import step_report
from tests.views.test_payload import values
from timeroof.api.reports import Report, analyze, load
from timeroof.core.machine import limiter_kind
from timeroof.core.profile import Profile, Source, Steps
from timeroof.core.units import format_seconds
from timeroof.paper.build import build_paper
from timeroof.views.overview import devices_of, overview
from timeroof.views.page import html_page, notebook_html
from timeroof.views.parts import percent
from timeroof.views.pictures.of_report import MAX_UNITS
from timeroof.views.pictures.run_chart import MOST_GROUPS
from timeroof.views.render import render, report_markdown
from timeroof.views.run_summary import print_run

TESTS = Path(__file__).resolve().parents[1]
GOLDEN = TESTS / "golden"
EXAMPLES = TESTS.parent / "examples"
# The page's numbers have six digits.
PAGE = 1e-5
# What every row must agree in, wherever it is shown.
NUMBERS = (
    "time_s", "elapsed_s", "bound_s", "work_bound_s", "gap_s", "efficiency", "kernel_efficiency",
    "ai", "compute_time_s", "bandwidth_time_s", "total_flops", "achieved_flop_per_s",
)  # fmt: skip
WORDS = ("name", "limiter", "paper_class")


def padded_convolution() -> Report:
    """A GPU's convolution, a third of whose products are with padding, and a copy beside it."""
    rows = [
        {"name": "conv", "time_s": 2e-3, "flop/fp32": 3e9, "padding_flops": 1e9, "byte/dram": 1e6},
        {"name": "copy", "kind": "copy", "time_s": 1e-4, "flop/fp32": None, "byte/dram": 4e6},
        {"name": "dark", "time_s": 1e-4, "flop/fp32": None, "byte/dram": None},
    ]
    return analyze(Profile.of(rows, Source(tool="t")), "h100-sxm")


def synchronous() -> Report:
    """Rows of a CPU, where launching adds to the work."""
    rows = [
        {"name": "mm", "kind": "op", "time_s": 3.0, "flop/fp32": 90.0, "byte/dram": 2.0},
        {"name": "relu", "kind": "op", "time_s": 2.0, "flop/fp32": 1.0, "byte/dram": 9.0},
    ]
    return analyze(Profile.of(rows, Source(tool="t")), make_machine(launching="synchronous"))


def profiled_longer() -> Report:
    """A live run whose profiled steps took longer: every view has unprofiled seconds."""
    rows = [
        {
            "name": "mm",
            "kind": "op",
            "time_s": 3.0,
            "timed_s": 4.0,
            "flop/fp32": 90.0,
            "byte/dram": 2.0,
        },
        {
            "name": "relu",
            "kind": "op",
            "time_s": 2.0,
            "timed_s": 5.0,
            "flop/fp32": 1.0,
            "byte/dram": 9.0,
        },
    ]
    steps = Steps(count=8, mark="SGD.step", unprofiled_s=5.5, profiled_s=9.5)
    profile = Profile.of(rows, Source(tool="t"), wall_s=5.5, steps=steps)
    return analyze(profile, make_machine(launching="synchronous"))


def paused_outside_of_steps() -> Report:
    """A trace that begins long before its steps: no step can give that time back."""
    rows = [
        {"name": "mm", "time_s": 3e-3, "flop/fp32": 3e9, "byte/dram": 1e6, "idle_before_s": 1e-3},
        {"name": "add", "time_s": 1e-3, "flop/fp32": 1e6, "byte/dram": 9e6, "idle_before_s": 0.0},
    ]
    steps = Steps(count=2, profiled_s=5e-3, pause_s=0.5, pause_by_cause={"launch-starved": 0.5})
    idle = {"launch-starved": 0.501}
    source = Source(tool="t")
    profile = Profile.of(rows, source, wall_s=0.505, kernel_s=4e-3, idle_by_cause=idle, steps=steps)
    return analyze(profile, "h100-sxm")


def golden(name: str, machine: str | None = None, roof: str | None = None) -> Callable[[], Report]:
    return lambda: load(GOLDEN / name, machine, roof=roof)


def example(roof: str | None = None) -> Report:
    return load(EXAMPLES / "trace.json.gz", roof=roof)


def shown(report: Any) -> Report:
    assert isinstance(report, Report)
    return report


OURS: dict[str, Callable[[], Report]] = {
    "live convolutions with padding": golden("live/conv_padding.troof"),
    "live loop of an LSTM": golden("live/lstm_loop.troof"),
    "live inference": golden("live/transformer_inference.troof"),
    "live embeddings": golden("live/embedding_loader.troof"),
    "Kineto training": example,
    "Kineto training, --roof": lambda: example("flop/fp32"),
    "training step": lambda: shown(step_report()),
    "ncu long": golden("read/ncu_long.csv", "v100-paper"),
    "ncu wide": golden("read/ncu_wide.csv", "v100-paper"),
    "nvprof trace": golden("read/nvprof_trace.csv", "v100-paper"),
    "tidy": golden("read/tidy.csv", "h100-sxm"),
    "tidy, --roof": golden("read/tidy.csv", "h100-sxm", "flop/fp32"),
    "no machine": golden("read/tidy.csv"),
    "paper": lambda: shown(build_paper()),
    "study": golden("study/study.troof"),
    "padding": padded_convolution,
    "synchronous": synchronous,
    "profiled steps that took longer": profiled_longer,
    "pause outside of steps": paused_outside_of_steps,
}
RECORDED = {
    "recorded Kineto training": "kineto/mi250_minitoy_train.json.gz",
    "recorded Kineto inference": "kineto/h100_bert_small_infer.json.gz",
    "recorded ncu": "ncu/a100_resnet18_raw_wide.csv.gz",
    "recorded nsys": "nsys/rtx3090_tensorrt_conv.sqlite.gz",
    "recorded ROCm": "rocprof/rocprofv3_mi300x_ck_bmm_rocpd.db.gz",
    "recorded xplane": "xla/mi300x_jax_conv3d_8gpu.xplane.pb",
}


@cache
def report_of(name: str) -> Report:
    if name in OURS:
        return OURS[name]()
    path = DATA / RECORDED[name]
    if not path.exists():
        pytest.skip(f"the recorded data is not here ({path})")
    return load(path)


@cache
def json_of(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(report_of(name).to_json())
    return document


cases = pytest.mark.parametrize("name", [*OURS, *RECORDED])


def close(found: Any, expected: Any, rel: float = 1e-12) -> bool:
    """Whether two numbers are equal; unknown is equal to unknown alone."""
    if found is None or expected is None:
        return found is None and expected is None
    return math.isclose(found, expected, rel_tol=rel, abs_tol=1e-300)


def assert_column(found: list[Any], rows: list[dict[str, Any]], key: str, rel: float) -> None:
    wanted = [row[key] for row in rows]
    differ = [i for i, pair in enumerate(zip(found, wanted, strict=True)) if not close(*pair, rel)]
    assert not differ, (key, [(found[i], wanted[i]) for i in differ[:3]])


@cases
def test_rows_and_totals_of_the_table_are_those_of_the_json(name: str) -> None:
    report, document = report_of(name), json_of(name)
    kernels = document["kernels"]
    for key in NUMBERS:
        assert_column(report.rows[key].to_list(), kernels, key, 1e-12)
    for key in WORDS:
        assert report.rows[key].to_list() == [row[key] for row in kernels]
    timed = [row for row in kernels if row["time_s"] is not None]
    by_limiter = dict.fromkeys(document["totals"]["by_limiter"], 0.0)
    for row in timed:
        by_limiter[limiter_kind(row["limiter"])] += row["time_s"]
    assert document["totals"]["by_limiter"] == pytest.approx(by_limiter)


@cases
def test_the_page_has_the_rows_the_roofs_and_the_totals(name: str) -> None:
    report, document = report_of(name), json_of(name)
    page = html_page(report)
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert data is not None
    [run] = json.loads(data[1])["runs"]
    columns, kernels = run["columns"], document["kernels"][: run["rows"]]
    for key in NUMBERS:
        assert_column(values(columns[key], run["rows"]), kernels, key, PAGE)
    for resource in run["bounds"]:
        found = values(columns[f"bound.{resource}"], run["rows"])
        rows = [{"bound": row["bounds"].get(resource)} for row in kernels]
        assert_column(found, rows, "bound", PAGE)
    assert values(columns["limiter"], run["rows"]) == [row["limiter"] for row in kernels]
    limits = [limiter_kind(row["limiter"]) for row in kernels]
    assert values(columns["limit"], run["rows"]) == limits
    pair = report.verdicts.pair
    assert run["pair"] == ([None, None] if pair is None else list(pair))
    assert_page_totals(page, document["totals"])


def assert_page_totals(page: str, totals: dict[str, Any]) -> None:
    """The numbers behind the texts: all that mean the same are equal, and are those of the JSON."""
    told: dict[str, set[str]] = {}
    for key, value in re.findall(r'data-key="([\w.]+)" data-value="([^"]*)"', page):
        told.setdefault(key, set()).add(value)
    expected = {f"by_class.{key}": seconds for key, seconds in time_parts_of(totals).items()}
    if totals["efficiency"] is not None:
        expected["efficiency"] = totals["efficiency"]
    expected |= {key: seconds for key, seconds in totals["ladder"].items() if seconds is not None}
    for key, value in expected.items():
        assert len(told[key]) == 1, key
        assert close(float(next(iter(told[key]))), value, 1e-9), key
    parts = {key for key in told if key.startswith("by_class.")}
    assert parts == {key for key in expected if key.startswith("by_class.")}


def time_parts_of(totals: dict[str, Any]) -> dict[str, float]:
    """The classes of the wall time, idle by cause as one, without what is 0."""
    parts: dict[str, float] = {}
    for key, seconds in totals["by_class"].items():
        name = "idle" if key.startswith("idle.") else key
        parts[name] = parts.get(name, 0.0) + seconds
    parts["idle"] = parts.get("idle", 0.0) - ((totals["steps"] or {}).get("pause_s") or 0.0)
    whole = totals["ladder"]["measured_s"] or 0.0
    rest = whole - sum(parts.values()) if totals["wall_s"] is None else 0.0
    if rest > 1e-6 * whole:
        parts["idle"] = parts.get("idle", 0.0) + rest
    return {key: seconds for key, seconds in parts.items() if abs(seconds) > 1e-9 * whole}


def share_texts(parts: dict[str, float]) -> list[str]:
    """Seconds and share of every part, as every view writes them."""
    whole = sum(parts.values()) or 1.0
    if max(parts.values()) > whole:  # shares of the profiled step, as no part is more than all
        whole = sum(s for s in parts.values() if s > 0)
    return [f"{format_seconds(s)}  {percent(s / whole)}" for s in parts.values() if s > 0]


def points(figure: Any) -> list[tuple[float, float]]:
    """The symbols of a chart; those on the lower axis have no FLOPs."""
    singles = [line for line in figure.axes[0].lines if len(line.get_xdata()) == 1]
    return [(float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in singles]


def assert_places(found: list[tuple[float, float]], expected: list[tuple[float, float]]) -> None:
    """The same places in any order; last digits may differ, also where they decide the order."""

    def rounded(place: tuple[float, float]) -> tuple[float, ...]:
        return tuple(float(f"{value:.9g}") for value in place)

    assert len(found) == len(expected)
    pairs = zip(sorted(found, key=rounded), sorted(expected, key=rounded), strict=True)
    for place, wanted in pairs:
        assert place == pytest.approx(wanted, rel=1e-7)


def drawn(report: Report, document: dict[str, Any], level: str) -> list[dict[str, Any]]:
    rows = [row for row in document["kernels"] if (row["time_s"] or 0) > 0][:MAX_UNITS]
    known = [row for row in rows if row["bytes"] and (row["bytes"].get(level) or 0) > 0]
    return [row for row in known if row["total_flops"] is not None]


def time_plane(report: Report, row: dict[str, Any], level: str) -> tuple[float, float]:
    """Where a row stands: at the pair's level what the JSON says, else what follows from it."""
    pair, roofs = report.verdicts.pair, report.verdicts.roofs
    assert pair is not None
    if pair.memory == f"byte/{level}":
        return row["bandwidth_time_s"], row["compute_time_s"]
    compute_s = (row["total_flops"] - (row["padding_flops"] or 0)) / roofs[pair.compute].rate
    memory_s = row["bytes"][level] / roofs[f"byte/{level}"].rate
    slowest = max(compute_s, memory_s)
    return row["time_s"] * memory_s / slowest, row["time_s"] * compute_s / slowest


def level_of(label: str) -> str:
    return label.rpartition(" ")[2].strip("()").lower()


def assert_groups(report: Report, level: str) -> None:
    """The combined picture has a ring and a disc per kernel, and names the first screen's."""
    figure = report.figure("combined")
    drawn = [line for line in figure.axes[0].lines if line.get_marker() not in ("None", "", None)]
    rows = report.rows.filter(pl.col("time_s") > 0).filter(
        pl.col("owed_flops").is_not_null() & (pl.col("owed_flops") + pl.col(f"byte/{level}") > 0)
    )
    same = pl.when(pl.col("kind") == "unit").then(pl.col("id").cast(pl.String))
    names = rows.select(same.otherwise(pl.col("short_name"))).unique().height
    assert len(drawn) == 2 * min(names, MOST_GROUPS)
    said = {text.get_text() for text in figure.axes[0].texts}
    for kernel in overview(report).kernels[:1]:
        if kernel.name in set(rows["short_name"]) and (rows["kind"] != "unit").all():
            assert any(text.startswith(f"{kernel.time} ({kernel.percent})") for text in said)


@cases
def test_pictures_and_the_notebook_s_figure_stand_where_the_json_says(name: str) -> None:
    report, document = report_of(name), json_of(name)
    if report.verdicts.pair is None or not any(
        r.startswith("byte/") for r in report.verdicts.resources
    ):
        pytest.skip("without roofs there is no chart")
    figure = report.figure("time")
    axes = figure.axes[0]
    assert axes.get_ylabel() == f"compute time at {report.verdicts.pair.compute[5:]}"
    level = level_of(axes.get_xlabel())
    rows = drawn(report, document, level)
    expected = [time_plane(report, row, level) for row in rows]
    assert_places(points(figure), expected)
    assert_groups(report, level)


@cases
def test_the_roofline_shows_intensity_and_speed_of_the_json(name: str) -> None:
    report, document = report_of(name), json_of(name)
    if not any(row["ai"] for row in document["kernels"]) or report.verdicts.pair is None:
        pytest.skip("a roofline needs FLOPs, bytes and ceilings")
    if level_of(report.figure("time").axes[0].get_xlabel()) != "dram":
        pytest.skip("another memory level says more of this run")
    rows = [row for row in drawn(report, document, "dram") if row["total_flops"] > 0]
    expected = [(row["ai"], row["achieved_flop_per_s"]) for row in rows]
    assert_places(points(report.figure("roofline")), expected)


@cases
def test_tables_have_the_rows_of_the_json(name: str, tmp_path: Path) -> None:
    report, kernels = report_of(name), json_of(name)["kernels"]
    render(report, tmp_path / "r.csv")
    render(report, tmp_path / "r.parquet")
    csv = pl.read_csv(tmp_path / "r.csv", infer_schema_length=None)
    parquet = pl.read_parquet(tmp_path / "r.parquet")
    for key in NUMBERS:
        assert_column(parquet[key].to_list(), kernels, key, 1e-12)
        found = csv[key].to_list() if key in csv.columns else [None] * csv.height
        assert_column(found, kernels, key, 1e-12)
    for key in WORDS:
        assert parquet[key].to_list() == [row[key] for row in kernels]
    assert csv["limiter"].to_list() == [row["limiter"] for row in kernels]


def largest_kernels(document: dict[str, Any], devices: int) -> list[tuple[str, float]]:
    """The five largest kernels: name and seconds of a mean device."""
    sums: dict[str, float] = {}
    for row in document["kernels"]:
        if row["time_s"] is not None:
            sums[row["short_name"]] = sums.get(row["short_name"], 0.0) + row["time_s"] / devices
    return sorted(sums.items(), key=lambda item: -item[1])[:5]


def gains(document: dict[str, Any]) -> list[tuple[str, str]]:
    """What the first findings gain: seconds, and share of the run; next to nothing comes later."""
    measured_s = document["totals"]["ladder"]["measured_s"]
    gains_s = sorted((f["gain_s"] for f in document["findings"] if f["gain_s"]), reverse=True)
    found = [s for n, s in enumerate(gains_s) if not n or s >= 0.01 * measured_s][:3]
    return [(format_seconds(gain_s), percent(gain_s / measured_s)) for gain_s in found]


def texts_of(report: Report, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> dict[str, str]:
    """Every view for people as plain text, with two spaces wherever there are more."""
    monkeypatch.setenv("COLUMNS", "300")
    print_run(report)
    terminal = capsys.readouterr().err
    markdown = report_markdown([report], ["r"])
    page, notebook = html_page(report), notebook_html(report)
    first = page[page.index('id="headline"') : page.index('id="findings"')]
    return {
        "terminal": squeezed(terminal),
        "markdown": squeezed(re.sub(r"\s*\|\s*", "  ", markdown)).replace("**", ""),
        "page": squeezed(plain(first)),
        "notebook": squeezed(plain(notebook)),
    }


def plain(page: str) -> str:
    """The text of a page; elements are set apart."""
    unbroken = re.sub(r'<span class="nb">([^<]*)</span>', r"\1", page)
    return html.unescape(re.sub(r"<[^>]+>", "  ", unbroken))


def squeezed(text: str) -> str:
    return re.sub(r"[ \n]{2,}", "  ", text)


@cases
def test_every_view_for_people_says_what_the_json_says(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    report, document = report_of(name), json_of(name)
    totals, parts = document["totals"], time_parts_of(document["totals"])
    seen = overview(report)
    assert [part.seconds for part in seen.parts] == sorted(parts.values(), reverse=True)
    for view, text in texts_of(report, monkeypatch, capsys).items():
        assert format_seconds(totals["ladder"]["measured_s"]) in text, view
        assert seen.title in text or view == "markdown"
        assert seen.sentence in squeezed(text.replace("\\", "")) or view == "page"
        if totals["efficiency"] is not None:
            assert f"{percent(totals['efficiency'])} of what this" in text, view
            assert f"could be {format_seconds(totals['bound_s'])}" in text, view
        for ending in share_texts(parts):
            assert ending in text, (view, ending)
        for _, time_s in largest_kernels(document, devices_of(report)):
            told = f"{format_seconds(time_s)}  {percent(time_s / totals['ladder']['measured_s'])}"
            assert told in text, (view, told)
        for gain, share in gains(document):
            assert f"{gain} ({share})" in text or f"{gain}  {share}" in text, (view, gain)


@cases
def test_parts_sum_to_the_run_time(name: str) -> None:
    seen = overview(report_of(name))
    assert sum(part.seconds for part in seen.parts) == pytest.approx(seen.time_s, rel=1e-6)
    for part in seen.parts:
        causes = sum(cause.seconds for cause in part.causes)
        assert not part.causes or causes == pytest.approx(part.seconds)
