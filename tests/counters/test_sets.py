"""Metric sets say the same as the readers that turn their metrics into amounts."""

from __future__ import annotations

import polars as pl
import pytest

from timeroof.core.errors import InputError, UsageError
from timeroof.counters.options import (
    TIME,
    Choice,
    Entry,
    Selected,
    Selection,
    find_set,
    load_set,
    parse_set,
    select,
    set_names,
)
from timeroof.read.amd import counters as amd_counters
from timeroof.read.nvidia import ncu_amounts
from timeroof.read.nvidia.ncu_metrics import capability_of, role_of

NCU = [n for n in set_names() if load_set(n).tool == "ncu" and load_set(n).matches]
AMD = [n for n in set_names() if load_set(n).tool == "rocprofv3" and load_set(n).matches]


def ways(name: str) -> list[tuple[Entry, Choice]]:
    return [(e, c) for e in load_set(name).entry if e.resource != TIME for c in e.choices]


def all_metrics(name: str, entry: Entry, choice: Choice) -> list[str]:
    """The whole set with one entry told another way, as would be collected together."""
    chosen = []
    for other in load_set(name).entry:
        same_kind = choice.names[0].startswith("smsp") and "__sass_" in other.names[0]
        alternative = other.instead[0] if same_kind else other
        chosen += choice.names if other is entry else alternative.names
    return chosen


def ncu_amount(
    metrics: list[str], raised: str, capability: str | None, resource: str
) -> float | None:
    roles = {r.name: 10.0 + (m == raised) for m in metrics if (r := role_of(m)) is not None}
    table = pl.DataFrame({k: [v] for k, v in roles.items()} | {"time_s": [1.0], "name": ["k"]})
    amounts = ncu_amounts.amounts_of(table, {*table.columns} - {"name"}, capability)
    return table.with_columns(amounts.columns)[resource][0]


@pytest.mark.parametrize("name", NCU)
def test_factors_of_ncu_are_those_of_the_reader(name: str) -> None:
    capability = capability_of(load_set(name).matches[0])
    for entry, choice in ways(name):
        for metric in choice.names:
            assert role_of(metric) is not None, metric
            metrics = all_metrics(name, entry, choice)
            if choice.factor is None:
                metrics = [m for m in metrics if "ops_path" not in m]
            low = ncu_amount(metrics, "", capability, entry.resource)
            high = ncu_amount(metrics, metric, capability, entry.resource)
            if choice.factor is None:
                assert low is high is None
            else:
                assert low is not None
                assert high is not None
                assert high - low == choice.factor, (metric, low, high)


def amd_amount(metrics: list[str], raised: str, resource: str) -> float:
    # Requests exceed their parts, or the reader clamps them.
    values = {m: 1000.0 if "REQ_sum" in m else 10.0 for m in metrics}
    values = {m: v + (m == raised) for m, v in values.items()}
    table, _ = amd_counters.with_amounts(pl.DataFrame({k: [v] for k, v in values.items()}))
    return float(table[resource][0])


@pytest.mark.parametrize("name", AMD)
def test_factors_of_amd_are_those_of_the_reader(name: str) -> None:
    for entry, choice in ways(name):
        for metric in choice.names:
            assert amd_counters.is_useful(metric), metric
            metrics = [m for e in load_set(name).entry for m in e.names]
            low = amd_amount(metrics, "", entry.resource)
            assert amd_amount(metrics, metric, entry.resource) - low == choice.factor, metric


@pytest.mark.parametrize("name", AMD)
def test_passes_fit_the_chip(name: str) -> None:
    metrics = load_set(name)
    for group in select(metrics, lambda _: True, "").groups(None):
        for block, most in (("SQ_", 8), ("TCC_", 4), ("TCP_", 4)):
            assert sum(m.startswith(block) for m in group) <= most, group


@pytest.mark.parametrize("name", set_names())
def test_every_entry_says_what_it_means(name: str) -> None:
    metrics = load_set(name)
    assert metrics.source
    assert all(e.meaning and e.names for e in metrics.entry)
    assert len({n for e in metrics.entry for n in e.names}) == sum(
        len(e.names) for e in metrics.entry
    )


@pytest.mark.parametrize(
    ("tool", "said", "architecture"),
    [
        ("ncu", "Volta", "Volta"),
        ("ncu", "7.5", "Turing"),
        ("ncu", "sm_86", "Ampere"),
        ("ncu", "8.9", "Ada"),
        ("ncu", "9.0", "Hopper"),
        ("ncu", "12.0", "Blackwell"),
        ("rocprofv3", "gfx908", "CDNA1"),
        ("rocprofv3", "gfx90a:sramecc+:xnack-", "CDNA2"),
        ("rocprofv3", "gfx950", "CDNA4"),
        ("rocprofv3", "gfx1151", "RDNA3"),
        ("perf", "GenuineIntel", "Intel"),
        ("perf", "Zen 4", "Zen"),
    ],
)
def test_sets_are_found(tool: str, said: str, architecture: str) -> None:
    assert find_set(tool, said).architecture == architecture


def test_an_unknown_chip_is_named() -> None:
    with pytest.raises(UsageError, match=r"no metric set for 'Pascal'; use one of .*Volta"):
        find_set("ncu", "Pascal")


def test_the_paper_counts_512_per_tensor_instruction() -> None:
    found = {n: e.factor for e in load_set("volta").entry for n in e.names}
    assert found["sm__inst_executed_pipe_tensor.sum"] == 512
    assert found["sm__sass_thread_inst_executed_op_ffma_pred_on.sum"] == 2
    assert "gpu__time_duration.sum" not in found
    assert len(found) == 15


def test_a_set_that_is_none_is_refused() -> None:
    good = 'schema = "timeroof.counters/1"\ntool = "ncu"\narchitecture = "X"\ntitle = ""\nsource = ""\n'
    entry = '[[entry]]\nnames = ["a"]\nmeaning = "x"\nresource = "flop/fp17"\n'
    for text in ("x =", good + "colour = 1", good + entry):
        with pytest.raises(InputError):
            parse_set(text, "x.toml")


def test_what_a_profiler_lacks_is_told_another_way_or_named() -> None:
    metrics = load_set("ampere")
    known = {"dram__bytes_read.sum", "dram__bytes_write.sum", "gpu__time_duration.sum"}
    selection = select(metrics, lambda m: m in known, "unknown")
    assert set(selection.metrics) == known
    assert "lts__t_bytes.sum" in selection.left_out
    assert "dram__bytes.sum" not in selection.left_out
    # Chips without FP64 tensor cores miss nothing.
    assert "sm__ops_path_tensor_src_fp64.sum" not in selection.left_out
    assert selection.unknown >= {"byte/l2", "flop/fp32"}


def test_groups_by_number_and_by_pass() -> None:
    entries = [
        Entry(names=["a", "b"], resource="byte/l2", meaning="x"),
        Entry(names=["c"], resource="byte/l1", meaning="x", pass_=2),
    ]
    selection = Selection(tuple(Selected(e, e.choices[0]) for e in entries))
    assert selection.groups(None) == [("a", "b"), ("c",)]
    assert selection.groups(1) == [("a",), ("b",), ("c",)]
    assert selection.without(["a"], "gone").metrics == ("c",)
