"""Recorded GPU traces: kernels linked to shapes, counted. Run as a script to see the shares.

Shares are those of `timeroof read`; a second reader, as small as it can be, checks products.
"""

from __future__ import annotations

import ast
import bisect
import csv
import gzip
import json
from collections import Counter, defaultdict
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pytest

import timeroof
from tests.recorded_data import DATA, LOOKED_AT, files, looked_at, needs_recorded_data, place
from tests.work.reasons import why_unknown
from timeroof.core.errors import InputError
from timeroof.core.shapes import shape_texts
from timeroof.work import Cost, call_from_kineto, count

KINETO = DATA / "kineto"
ET = DATA / "execution_trace" / "v100_dlrm_8rank"
pytestmark = needs_recorded_data


@lru_cache(maxsize=2)
def linked(path: Path) -> list[tuple[dict, dict | None]]:
    """Kernels and copies with the innermost op that launched them."""
    with gzip.open(path, "rt", errors="replace") as file:
        events = [e for e in json.load(file)["traceEvents"] if e.get("ph") == "X"]
    ops, by_id, launches = defaultdict(list), {}, {}
    for e in events:
        args = e.get("args", {})
        if e.get("cat") in ("cpu_op", "Operator"):
            ops[e["pid"], e["tid"]].append(e)
            by_id[args.get("External id")] = e
        elif e.get("cat") in ("cuda_runtime", "cuda_driver", "Runtime"):
            launches[args.get("correlation")] = e
    for listed in ops.values():
        listed.sort(key=lambda e: (e["ts"], -e["dur"]))
    starts = {key: [e["ts"] for e in listed] for key, listed in ops.items()}
    found = []
    for e in events:
        if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            launch = launches.get(e["args"].get("correlation"))
            op = _innermost(ops, starts, launch) or by_id.get(e["args"].get("External id"))
            found.append((e, op))
    return found


def _innermost(ops: dict, starts: dict, launch: dict | None) -> dict | None:
    if launch is None:
        return None
    key = (launch["pid"], launch["tid"])
    for i in range(bisect.bisect_right(starts.get(key, []), launch["ts"]) - 1, -1, -1):
        e = ops[key][i]
        if e["ts"] + e["dur"] >= launch["ts"] + launch.get("dur", 0):
            return e
    return None


# What every trace that was looked at must reach: the share of its shape-linked time whose amounts
# are known at all, and the share that is known without inferring anything from kernels' names
# and grids. Second kernels of an op (transposes of convolutions, sorts of embeddings) are not
# known: nobody recorded which part of the op each does. Traces that link nothing to shapes are
# not here.
CAPTURE = "mi300x_vllm_decode_capture/"
FLOORS = {
    "b200_eager_8gpu_rank0": (0.97, 0.30),  # experts' weights and prompts: from grids alone
    "h100_bert_small_infer": (1.0, 1.0),
    "h100_qwen1.5_0.5b_chat": (1.0, 0.93),  # formats inside lists: from kernels' names
    "h100_vit_nsfw_infer": (0.98, 0.97),
    "mi250_minitoy_train": (0.95, 0.89),
    "mi300x_bert_small_infer": (1.0, 1.0),
    "mi300x_resnet_train_8gpu_rank0": (0.60, 0.60),
    "mi300x_torch_compile_triton": (1.0, 0.93),  # Inductor's kernels: ops from their names
    "mi300x_vit_nsfw_infer": (0.99, 0.98),
    "mi300x_vllm_decode_hipgraph": (0.99, 0.99),
    CAPTURE + "graph_execution": (0.99, 0.99),
    # 29 us: the capture launches next to nothing, and an index without its indices is 4 us of it.
    CAPTURE + "capture_traces/graph_capture_rank_0.1773709742341309550.pt.trace": (0.85, 0.85),
    "v100_recsys_train_rank1of2": (0.84, 0.84),
    **{
        place(path).removeprefix("kineto/").removesuffix(".json.gz"): (0.76, 0.76)
        for path in looked_at("kineto/v100_dlrm_8rank/*")
    },
}
# Every reason that may be left: the record lacks something. No op may lack a formula.
INCOMPLETE = (
    "not recorded",
    "not among the recorded",
)


class Shares(NamedTuple):
    """Seconds of kernels and copies under ops with recorded shapes, collectives apart."""

    known: float
    inferred: float
    unknown: float
    reasons: Counter

    @property
    def total(self) -> float:
        return self.known + self.inferred + self.unknown

    @property
    def share(self) -> float:
        return (self.known + self.inferred) / self.total if self.total else 1.0


@lru_cache(maxsize=2)
def device_rows(*paths: Path) -> pl.DataFrame:
    """Kernels, copies and memsets as users get them; collectives are another matter."""
    rows = timeroof.load(list(paths) if len(paths) > 1 else paths[0]).profile.kernels
    return rows.filter(pl.col("kind").is_in(["kernel", "copy", "memset"]))


def device_s(*paths: Path) -> float:
    return device_rows(*paths)["time_s"].sum()


def linked_rows(*paths: Path) -> pl.DataFrame:
    """Rows of device work that their launch ties to an op with a record.

    Kernels that graphs replay have no op, and those that borrow one are not tied to it.
    """
    rows = device_rows(*paths)
    if "label.input_dims" not in rows.columns:
        return rows.clear()
    own = pl.col("label.inferred").is_null() if "label.inferred" in rows.columns else pl.lit(True)
    return rows.filter(own & pl.col("label.input_dims").is_not_null())


def shares(*paths: Path) -> Shares:
    totals: Counter = Counter()
    reasons: Counter = Counter()
    for row in linked_rows(*paths).iter_rows(named=True):
        flops = [v for k, v in row.items() if k.startswith("flop/")]
        known = row["kind"] != "kernel" or (bool(flops) and None not in flops)
        if not known or row["byte/dram"] is None:
            kind = "unknown"
            reasons[why_unknown(row)] += row["time_s"]
        else:
            kind = "inferred" if row["origin.flops"] == "inferred" else "known"
        totals[kind] += row["time_s"]
    return Shares(totals["known"], totals["inferred"], totals["unknown"], reasons)


def gemm_flops(path: Path) -> float:
    """Contraction FLOPs of mm, addmm and bmm, every op once however many kernels it has."""
    seen, total = set(), 0.0
    for kernel, op in linked(path):
        if op is None or kernel["cat"] != "kernel" or id(op) in seen:
            continue
        if op["name"] in ("aten::mm", "aten::addmm", "aten::bmm"):
            seen.add(id(op))
            cost = count(call_from_kineto(op["name"], op["args"]))
            total += cost.contraction_flops or 0.0
    return total


def test_qwen_gemm_flops_without_bias() -> None:
    found = gemm_flops(KINETO / "h100_qwen1.5_0.5b_chat.json.gz")
    assert found == pytest.approx(5514.537e9, rel=1e-6)


REFERENCES = files("kineto/tracelens_reference/*/unified_perf_summary.csv")
COLUMNS = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")
# How many of their rows we count too, at least, of the tables that were looked at.
COMPARED = {
    "h100_bert_small_infer": 8,
    "h100_qwen1.5_0.5b_chat": 8,
    "mi300x_vit_nsfw_infer": 8,
    "mi300x_vllm_decode_capture": 10,
}
# Of Inductor's kernels they count what the graph names, we the tensors that a launch records.
COUNTED_OTHERWISE = ("triton",)


def counted(row: dict[str, str]) -> Cost:
    """Our cost of a row of theirs; a cell that is empty was not recorded."""
    args = {c: ast.literal_eval(row[c]) for c in COLUMNS if row.get(c)}
    return count(call_from_kineto(row["name"], args))


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("path", [p for p in REFERENCES if place(p) in LOOKED_AT], ids=place)
def test_agrees_with_tracelens(path: Path) -> None:
    """FLOPs of products to a millionth (bias included), bytes of all ops to 2 %."""
    compared = 0
    for row in rows_of(path):
        cost = counted(row)
        known = bool(row["Data Moved (MB)"]) and cost.bytes is not None
        if not known or row["op category"] in COUNTED_OTHERWISE:
            continue
        assert cost.bytes / 2**20 == pytest.approx(float(row["Data Moved (MB)"]), rel=0.02)
        if row["op category"] == "GEMM":
            assert cost.flops / 1e9 == pytest.approx(float(row["GFLOPS"]), rel=1e-6)
        compared += 1
    assert compared >= COMPARED[path.parent.name]


@pytest.mark.parametrize("path", REFERENCES, ids=place)
def test_every_row_of_a_tracelens_table_is_counted_or_unknown_with_a_reason(path: Path) -> None:
    for row in rows_of(path):
        cost = counted(row)
        assert cost.unknown or cost.bytes is not None
        assert all(v is None or v >= 0 for v in (cost.bytes, cost.flops))


TRACES = looked_at("kineto/**/*.json.gz")
OTHER_TRACES = [p for p in files("kineto/**/*.json*") if place(p) not in LOOKED_AT]


PAIRS = [
    (path, ET / f"dlrm_eg_{path.name.removeprefix('worker')[0]}.json.gz")
    for path in TRACES
    if path.name.startswith("worker")
]


def floors(path: Path) -> tuple[float, float] | None:
    return FLOORS.get(place(path).removeprefix("kineto/").removesuffix(".json.gz"))


@pytest.mark.parametrize("path", TRACES, ids=place)
def test_share_of_shape_linked_time_that_is_known(path: Path) -> None:
    found, floor = shares(path), floors(path)
    assert bool(found.total) == (floor is not None)
    if floor is None:
        return
    least, without_inferring = floor
    assert found.share >= least
    assert found.known / found.total >= without_inferring
    assert all(r and any(words in r for words in INCOMPLETE) for r in found.reasons)


@pytest.mark.parametrize("path", OTHER_TRACES, ids=place)
def test_what_is_unknown_in_any_other_trace_has_a_reason(path: Path) -> None:
    try:
        found = shares(path)
    except InputError:
        return  # refused with a reason: test_recorded_files.py
    assert all(found.reasons)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda p: place(p[0]))
def test_an_execution_trace_adds_to_what_is_known(pair: tuple[Path, Path]) -> None:
    alone, joined = shares(pair[0]), shares(*pair)
    assert joined.share >= alone.share
    assert joined.share >= 0.78


def test_a_replayed_graph_is_tied_to_no_op() -> None:
    """99.1 % of what is tied are known, which is 3 % of the time: docs/counting.md says both."""
    path = KINETO / "mi300x_vllm_decode_hipgraph.json.gz"
    found = shares(path)
    assert found.total == pytest.approx(329.2e-6, rel=1e-3)
    assert found.total / device_s(path) == pytest.approx(0.0307, rel=1e-2)
    assert found.share == pytest.approx(0.991, abs=1e-3)


def test_unlinked_products_borrow_from_products_that_take_as_long() -> None:
    """Two products of one name and grid differ in what they sum over: 31 and 75 us."""
    rows = timeroof.load(KINETO / "h100_qwen1.5_0.5b_chat.json.gz").profile.kernels
    borrowed = rows.filter(
        (pl.col("label.inferred") == "op") & (shape_texts(rows["shape"]) == "8944x2816, 2816x1024")
    )
    assert borrowed["calls"].sum() == 11
    assert borrowed["time_s"].sum() / 11 == pytest.approx(75.4e-6, rel=0.01)


def test_a_layout_change_does_not_do_the_convolution() -> None:
    rows = linked_rows(KINETO / "mi300x_resnet_train_8gpu_rank0.json.gz")
    moved = rows.filter(pl.col("name").str.starts_with("transpose_CNHW"))
    assert moved.height
    assert moved["contraction_flops"].sum() == 0


def test_products_of_experts_on_the_unit_that_runs_them() -> None:
    rows = linked_rows(KINETO / "b200_eager_8gpu_rank0.json.gz")
    products = rows.filter(pl.col("name").str.starts_with("bmm_"))
    # 36 layers: 888 tokens to 4 experts each, 3072 -> 2x512 -> 3072.
    by_hand = 36 * 2 * 888 * 4 * (3072 * 1024 + 512 * 3072)
    assert products["flop/fp8-tensor"].sum() == pytest.approx(by_hand)
    assert set(products["origin.bytes/dram"]) == {"inferred"}
    attention = rows.filter(pl.col("name").str.contains("PagedKvCausal"))
    # One prompt of 888 tokens (the trace's annotation says so too), 8 heads of 64.
    pairs = 8 * 888 * 889 / 2
    assert attention["flop/fp8-tensor"].sum() == pytest.approx(18 * 4 * 64 * pairs)


def test_kernels_of_an_uncounted_op_are_all_unknown() -> None:
    """Not only the one that stands for the call: nobody knows which of them does the work."""
    rows = linked_rows(KINETO / "b200_eager_8gpu_rank0.json.gz")
    sliding = rows.filter(pl.col("name").str.contains("SlidingOrChunked"))
    assert sliding.height
    assert sliding["byte/dram"].null_count() == sliding.height


@pytest.mark.slow
def test_rows_far_above_the_roof_are_none() -> None:
    for path in TRACES:
        report = timeroof.load(path)
        judged = report.rows.filter(
            pl.col("above_roof").is_not_null()
            & (pl.col("kernel_efficiency") > 1.1)
            & (pl.col("time_s") > 50e-6)
        )
        assert judged.height == 0, (path.name, judged["name"].to_list())


def main() -> None:
    whole: Counter = Counter()
    for paths in [(p,) for p in TRACES] + PAIRS:
        found = shares(*paths)
        if not found.total:
            continue
        if len(paths) == 1:
            whole["known"] += found.known + found.inferred
            whole["total"] += found.total
        short = "" if found.share >= 0.95 else "  SHORT of 95 %"
        print(
            f"\n{' + '.join(p.name for p in paths)}: {found.total * 1e6:.0f} us"
            f" ({found.total / device_s(*paths):.1%} of the device's time) linked to shapes:"
            f" known {found.known / found.total:.1%}, inferred {found.inferred / found.total:.1%}{short}"
        )
        for reason, time_s in found.reasons.most_common(8):
            print(f"   {time_s / found.total:6.1%} {reason[:130]}")
    print(f"\nall traces together: {whole['known'] / whole['total']:.1%}")


if __name__ == "__main__":
    main()
