"""What a recorded file must not be made to say: the errors that a comparison of 199 readings found.

By the command and its JSON alone, so that the same tests run against any commit.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.kineto_events import document, event, kernel, launch, op, tensors
from timeroof.cli.main import main

A100 = "NVIDIA A100-SXM4-40GB"
PRODUCT = tensors([4096, 4096], [4096, 4096])
RING = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
# relu of 16,777,216 floats reads and writes 134 MB: 86.3 µs of the A100's 1,555 GB/s.
LARGE, LARGE_S = tensors([2**24]), 2**27 / 1555e9


def written(path: Path, events: list[dict[str, Any]], device: str = A100, rank: int = 0) -> Path:
    top = {"deviceProperties": [{"id": 0, "name": device}], "distributedInfo": {"rank": rank}}
    path.write_text(json.dumps(document(events, **top)))
    return path


def told(path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> Any:
    """The report with its findings."""
    capsys.readouterr()
    assert main(["explain", str(path), "--json", "-", *options]) == 0
    return json.loads(capsys.readouterr().out)


def launched(n: int, name: str, start: float, long: float, args: dict[str, Any], **on: Any) -> Any:
    """An op of 10 µs at 20·n µs that launches one kernel."""
    return [
        op(name, 20 * n, 10, **args), launch(n, 20 * n + 1), kernel(f"k{n}", start, long, n, **on)
    ]  # fmt: skip


def gains(report: Any) -> dict[str, float]:
    return {f["code"]: f["gain_s"] for f in report["findings"] if f["gain_s"] is not None}


Told = pytest.CaptureFixture[str]


def test_collectives_of_many_sizes_do_not_hide_that_they_are_exposed(
    tmp_path: Path, capsys: Told
) -> None:
    events = launched(0, "aten::mm", 10, 4000, PRODUCT)
    for n, (start, long) in enumerate(((4010, 10), (4030, 1900), (5930, 30)), 1):
        events += [launch(n, 30 + n), kernel(RING, start, long, n, stream=20)]
    report = told(written(tmp_path / "t.json", events), capsys)
    assert gains(report).get("TR107") == pytest.approx(1940e-6)


def test_ranks_are_a_mean_rank_in_wall_time_gains_and_reasons(tmp_path: Path, capsys: Told) -> None:
    for rank in range(2):
        events: list[dict[str, Any]] = []
        for n in range(50):
            events += [launch(n + 1, 200 * n + 150), kernel("gemm", 200 * n + 160, 40, n + 1)]
        written(tmp_path / f"rank{rank}.json", events, rank=rank)
    report = told(tmp_path, capsys)
    assert report["totals"]["wall_s"] == pytest.approx(9840e-6)
    finding = next(f for f in report["findings"] if f["code"] == "TR104")
    assert finding["gain_s"] == pytest.approx(7840e-6)
    assert "7.84 ms (80 %)" in finding["why"]


def test_the_host_s_part_of_a_gap_ends_with_its_launch(tmp_path: Path, capsys: Told) -> None:
    """The device runs dry at 110 µs, the launch returns at 154 µs, the kernel starts 463 ms later."""
    small = tensors([1000])
    events = [op("aten::relu", 0, 10, **small), launch(1, 2, 4), kernel("k", 10, 100, 1)]
    events += [op("aten::relu", 140, 20, **small), launch(2, 150, 4), kernel("k", 463_110, 100, 2)]
    causes = told(written(tmp_path / "t.json", events), capsys)["totals"]["idle_by_cause"]
    assert causes.get("launch-starved", 0.0) == pytest.approx(44e-6)
    assert sum(causes.values()) == pytest.approx(463e-3)


def test_unknown_work_is_no_tiny_work(tmp_path: Path, capsys: Told) -> None:
    """Nine of ten kernels of a loop that waits for data are of an op that nobody knows."""
    events = []
    for step in range(3):
        at = 20_000 * step
        events += [event("user_annotation", f"ProfilerStep#{step}", at, 20_000)]
        loading = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
        events += [event("user_annotation", loading, at, 14_000)]
        for i in range(200):
            n, known, start = 1000 * step + i + 1, i % 10 == 0, at + 14_000 + 28 * i
            name, args = ("aten::relu", tensors([10])) if known else ("mylib::thing", {})
            events += [op(name, start, 10, **args), launch(n, start + 1)]
            events += [kernel("relu" if known else "thing", start + 8, 6, n)]
    report = told(written(tmp_path / "t.json", events), capsys)
    data_s = report["totals"]["idle_by_cause"]["data"]
    assert data_s == pytest.approx(28.844e-3, rel=1e-3)
    # Of 3.6 ms of kernels 0.36 ms are known to be tiny; the waiting for data is not theirs.
    own = {f["code"]: f["evidence"] for f in report["findings"]}
    assert gains(report)["TR105"] == pytest.approx(data_s)
    assert own.get("TR101", {}).get("launches", 60) == 60
    assert gains(report).get("TR101", 0.0) <= 0.36e-3


def test_second_kernels_of_an_op_move_bytes(tmp_path: Path, capsys: Told) -> None:
    x, w = [8, 64, 28, 28], [64, 64, 3, 3]
    args = tensors(x, w, [], [], [], [], [], [], [], dtype="c10::Half")
    args["Concrete Inputs"] = ["", "", "[1, 1]", "[1, 1]", "[1, 1]", "1", *["False"] * 3]
    names = ("nchwToNhwcKernel<__half>", "nchwToNhwcKernel<__half>", "sm80_xmma_fprop_gemm_f16",
             "nhwcToNchwKernel<__half>")  # fmt: skip
    events = [op("aten::cudnn_convolution", 0, 40, **args)]
    for n, name in enumerate(names):
        events += [launch(n + 1, 10 * n + 1), kernel(f"void {name}", 1000 * (n + 1), 800, n + 1)]
    rows = told(written(tmp_path / "t.json", events), capsys)["kernels"]
    moved = [row["bytes"].get("dram", 0) for row in rows if "Kernel<__half>" in row["name"]]
    # Input, weight and result are read and written once, two bytes an element.
    assert sum(moved) == 2 * 2 * (2 * 8 * 64 * 28 * 28 + 64 * 64 * 9)
    assert "launch" not in [row["limiter"] for row in rows]


def test_a_long_kernel_of_little_work_is_not_launch_bound(tmp_path: Path, capsys: Told) -> None:
    events = launched(0, "aten::relu", 10, 100, tensors([1000]))
    report = told(written(tmp_path / "t.json", events), capsys)
    assert report["kernels"][0]["limiter"] == "latency"


def test_a_result_that_is_passed_in_is_not_read(tmp_path: Path, capsys: Told) -> None:
    events = launched(0, "aten::mul", 10, 100, tensors([10**6], [10**6], [10**6]))
    report = told(written(tmp_path / "t.json", events), capsys)
    assert report["kernels"][0]["bytes"] == {"dram": 12_000_000}


def beside_one_another(folder: Path) -> Path:
    """Two kernels at the same 200 µs, each at 43 % of the bandwidth."""
    events = launched(1, "aten::relu", 100, 200, LARGE, stream=7)
    return written(folder / "t.json", events + launched(2, "aten::relu", 100, 200, LARGE, stream=8))


def test_bound_gap_and_efficiency_belong_together(tmp_path: Path, capsys: Told) -> None:
    totals = told(beside_one_another(tmp_path), capsys)["totals"]
    assert totals["bound_s"] == pytest.approx(LARGE_S)
    assert totals["gap_s"] == totals["recoverable_s"] == pytest.approx(200e-6 - LARGE_S)
    assert totals["efficiency"] == pytest.approx(LARGE_S / 200e-6)


def test_no_more_is_gained_than_can_come_back(tmp_path: Path, capsys: Told) -> None:
    report = told(beside_one_another(tmp_path), capsys)
    assert sum(gains(report).values()) <= (200e-6 - LARGE_S) * (1 + 1e-9)


def test_every_instant_has_one_class(tmp_path: Path, capsys: Told) -> None:
    totals = told(beside_one_another(tmp_path), capsys)["totals"]
    assert totals["by_class"]["memory"] == pytest.approx(200e-6)
    assert sum(totals["by_class"].values()) == pytest.approx(totals["wall_s"])


def test_a_closed_report_is_refused_with_the_way_out(tmp_path: Path, capsys: Told) -> None:
    (tmp_path / "run.nsys-rep").write_bytes(b"\x08\x96\x01\x00\xfe\x00\x02NSYS" * 20)
    assert main(["read", str(tmp_path / "run.nsys-rep")]) == 2
    assert "nsys export --type sqlite" in " ".join(capsys.readouterr().err.split())


def test_a_step_s_mark_is_no_op(tmp_path: Path, capsys: Told) -> None:
    events = [event("Operator", "ProfilerStep#5", 0, 100), launch(1, 12), kernel("k", 40, 5, 1)]
    events += [event("Operator", "aten::mm", 10, 20, **tensors([4, 8], [8, 2]))]
    row = told(written(tmp_path / "t.json", events), capsys)["kernels"][0]
    assert (row["op"], row["labels"]["outer_op"]) == ("aten::mm", "aten::mm")


NCU = ("ID", "Kernel Name", "Block Size", "Grid Size", "CC", "Metric Name", "Metric Unit",
       "Metric Value")  # fmt: skip


def counted(path: Path, kernel_name: str, metrics: list[tuple[str, str, float]], cc: str) -> Path:
    rows = [NCU, *((0, kernel_name, "(128, 1, 1)", "(8, 1, 1)", cc, *m) for m in metrics)]
    path.write_text("\n".join(",".join(f'"{cell}"' for cell in row) for row in rows))
    return path


def test_what_counts_as_known_is_not_called_unknown(tmp_path: Path, capsys: Told) -> None:
    """A kernel of plain FP32 may execute a few instructions of the tensor pipe."""
    metrics = [("gpu__time_duration.sum", "nsecond", 9000.0), ("dram__bytes.sum", "byte", 1e6)]
    metrics += [
        (f"sm__sass_thread_inst_executed_op_{letter}{does}_pred_on.sum", "inst", 1000.0)
        for letter in "dfh"
        for does in ("add", "mul", "fma")
    ]
    metrics += [("sm__inst_executed_pipe_tensor.sum", "inst", 640.0)]
    path = counted(tmp_path / "x.csv", "ampere_sgemm_32x32_tn", metrics, "8.0")
    report = told(path, capsys)
    unknown = [note for note in map(str, report["notes"]) if "FLOPs are unknown" in note]
    assert (report["totals"]["known_time_share"] == 1.0) is (not unknown)


def test_percentages_of_nsight_settle_the_limiter(tmp_path: Path, capsys: Told) -> None:
    metrics = [("Duration", "us", 100.0), ("Memory Throughput", "%", 89.0)]
    metrics += [("Compute (SM) Throughput", "%", 22.0)]
    report = told(counted(tmp_path / "x.csv", "k", metrics, "8.0"), capsys)
    assert report["kernels"][0]["limiter"] == "pipe/memory"


@pytest.mark.parametrize(
    ("device", "machine"),
    [
        ("Tesla V100-DGXS-32GB", "v100-sxm2-32gb"),
        ("NVIDIA H100", "h100-sxm"),
        ("Tesla P100-PCIE", "p100-pcie"),
    ],
)
def test_devices_by_names_that_drivers_give(
    device: str, machine: str, tmp_path: Path, capsys: Told
) -> None:
    events = launched(0, "aten::mm", 10, 100, PRODUCT)
    report = told(written(tmp_path / "t.json", events, device), capsys)
    assert (report["machine"] or {}).get("name") == machine


def test_eager_attention_has_a_rule_of_its_own(tmp_path: Path, capsys: Told) -> None:
    half = "c10::Half"
    softmax = tensors([96, 512, 512], [], [], dtype=half) | {"Concrete Inputs": ["", "-1", "False"]}
    ops = (
        ("aten::bmm", tensors([96, 512, 64], [96, 64, 512], dtype=half), "gemm"),
        ("aten::_softmax", softmax, "softmax_warp_forward"),
        ("aten::bmm", tensors([96, 512, 512], [96, 512, 64], dtype=half), "gemm2"),
    )
    events = []
    for i in range(18):
        name, args, kernel_name = ops[i % 3]
        events += [op(name, 300 * i, 50, **args), launch(i + 1, 300 * i + 5)]
        events += [kernel(kernel_name, 300 * i + 20, 250, i + 1)]
    report = told(written(tmp_path / "t.json", events), capsys)
    finding = report["findings"][0]
    assert "scaled_dot_product_attention" in finding["action"]
    # All 4.5 ms but the inputs and the result of one fused kernel, six times.
    moved_s = 6 * 4 * 2 * 96 * 512 * 64 / 1555e9
    computed_s = 6 * 2 * 2 * 96 * 512 * 512 * 64 / 312e12
    assert finding["gain_s"] == pytest.approx(4.5e-3 - max(moved_s, computed_s), rel=0.01)


def test_kernels_are_listed_where_no_machine_is_known(tmp_path: Path, capsys: Told) -> None:
    events = [*launched(0, "aten::mm", 10, 4000, PRODUCT), kernel("dark", 4100, 900, 2)]
    assert main(["read", str(written(tmp_path / "t.json", events, device=""))]) == 0
    shown = capsys.readouterr().err
    assert "dark" in shown
    # 2·4096³ FLOPs and three matrices in 4 ms.
    assert "34.4 TFLOP/s" in shown
    assert "50.3 GB/s" in shown


def test_published_rates_stand_beside_the_datasheet_s(capsys: Told) -> None:
    assert main(["machine", "mi300x", "--json", "-"]) == 0
    machine = json.loads(capsys.readouterr().out)
    machine = machine.get("machine", machine)
    peak = {ceiling["resource"]: ceiling["rate"] for ceiling in machine["ceilings"]}
    best = machine.get("achievable", [])
    assert [a for a in best if a["source"] and a["rate"] < peak[a["resource"]]]


def test_a_row_s_numbers_are_unfolded(tmp_path: Path, capsys: Told) -> None:
    events = launched(0, "aten::mm", 10, 4000, PRODUCT)
    assert main(["explain", str(written(tmp_path / "t.json", events)), "--row", "0"]) == 0
    shown = " ".join("".join(capsys.readouterr()).split())
    assert "2·M·N·K" in shown
    assert "2·4096·4096·4096" in shown
