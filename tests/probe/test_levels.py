"""Which working sets count for which level."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from timeroof.probe.cpu.bandwidth import levels_of, sweep_sizes
from timeroof.probe.cpu.topology import KIB, MIB, Cache, Topology


def shape(l1: int = 32 * KIB, l2: int = MIB, l3: int | None = 32 * MIB, cores: int = 2) -> Topology:
    cpus = tuple(range(cores))
    caches = [Cache(1, l1, frozenset([c])) for c in cpus]
    caches += [Cache(2, l2, frozenset([c])) for c in cpus]
    caches += [Cache(3, l3, frozenset(cpus))] if l3 else []
    return Topology(cpus, (cpus,), tuple(caches), "fake")


def test_levels_of_one_core() -> None:
    levels = {level.name: level for level in levels_of(shape(), [0], 1 << 40)}
    assert list(levels) == ["l1", "l2", "l3", "dram"]
    assert levels["l1"].holds(16 * KIB)
    assert not levels["l1"].holds(32 * KIB)
    assert levels["l2"].holds(256 * KIB)
    assert not levels["l2"].holds(48 * KIB)
    assert levels["l3"].holds(8 * MIB)
    assert levels["dram"].anchors == (128 * MIB,)


def test_two_cores_have_twice_the_private_caches() -> None:
    levels = levels_of(shape(), [0, 1], 1 << 40)
    assert levels[0].holds(40 * KIB)
    assert levels[-1].anchors == (128 * MIB,)


def test_without_l3() -> None:
    levels = levels_of(shape(l3=None), [0], 1 << 40)
    assert [level.name for level in levels] == ["l1", "l2", "dram"]
    assert levels[-1].anchors == (64 * MIB,)


def test_memory_that_is_short_caps_the_dram_working_set() -> None:
    assert levels_of(shape(), [0], 50 * MIB)[-1].anchors == (50 * MIB,)


@given(st.integers(14, 18), st.integers(18, 23), st.integers(22, 29), st.integers(1, 128))
def test_levels_never_overlap_and_hold_their_anchors(l1: int, l2: int, l3: int, cores: int) -> None:
    machine = shape(1 << l1, 1 << l2, 1 << l3, cores)
    levels = levels_of(machine, range(cores), 1 << 50)
    for level in levels:
        assert level.anchors
        assert all(level.holds(anchor) for anchor in level.anchors)
    for inner, outer in pairwise(levels):
        assert inner.high_bytes < outer.low_bytes * 1.5
        assert inner.anchors[-1] < outer.anchors[-1]


@pytest.mark.parametrize("quick", [True, False])
def test_the_sweep_goes_from_4_kib_to_four_times_the_last_cache(quick: bool) -> None:
    sizes = sweep_sizes(levels_of(shape(), [0], 1 << 40), 1, quick=quick)
    assert sizes[0] == 4 * KIB
    assert sizes[-1] == 128 * MIB
    assert sizes == sorted(set(sizes))
    assert len(sizes) == (16 if quick else pytest.approx(29, abs=2))
