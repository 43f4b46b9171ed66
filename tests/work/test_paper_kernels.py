"""The paper's 10 convolutions and 12 LSTMs against hand calculation, forward and each gradient."""

from __future__ import annotations

import pytest

from timeroof.work import Call, Tensor, count
from timeroof.work.families.recurrent import Recurrent, backward_cost, gradient_flops

BASE = {"batch": 16, "filters": 64, "kernel": 3, "stride": 2}
CONVOLUTIONS = [BASE] + [
    {**BASE, key: value}
    for key, values in (
        ("batch", (32, 64)), ("filters", (128, 256, 512)), ("kernel", (7, 9)), ("stride", (1, 3)),
    )
    for value in values
]  # fmt: skip


def conv_call(c: dict[str, int], op: str, mask: list[bool] | None = None) -> Call:
    side = (112 - c["kernel"]) // c["stride"] + 1
    x = Tensor((c["batch"], 64, 112, 112))
    w = Tensor((c["filters"], 64, c["kernel"], c["kernel"]))
    steps = ([c["stride"]] * 2, [0, 0], [1, 1])
    if op == "forward":
        bias = Tensor((c["filters"],))
        return Call.of("aten::convolution", x, w, bias, *steps, False, [0, 0], 1)
    grad = Tensor((c["batch"], c["filters"], side, side))
    return Call.of(
        "aten::convolution_backward", grad, x, w, [c["filters"]], *steps, False, [0, 0], 1, mask
    )


@pytest.mark.parametrize("c", CONVOLUTIONS, ids=str)
def test_convolution_and_its_gradients(c: dict[str, int]) -> None:
    side = (112 - c["kernel"]) // c["stride"] + 1
    by_hand = 2 * c["batch"] * c["filters"] * 64 * c["kernel"] ** 2 * side**2
    results = c["batch"] * c["filters"] * side**2
    forward = count(conv_call(c, "forward"))
    assert forward.contraction == {"fp32": by_hand}
    assert forward.other == {"fp32": results}
    touched = (side - 1) * c["stride"] + c["kernel"]
    assert forward.bytes_read == 4 * (
        c["batch"] * 64 * touched**2 + c["filters"] * 64 * c["kernel"] ** 2 + c["filters"]
    )
    assert forward.bytes_written == 4 * results
    for mask in ([True, False, False], [False, True, False]):
        assert count(conv_call(c, "backward", mask)).contraction == {"fp32": by_hand}
    bias = count(conv_call(c, "backward", [False, False, True]))
    assert (bias.contraction, bias.other) == ({}, {"fp32": results})
    assert bias.bytes == 4 * (results + c["filters"])
    whole = count(conv_call(c, "backward", [True, True, True]))
    assert whole.contraction_flops == 2 * by_hand


def test_there_are_ten_convolutions() -> None:
    assert len(CONVOLUTIONS) == 10


SMALL = {"batch": 16, "steps": 16, "hidden": 16, "features": 32}
LSTMS = [SMALL] + [
    {**SMALL, key: value}
    for key, values in (
        ("batch", (32, 64, 128)), ("steps", (32, 64, 128)), ("hidden", (32, 64, 128)),
        ("features", (64, 128)),
    )
    for value in values
]  # fmt: skip


def lstm_calls(c: dict[str, int]) -> dict[str, Call]:
    n, t, h, d = c["batch"], c["steps"], c["hidden"], c["features"]
    x, states = Tensor((t, n, d)), [Tensor((1, n, h))] * 2
    weights = [Tensor((4 * h, d)), Tensor((4 * h, h)), Tensor((4 * h,)), Tensor((4 * h,))]
    state = [Tensor((n, h))] * 2
    tail = [2, h, 0, 1, False, 0.0, True, False, [], None]
    return {
        "lstm": Call.of("aten::lstm", x, states, weights, True, 1, 0.0, True, False, False),
        "cudnn": Call.of("aten::_cudnn_rnn", x, weights, 4, None, *states, *tail),
        "miopen": Call.of(
            "aten::miopen_rnn", x, weights, 4, *states, 2, h, 1, False, 0.0, True, False, [], None
        ),
        "onednn": Call.of(
            "aten::mkldnn_rnn_layer", x, *weights, *state, False, [], 2, h, 1, True, False, False, True
        ),
    }  # fmt: skip


@pytest.mark.parametrize("c", LSTMS, ids=str)
def test_lstm_forward_under_all_its_names(c: dict[str, int]) -> None:
    n, t, h, d = c["batch"], c["steps"], c["hidden"], c["features"]
    by_hand = 2 * n * t * 4 * h * (d + h)
    cell = n * t * h * (4 + 3 * 4 + 2 + 3 + 1) + n * t * 4 * h * 2
    for name, call in lstm_calls(c).items():
        found = count(call)
        assert found.contraction == {"fp32": by_hand}, name
        assert found.other == {"fp32": cell}, name
        weights = 4 * h * (d + h) + 8 * h
        assert found.bytes_read == 4 * (n * t * d + weights + 2 * n * h), name


@pytest.mark.parametrize("c", LSTMS, ids=str)
def test_lstm_gradients(c: dict[str, int]) -> None:
    n, t, h, d = c["batch"], c["steps"], c["hidden"], c["features"]
    r = Recurrent(kind="lstm", rows=n * t, batch=n, features=d, hidden=h)
    into, round_ = 2 * n * t * 4 * h * d, 2 * n * t * 4 * h * h
    assert gradient_flops(r) == {
        "input": into, "hidden": round_, "weight_input": into, "weight_hidden": round_,
    }  # fmt: skip
    assert backward_cost(r).contraction_flops == 2 * (into + round_)
    assert backward_cost(r, weights=False).contraction_flops == into + round_
    assert backward_cost(r, inputs=False).contraction_flops == into + 2 * round_


@pytest.mark.parametrize("c", LSTMS, ids=str)
def test_lstm_backward_ops(c: dict[str, int]) -> None:
    n, t, h, d = c["batch"], c["steps"], c["hidden"], c["features"]
    x, out, state = Tensor((t, n, d)), Tensor((t, n, h)), Tensor((n, h))
    weights = [Tensor((4 * h, d)), Tensor((4 * h, h)), Tensor((4 * h,)), Tensor((4 * h,))]
    onednn = Call.of(
        "aten::mkldnn_rnn_layer_backward", x, *weights, state, state, out, state, state, out, None,
        None, False, 2, h, 1, True, True, False, [], False, Tensor((64,), "uint8"),
    )  # fmt: skip
    cudnn = Call.of(
        "aten::_cudnn_rnn_backward", x, weights, 4, None, state, state, out, out, None, None, 2, h,
        0, 1, False, 0.0, True, False, [], None, Tensor((64,), "uint8"), [True, True, True, True],
    )  # fmt: skip
    for call in (onednn, cudnn):
        assert count(call).contraction_flops == 2 * 2 * n * t * 4 * h * (d + h)


def test_there_are_twelve_lstms() -> None:
    assert len(LSTMS) == 12
