"""What ports and clock allow, what lies above is an error and not a ceiling."""

from __future__ import annotations

import pytest

from timeroof.core.machine import Ceiling, is_resource
from timeroof.probe.cpu.bandwidth import Level, LevelFigures, Point
from timeroof.probe.cpu.ceilings import (
    Limits,
    limits_of,
    measured_ceilings,
    order_problems,
    widened,
)
from timeroof.probe.cpu.crew import Crew
from timeroof.probe.cpu.streams import PATTERNS
from timeroof.probe.cpu.threads import Team
from timeroof.probe.cpu.topology import TABLE, find_microarchitecture, read_features
from timeroof.probe.sampling import Figure, Plan

ZEN4 = TABLE["znver4"]
GHZ = 1e9


def figure(rate: float) -> Figure:
    return Figure(rate, 0.01)


def crew(rates: dict[str, dict[str, float]], flops: dict[str, float] | None = None) -> Crew:
    """A crew that has measured these bandwidths per level and pattern, at 1 GHz on one core."""
    levels = []
    for index, (name, patterns) in enumerate(rates.items()):
        held = LevelFigures(Level(name, 10.0**index, 10.0 ** (index + 1) - 1, (10**index,)))
        for pattern, rate in patterns.items():
            held.take(Point(PATTERNS[pattern], 10**index, 256, figure(rate)))
        levels.append(held)
    features = read_features("x86_64", {"avx", "fma"})
    made = Crew("core", Team([None]), features, levels, True, Plan(), clock=figure(GHZ))
    made.flops = {"fp64": {name: figure(rate) for name, rate in (flops or {}).items()}}
    return made


def test_zen_4_per_cycle() -> None:
    limits = Limits(ZEN4, 2 * GHZ, 3, "all")
    assert limits.flops_per_s("fp64") == 16 * 2 * GHZ * 3
    assert limits.flops_per_s("fp32") == 32 * 2 * GHZ * 3
    assert limits.bytes_per_s(1, 0) == 64 * 2 * GHZ * 3
    assert limits.bytes_per_s(0, 1) == 32 * 2 * GHZ * 3
    assert limits.bytes_per_s(2, 1) == 96 * 2 * GHZ * 3


def test_two_address_units_limit_the_triad_of_the_first_zen() -> None:
    assert TABLE["znver1"].bytes_per_cycle(2, 1) == 32.0


@pytest.mark.parametrize("name", TABLE)
def test_the_table_is_consistent(name: str) -> None:
    core = TABLE[name]
    assert core.fma_bits in (256, 512, 1024)
    assert core.load_bytes >= core.store_bytes >= core.access_bytes
    assert core.load_bytes <= core.accesses * core.access_bytes
    assert core.flops_per_cycle("fp32") == 2 * core.flops_per_cycle("fp64")


def test_an_unknown_cpu_has_no_limits() -> None:
    assert find_microarchitecture("cpu-of-2040") is None
    made = crew({"l1": {"read": 1e30}}, {"scalar": 1e30})
    assert limits_of(made, None) is None
    ceilings, errors = measured_ceilings(made, None)
    assert len(ceilings) == 2
    assert errors == []


def test_theoretical_ceilings_say_where_the_clock_comes_from() -> None:
    ceilings = Limits(ZEN4, GHZ, 2, "all").ceilings(["bf16", "int8"])
    by_resource = {ceiling.resource: ceiling for ceiling in ceilings}
    assert by_resource["flop/fp64"].rate == 32 * GHZ
    assert by_resource["flop/bf16"].rate == 128 * GHZ
    assert by_resource["byte/l1"].rate == 192 * GHZ
    for ceiling in ceilings:
        assert is_resource(ceiling.resource)
        assert ceiling.origin == "theoretical"
        assert "dependent adds" in ceiling.source
        assert ceiling.threads == 2


def test_values_above_the_limit_are_errors_and_not_ceilings() -> None:
    made = crew(
        {"l1": {"triad": 95 * GHZ, "read": 80 * GHZ}, "l2": {"read": 90 * GHZ}},
        {"256-bit FMA": 15.9 * GHZ, "512-bit FMA": 40 * GHZ},
    )
    ceilings, errors = measured_ceilings(made, limits_of(made, ZEN4))
    by_resource = {ceiling.resource: ceiling for ceiling in ceilings}
    assert by_resource["flop/fp64"].rate == 15.9 * GHZ
    assert by_resource["byte/l1"].variants == {"triad": 95 * GHZ}
    assert "byte/l2" not in by_resource
    assert len(errors) == 3
    assert all("error of the probe" in error for error in errors)


def test_a_value_within_the_clock_s_jitter_is_kept() -> None:
    made = crew({"l1": {"read": 65 * GHZ}}, {"256-bit FMA": 16.2 * GHZ})
    assert measured_ceilings(made, limits_of(made, ZEN4))[1] == []


def test_flops_prove_a_clock_that_was_read_low_up_to_the_fastest_clock() -> None:
    made = crew({"l1": {"read": 90 * GHZ}}, {"256-bit FMA": 28 * GHZ})
    limits = limits_of(made, ZEN4, fastest_hz=2 * GHZ)
    assert limits is not None
    assert limits.clock_hz == 28 / 16 * GHZ
    assert measured_ceilings(made, limits)[1] == []
    beyond = crew({}, {"256-bit FMA": 40 * GHZ})
    limits = limits_of(beyond, ZEN4, fastest_hz=2 * GHZ)
    assert limits is not None
    assert limits.clock_hz == 2 * GHZ
    assert len(measured_ceilings(beyond, limits)[1]) == 1


def test_the_best_pattern_is_the_ceiling_and_all_are_variants() -> None:
    made = crew({"l1": {"read": 5.0, "triad": 7.0, "write": 6.0}})
    (ceiling,) = measured_ceilings(made, None)[0]
    assert ceiling.rate == 7.0
    assert ceiling.variants == {"read": 5.0, "triad": 7.0, "write": 6.0}
    assert "triad" in ceiling.source
    assert (ceiling.scope, ceiling.threads, ceiling.spread) == ("core", 1, 0.01)


def test_stores_past_the_caches_do_not_count_for_caches() -> None:
    made = crew({"l1": {"read": 5.0, "write-nt": 9.0}, "dram": {"read": 1.0, "write-nt": 2.0}})
    rates = {ceiling.resource: ceiling.rate for ceiling in measured_ceilings(made, None)[0]}
    assert rates == {"byte/l1": 5.0, "byte/dram": 2.0}


def test_levels_in_the_wrong_order_are_told() -> None:
    assert order_problems(crew({"l1": {"read": 5.0}, "l2": {"read": 4.0}})) == []
    (problem,) = order_problems(crew({"l1": {"read": 5.0}, "l2": {"read": 6.0}}))
    assert "L2 was measured faster than L1" in problem


def test_more_cores_are_never_a_lower_roof() -> None:
    one, socket, whole = (
        Ceiling(resource="byte/dram", rate=rate, origin="measured", scope=scope, threads=threads)
        for rate, scope, threads in ((5.0, "core", 1), (4.0, "socket", 2), (6.0, "all", 4))
    )
    paper = Ceiling(resource="byte/dram", rate=1.0, origin="theoretical", scope="all")
    found = widened([whole, paper, socket, one])
    rates = [(c.scope, c.origin, c.rate, c.threads) for c in found]
    assert rates == [
        ("core", "measured", 5.0, 1),
        ("socket", "measured", 5.0, 2),
        ("all", "measured", 6.0, 4),
        ("all", "theoretical", 1.0, None),
    ]
    assert "2 threads together were not faster" in found[1].source


def level_of(moments: dict[str, list[float]]) -> LevelFigures:
    held = LevelFigures(Level("dram", 1.0, 100.0, (64,)))
    for pattern, rates in moments.items():
        for rate in rates:
            held.take(Point(PATTERNS[pattern], 64, 256, figure(rate)))
    return held


def test_memory_that_drifts_has_a_ceiling_that_comes_again() -> None:
    drifting = [50.0 + step % 7 for step in range(21)]
    held = level_of({"update": [*drifting, 61.0], "copy": [48.0, 58.0]})
    held.settle()
    assert held.best is not None
    assert held.best.figure.rate_per_s == 56.0
    assert held.by_pattern["copy"].figure.rate_per_s == 48.0


def test_few_moments_keep_their_best() -> None:
    held = level_of({"update": [60.0, 66.0, 70.0]})
    held.settle()
    assert held.best is not None
    assert held.best.figure.rate_per_s == 70.0


def test_a_cache_keeps_its_best_moment() -> None:
    held = LevelFigures(Level("l2", 1.0, 100.0, (64,)))
    for rate in [50.0, 51.0, 52.0] * 5 + [55.0]:
        held.take(Point(PATTERNS["read"], 64, 256, figure(rate)))
    held.settle()
    assert held.best is not None
    assert held.best.figure.rate_per_s == 55.0
