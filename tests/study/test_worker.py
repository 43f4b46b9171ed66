"""Real cases in a real worker: what they count, and how they fail."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.conftest import make_machine
from tests.live.live_programs import folder, report
from tests.study.cases import one_case
from timeroof.core.machine import Machine, MemoryLevel
from timeroof.study.case import Case, Plan, Result
from timeroof.study.grid import grid_cases
from timeroof.study.kernels import kernel, kernel_names
from timeroof.study.run import Worker

__all__ = ["folder"]
pytest.importorskip("torch")

FAST = Plan(
    warmup_s=0.01,
    budget_s=0.02,
    least=2,
    sample_s=1e-6,
    limit_s=60.0,
    one_thread_beside_others=False,
)
SMALL = {
    "conv2d": {"batch": 2, "filters": 4, "channels": 3, "size": 12},
    "pool": {"batch": 2, "channels": 3, "size": 12},
    "gemm": {"m": 8, "n": 12, "k": 16},
    "linear": {"batch": 4, "inputs": 8, "outputs": 6},
    "attention": {"batch": 2, "heads": 2, "sequence": 16, "head_dim": 8},
    "layernorm": {"rows": 8, "columns": 16},
    "softmax": {"rows": 8, "columns": 16},
    "elementwise": {"elements": 64, "op": "mul"},
    "embedding": {"rows": 32, "columns": 8, "lookups": 4},
    "adam": {"elements": 16, "tensors": 2},
} | {n: {"batch": 2, "time_steps": 3, "features": 4, "hidden": 5} for n in ("lstm", "gru", "rnn")}


def cached_machine() -> Machine:
    """A CPU with a small cache, that has no unit for fp16."""
    return make_machine(
        launching="synchronous",
        emulated={"flop/fp16": "flop/fp32"},
        memory=[
            MemoryLevel(level="l3", size_bytes=1 << 20),
            MemoryLevel(level="dram", size_bytes=1 << 34),
        ],
    )


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    found = Worker(cached_machine())
    yield found
    found.stop()


def small(name: str, pass_name: str, **changes: str) -> Case:
    return one_case(name, pass_name, params=SMALL[name], threads=1, **changes)  # type: ignore[arg-type]


def done(worker: Worker, case: Case) -> Result:
    result = worker.measure(case, FAST)
    assert result.status == "done", result.error
    return result


ALL_PASSES = [(name, p) for name in kernel_names() for p in kernel(name).passes]


@pytest.mark.parametrize(("name", "pass_name"), ALL_PASSES)
def test_every_pass_of_every_kernel_is_measured_and_counted(
    worker: Worker, name: str, pass_name: str
) -> None:
    result = done(worker, small(name, pass_name))
    assert len(result.samples_s) >= 2
    assert min(result.samples_s) > 0
    assert "uncounted" not in result.labels
    assert None not in result.amounts.values()
    assert result.launches is not None
    assert result.launches > 0
    assert result.labels["contains"] == kernel(name).passes[pass_name]
    by_formula = kernel(name).contraction(SMALL[name] | _rest(name), pass_name)
    if pass_name == "forward" or (by_formula is not None and name not in ("lstm", "gru", "rnn")):
        assert result.contraction_flops == by_formula


PROGRAM = """
import contextlib
import torch
import timeroof
from timeroof.study.case import Setting
from timeroof.study.kernels import kernel
from timeroof.study.worker.torch_passes import runnable
torch.set_num_threads(1)
setting = Setting({params!r}, torch.float32, "cpu")
ready = runnable(kernel({name!r}).prepare(setting), {pass_name!r}, contextlib.nullcontext)
for _ in range(10):
    ready.run()
    timeroof.step()
"""


@pytest.mark.parametrize(("name", "pass_name"), [("lstm", "forward"), ("attention", "backward")])
@pytest.mark.slow
def test_a_run_and_a_study_count_the_same_launches(
    worker: Worker, folder: Path, name: str, pass_name: str
) -> None:
    """Whether Python dispatches one op that calls a dozen, or a dozen ops."""
    text = PROGRAM.format(name=name, pass_name=pass_name, params=SMALL[name] | _rest(name))
    by_run = report(folder, text)["totals"]["launches"]
    assert by_run == done(worker, small(name, pass_name)).launches
    assert by_run >= 5


def _rest(name: str) -> dict[str, int | str]:
    return {k: v for k, v in kernel(name).base.items() if k not in SMALL[name]}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["conv2d", "lstm"])
@pytest.mark.parametrize("pass_name", ["forward", "backward"])
def test_flops_of_the_full_grids_are_those_of_the_formulas(name: str, pass_name: str) -> None:
    import torch

    from timeroof.study.case import Setting
    from timeroof.study.worker.counting import describe, used
    from timeroof.study.worker.torch_passes import runnable

    for case in grid_cases(name, passes=[pass_name]):
        setting = Setting(case.params, torch.float32, "cpu")
        ready = runnable(kernel(name).prepare(setting), pass_name, nullcontext)
        found = used(describe(ready.run), None, cold=True, tf32=False, fused=False)
        assert found.contraction_flops == kernel(name).contraction(case.params, pass_name), case
        assert not found.uncounted


def test_the_formula_of_the_convolution_by_hand() -> None:
    base = kernel("conv2d").base
    assert kernel("conv2d").contraction(base, "forward") == 2 * 16 * 64 * 64 * 3 * 3 * 55 * 55
    assert kernel("lstm").contraction(kernel("lstm").base, "forward") == 2 * 16 * 16 * 4 * 16 * (
        32 + 16
    )


def test_gradients_are_not_computed_for_what_nobody_asked(worker: Worker) -> None:
    both, inputs, weights = (
        done(worker, small("conv2d", p)).contraction_flops
        for p in ("backward", "backward-input", "backward-weight")
    )
    assert inputs == weights
    assert both == 2 * (inputs or 0)


def test_cold_caches_owe_compulsory_bytes_and_warm_ones_what_does_not_fit(worker: Worker) -> None:
    warm, cold = (done(worker, small("gemm", "forward", cache=c)) for c in ("warm", "cold"))
    assert warm.amounts["byte/dram"] == 0.0
    assert cold.amounts["byte/dram"] == 4 * (8 * 16 + 16 * 12 + 8 * 12)
    large = one_case("elementwise", params={"elements": 1 << 20}, threads=1)
    spilled = done(worker, large).amounts["byte/dram"]
    # Three vectors of 4 MiB; at most the cache (1 MiB) is kept of what is read, and of what is written.
    assert spilled is not None
    assert 3 * 4 * 2**20 - 2 * 2**20 <= spilled < 3 * 4 * 2**20


@pytest.mark.parametrize(
    ("precision", "resource"),
    [
        ("fp64", "flop/fp64"),
        ("fp32", "flop/fp32"),
        ("bf16", "flop/bf16"),
        ("bf16-autocast", "flop/bf16"),
        ("int8", "flop/int8"),
    ],
)
def test_precisions_are_counted_under_their_names(
    worker: Worker, precision: str, resource: str
) -> None:
    result = worker.measure(small("gemm", "forward", precision=precision), FAST)
    if result.status == "unsupported":
        pytest.skip(result.error or "")
    assert result.amounts[resource] == 2 * 8 * 12 * 16


def test_an_emulated_precision_is_measured_and_says_what_runs_it(worker: Worker) -> None:
    result = worker.measure(small("gemm", "forward", precision="fp16"), FAST)
    if result.status == "unsupported":
        pytest.skip(result.error or "")
    assert result.labels["emulated"] == "fp32"


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (small("gemm", "forward", precision="tf32"), "TF32"),
        (small("conv2d", "forward", precision="int8"), "conv2d has no int8 form"),
        (small("gemm", "backward", precision="int8"), "gradient"),
        (small("lstm", "forward", variant="graph"), "need a CUDA device"),
        (small("conv2d", "forward", variant="cudnn-benchmark"), "need a CUDA device"),
        (small("gemm", "forward", variant="cell-loop"), "has no variant"),
    ],
)
def test_what_cannot_run_is_unsupported_with_a_reason(
    worker: Worker, case: Case, reason: str
) -> None:
    result = worker.measure(case, FAST)
    assert result.status == "unsupported"
    assert reason in (result.error or "")


def test_a_loop_of_cells_does_the_same_products_with_more_launches(worker: Worker) -> None:
    fused, loop = (
        done(worker, small("lstm", "forward", variant=v)) for v in ("eager", "cell-loop")
    )
    assert fused.contraction_flops == loop.contraction_flops
    assert (loop.launches or 0) > 2 * (fused.launches or 0)


def test_without_onednn_the_same_work_has_no_primitives(worker: Worker) -> None:
    import torch

    if not torch.backends.mkldnn.is_available():
        pytest.skip("this torch has no oneDNN")
    with_it, without = (
        done(worker, small("conv2d", "forward", variant=v)) for v in ("eager", "no-onednn")
    )
    assert with_it.labels["implementation"].startswith("convolution ")
    assert "implementation" not in without.labels
    assert with_it.contraction_flops == without.contraction_flops


def test_running_out_of_memory_costs_one_case(worker: Worker) -> None:
    result = worker.measure(one_case("gemm", params={"m": 1 << 24, "k": 1 << 24}), FAST)
    assert result.status == "failed"
    assert "out of memory" in (result.error or "")
    done(worker, small("gemm", "forward"))


def test_a_hang_costs_one_case(worker: Worker) -> None:
    long = one_case("gemm", params={"m": 4096, "n": 4096, "k": 4096}, threads=1)
    result = worker.measure(long, Plan(limit_s=0.3))
    assert result.status == "failed"
    assert "no answer within" in (result.error or "")
    assert worker.pid is None
    done(worker, small("gemm", "forward"))


def test_a_crash_costs_one_case(worker: Worker) -> None:
    done(worker, small("gemm", "forward"))
    pid = worker.pid
    assert pid is not None
    threading.Timer(0.2, os.kill, (pid, signal.SIGSEGV)).start()
    result = worker.measure(
        one_case("gemm", params={"m": 4096, "n": 4096, "k": 4096}, threads=1), Plan()
    )
    assert result.status == "failed"
    assert "crashed with SIGSEGV" in (result.error or "")
    done(worker, small("gemm", "forward"))
    assert worker.pid != pid


DRIVER = """
import sys, time
from timeroof.study.run import Worker
worker = Worker(None)
worker.start()
print(worker.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks at /proc")
def test_a_worker_dies_with_its_driver() -> None:
    driver = subprocess.Popen([sys.executable, "-c", DRIVER], stdout=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    pid = int(driver.stdout.readline())
    assert Path(f"/proc/{pid}").exists()
    driver.kill()
    driver.communicate()
    end = time.monotonic() + 20
    while _runs(pid) and time.monotonic() < end:
        time.sleep(0.05)
    assert not _runs(pid)


def _runs(pid: int) -> bool:
    try:
        return (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
            not in "ZX"
        )
    except OSError:
        return False
