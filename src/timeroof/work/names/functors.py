"""The operation inside a wrapper kernel: `vectorized_elementwise_kernel<4, FillFunctor<float>, …>`
is a Fill. Works on identifiers in order: the first that is no wrapper and no type names it."""

from __future__ import annotations

import re

# Data types as names spell them: what is in memory, and what a vector unit makes of it.


# How a type is spelt -> (data type in memory, short form for people). First match in a text wins.
SPELLINGS: tuple[tuple[str, str, str], ...] = (
    (
        r"(?:c10::|__nv_|__hip_|hip_|cutlass::|std::|at::)?[Bb][Ff]loat16(?:_t)?|__bf16",
        "bf16",
        "bf16",
    ),
    (r"c10::Half|__half2?|Eigen::half|_Float16|(?:cutlass::)?half_t|at::Half", "fp16", "half"),
    (r"(?:c10::)?Float8_\w+|__nv_fp8\w*|(?:cutlass::)?float_e[45]m[23]_t", "fp8", "fp8"),
    (r"(?:cutlass::)?tfloat32_t", "tf32", "tf32"),
    (r"double", "fp64", "double"),
    (r"float(?!\d)", "fp32", "float"),
    (r"signed char|int8_t", "int8", "int8"),
    (r"unsigned long long|unsigned long|long long|long|int64_t", "int64", "long"),
    (r"unsigned char|uint8_t", "uint8", "uchar"),
    (r"unsigned short|short", "int16", "short"),
    (r"unsigned int|int", "int32", "int"),
    (r"bool", "bool", "bool"),
    # Copies by size alone: torch moves elements of so many bytes, whatever they mean.
    *(
        (
            rf"(?:at::native::)?(?:\(anonymous namespace\)::)?OpaqueType<{size}u?>",
            f"bits{8 * size}",
            f"{size} B",
        )
        for size in (1, 2, 4, 8, 16)
    ),
)
_TOKEN = re.compile(
    "|".join(rf"(?P<t{i}>(?<![\w:])(?:{spelt})(?!\w))" for i, (spelt, _, _) in enumerate(SPELLINGS))
)
# Integers are often sizes and indices: a floating type anywhere says more.
FLOATING = frozenset({"bf16", "fp16", "fp8", "tf32", "fp64", "fp32"}) | {
    f"bits{8 * size}" for size in (1, 2, 4, 8, 16)
}

# What vector units compute these in; 16-bit data are widened to fp32 by all libraries we know.
VECTOR_PRECISION = {"fp64": "fp64", "fp32": "fp32", "fp16": "fp32", "bf16": "fp32", "int8": "int8"}


def types_in(text: str) -> list[tuple[str, str]]:
    """All data types in a text in order, as (in memory, for people)."""
    found = (m.lastgroup for m in _TOKEN.finditer(text))
    return [SPELLINGS[int(group[1:])][1:] for group in found if group]


def main_type(text: str) -> tuple[str, str] | None:
    """The data type a text is about: the first floating one, else the first.

    >>> main_type("4, at::native::FillFunctor<c10::Half>"), main_type("int, bool")
    (('fp16', 'half'), ('int32', 'int'))
    """
    types = types_in(text)
    return next((t for t in types if t[0] in FLOATING), types[0] if types else None)


_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
# Wrappers, containers, types and keywords that say nothing of the operation.
_WORDS_THAT_SAY_NOTHING = """
    at native c10 std detail cuda legacy templates binary_internal void const operator lambda
    instance bool int long float double char short unsigned signed true false Half BFloat16 Scalar
    TensorIterator TensorIteratorBase Tensor TensorBase Array array OpaqueType anonymous namespace
    gpu_kernel_impl gpu_kernel_impl_nocast gpu_kernel gpu_kernel_with_scalars opmath_gpu_kernel
    opmath_symmetric_gpu_kernel_with_scalars BinaryFunctor UnaryFunctor AUnaryFunctor BUnaryFunctor
    UnaryOpFunctor BinaryOpScalarFunctor BinaryOpListAlphaFunctor BinaryOpScalarListFunctor
    BinaryOpScalarTensorFunctor TernaryOpScalarFunctor TernaryOpListFunctor PointwiseOpScalarFunctor
    PointwiseOpScalarListFunctor PointwiseOpScalarTensorFunctor PointwiseOpListFunctor
    TensorListMetadata TensorListScalarListMetadata FusedOptimizerTensorListMetadata ReduceOp
    func_wrapper_t functor Functor Op CUDAGeneratorImpl cub tensorflow Eigen internal unnamed
    uniform_and_transform normal_and_transform random_from_to T1 T2 T3 T T0 enable_if type ul u
    __nv_bfloat16 __half bfloat16_t Float8_e4m3fn decltype nullptr
"""
_SAYS_NOTHING = frozenset(_WORDS_THAT_SAY_NOTHING.split())
_ENDINGS = re.compile(
    r"(?:_(?:kernel|cuda|impl|out|functor|internal)_?|CUDAKernelImpl|KernelImpl|Functor_?|Ops|Op)$"
)
_BEGINNINGS = re.compile(
    r"^(?:launch_|_cuda_|CUDAFunctor(?:OnSelf|OnOther)?_|gpu_|op_|_amp_foreach_)"
)
_PLAIN_WORDS = {
    **{"multiplies": "mul", "plus": "add", "minus": "sub", "divides": "div", "power": "pow"},
    **{"direct_copy": "copy", "copy_device_to_device": "copy"},
    **{"bfloat16_copy": "to bf16", "bfloat16tofloat32_copy": "bf16 to float"},
    **{"float8_copy": "to fp8", "float16_copy": "to half"},
}


def operation_in(arguments: str) -> str | None:
    """What a functor does, in a word.

    >>> operation_in("4, at::native::FillFunctor<float>, std::array<char*, 1>")
    'Fill'
    >>> operation_in("4, at::native::silu_kernel(at::TensorIteratorBase&)::{lambda()#1}")
    'silu'
    """
    for found in _IDENTIFIER.finditer(arguments):
        word = found.group()
        is_namespace = arguments.startswith("::", found.end())
        if word not in _SAYS_NOTHING and not is_namespace:
            return _plain(word)
    return None


def _plain(word: str) -> str:
    """A word without the ceremony around it."""
    short = _BEGINNINGS.sub("", word).lstrip("_")
    for _ in range(3):
        short = _ENDINGS.sub("", short)
    return _PLAIN_WORDS.get(short, short) or word


_LAMBDA = re.compile(r"lambda\(([^()]{1,200})\)")


def element_type(arguments: str) -> tuple[str, str] | None:
    """The data type of an element-wise kernel: what its innermost lambda takes, else the first.

    A lambda that takes an int is the loop's own: its argument is an index.
    """
    lambdas = [main_type(taken) for taken in _LAMBDA.findall(arguments)]
    elements = [kind for kind in lambdas if kind and kind[0] != "int32"]
    return elements[-1] if elements else main_type(arguments)


_EIGEN_OP = re.compile(r"scalar_(\w{1,40}?)_op\b")
_EIGEN_FORM = re.compile(
    r"Tensor(Slicing|Padding|Broadcasting|Conversion|Reduction|Generator|Shuffling)Op"
)


def eigen_operation(arguments: str) -> str:
    """The operations of an Eigen expression: `sum+product`, at most three of them."""
    forms = [form.lower() for form in _EIGEN_FORM.findall(arguments)]
    operations = [op.removesuffix("_opmath") for op in _EIGEN_OP.findall(arguments)]
    words = list(dict.fromkeys([*forms, *operations]))
    return "+".join(words[:3]) or "expression"
