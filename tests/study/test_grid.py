"""Grids: the paper's values, free parameters, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.study.cases import one_case
from timeroof.cli.study_cases import given_sweeps, parameter_lines, parse_sets, thread_counts, words
from timeroof.core.errors import UsageError
from timeroof.study.case import PASSES, Parameter
from timeroof.study.grid import all_cores, check_value, grid_cases, unique
from timeroof.study.kernels import kernel, kernel_names, kernels
from timeroof.study.report import case_name


def values(cases: list, name: str) -> set:
    return {c.params[name] for c in cases}


def test_conv2d_has_the_papers_grid() -> None:
    cases = grid_cases("conv2d", passes=["forward"])
    assert len(cases) == 10
    assert values(cases, "batch") == {16, 32, 64}
    assert values(cases, "filters") == {64, 128, 256, 512}
    assert values(cases, "kernel") == {3, 7, 9}
    assert values(cases, "stride") == {1, 2, 3}
    assert values(cases, "channels") == {64}
    assert values(cases, "size") == {112}
    assert cases[0].params == kernel("conv2d").base
    assert [kernel("conv2d").base[n] for n in ("batch", "filters", "kernel", "stride")] == [
        16,
        64,
        3,
        2,
    ]


@pytest.mark.parametrize("name", ["lstm", "gru", "rnn"])
def test_recurrent_kernels_have_the_papers_grid(name: str) -> None:
    cases = grid_cases(name, passes=["forward"])
    assert len(cases) == 12
    for parameter in ("batch", "time_steps", "hidden"):
        assert values(cases, parameter) == {16, 32, 64, 128}
    assert values(cases, "features") == {32, 64, 128}
    assert kernel(name).base == {"batch": 16, "time_steps": 16, "features": 32, "hidden": 16}


def test_one_parameter_moves_at_a_time() -> None:
    base = kernel("conv2d").base
    for case in grid_cases("conv2d"):
        assert sum(case.params[n] != v for n, v in base.items()) <= 1


def test_a_single_value_moves_the_base_and_several_are_the_sweep() -> None:
    cases = grid_cases(
        "conv2d", sweeps={"batch": [1, 8], "layout": ["channels_last"]}, passes=["forward"]
    )
    assert [c.params["batch"] for c in cases] == [1, 8]
    assert values(cases, "layout") == {"channels_last"}
    assert len(grid_cases("conv2d", sweeps={}, passes=["forward"])) == 1


def test_every_axis_multiplies_and_no_case_is_twice() -> None:
    cases = grid_cases("gemm", sweeps={}, passes=["forward", "backward"], precisions=["fp32", "bf16"],
                       caches=["warm", "cold"], threads=[1, 2], variants=["eager", "compile"])  # fmt: skip
    assert len(cases) == 2 * 2 * 2 * 2 * 2
    assert unique([*cases, *cases]) == cases


def test_passes_that_a_kernel_does_not_have_are_left_out() -> None:
    assert grid_cases("adam", sweeps={}, passes=["forward"]) == []
    assert [c.pass_name for c in grid_cases("adam", sweeps={})] == ["optimizer"]


@pytest.mark.parametrize("name", kernel_names())
def test_every_kernel_is_declared_in_full(name: str) -> None:
    found = kernel(name)
    assert set(found.passes) <= set(PASSES)
    assert all(len(text) > 10 for text in found.passes.values())
    assert set(found.default_passes) <= set(found.passes)
    for parameter in found.parameters:
        assert parameter.base in (parameter.full or (parameter.base,))
        assert set(parameter.quick) <= set(parameter.full)
    names = [case_name(c) for c in grid_cases(name)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("call", "words_"),
    [
        (lambda: grid_cases("nothing"), "no kernel is called 'nothing'; use one of conv2d, lstm"),
        (
            lambda: grid_cases("lstm", sweeps={"filters": [3]}),
            "it has batch, time_steps, features, hidden",
        ),
        (lambda: grid_cases("lstm", passes=["sideways"]), "no pass is called 'sideways'"),
        (lambda: grid_cases("lstm", precisions=["fp17"]), "no precision is called 'fp17'"),
        (lambda: grid_cases("lstm", variants=["magic"]), "no variant is called 'magic'"),
        (lambda: grid_cases("lstm", caches=["tepid"]), "no cache is called 'tepid'"),
        (
            lambda: grid_cases("lstm", framework="mxnet"),
            "no framework is called 'mxnet'; use torch, jax",
        ),
        (
            lambda: grid_cases("conv2d", sweeps={"kernel": [113]}),
            "does not fit into an input of 112",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(call, words_: str) -> None:
    with pytest.raises(UsageError, match=words_):
        call()


@given(st.one_of(st.integers(max_value=0), st.text(alphabet="xyz-.", min_size=1)))
def test_a_size_is_a_number_from_one(value: int | str) -> None:
    with pytest.raises(UsageError, match="whole numbers from 1"):
        check_value(Parameter("batch", 16), value)


@given(st.integers(1, 10**9))
def test_a_size_is_read_from_text(value: int) -> None:
    assert check_value(Parameter("batch", 16), str(value)) == value


def test_given_values_become_sweeps() -> None:
    several = given_sweeps(["conv2d", "lstm"], {"batch": ["1", "8"]}, quick=False)
    assert several == {"conv2d": {"batch": [1, 8]}, "lstm": {"batch": [1, 8]}}
    none = given_sweeps(["conv2d"], {}, quick=False)
    assert none == {"conv2d": None}
    only_conv = given_sweeps(["conv2d", "lstm"], {"filters": ["8", "16"]}, quick=False)
    assert only_conv == {"conv2d": {"filters": [8, 16]}, "lstm": None}


def test_a_set_names_a_parameter_once_with_its_values() -> None:
    assert parse_sets(["head-dim=64", "layout= channels_last"]) == {
        "head_dim": ["64"],
        "layout": ["channels_last"],
    }
    with pytest.raises(UsageError, match="--set batch is given twice; write --set batch=V,V"):
        parse_sets(["batch=1", "batch=8"])
    for text in ("batch", "=8", ""):
        with pytest.raises(UsageError, match="does not name a parameter and its values"):
            parse_sets([text])


@pytest.mark.parametrize("name", kernel_names())
def test_the_listing_of_parameters_can_be_typed(name: str) -> None:
    sets = [line.split()[1] for line in parameter_lines([name])]
    sweeps = given_sweeps([name], parse_sets(sets), quick=False)
    assert set(sweeps[name] or ()) == set(kernel(name).base)


def test_one_given_value_keeps_the_other_sweeps() -> None:
    sweeps = given_sweeps(["lstm"], {"batch": ["8"]}, quick=False)["lstm"]
    assert sweeps is not None
    assert sweeps["batch"] == [8]
    assert sweeps["hidden"] == [16, 32, 64, 128]
    cases = grid_cases("lstm", sweeps=sweeps, passes=["forward"])
    assert values(cases, "batch") == {8}
    assert len(cases) == 1 + 3 + 2 + 3


def test_a_parameter_that_no_chosen_kernel_has_is_refused() -> None:
    with pytest.raises(UsageError, match="lstm has no parameter 'filters'; use batch, time_steps"):
        given_sweeps(["lstm"], {"filters": ["3"]}, quick=False)
    with pytest.raises(UsageError, match="lstm and gru have no parameter 'filters'"):
        given_sweeps(["lstm", "gru"], {"filters": ["3"]}, quick=False)


def test_lists_and_threads() -> None:
    assert words("a, b,,a") == ["a", "b"]
    assert thread_counts("1,all,1") == list(dict.fromkeys([1, all_cores()]))
    with pytest.raises(UsageError, match="--threads cannot be '0'"):
        thread_counts("0")
    with pytest.raises(UsageError, match="no value"):
        words(" , ")


def test_names_say_what_is_special() -> None:
    case = one_case(
        "conv2d", params={"batch": 32}, cache="cold", threads=all_cores() + 1, variant="compile"
    )
    assert case_name(case) == f"conv2d forward fp32 batch=32 compile cold threads={all_cores() + 1}"
    assert case_name(one_case("lstm", "backward")) == "lstm backward fp32 base"


def test_the_listing_is_whole() -> None:
    wanted = {"conv2d", "lstm", "gemm", "attention", "rnn", "gru", "layernorm", "softmax",
              "elementwise", "pool", "embedding", "adam"}  # fmt: skip
    assert set(kernels()) >= wanted


def test_the_docs_list_the_passes_of_every_kernel() -> None:
    page = Path(__file__).parents[2] / "docs" / "studies.md"
    told: dict[str, list[str]] = {}
    table = page.read_text("utf-8").partition("| kernel | its passes |")[2].partition("\n\n")[0]
    for line in table.splitlines():
        names, _, passes = line.strip("| ").partition(" | ")
        for name in re.findall(r"`([^`]+)`", names):
            told[name] = re.findall(r"`([^`]+)`", passes)
    assert told == {name: list(found.passes) for name, found in kernels().items()}


def test_perf_that_counts_nothing_is_found_out_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    from timeroof.counters import options as sets, perf, tools
    from timeroof.study import counters

    monkeypatch.setattr(counters, "find_tool", lambda name: name)
    monkeypatch.setattr(tools, "chip_here", lambda name: "GenuineIntel")
    monkeypatch.setattr(sets, "find_set", lambda name, chip: None)
    for selected, nothing in (((), True), (("flops",), False)):
        found = SimpleNamespace(selected=selected)
        monkeypatch.setattr(perf, "known_selection", lambda *_, found=found: found)
        assert counters.counts_nothing("perf") is nothing
    assert counters.counts_nothing("ncu") is False
