"""Scaled dot-product attention as torch runs it (flash attention where the device has it)."""

from __future__ import annotations

from timeroof.study.case import FORWARD, Kernel, Parameter, Params, Setting, Workload


def _prepare(given: Setting) -> Workload:
    import torch

    shape = given.sizes("batch", "heads", "sequence", "head_dim")
    causal = given.params["causal"] == "yes"

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    return Workload(lambda: tuple(given.random(*shape) for _ in range(3)), attend)


def _contraction(params: Params, pass_name: str) -> float | None:
    """Two products forward. Backward depends on the algorithm: flash recomputes one product."""
    if pass_name != FORWARD:
        return None if pass_name.startswith("backward") else 0.0
    names = ("batch", "heads", "sequence", "head_dim")
    batch, heads, length, width = (int(params[name]) for name in names)
    pairs = length * (length + 1) / 2 if params["causal"] == "yes" else length * length
    return 4.0 * batch * heads * pairs * width


KERNEL = Kernel(
    name="attention",
    parameters=(
        Parameter("batch", 4, (1, 4, 16), (1, 4)),
        Parameter("heads", 8, (4, 8, 16), ()),
        Parameter("sequence", 256, (64, 256, 1024), (64, 256)),
        Parameter("head_dim", 64, (32, 64, 128), ()),
        Parameter("causal", "no", choices=("no", "yes")),
    ),
    prepare=_prepare,
    contraction=_contraction,
)
