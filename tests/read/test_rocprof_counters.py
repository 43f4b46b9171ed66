"""AMD's counters as amounts, by hand-made numbers."""

from __future__ import annotations

import polars as pl

from timeroof.read.amd.counters import (
    amounts_of,
    is_useful,
    join_passes,
    lend_counters,
    mark_lent,
    merge_channels,
    wide,
    with_amounts,
)
from timeroof.read.amd.rocprof_csv import same_counts_note

PRECISIONS = ("F16", "F32", "F64")
MATRIX = ("I8", "F16", "BF16", "F32", "F64")


def all_flop_counters(**values: float) -> dict[str, list[float]]:
    names = [f"SQ_INSTS_VALU_{op}_{p}" for p in PRECISIONS for op in ("ADD", "MUL", "TRANS", "FMA")]
    names += [f"SQ_INSTS_VALU_MFMA_MOPS_{p}" for p in MATRIX]
    return {name: [values.get(name.removeprefix("SQ_INSTS_VALU_"), 0.0)] for name in names}


def test_flops_have_the_factors_of_the_units() -> None:
    counters = all_flop_counters(ADD_F32=1, MUL_F32=2, TRANS_F32=4, FMA_F32=8, MFMA_MOPS_BF16=3)
    table, notes = with_amounts(pl.DataFrame(counters))
    row = table.row(0, named=True)
    assert row["flop/fp32"] == 64 * (1 + 2 + 4 + 16)
    assert row["flop/bf16-tensor"] == 512 * 3
    assert row["flop/fp16"] == 0
    assert row["origin.flops"] == "measured"
    assert "flop/fp8-tensor" not in row
    assert any("memory bytes" in note for note in notes)


def test_a_missing_counter_makes_its_precision_unknown_and_is_named() -> None:
    counters = all_flop_counters(MFMA_MOPS_F16=1)
    del counters["SQ_INSTS_VALU_FMA_F64"]
    table, notes = with_amounts(pl.DataFrame(counters))
    assert table["flop/fp64"][0] is None
    assert table["flop/fp16-tensor"][0] == 512
    assert any("SQ_INSTS_VALU_FMA_F64" in note for note in notes)


def test_memory_bytes_from_request_sizes() -> None:
    mi200 = {
        "TCC_EA_RDREQ_sum": [10.0],
        "TCC_EA_RDREQ_32B_sum": [4.0],
        "TCC_EA_WRREQ_sum": [6.0],
        "TCC_EA_WRREQ_64B_sum": [5.0],
    }
    table, _ = with_amounts(pl.DataFrame(mi200))
    assert table["byte/dram"][0] == 32 * 4 + 64 * 6 + 64 * 5 + 32 * 1


def test_long_reads_of_another_pass_are_clamped() -> None:
    mi300 = {
        "TCC_EA0_RDREQ_sum": [10.0],
        "TCC_EA0_RDREQ_32B_sum": [0.0],
        "TCC_EA0_WRREQ_sum": [0.0],
        "TCC_EA0_WRREQ_64B_sum": [0.0],
        "TCC_BUBBLE_sum": [12.0],
    }
    table, _ = with_amounts(pl.DataFrame(mi300))
    assert table["byte/dram"][0] == 128 * 10


def test_fetch_and_write_size_are_in_units_of_1024() -> None:
    table, _ = with_amounts(pl.DataFrame({"FETCH_SIZE": [2.0], "WRITE_SIZE": [0.5]}))
    assert table["byte/dram"][0] == 2560


def test_reads_alone_are_no_memory_bytes() -> None:
    table, notes = with_amounts(pl.DataFrame({"FETCH_SIZE": [2.0]}))
    assert table["byte/dram"][0] is None
    assert table["sum.dram_read_bytes"][0] == 2048
    assert any("WRITE_SIZE" in note for note in notes)


def test_cache_bytes_by_generation() -> None:
    requests = {
        f"TCP_TCC_{what}_REQ_sum": [n]
        for n, what in enumerate(("READ", "WRITE", "ATOMIC_WITH_RET", "ATOMIC_WITHOUT_RET"), 1)
    }
    old, _ = with_amounts(pl.DataFrame({**requests, "TCP_TOTAL_CACHE_ACCESSES_sum": [5]}))
    assert (old["byte/l2"][0], old["byte/l1"][0]) == (64 * 10, 320)
    new = amounts_of([*requests, "TCC_EA0_RDREQ_sum"]).columns["byte/l2"]
    assert pl.DataFrame(requests).select(new).item() == 128 + 64 * 9


def test_channels_are_summed_where_no_sum_is_there() -> None:
    table = pl.DataFrame({"TCC_EA_RDREQ[0]": [1.0], "TCC_EA_RDREQ[1]": [2.0]})
    assert merge_channels(table).to_dicts() == [{"TCC_EA_RDREQ_sum": 3.0}]
    both = table.with_columns(pl.lit(9.0).alias("TCC_EA_RDREQ_sum"))
    assert merge_channels(both).to_dicts() == [{"TCC_EA_RDREQ_sum": 9.0}]


def test_only_counters_that_matter_are_useful() -> None:
    assert is_useful("SQ_INSTS_VALU_MFMA_MOPS_F8")
    assert not is_useful("TCC_EA_RDREQ_LEVEL_sum")
    assert not is_useful("TCP_TCC_NC_READ_REQ_sum")
    assert not is_useful("SQ_WAVES")


def long(run: list[tuple[str, int, str, str, float]]) -> pl.DataFrame:
    return pl.DataFrame(run, schema=["name", "grid", "dispatch", "counter", "value"], orient="row")


def test_runs_join_by_name_and_occurrence_not_by_number() -> None:
    first = long([("a", 1, "1", "X", 10), ("b", 1, "2", "X", 20), ("a", 1, "3", "X", 30)])
    # The second run launched b first, and counted a's second dispatch twice.
    second = long(
        [("b", 1, "1", "Y", 2), ("a", 1, "2", "Y", 1), ("a", 1, "3", "Y", 3), ("a", 1, "3", "Y", 5)]
    )
    keys = ["name", "grid"]
    joined = join_passes([wide(first, keys), wide(second, keys)], keys)
    cells = {(r["name"], r["_occurrence"]): (r["X"], r["Y"]) for r in joined.to_dicts()}
    assert cells == {("a", 0): (10, 1), ("b", 0): (20, 2), ("a", 1): (30, 4)}


def test_dispatches_that_were_not_counted_borrow_and_say_so() -> None:
    keys = ["name", "grid"]
    counters = wide(long([("a", 1, "1", "FETCH_SIZE", 1), ("a", 1, "2", "FETCH_SIZE", 3)]), keys)
    dispatches = pl.DataFrame({"name": ["a", "a", "a", "c"], "grid": [1, 1, 1, 1]})
    table, notes = lend_counters(dispatches, counters, keys)
    assert table["FETCH_SIZE"].to_list() == [1, 3, 2, None]
    assert len(notes) == 2
    amounts, _ = with_amounts(table)
    marked = mark_lent(amounts)
    assert marked["origin.bytes/dram"].to_list() == ["measured", "measured", "inferred", None]


def test_equal_counts_of_different_kernels_are_suspicious() -> None:
    same = pl.DataFrame({"name": list("abc"), "X": [5.0] * 3, "Y": [6.0] * 3, "Z": [0.0] * 3})
    assert same_counts_note(same, ["X", "Y", "Z"])
    assert not same_counts_note(same.with_columns(pl.Series("X", [1.0, 2, 3])), ["X", "Y", "Z"])
