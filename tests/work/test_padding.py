"""Products with padding: counted one by one, by torch's own sums, and closed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from timeroof.work import Call, Cost, Tensor, count
from timeroof.work.call import UncountableError
from timeroof.work.cost import amounts
from timeroof.work.shapes import real_taps


def one_by_one(
    size: int, windows: int, kernel: int, stride: int, padding: int, dilation: int, spread: int
) -> int:
    places = [o * stride + k * dilation - padding for o in range(windows) for k in range(kernel)]
    return sum(1 for p in places if 0 <= p <= (size - 1) * spread and p % spread == 0)


@given(
    st.integers(0, 14), st.integers(0, 12), st.integers(0, 7), st.integers(1, 5),
    st.integers(-4, 9), st.integers(1, 4), st.sampled_from([1, 1, 2, 3, 4, 6]),
)  # fmt: skip
@settings(max_examples=400)
def test_taps_along_one_dimension(
    size: int, windows: int, kernel: int, stride: int, padding: int, dilation: int, spread: int
) -> None:
    sizes = (size, windows, kernel, stride, padding, dilation, spread)
    assert real_taps(*sizes) == one_by_one(*sizes)


def test_impossible_sizes_take_no_time_and_bad_ones_are_refused() -> None:
    huge = 10**12
    assert real_taps(huge, huge, huge, 1, 0, 1) == huge * (huge + 1) // 2
    for bad in ((4, 4, 3, 0, 1, 1), (4, 4, 3, 1, 1, 0), (4, 4, 1 << 30, 1, 1, 1, 2)):
        with pytest.raises(UncountableError):
            real_taps(*bad)


def cost_of(op: str, *arguments: object) -> Cost:
    return count(Call.of(op, *arguments))


def test_by_hand() -> None:
    """4x4 under 3x3 with padding 1: 10 of 12 taps along either dimension meet the input."""
    found = cost_of("aten::conv2d", Tensor((2, 5, 4, 4)), Tensor((7, 5, 3, 3)), None, 1, 1)
    assert found.contraction_flops == 2 * 2 * 7 * 5 * 12 * 12
    assert found.padding_flops == 2 * 2 * 7 * 5 * (12 * 12 - 10 * 10)
    assert amounts(found)["padding_flops"] == found.padding_flops
    none = cost_of("aten::conv2d", Tensor((2, 5, 4, 4)), Tensor((7, 5, 3, 3)), None, 1, 0)
    assert none.padding_flops == 0
    assert "padding_flops" not in amounts(none)


@pytest.mark.parametrize(
    ("mask", "passes"), [((True, True, True), 2), ((True, False, True), 1), ((False, True, False), 1)]
)  # fmt: skip
def test_gradients_have_the_same_pairs(mask: tuple[bool, ...], passes: int) -> None:
    x, w, grad = Tensor((2, 6, 8, 8)), Tensor((4, 3, 3, 5)), Tensor((2, 4, 4, 4))
    tail = ([2, 2], [1, 2], [1, 1])
    forward = cost_of("aten::convolution", x, w, None, *tail, False, [0, 0], 2)
    back = cost_of("aten::convolution_backward", grad, x, w, None, *tail, False, [0, 0], 2, mask)
    assert forward.padding_flops > 0
    assert back.padding_flops == passes * forward.padding_flops
    assert back.contraction_flops == passes * forward.contraction_flops


@st.composite
def layers(draw: st.DrawFn) -> dict[str, int]:
    kernel, dilation = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    return {
        "kernel": kernel,
        "dilation": dilation,
        "stride": draw(st.integers(1, 3)),
        "padding": draw(st.integers(0, 4)),
        "groups": draw(st.sampled_from([1, 2])),
        "size": draw(st.integers(dilation * (kernel - 1) + 1, 12)),
    }


@given(layers(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_torch_adds_up_as_many_ones(layer: dict[str, int], transposed: bool) -> None:
    """Ones under ones: every product that meets real input adds 1 to the sum of the result."""
    import torch

    groups, size, kernel = layer["groups"], layer["size"], layer["kernel"]
    x = torch.ones(2, 4, size, dtype=torch.float64)
    w = torch.ones(4, (6 // groups) if transposed else 4 // groups, kernel, dtype=torch.float64)
    step, pad, wide = [layer["stride"]], [layer["padding"]], [layer["dilation"]]
    if transposed and (size - 1) * step[0] + wide[0] * (kernel - 1) + 1 <= 2 * pad[0]:
        return  # nothing is left of the result
    made = torch.convolution(x, w, None, step, pad, wide, transposed, [0], groups)
    tensors = [Tensor(tuple(t.shape), "fp64") for t in (x, w)]
    arguments = (*tensors, None, step, pad, wide, transposed, [0], groups)
    found = cost_of("aten::convolution", *arguments)
    assert found.contraction_flops - found.padding_flops == 2 * made.sum().item()


def test_an_odd_padding_of_same_goes_behind() -> None:
    """Kernel 2 over 5 places, 'same': 5 windows, of which only the last sticks out."""
    found = cost_of("aten::conv1d", Tensor((1, 1, 5)), Tensor((1, 1, 2)), None, 1, "same")
    assert (found.contraction_flops, found.padding_flops) == (20, 2)


def test_other_frameworks() -> None:
    same = cost_of("tf::Conv2D", Tensor((1, 4, 4, 5)), Tensor((3, 3, 5, 7)), [1, 1, 1, 1], "SAME")
    here = cost_of("aten::conv2d", Tensor((1, 5, 4, 4)), Tensor((7, 5, 3, 3)), None, 1, 1)
    assert same.padding_flops == here.padding_flops > 0
    spread = count(
        Call.of(
            "jax::conv_general_dilated", Tensor((1, 1, 4)), Tensor((1, 1, 3)),
            window_strides=[1], padding=[[2, 2]], lhs_dilation=[2],
        )
    )  # fmt: skip
    # 4 elements, each under all 3 taps: 12 products; 9 windows of 3 taps were counted.
    assert (spread.contraction_flops, spread.padding_flops) == (54, 54 - 24)
