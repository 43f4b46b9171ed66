"""Contraction FLOPs against torch.utils.flop_counter, over its whole registry.

Listed exceptions, where torch's count is not the op's work:
causal attention (torch counts masked pairs too), the weight gradient of a grouped
convolution (torch counts it `groups` times), and _flash_attention_forward/_backward with
a batch dimension, whose (batch, length, heads, depth) torch reads as (batch, heads,
length, depth): compared here where length equals heads.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")

from torch.utils import flop_counter  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from timeroof.work import Call, Tensor, count  # noqa: E402
from timeroof.work.call import parse_dtype  # noqa: E402


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, device="meta", dtype=dtype)


def ours(op: str, args: list[object]) -> float | None:
    def neutral(value: object) -> object:
        if isinstance(value, torch.Tensor):
            return Tensor(tuple(value.shape), parse_dtype(str(value.dtype)) or "")
        if isinstance(value, list | tuple):
            return [neutral(v) for v in value]
        return str(value) if isinstance(value, torch.dtype) else value

    return count(Call.of(op, *(neutral(a) for a in args))).contraction_flops


Case = tuple[list[object], object]  # arguments, and the result where torch's formula needs it


def convolutions(order: str) -> list[Case]:
    cases = []
    for groups, stride, pad, dilation in ((1, 2, 1, 1), (2, 1, 0, 2), (4, 3, 2, 1)):
        x, w = meta(2, 8, 17, 19), meta(12, 8 // groups, 3, 5)
        out = torch.nn.functional.conv2d(x, w, None, stride, pad, dilation, groups)
        s, p, d = [stride] * 2, [pad] * 2, [dilation] * 2
        if order == "generic":
            cases.append(([x, w, None, s, p, d, False, [0, 0], groups], out))
        elif order == "cudnn":
            cases.append(([x, w, p, s, d, groups, False, False, False], out))
        elif groups == 1:
            cases.append(([x, w, [3, 5], None, s, p, False], out))
    if order == "generic":
        x, w = meta(2, 8, 9, 9), meta(8, 3, 4, 4)
        out = torch.nn.functional.conv_transpose2d(x, w, None, 2, 1, 1, 2)
        cases.append(([x, w, None, [2, 2], [1, 1], [1, 1], True, [1, 1], 2], out))
        x, w = meta(2, 6, 9), meta(4, 6, 3)
        out = torch.nn.functional.conv1d(x, w)
        cases.append(([x, w, None, [1], [0], [1], False, [0], 1], out))
        x, w = meta(2, 6, 5, 6, 7), meta(4, 6, 3, 3, 3)
        out = torch.nn.functional.conv3d(x, w)
        cases.append(([x, w, None, [1] * 3, [0] * 3, [1] * 3, False, [0] * 3, 1], out))
    return cases


def convolution_gradients() -> list[Case]:
    cases = []
    for mask in ([True, True, True], [True, False, False], [False, True, False]):
        x, w = meta(2, 8, 17, 19), meta(12, 8, 3, 5)
        grad = torch.nn.functional.conv2d(x, w, None, 2, 1)
        tail = [[12], [2, 2], [1, 1], [1, 1], False, [0, 0], 1, mask]
        cases.append(([grad, x, w, *tail], [x, w, meta(12)]))
        turned = meta(8, 3, 4, 4)
        grad = torch.nn.functional.conv_transpose2d(x, turned, None, 2, 1)
        tail = [[3], [2, 2], [1, 1], [1, 1], True, [0, 0], 1, mask]
        cases.append(([grad, x, turned, *tail], [x, turned, meta(3)]))
    x, w = meta(2, 8, 17, 19), meta(12, 2, 3, 5)  # grouped: only the input's gradient
    grad = torch.nn.functional.conv2d(x, w, None, 1, 0, 1, 4)
    tail = [[12], [1, 1], [0, 0], [1, 1], False, [0, 0], 4, [True, False, False]]
    cases.append(([grad, x, w, *tail], [x, w, meta(12)]))
    return cases


SHAPES = [
    ((2, 4, 16, 8), (2, 4, 24, 8), (2, 4, 24, 8)),
    ((2, 8, 16, 8), (2, 2, 24, 8), (2, 2, 24, 16)),
]
LSE = meta(2, 4, 16)


def attentions(*tail: object) -> list[Case]:
    return [([meta(*q), meta(*k), meta(*v), *tail], None) for q, k, v in SHAPES]


def attention_gradients(*tail: object) -> list[Case]:
    found: list[Case] = []
    for q, k, v in SHAPES:
        out = meta(*q[:3], v[3])
        found.append(
            ([out, meta(*q), meta(*k), meta(*v), *(out if t == "out" else t for t in tail)], None)
        )
    return found


DENSE = meta(2, 6, 6, 8)
PACKED = meta(32, 4, 8)
STARTS = torch.arange(0, 33, 8, dtype=torch.int32)

CASES: dict[str, Callable[[], list[Case]]] = {
    "aten.mm": lambda: [([meta(3, 5), meta(5, 7)], None)],
    "aten.addmm": lambda: [([meta(7), meta(3, 5), meta(5, 7)], None)],
    "aten.bmm": lambda: [([meta(2, 3, 5), meta(2, 5, 7)], None)],
    "aten.baddbmm": lambda: [([meta(2, 3, 7), meta(2, 3, 5), meta(2, 5, 7)], None)],
    "aten._scaled_mm": lambda: [
        ([meta(16, 32, dtype=torch.float8_e4m3fn), meta(32, 16, dtype=torch.float8_e4m3fn),
          meta(), meta()], None)
    ],
    "aten.convolution": lambda: convolutions("generic"),
    "aten._convolution": lambda: convolutions("generic"),
    "aten.convolution_overrideable": lambda: convolutions("generic"),
    "aten.cudnn_convolution": lambda: convolutions("cudnn"),
    "aten._slow_conv2d_forward": lambda: convolutions("slow"),
    "aten.convolution_backward": convolution_gradients,
    "aten._scaled_dot_product_efficient_attention": lambda: attentions(None, True, 0.0, False),
    "aten._scaled_dot_product_flash_attention": lambda: attentions(0.0, False),
    "aten._scaled_dot_product_cudnn_attention": lambda: attentions(None, True, 0.0, False),
    "aten._scaled_dot_product_efficient_attention_backward": lambda: attention_gradients(
        None, "out", LSE, None, None, 0.0, [True] * 4, False),
    "aten._scaled_dot_product_flash_attention_backward": lambda: attention_gradients(
        "out", LSE, None, None, 16, 24, 0.0, False),
    "aten._scaled_dot_product_cudnn_attention_backward": lambda: attention_gradients(
        "out", LSE, None, None, None, None, None, 16, 24, 0.0, False),
    "aten._flash_attention_forward": lambda: [
        ([DENSE, DENSE, DENSE, None, None, 6, 6, 0.0, False, False], None),
        ([PACKED, PACKED, PACKED, STARTS, STARTS, 8, 8, 0.0, False, False], None)],
    "aten._efficient_attention_forward": lambda: [
        ([DENSE, DENSE, DENSE, None, None, None, 6, 6, 0.0, 0, True], None)],
    "aten._flash_attention_backward": lambda: [
        ([DENSE, DENSE, DENSE, DENSE, DENSE, LSE, None, None, 6, 6, 0.0, False], None),
        ([PACKED, PACKED, PACKED, PACKED, PACKED, LSE, STARTS, STARTS, 8, 8, 0.0, False], None)],
    "aten._efficient_attention_backward": lambda: [
        ([DENSE, DENSE, DENSE, DENSE, None, DENSE, None, None, 6, 6, LSE, 0.0, None, None, 0], None)],
    "flex_attention": attentions,
    "flex_attention_backward": lambda: [
        ([meta(*q), meta(*k), meta(*v), meta(*q[:3], v[3]), LSE, meta(*q[:3], v[3])], None)
        for q, k, v in SHAPES],
}  # fmt: skip


@pytest.mark.parametrize("target", list(flop_counter.flop_registry), ids=str)
def test_equals_torch_over_its_whole_registry(target: object) -> None:
    name = str(target)
    assert name in CASES, f"torch counts {name}: add a case, and a formula if there is none"
    for args, result in CASES[name]():
        theirs = _theirs(target, args, result)
        assert theirs > 0
        assert ours(name.replace("aten.", "aten::"), args) == theirs, args


def _theirs(target: object, args: list[object], result: object) -> int:
    formula = flop_counter.flop_registry[target]
    if result is None:
        return int(formula(*args))
    return int(formula(*args, out_val=result))


def test_causal_attention_counts_what_is_kept() -> None:
    q = meta(2, 4, 16, 8)
    full = ours("aten::_scaled_dot_product_flash_attention", [q, q, q, 0.0, False])
    kept = ours("aten::_scaled_dot_product_flash_attention", [q, q, q, 0.0, True])
    assert kept == full * (16 + 1) / (2 * 16)


def test_grouped_weight_gradient_is_a_group_of_torchs() -> None:
    x, w = meta(2, 8, 17, 19), meta(12, 2, 3, 5)
    grad = torch.nn.functional.conv2d(x, w, None, 1, 0, 1, 4)
    args = [grad, x, w, [12], [1, 1], [0, 0], [1, 1], False, [0, 0], 4, [False, True, False]]
    theirs = _theirs(torch.ops.aten.convolution_backward, args, [x, w, meta(12)])
    assert ours("aten::convolution_backward", args) == theirs / 4


def test_what_torch_counts_as_zero_on_a_cpu_is_counted() -> None:
    lstm, x = torch.nn.LSTM(8, 16), torch.randn(5, 3, 8)
    q = torch.randn(2, 4, 16, 8)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        lstm(x)
        torch.nn.functional.scaled_dot_product_attention(q, q, q)
    assert counter.get_total_flops() == 0
    weights = [meta(64, 8), meta(64, 16), meta(64), meta(64), meta(3, 16), meta(3, 16)]
    tail = [False, [], 2, 16, 1, True, False, False, False]
    assert ours("aten::mkldnn_rnn_layer", [x, *weights, *tail]) == 2 * 15 * 64 * (8 + 16)
    name = "aten::_scaled_dot_product_flash_attention_for_cpu"
    assert ours(name, [q, q, q, 0.0, False]) == 4 * 2 * 4 * 16 * 16 * 8
