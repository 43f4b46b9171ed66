"""The ideal cache is a true lower bound, and behaves at the ends as it must."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tests.oracles.lru import estimate_lru_traffic
from tests.work.locality.cases import STORAGES, Case, cases, true_optimum_bytes
from timeroof.core.errors import InputError
from timeroof.work.locality.accesses import Accesses, ladder_bytes
from timeroof.work.locality.ideal import ideal_traffic, ideal_traffics

if TYPE_CHECKING:
    from timeroof.work.locality.accesses import Range

SIZES = st.integers(0, 7)
Ops: TypeAlias = "list[list[Range]]"


@settings(max_examples=400, deadline=None)
@given(cases(), SIZES, st.booleans())
def test_never_above_the_true_optimum(case: Case, size: int, warm: bool) -> None:
    bound = ideal_traffic(case.accesses, size, warm=warm).total_bytes
    assert bound <= true_optimum_bytes(case, size, warm=warm)


@settings(max_examples=200, deadline=None)
@given(cases(writes=False), SIZES, st.booleans())
def test_without_writes_it_is_the_optimum(case: Case, size: int, warm: bool) -> None:
    bound = ideal_traffic(case.accesses, size, warm=warm).total_bytes
    assert bound == true_optimum_bytes(case, size, warm=warm)


@settings(max_examples=60, deadline=None)
@given(cases(), SIZES)
def test_every_beginning_is_bounded_too(case: Case, size: int) -> None:
    """Reads of the first ops are at least what the bound says, as if the rest did not exist."""
    read = ideal_traffic(case.accesses, size).read_bytes
    for count in range(1, len(case.ops) + 1):
        start = Case(case.ops[:count], frozenset(STORAGES))
        assert read[:count].sum() == ideal_traffic(start.accesses, size).read_bytes.sum()


@settings(max_examples=300, deadline=None)
@given(cases(longest=12, largest=6), st.integers(0, 20), st.booleans(), st.booleans())
def test_never_above_lru(case: Case, size: int, warm: bool, frees: bool) -> None:
    bound = ideal_traffic(case.accesses, size, warm=warm).total_bytes
    estimate = estimate_lru_traffic(case.accesses, size, warm=warm, frees_are_noticed=frees)
    assert bound <= estimate.total_bytes


@settings(max_examples=200, deadline=None)
@given(cases(longest=12, largest=6), st.booleans())
def test_a_larger_cache_never_needs_more(case: Case, warm: bool) -> None:
    totals = [t.total_bytes for t in ideal_traffics(case.accesses, range(20), warm=warm)]
    assert totals == sorted(totals, reverse=True)


@settings(max_examples=200, deadline=None)
@given(cases(longest=8, largest=5))
def test_without_a_cache_every_op_moves_its_compulsory_bytes(case: Case) -> None:
    ideal, lru = ideal_traffic(case.accesses, 0), estimate_lru_traffic(case.accesses, 0)
    for op in range(len(case.ops)):
        expected = case.compulsory_bytes(op)
        assert (ideal.read_bytes[op], ideal.write_bytes[op]) == expected
        assert (lru.read_bytes[op], lru.write_bytes[op]) == expected


@settings(max_examples=200, deadline=None)
@given(cases(longest=8, largest=5))
def test_an_unlimited_cache_moves_what_comes_in_and_goes_out(case: Case) -> None:
    seen: set[tuple[object, int]] = set()
    comes_in = 0
    written: set[tuple[object, int]] = set()
    for op in range(len(case.ops)):
        comes_in += len(case.bytes_of(op, "read") - seen)
        seen |= case.bytes_of(op, "read") | case.bytes_of(op, "write")
        written |= case.bytes_of(op, "write")
    goes_out = sum(byte[0] in case.persistent for byte in written)
    for size in (None, 10**6):
        traffic = ideal_traffic(case.accesses, size)
        assert (traffic.read_bytes.sum(), traffic.write_bytes.sum()) == (comes_in, goes_out)
    lru = estimate_lru_traffic(case.accesses, 10**6)
    assert (lru.read_bytes.sum(), lru.write_bytes.sum()) == (comes_in, goes_out)
    step = ladder_bytes(case.accesses, ["forward"] * len(case.ops)).step
    assert (step.read_bytes, step.write_bytes) == (comes_in, goes_out)


@settings(max_examples=200, deadline=None)
@given(cases(longest=10, largest=6), st.integers(0, 20), st.booleans())
def test_what_an_op_pays_alone_is_part_of_what_it_pays(case: Case, size: int, warm: bool) -> None:
    traffic = ideal_traffic(case.accesses, size, warm=warm)
    assert (traffic.own_read_bytes <= traffic.read_bytes).all()
    assert (traffic.own_write_bytes <= traffic.write_bytes).all()
    assert (traffic.own_read_bytes >= 0).all()


@settings(max_examples=150, deadline=None)
@given(cases(longest=8, largest=5), st.integers(1, 12), st.integers(2, 5))
def test_bytes_are_divisible(case: Case, size: int, times: int) -> None:
    """All sizes times n gives n times the traffic: nothing depends on the grain."""
    ops = [[(s, o * times, n * times, k) for s, o, n, k in op] for op in case.ops]
    larger = ideal_traffic(Accesses.of(ops, case.persistent), size * times)
    assert larger.total_bytes == times * ideal_traffic(case.accesses, size).total_bytes


@settings(max_examples=150, deadline=None)
@given(cases(longest=8, largest=6), st.integers(0, 15))
def test_cutting_ranges_changes_nothing(case: Case, size: int) -> None:
    ops = [[(s, o + i, 1, k) for s, o, n, k in op for i in range(n)] for op in case.ops]
    cut, whole = (
        ideal_traffic(a, size) for a in (Accesses.of(ops, case.persistent), case.accesses)
    )
    assert np.array_equal(cut.read_bytes, whole.read_bytes)
    assert np.array_equal(cut.write_bytes, whole.write_bytes)


def test_an_op_larger_than_the_cache_keeps_what_fits() -> None:
    sweep: list[Range] = [("x", 0, 100, "read")]
    traffic = ideal_traffic(Accesses.of([sweep, sweep, sweep]), 40)
    assert traffic.read_bytes.tolist() == [100, 60, 60]
    assert estimate_lru_traffic(Accesses.of([sweep, sweep, sweep]), 40).total_bytes == 300


def test_a_tensor_that_can_stay_owes_nothing_and_dead_data_are_not_written() -> None:
    ops: Ops = [
        [("x", 0, 50, "read"), ("t", 0, 30, "write")],
        [("t", 0, 30, "read"), ("y", 0, 10, "write")],
    ]
    traffic = ideal_traffic(Accesses.of(ops, persistent={"y"}), 30)
    assert traffic.read_bytes.tolist() == [50, 0]
    assert traffic.write_bytes.tolist() == [0, 10]
    assert traffic.table().columns[0] == "op"


def test_in_place_reads_the_old_and_writes_the_new() -> None:
    ops: Ops = [[("p", 0, 8, "read"), ("p", 0, 8, "write")]] * 3
    traffic = ideal_traffic(Accesses.of(ops, persistent={"p"}), 100)
    assert traffic.read_bytes.tolist() == [8, 0, 0]
    assert traffic.write_bytes.tolist() == [0, 0, 8]


def test_a_warm_cache_holds_small_models_between_steps() -> None:
    ops: Ops = [[("p", 0, 8, "read")], [("p", 0, 8, "read"), ("p", 0, 8, "write")]]
    accesses = Accesses.of(ops, persistent={"p"})
    assert ideal_traffic(accesses, 8).total_bytes == 16
    assert ideal_traffic(accesses, 8, warm=True).total_bytes == 0
    assert estimate_lru_traffic(accesses, 8, warm=True).total_bytes == 0


def test_nothing_at_all_is_fine() -> None:
    empty: list[Ops] = [[], [[]], [[("x", 0, 0, "read")]]]
    for ops in empty:
        assert ideal_traffic(Accesses.of(ops), 10).total_bytes == 0
        assert estimate_lru_traffic(Accesses.of(ops), 10).total_bytes == 0
        assert ladder_bytes(Accesses.of(ops), ["forward"] * len(ops)).step.total_bytes == 0


@pytest.mark.parametrize(
    "op", [("x", -1, 4, "read"), ("x", 0, -4, "read"), ("x", 0, 4, "touch")], ids=str
)
def test_impossible_ranges_are_refused(op: tuple[str, int, int, str]) -> None:
    with pytest.raises(InputError):
        Accesses.of([[op]])  # type: ignore[list-item]
