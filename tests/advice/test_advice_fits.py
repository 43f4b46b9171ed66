"""Advice fits the program: what it is, whether it trains, whether it is compiled already."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import timeroof
from tests.advice.cases import only, report_of
from tests.recorded_data import DATA, needs_recorded_data
from timeroof.api.reports import load
from timeroof.core.report import Report

# By a recorded program: what must not be named in its first three findings.
CONVOLUTIONS = ("channels_last", "cudnn.benchmark")
TRAINING = ("loss", "gradient", "DDP", "optimizer", "GradScaler")
UNFIT = {
    "kineto/h100_qwen1.5_0.5b_chat.json.gz": (*CONVOLUTIONS, *TRAINING, "nn.LSTM", "F.gelu"),
    "kineto/v100_dlrm_8rank": (*CONVOLUTIONS, "DDP", "nn.LSTM"),
    "kineto/v100_recsys_train_rank1of2.json.gz": (*CONVOLUTIONS, "DDP", ".contiguous() before"),
    "kineto/mi300x_resnet_train_8gpu_rank0.json.gz": ("nn.LSTM", "attention"),
    "kineto/h100_bert_small_infer.json.gz": (*CONVOLUTIONS, *TRAINING),
    "kineto/h100_vit_nsfw_infer.json.gz": (*CONVOLUTIONS, *TRAINING, "Pad "),
    "kineto/mi300x_torch_compile_triton.json.gz": (*CONVOLUTIONS, "torch.compile", "Pad "),
}


def advice(report: Report) -> str:
    return " ".join(finding.action or "" for finding in report.findings[:3])


@needs_recorded_data
@pytest.mark.parametrize("name", UNFIT)
def test_the_first_three_findings_of_a_recorded_program_fit_it(name: str) -> None:
    path = DATA / name
    if not Path(path).exists():
        pytest.skip("not among the recorded files here")
    given = advice(load(path))
    assert not [words for words in UNFIT[name] if words in given], given


@needs_recorded_data
@pytest.mark.parametrize("name", UNFIT)
def test_reasons_name_places_whole(name: str) -> None:
    if not (DATA / name).exists():
        pytest.skip("not among the recorded files here")
    for finding in load(DATA / name).findings:
        assert not re.search(r"…\S*$|\.\.\.$", finding.why), finding.why


def slow(**more: Any) -> dict[str, Any]:
    """A memory-bound kernel at a third of the bandwidth."""
    return {"name": "k", "op": "aten::sum", "time_s": 9.0, "byte/dram": 30.0, "flop/fp32": 1.0,
            "launches": 1.0, "phase": "forward", **more}  # fmt: skip


def test_a_compiled_program_is_not_told_to_compile() -> None:
    eager = only("TR207", report_of([slow()]))
    compiled = only("TR207", report_of([slow(name="triton_red_fused_sum_0")]))
    assert "torch.compile" in (eager.action or "")
    assert "torch.compile" not in (compiled.action or "")


@pytest.mark.parametrize("code", ["TR101", "TR104"])
def test_what_xla_has_fused_is_not_told_to_be_put_under_jit(code: str) -> None:
    def action(name: str) -> str:
        row = {"name": name, "op": "jax::mul", "flop/fp32": 1.0, "byte/dram": 2.0, "time_s": 8.0,
               "launches": 100.0, "calls": 100.0}  # fmt: skip
        whole = {"wall_s": 20.0, "idle_by_cause": {"dispatch": 10.0}}
        return only(code, report_of([row], tool="jax", **whole)).action or ""

    assert "jax.jit" in action("jit_mul.multiply.3")
    assert "compiled already" in action("loop_multiply_fusion.12")


def test_chains_name_their_module_and_the_ops_that_fit_it() -> None:
    def rows(module: str) -> list[dict[str, Any]]:
        shape = "[[8, 64]]"
        return [
            {"name": op, "op": f"aten::{op}", "time_s": 9.0, "byte/dram": 80.0, "flop/fp32": 1.0,
             "launches": 1.0, "phase": "forward", "module": module, "shape": shape}
            for op in ("mul", "pow", "add")
        ]  # fmt: skip

    norm = only("TR203", report_of(rows("Model_0/Layer_1/RMSNorm_3"))).action or ""
    assert norm.startswith("Compile RMSNorm with torch.compile")
    assert norm.endswith("F.rms_norm.")
    assert "F." not in (only("TR203", report_of(rows("Model_0/Rope_1"))).action or "")


def test_an_optimizer_of_one_pass_is_claimed_once() -> None:
    report = load(Path(__file__).resolve().parents[1] / "golden/live/embedding_loader.troof")
    codes = [finding.code for finding in report.findings]
    assert "TR209" in codes
    chain = [f for f in report.findings if f.code == "TR203"]
    assert not any("fused=True" in (f.action or "") or "sqrt" in f.why for f in chain)


def test_copies_between_host_and_device_are_to_be_overlapped() -> None:
    """Their times differ with their sizes: that is no noise which would silence the rule."""
    copy = {"name": "Memcpy HtoD (Pinned -> Device)", "kind": "copy", "op": None, "time_s": 9.0,
            "byte/dram": 30.0, "launches": 9.0, "time_spread": 2.5}  # fmt: skip
    found = only("TR201", report_of([copy, slow(time_s=1.0)]))
    assert found.title.startswith("Copies between host and device take 9.00 s")
    assert "non_blocking" in (found.action or "") or "asynchronous" in (found.action or "")
    between = only("TR201", report_of([copy | {"name": "Memcpy DtoD"}, slow(time_s=1.0)]))
    assert "host" not in between.title + (between.action or "")


def test_no_tf32_for_a_chip_that_has_none() -> None:
    product = {"name": "sgemm", "op": "aten::mm", "kind": "kernel", "flop/fp32": 9e12,
               "byte/dram": 1e9, "time_s": 1.0, "launches": 1.0}  # fmt: skip
    narrow = product | {"name": "h884gemm_fp16", "time_s": 0.5, "flop/fp32": 0.0,
                        "flop/fp16-tensor": 3e13}  # fmt: skip
    actions = {
        name: only("TR301", report_of([product, narrow], timeroof.machine(name))).action or ""
        for name in ("v100-sxm2", "a100-sxm4-80gb")
    }
    assert "TF32" in actions["a100-sxm4-80gb"]
    assert "TF32" not in actions["v100-sxm2"]
    assert "torch.autocast around the whole forward pass." in actions["v100-sxm2"]


def test_the_exchange_of_experts_is_no_exchange_of_embeddings() -> None:
    def action(name: str) -> str:
        sends = slow(name=name, kind="collective", op=None, exclusive_s=9.0, time_s=9.0)
        return only("TR107", report_of([sends, slow(time_s=1.0)])).action or ""

    assert "experts" in action("void deep_ep::internode::combine<8>(int4*)")
    assert "expert" not in action("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)")


def test_products_that_memory_limits_are_not_told_to_be_contiguous() -> None:
    product = slow(
        name="fused_moe_kernel", op="aten::mm", shape="[[512, 64], [64, 64]]", dtype="bf16"
    )
    assert "more tokens" in (only("TR207", report_of([product])).action or "")
