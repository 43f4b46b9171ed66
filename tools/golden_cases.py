"""The commands whose results are goldens: recorded profiler files, our own live runs, the paper."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

OURS = Path(__file__).resolve().parents[1] / "tests" / "golden"

# Text in words that stands for a file to write; the golden keeps what was written there.
PAGE = ("--json", "{json}", "--html", "{html}")
REPORT_SUFFIXES = ("csv", "md")

# What the README says of files that do not name their device: the machine that they ran on.
MACHINES = {
    "ncu/a100_attention_long/bert_torch_nsight.csv.gz": "a100-sxm4-40gb",
    "ncu/a100_attention_long/bert_flashattn_nsight.csv.gz": "a100-sxm4-40gb",
    "ncu/a100_resnet18_raw_wide.csv.gz": "a100-sxm4-40gb",
    "ncu/a100_torch_square_console_details.txt": "a100-sxm4-80gb",
    "ncu/b200_attention_decode_raw_wide": "b200",
    "ncu/h800_cute_softmax_ui_transposed.csv": "h800",
    "ncu/rtx5070_gemm_print_units_base/gemm_naive.csv": "rtx-5070",
    "ncu/v100_climateseg_tf_fp32-batch1-amp/fw": "v100-sxm2",
    "ncu/v100_climateseg_tf_fp32-batch1-amp/fwbw": "v100-sxm2",
    "ncu/v100_deepcam_pytorch_fp32-O0-Adam": "v100-sxm2",
    "ncu/v100_deepcam_pytorch_fp32-O2-Adam": "v100-sxm2",
    "ncu/v100_picongpu_long_bom.csv": "v100-sxm2",
    "nsys/h100_2gpu_fsdp_1s.sqlite.gz": "h100-sxm",
    "nsys/rtx3090_tensorrt_conv.sqlite.gz": "rtx-3090",
    "nsys/rtx5090_deepseek_ocr_all-stage_cuda_gpu_kern_sum.csv": "rtx-5090",
    "nvprof/p100_deepspeech_bs64-fp32_summary_console.txt": "p100-pcie",
    "nvprof/v100_darknet19_all_metrics_console.txt.gz": "v100-sxm2",
    "kineto/mi300x_vllm_decode_hipgraph.json.gz": "mi300x",
    "kineto/h100_bert_small_infer.json.gz": "a100-sxm4-80gb",
    "rocprof/rocprof_compute_mi300x_bmm1": "mi300x",
    "rocprof/rocprof_mi100_picongpu_reformatted_inst.csv": "mi100",
    "rocprof/rocprofv3_mi350x_flash_attn_func": "mi350x",
    "xla/mi300x_jax_conv3d_8gpu.xplane.pb": "mi300x",
}
ROOFS = {
    "kineto/h100_bert_small_infer.json.gz": "flop/fp32",
    "kineto/mi300x_vit_nsfw_infer.json.gz": "flop/fp32",
    "rocprof/rocprof_compute_mi300x_bmm1": "flop/bf16-tensor",
}
# Files that belong together but do not lie in a folder of their own.
TOGETHER = {
    "linear": (
        "execution_trace/linear_kineto_rtx2080ti.json.gz",
        "execution_trace/linear_et_schema1.0.1.json.gz",
    ),
    "simple_add": (
        "execution_trace/a100_simple_add_kineto.json.gz",
        "execution_trace/a100_simple_add_et.json.gz",
    ),
    "dlrm_8rank": ("kineto/v100_dlrm_8rank", "execution_trace/v100_dlrm_8rank"),
    "dlrm_rank0": (
        "kineto/v100_dlrm_8rank/worker0_step_12.1694128201545.pt.trace.json.gz",
        "execution_trace/v100_dlrm_8rank/dlrm_eg_0.json.gz",
    ),
    "vllm_capture": (
        "kineto/mi300x_vllm_decode_capture/graph_execution.json.gz",
        "kineto/mi300x_vllm_decode_capture/capture_traces",
    ),
}
# Runs that every command is tried on: with and without shapes, links, counters and idle time.
RUNS = (
    "kineto/h100_bert_small_infer.json.gz",
    "kineto/h100_qwen1.5_0.5b_chat.json.gz",
    "kineto/mi300x_vit_nsfw_infer.json.gz",
    "kineto/mi300x_resnet_train_8gpu_rank0.json.gz",
    "kineto/a100_alexnet_no_shapes.json.gz",
    "kineto/v100_dlrm_8rank",
    "kineto/b200_eager_8gpu_rank0.json.gz",
    "nsys/rtx3090_tensorrt_conv.sqlite.gz",
    "rocprof/rocprof_compute_mi300x_bmm1",
    "ncu/v100_climateseg_tf_fp32-batch1-noamp/fw",
    "xla/mi300x_jax_conv3d_8gpu.xplane.pb",
)
PAIRS = (
    ("kineto/h100_bert_small_infer.json.gz", "kineto/mi300x_bert_small_infer.json.gz"),
    ("kineto/h100_vit_nsfw_infer.json.gz", "kineto/mi300x_vit_nsfw_infer.json.gz"),
    (
        "ncu/v100_deepcam_pytorch_fp32-O0-Adam/fw",
        "ncu/v100_deepcam_pytorch_fp32-O2-Adam/fw",
    ),
    ("nsys/rtx3090_tensorrt_conv.sqlite.gz", "kineto/h100_bert_small_infer.json.gz"),
)
LIMITS = {
    "efficiency": ("--min-efficiency", "40%"),
    "launches": ("--max-launches", "10"),
    "rule": ("--rule", "time<1s"),
    "rule of a phase": ("--rule", "phase=forward:time<1us"),
}
FROM = {"ncu/v100_climateseg_tf_fp32-batch1-noamp/fw": ("--from", "v100-sxm2")}
# The study whose store is kept; `record_live.py` fills it in the folder of the store.
STUDY = (
    "elementwise", "adam", "--quick", "--set", "elements=4096,65536", "--threads", "1",
    "--machine", "study/machine.toml",
)  # fmt: skip
PREDICTIONS = {
    "machines": ("--machine", "h100-sxm", "mi300x", "l4"),
    "bf16": ("--machine", "h100-sxm", "--precision", "bf16"),
}


@dataclass(frozen=True)
class Case:
    """One run of the command line: `words` in `folder`, kept under `name`."""

    name: str
    words: tuple[str, ...]
    folder: Literal["data", "ours"] = "data"


def all_cases(data: Path | None) -> list[Case]:
    """Every case; without recorded data only those of our own files, and the paper."""
    cases = [*_own_cases()]
    if data is not None:
        cases += [*_swept(data), *_chosen(data)]
    return sorted(cases, key=lambda case: case.name)


def _swept(data: Path) -> Iterator[Case]:
    """`read` of every file and folder: what it refuses is kept as well."""
    for path in sorted(data.rglob("*")):
        if not _is_one_metric_of_many(path):
            word = path.relative_to(data).as_posix()
            yield Case(f"read/{word}", ("read", word, *PAGE))


def _is_one_metric_of_many(path: Path) -> bool:
    """Such files are read as a folder; two of each alone are enough."""
    return path.name.startswith("out.") and path not in sorted(path.parent.glob("out.*"))[:2]


def _chosen(data: Path) -> Iterator[Case]:
    for name, files in TOGETHER.items():
        yield Case(f"read/together/{name}", ("read", *files, *PAGE))
    for word, machine in MACHINES.items():
        yield Case(f"read/on {machine}/{word}", ("read", word, "--machine", machine, *PAGE))
    for word, roof in ROOFS.items():
        yield Case(f"read/roof {roof}/{word}", ("read", word, "--roof", roof, *PAGE))
    for word in RUNS:
        yield from _commands(word, "data")
    for a, b in PAIRS:
        yield _compared(a, b, "data")
        yield _against_baseline(a, b, "data")


def _own_cases() -> Iterator[Case]:
    yield Case("paper/all", ("paper", *PAGE), "ours")
    yield Case("refused/no such file", ("read", "none.json", *PAGE), "ours")
    yield Case("refused/nothing to check", ("check", "live/lstm_loop.troof"), "ours")
    yield Case("refused/no such machine", ("read", "none.json", "--machine", "h1000"), "ours")
    small = sorted((OURS / "read").iterdir()) if (OURS / "read").is_dir() else []
    for path in small:
        word = path.relative_to(OURS).as_posix()
        yield Case(f"read/ours/{word}", ("read", word, *PAGE), "ours")
    runs = [path.relative_to(OURS).as_posix() for path in sorted(OURS.glob("*/*.troof"))]
    for word in runs:
        yield Case(f"read/ours/{word}", ("read", word, *PAGE), "ours")
        yield from _commands(word, "ours")
    for a, b in pairwise(runs):
        yield _compared(a, b, "ours")
        yield _against_baseline(a, b, "ours")
    if runs:
        yield Case("report/ours/together html", ("report", *runs, "-o", "{html}"), "ours")
    # A store is bound to the hardware that filled it; on other hardware the cases are measured.
    yield Case("study/resumed", ("study", *STUDY, "--resume", "--db", "{store}", *PAGE), "ours")


def _commands(word: str, folder: Literal["data", "ours"]) -> Iterator[Case]:
    """What can be asked of one run, beside reading it."""
    yield Case(f"explain/{word}", ("explain", word, "--json", "{json}"), folder)
    for suffix in REPORT_SUFFIXES:
        yield Case(f"report/{word} {suffix}", ("report", word, "-o", f"{{{suffix}}}"), folder)
    for name, options in PREDICTIONS.items():
        words = ("whatif", word, *options, *FROM.get(word, ()), *PAGE)
        yield Case(f"whatif/{word} {name}", words, folder)
    for name, options in LIMITS.items():
        words = ("check", word, *options, "--json", "{json}", "--markdown", "{md}")
        yield Case(f"check/{word} {name}", words, folder)


def _compared(a: str, b: str, folder: Literal["data", "ours"]) -> Case:
    words = ("compare", a, b, *PAGE, "--markdown", "{md}")
    return Case(f"compare/{_flat(a)} to {_flat(b)}", words, folder)


def _against_baseline(a: str, b: str, folder: Literal["data", "ours"]) -> Case:
    words = ("check", b, "--baseline", a, "--json", "{json}")
    return Case(f"check/baseline/{_flat(a)} to {_flat(b)}", words, folder)


def _flat(word: str) -> str:
    return word.replace("/", "~")
