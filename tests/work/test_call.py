"""Calls and formats, from every spelling, never raising."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeroof.work import Call, Tensor, Unrecorded, call_from_kineto, count
from timeroof.work.call import parse_dtype, promote, scalar_type
from timeroof.work.recorded import tensors_from_text, value_from_text, with_format


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("float", "fp32"), ("double", "fp64"), ("c10::Half", "fp16"), ("c10::BFloat16", "bf16"),
        ("long int", "int64"), ("long", "int64"), ("int", "int32"), ("unsigned char", "uint8"),
        ("signed char", "int8"), ("c10::complex<float>", "complex64"), ("c10::Float8_e4m3fn", "fp8"),
        ("torch.float32", "fp32"), ("torch.bfloat16", "bf16"), ("torch.int8", "int8"),
        ("torch.float8_e5m2", "fp8"), ("torch.bool", "bool"), ("f32", "fp32"), ("bf16", "bf16"),
        ("bf16[8,128]{1,0}", "bf16"), ("pred[]", "bool"), ("s32[4]", "int32"), ("u8", "uint8"),
        ("f16", "fp16"), ("s8", "int8"), ("tf.float32", "fp32"), ("DT_HALF", "fp16"),
        ("DT_FLOAT", "fp32"), ("float32", "fp32"), ("Scalar", None), ("", None), ("TensorList", None),
        ("c10::Strange", None),
    ],
)  # fmt: skip
def test_formats_have_one_name(text: str, expected: str | None) -> None:
    assert parse_dtype(text) == expected


def test_torchs_numbers_for_formats() -> None:
    assert [scalar_type(i) for i in (0, 4, 5, 6, 7, 11, 15, 24)] == [
        "uint8", "int64", "fp16", "fp32", "fp64", "bool", "bf16", "fp8",
    ]  # fmt: skip


def test_promotion_is_torchs() -> None:
    torch = pytest.importorskip("torch")
    formats = [torch.bool, torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16,
               torch.float32, torch.float64]  # fmt: skip
    for a in formats:
        for b in formats:
            expected = parse_dtype(str(torch.promote_types(a, b)))
            assert promote(parse_dtype(str(a)), parse_dtype(str(b))) == expected, (a, b)


def test_a_recorded_call_with_values() -> None:
    call = call_from_kineto(
        "aten::conv2d",
        {
            "Input Dims": [[1, 3, 8, 8], [4, 3, 3, 3], [], [], [], [], []],
            "Input type": [
                "float",
                "float",
                "",
                "ScalarList",
                "ScalarList",
                "ScalarList",
                "Scalar",
            ],
            "Input Strides": [[192, 64, 8, 1], [27, 9, 3, 1], [], [], [], [], []],
            "Concrete Inputs": ["", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "1"],
        },
    )
    assert call.inputs[0] == Tensor((1, 3, 8, 8), "fp32", (192, 64, 8, 1))
    assert call.inputs[2:] == (None, (1, 1), (0, 0), (1, 1), 1)
    assert count(call).contraction == {"fp32": 2 * 4 * 27 * 36}


def test_a_recorded_call_of_an_older_trace_has_no_values() -> None:
    args = {
        "Input Dims": [[1, 3, 8, 8], [4, 3, 3, 3], [], []],
        "Input type": ["float", "float", "", ""],
    }
    assert "stride" in (count(call_from_kineto("aten::conv2d", args)).unknown or "")


def test_tensor_lists_have_shapes_but_no_format() -> None:
    args = {"Input Dims": [[[2, 3], [4, 3]], []], "Input type": ["TensorList", "Scalar"],
            "Concrete Inputs": ["", "0"]}  # fmt: skip
    assert "format" in (count(call_from_kineto("aten::cat", args)).unknown or "")
    known = count(with_format(call_from_kineto("aten::cat", args), "bits16"))
    assert (known.flops, known.bytes) == (0, 2 * 2 * 18)


def test_symbolic_sizes_are_a_reason() -> None:
    args = {"Input Dims": [["s0", 3], [3, 4]], "Input type": ["float", "float"]}
    call = call_from_kineto("aten::mm", args)
    assert isinstance(call.inputs[0], Unrecorded)
    assert "s0" in (count(call).unknown or "")
    assert "symbolic" in (
        count(Call("aten::mm", (Tensor(("s0", 3)), Tensor((3, 4))))).unknown or ""
    )


def test_values_from_text() -> None:
    assert value_from_text("[True, True, False]") == (True, True, False)
    assert value_from_text("1.0000000000000001e-05") == pytest.approx(1e-5)
    assert value_from_text("-inf") == float("-inf")
    assert value_from_text("[]") == ()
    assert value_from_text("tanh") == "tanh"


def test_xla_shapes() -> None:
    assert tensors_from_text("(f32[8,128]{1,0}, s32[])") == (
        Tensor((8, 128), "fp32"), Tensor((), "int32"),
    )  # fmt: skip


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=12,
)
fields = st.sampled_from(["Input Dims", "Input type", "Input Strides", "Concrete Inputs",
                          "Collective name", "In msg nelems", "dtype", "Group size"])  # fmt: skip


@given(st.text(max_size=20), st.dictionaries(fields, json, max_size=8))
def test_whatever_was_recorded_makes_a_call(name: str, args: dict[str, object]) -> None:
    call = call_from_kineto(name, args)
    cost = count(call)
    assert cost.known or cost.unknown
