"""Number formats of a case: what torch is told, and what a device cannot do."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

AUTOCAST = "-autocast"
_DTYPES = {
    "fp64": "float64", "fp32": "float32", "tf32": "float32", "bf16": "bfloat16",
    "fp16": "float16", "int8": "int8",
}  # fmt: skip


def base_precision(precision: str) -> str:
    """The format that contractions run in.

    >>> base_precision("bf16-autocast"), base_precision("fp32")
    ('bf16', 'fp32')
    """
    return precision.removesuffix(AUTOCAST)


def tensor_dtype(precision: str) -> Any:
    """The format of inputs and weights: fp32 where autocast converts them."""
    import torch

    name = "float32" if precision.endswith(AUTOCAST) else _DTYPES[precision]
    return getattr(torch, name)


def why_unsupported(precision: str, device: str) -> str | None:
    """Why a device does not have a precision at all; None where it does or may."""
    if precision == "tf32" and not device.startswith("cuda"):
        return "TF32 is a format of NVIDIA's matrix units; this device has none"
    return None


def computing(precision: str, device: str) -> AbstractContextManager[Any]:
    """The context that a case runs in."""
    import torch

    kind = device.split(":", 1)[0]
    if precision.endswith(AUTOCAST):
        return torch.autocast(kind, dtype=getattr(torch, _DTYPES[base_precision(precision)]))
    if kind != "cuda":
        return nullcontext()
    return _tf32(precision == "tf32")


def _tf32(allowed: bool) -> AbstractContextManager[Any]:
    """fp32 is fp32 and TF32 is TF32: torch's defaults differ between products and cuDNN."""
    import torch

    stack = ExitStack()
    backends: Any = torch.backends
    for home in (backends.cuda.matmul, backends.cudnn):
        stack.callback(setattr, home, "allow_tf32", home.allow_tf32)
        home.allow_tf32 = allowed
    return stack


def emulated_by(precision: str, emulated: dict[str, str]) -> str | None:
    """The unit that really runs a precision, where the machine says that it is emulated."""
    unit = emulated.get(f"flop/{base_precision(precision)}")
    return None if unit is None else unit.removeprefix("flop/")
