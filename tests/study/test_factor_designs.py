"""Designs: equal work against equal work, few cases, every one known to the grid."""

from __future__ import annotations

from collections import defaultdict

import pytest

from tests.study.factor_samples import study_machine
from timeroof.core.errors import UsageError
from timeroof.study.case import Case
from timeroof.study.factors import FACTOR_NAMES, designs
from timeroof.study.grid import DesignOptions


def options(**changes: object) -> DesignOptions:
    return DesignOptions(**({"threads": 2, "machine": study_machine()} | changes))  # type: ignore[arg-type]


def but(case: Case, *fields: str) -> tuple[object, ...]:
    told = {f: getattr(case, f) for f in case.__struct_fields__ if f not in fields}
    return tuple(sorted((k, str(v)) for k, v in told.items()))


def together(cases: list[Case], *fields: str) -> list[list[Case]]:
    held = defaultdict(list)
    for case in cases:
        held[but(case, *fields)].append(case)
    return list(held.values())


@pytest.mark.parametrize("name", FACTOR_NAMES)
@pytest.mark.parametrize("quick", [False, True])
def test_designs_are_small_and_in_one_pass(name: str, quick: bool) -> None:
    cases = designs([name], options(quick=quick))
    assert 1 < len(cases) <= (16 if quick else 32)
    assert {c.pass_name for c in cases} == {"forward"}
    assert {c.threads for c in cases} == {2}


def test_quick_is_smaller_and_all_is_the_union() -> None:
    every, quick = designs(["all"], options()), designs(["all"], options(quick=True))
    assert len(quick) < len(every)
    assert len({c.key("", "") for c in every}) == len(every)
    assert all(case in every for name in FACTOR_NAMES for case in designs([name], options()))


def test_unknown_factor_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="no factor is called 'magic'"):
        designs(["magic"], options())


def test_launch_compares_forms_of_the_same_lstm() -> None:
    for group in together(designs(["launch"], options()), "variant"):
        assert {c.variant for c in group} >= {"cell-loop", "eager", "compile"}
        assert len({str(c.params) for c in group}) == 1
    graph = designs(["launch"], options(device="cuda"))
    assert "graph" in {c.variant for c in graph}
    assert "graph" not in {c.variant for c in designs(["launch"], options())}


def test_autotune_takes_the_switches_of_the_device() -> None:
    on_cpu = {c.variant for c in designs(["autotune"], options())}
    assert on_cpu == {"eager", "im2col", "no-onednn", "compile", "max-autotune"}
    on_gpu = {c.variant for c in designs(["autotune"], options(device="cuda"))}
    assert on_gpu == {"eager", "im2col", "cudnn-benchmark", "compile", "max-autotune"}


def test_locality_surrounds_every_cache() -> None:
    machine = study_machine()
    cases = designs(["locality"], options())
    sizes = [12 * int(c.params["elements"]) for c in cases if c.kernel == "elementwise"]
    for memory in machine.memory[:-1]:
        assert any(s <= 0.6 * memory.size_bytes for s in sizes)
        assert any(2.5 * memory.size_bytes < s < 5 * memory.size_bytes for s in sizes)
    assert {c.params.get("layout") for c in cases if c.kernel == "conv2d"} == {
        "contiguous",
        "channels_last",
    }
    assert any({c.cache for c in g} == {"warm", "cold"} for g in together(cases, "cache"))


def test_working_sets_without_a_known_machine() -> None:
    assert any(c.kernel == "elementwise" for c in designs(["locality"], options(machine=None)))


def test_precision_has_fitting_and_odd_shapes_of_every_type() -> None:
    gemms = [c for c in designs(["precision"], options()) if c.kernel == "gemm"]
    for group in together(gemms, "params"):
        sides = {int(c.params["k"]) for c in group}
        assert any(s % 64 == 0 for s in sides)
        assert any(s % 2 for s in sides)
    assert {"fp32", "bf16", "fp16", "bf16-autocast"} <= {c.precision for c in gemms}
    assert "tf32" in {c.precision for c in designs(["precision"], options(device="cuda"))}


def test_intensity_takes_the_kernels_that_were_asked_for() -> None:
    assert {c.kernel for c in designs(["intensity"], options())} == {"conv2d", "lstm"}
    asked = designs(["intensity"], options(kernels=["lstm"]))
    assert {c.kernel for c in asked} == {"lstm"}
