"""Formulas against torch itself: what ops really write, and whole training steps."""

from __future__ import annotations

from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402, N812
import torch.utils._pytree as pytree  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from timeroof.work import Call, Tensor, count  # noqa: E402
from timeroof.work.call import parse_dtype  # noqa: E402


def neutral(value: object) -> object:
    if isinstance(value, torch.Tensor):
        return Tensor(
            tuple(value.shape), parse_dtype(str(value.dtype)) or "", tuple(value.stride())
        )
    if isinstance(value, torch.dtype | torch.device | torch.memory_format | torch.layout):
        return str(value)
    if isinstance(value, list | tuple):
        return tuple(neutral(v) for v in value)
    return value


class Described(TorchDispatchMode):
    """Collects calls without results, and beside them what they returned."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Call, list[Tensor]]] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        named = {k: neutral(v) for k, v in (kwargs or {}).items()}
        call = Call.of(func._schema.name, *(neutral(a) for a in args), **named)
        found = [neutral(t) for t in pytree.tree_leaves(result) if isinstance(t, torch.Tensor)]
        self.calls.append((call, found))
        return result


def r(*shape: int) -> torch.Tensor:
    return torch.randn(shape, requires_grad=True)


INDEX = torch.tensor([[0, 2, 1], [1, 1, 0]])
OPS: dict[str, Callable[[], torch.Tensor]] = {
    "linear": lambda: F.linear(r(3, 4, 5), r(6, 5), r(6)),
    "matmul": lambda: r(2, 1, 3, 4) @ r(5, 4, 2),
    "baddbmm": lambda: torch.baddbmm(r(2, 3, 5), r(2, 3, 4), r(2, 4, 5), beta=0.5),
    "addbmm": lambda: torch.addbmm(r(3, 5), r(2, 3, 4), r(2, 4, 5)),
    "addmv": lambda: torch.addmv(r(3), r(3, 4), r(4)),
    "einsum": lambda: torch.einsum("bij,bjk->bik", r(2, 3, 4), r(2, 4, 5)),
    "conv1d": lambda: F.conv1d(r(2, 4, 9), r(6, 4, 3), r(6), stride=2),
    "conv2d": lambda: F.conv2d(r(2, 4, 9, 8), r(6, 2, 3, 3), r(6), padding=1, groups=2),
    "conv2d_dilated": lambda: F.conv2d(r(2, 4, 9, 8), r(6, 4, 3, 3), dilation=2),
    "conv3d": lambda: F.conv3d(r(1, 2, 5, 6, 7), r(3, 2, 2, 2, 2)),
    "conv_transpose2d": lambda: F.conv_transpose2d(r(2, 4, 5, 5), r(4, 3, 3, 3), r(3), 2, 1, 1),
    "sdpa": lambda: F.scaled_dot_product_attention(r(2, 4, 6, 8), r(2, 4, 7, 8), r(2, 4, 7, 8)),
    "sdpa_causal": lambda: F.scaled_dot_product_attention(*(r(2, 4, 6, 8),) * 3, is_causal=True),
    "batch_norm": lambda: F.batch_norm(r(4, 3, 5), None, None, r(3), r(3), True),
    "layer_norm": lambda: F.layer_norm(r(4, 3, 5), [3, 5], r(3, 5), r(3, 5)),
    "group_norm": lambda: F.group_norm(r(4, 6, 5), 2, r(6), r(6)),
    "softmax": lambda: F.softmax(r(3, 7), -1),
    "log_softmax": lambda: F.log_softmax(r(3, 7), 0),
    "cross_entropy": lambda: F.cross_entropy(r(5, 7), torch.arange(5)),
    "mse": lambda: F.mse_loss(r(5, 7), torch.zeros(5, 7)),
    "bce": lambda: F.binary_cross_entropy(torch.sigmoid(r(5, 7)), torch.zeros(5, 7)),
    "bce_logits": lambda: F.binary_cross_entropy_with_logits(r(5, 7), torch.zeros(5, 7)),
    "smooth_l1": lambda: F.smooth_l1_loss(r(5, 7), torch.zeros(5, 7)),
    "max_pool2d": lambda: F.max_pool2d(r(2, 3, 9, 9), 3, 2, 1),
    "max_pool2d_ceil": lambda: F.max_pool2d(r(2, 3, 10, 10), 3, 2, 0, ceil_mode=True),
    "avg_pool2d": lambda: F.avg_pool2d(r(2, 3, 9, 9), 3, 2),
    "adaptive": lambda: F.adaptive_avg_pool2d(r(2, 3, 9, 9), (3, 2)),
    "relu": lambda: F.relu(r(5, 7)),
    "gelu": lambda: F.gelu(r(5, 7)),
    "silu": lambda: F.silu(r(5, 7)),
    "glu": lambda: F.glu(r(5, 8)),
    "prelu": lambda: F.prelu(r(5, 4), r(4)),
    "elu": lambda: F.elu(r(5, 4)),
    "hardswish": lambda: F.hardswish(r(5, 4)),
    "compare": lambda: torch.where(r(5, 1) > r(1, 4), r(5, 4), 0.0),
    "pow": lambda: r(5, 4) ** 2 + r(4) / 3,
    "mixed": lambda: r(5, 4) * torch.arange(4) + torch.tensor(2.0, dtype=torch.float64),
    "sum": lambda: r(5, 4, 3).sum((0, 2)),
    "sum_all": lambda: r(5, 4, 3).sum(),
    "mean": lambda: r(5, 4, 3).mean(1, keepdim=True),
    "var": lambda: torch.var_mean(r(5, 4, 3), 1)[0],
    "norm": lambda: torch.linalg.vector_norm(r(5, 4), dim=1),
    "amax": lambda: r(5, 4).amax(0),
    "max_dim": lambda: r(5, 4).max(1).values,
    "cumsum": lambda: r(5, 4).cumsum(0),
    "logsumexp": lambda: r(5, 4).logsumexp(1),
    "embedding": lambda: F.embedding(INDEX, r(9, 4)),
    "gather": lambda: r(4, 3).gather(0, INDEX),
    "index": lambda: r(4, 6, 5)[:, INDEX],
    "index_two": lambda: r(4, 6, 5)[INDEX, :, INDEX],
    "index_select": lambda: r(4, 6).index_select(1, INDEX[0]),
    "scatter": lambda: r(4, 3).scatter_add(0, INDEX, r(2, 3)),
    "cat": lambda: torch.cat([r(2, 3), r(4, 3)]),
    "stack": lambda: torch.stack([r(2, 3), r(2, 3)], 1),
    "pad": lambda: F.pad(r(2, 3, 4), (1, 2, 0, 1)),
    "reflect": lambda: F.pad(r(2, 3, 4), (1, 2), mode="reflect"),
    "repeat": lambda: r(2, 3).repeat(2, 2),
    "flip": lambda: r(2, 3).flip(0),
    "tril": lambda: r(3, 3).tril(),
    "slice": lambda: r(6, 4)[1:5:2].clone() * 2,
    "cast": lambda: r(6, 4).to(torch.bfloat16).float(),
    "sort": lambda: r(6, 4).sort(0).values,
    "topk": lambda: r(6, 4).topk(2, dim=0).values,
    "rfft": lambda: torch.fft.rfft(r(6, 8)).abs(),
    "irfft": lambda: torch.fft.irfft(torch.fft.rfft(r(6, 8))),
    "nearest": lambda: F.interpolate(r(2, 3, 4, 4), scale_factor=2),
    "bilinear": lambda: F.interpolate(r(2, 3, 4, 4), size=(7, 9), mode="bilinear"),
    "bicubic": lambda: F.interpolate(r(2, 3, 4, 4), size=(7, 9), mode="bicubic"),
    "grid": lambda: F.grid_sample(r(2, 3, 4, 4), r(2, 5, 6, 2), align_corners=False),
    "unfold": lambda: F.unfold(r(2, 3, 6, 6), 3, padding=1),
    "dropout": lambda: F.dropout(r(5, 7), 0.3),
    "bag": lambda: F.embedding_bag(INDEX, r(9, 4), mode="sum"),
    "lstm_cell": lambda: nn.LSTMCell(4, 6)(r(3, 4))[0],
    "gru": lambda: nn.GRU(4, 6)(r(5, 3, 4))[0],
    "rnn": lambda: nn.RNN(4, 6)(r(5, 3, 4))[0],
}  # fmt: skip
# Ops that write less, or more, than what they return: places hit in place, buffers for the
# backward pass, results whose size depends on the data.
UNEQUAL = {
    "aten::native_batch_norm", "aten::_native_batch_norm_legit", "aten::scatter_add_",
    "aten::index_add_", "aten::index_put_", "aten::_index_put_impl_", "aten::scatter_",
    "aten::_embedding_bag", "aten::index_put", "aten::log_sigmoid_forward",
    "aten::mkldnn_rnn_layer", "aten::mkldnn_rnn_layer_backward",
}  # fmt: skip


@pytest.mark.parametrize("name", OPS)
def test_known_forward_and_backward_and_writes_what_torch_returns(name: str) -> None:
    with Described() as mode:
        OPS[name]().sum().backward()
    assert len(mode.calls) > 1
    for call, outputs in mode.calls:
        cost = count(call)
        assert cost.known, cost.unknown
        if not cost.free and call.op not in UNEQUAL:
            assert cost.bytes_written == sum(t.size_bytes for t in outputs), call


def test_a_training_step_has_the_contractions_torch_counts() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 16, 3), nn.ReLU(),
        nn.Flatten(), nn.Linear(16 * 36, 32), nn.GELU(), nn.Linear(32, 10),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    x, y = torch.randn(4, 3, 16, 16), torch.randint(10, (4,))
    with Described() as mode:
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    model.zero_grad()
    with FlopCounterMode(display=False) as counter:
        F.cross_entropy(model(x), y).backward()
    costs = [count(call) for call, _ in mode.calls]
    assert [c.unknown for c in costs if not c.known] == []
    assert sum(c.contraction_flops for c in costs) == counter.get_total_flops()


def test_an_lstm_and_attention_on_a_cpu_are_counted() -> None:
    lstm, q = nn.LSTM(8, 16, num_layers=2, bidirectional=True), torch.randn(2, 4, 6, 8)
    with Described() as mode:
        lstm(torch.randn(5, 3, 8))[0].sum().backward()
        F.scaled_dot_product_attention(q, q, q)
    flops: dict[str, float] = {}
    for call, _ in mode.calls:
        flops[call.op] = flops.get(call.op, 0) + (count(call).contraction_flops or 0)
    forward = 2 * (2 * 15 * 64 * (8 + 16)) + 2 * (2 * 15 * 64 * (32 + 16))
    assert flops["aten::mkldnn_rnn_layer"] == forward
    assert flops["aten::mkldnn_rnn_layer_backward"] == 2 * forward
    name = "aten::_scaled_dot_product_flash_attention_for_cpu"
    assert flops[name] == 4 * 2 * 4 * 6 * 6 * 8
