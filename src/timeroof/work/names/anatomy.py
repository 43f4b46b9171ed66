"""A kernel name taken apart: the function, its template arguments, its parameters.

Profilers spell one kernel in many ways: `(anonymous namespace)::` or `<unnamed>::`, `4` or
`(int)4` or `int=4`, mangled or not, cut off or whole. Here they become one spelling.
"""

from __future__ import annotations

import re

import msgspec

from timeroof.core.vocabulary import LONGEST_NAME, FirstFit
from timeroof.work.names.demangle import demangle

_SPELLINGS = (
    (re.compile(r"(?<=\w)<unnamed>::"), "<"),  # damaged: the qualifier in front was stripped
    (re.compile(r"\(anonymous namespace\)::|<?unnamed>::|_GLOBAL__N_\w+::|_INTERNAL_\w+::"), ""),
    (re.compile(r"\((?:int|bool|(?:unsigned )?(?:char|short|int|long|long long))\)(?=-?\d)"), ""),
    (re.compile(r"\b(?:int|bool|unsigned int|unsigned long|cudnn\w+)=(?=-?\d)"), ""),
    (re.compile(r" \[clone [^\]]*\]$| \(\.kd\)$|\.kd$"), ""),
    (re.compile(r"\s+"), " "),
)
_OPENING = {"<": ">", "(": ")", "[": "]", "{": "}"}
_CLOSING = frozenset(_OPENING.values())


class Anatomy(msgspec.Struct, frozen=True):
    """The parts of a name; `text` is the whole in one spelling."""

    text: str
    head: str
    arguments: str = ""
    parameters: str = ""

    @property
    def function(self) -> str:
        """The bare name of the function, without namespaces."""
        return self.head.rsplit("::", 1)[-1]

    @property
    def signature(self) -> str:
        """Head and template arguments: all but the parameters."""
        return f"{self.head}<{self.arguments}>" if self.arguments else self.head


def take_apart(name: str) -> Anatomy:
    """Clean a name and split it.

    >>> take_apart("void at::native::fill<(int)4, float>(int, float*)")
    Anatomy(text='at::native::fill<4, float>(int, float*)', head='at::native::fill', \
arguments='4, float', parameters='int, float*')
    """
    text = clean(name)
    if text.startswith(("[", "Memcpy", "Memset")):
        return Anatomy(text=text, head=text)
    start, end = _function_span(text)
    whole = text[start:]
    head, arguments = _split_templates(text[start:end])
    return Anatomy(whole, head, arguments, text[end:].removeprefix("(").removesuffix(")"))


def clean(name: str) -> str:
    """One line of printable text in one spelling, of bounded length."""
    name = name[:LONGEST_NAME]
    if not name.isprintable():
        name = "".join(c if c.isprintable() else " " for c in name)
    text = demangle(name.strip())
    for pattern, spelling in _SPELLINGS:
        text = pattern.sub(spelling, text)
    return text.strip()


def _function_span(text: str) -> tuple[int, int]:
    """Where the function's name begins (after what it returns) and ends (before parameters)."""
    start = 0
    open_brackets: list[str] = []
    for i, letter in enumerate(text):
        if not open_brackets and letter == "(" and i > start:
            return start, i
        if not open_brackets and letter == " " and i + 1 < len(text) and text[i + 1] != "(":
            start = i + 1
        if letter in _OPENING:
            open_brackets.append(_OPENING[letter])
        elif letter in _CLOSING and open_brackets:
            # A '>' inside parentheses is a comparison, not a bracket.
            if open_brackets[-1] == letter:
                open_brackets.pop()
            elif letter != ">" and letter in open_brackets:
                while open_brackets.pop() != letter:
                    pass
    return start, len(text)


def _split_templates(name: str) -> tuple[str, str]:
    """The qualified name without template arguments, and those of its last component."""
    head: list[str] = []
    depth, begin, arguments = 0, 0, ""
    for i, letter in enumerate(name):
        if letter == "<":
            begin, depth = (i + 1 if depth == 0 else begin), depth + 1
        elif letter == ">" and depth:
            depth -= 1
            arguments = name[begin:i] if depth == 0 else arguments
        elif depth == 0:
            head.append(letter)
    if depth:  # the name was cut off inside its arguments
        arguments = name[begin:]
    return "".join(head).strip(), arguments.strip()


# The tile of a matrix kernel: the block of the output (and depth) one work group computes.


# The first pattern that fits decides; its groups are joined with x.
_TABLE = (
    r"_MT(\d+)x(\d+)x(\d+)",  # Tensile
    r"tilesize(\d+)x(\d+)x(\d+)",  # xmma
    r"_bt(\d+)x(\d+)x(\d+)",  # MIOpen igemm
    r"_t(\d+)x(\d+)x(\d+)u\d",  # TensorRT-LLM
    r"Cta_tile<[^<>]*?(\d+), (\d+), (\d+)",
    r"GemmShape<(\d+), (\d+), (\d+)",
    r"TileGemmShape<[\w:]*sequence<(\d+), (\d+), (\d+)",
    r"_1x(\d+)x(\d+)_\d+x\d+x\d+_cga",  # cuDNN attention
    r"Flash_fwd_kernel_traits<\d+, (\d+), (\d+)",  # after the head's size: rows of q, rows of k
    r"Mainloop\w+<\d+, cute::tuple<[^>]*>[^>]*>[^>]*> ?>, cute::tuple<\w+::C<(\d+)>, \w+::C<(\d+)>",
    r"_(\d+)x(\d+)_\d+x\d+_",  # CUTLASS: tile, then depth x stages
    r"_(\d+)x(\d+)x(\d+)x\d+(?:_|$)",
    r"(?:^|_)(\d+)x(\d+)x(\d+)(?:_|$)",
    r"_(\d\d+)x(\d+)(?:_|$)",
    r"Q(\d+)Kv(\d+)",
)
TILES = FirstFit((pattern, None) for pattern in _TABLE)


def tile_of(text: str) -> str | None:
    """The tile as the name tells it.

    >>> tile_of("volta_sgemm_128x64_nn"), tile_of("Cijk_Ailk_Bjlk_SB_MT64x16x16_MI16x16x1_SN")
    ('128x64', '64x16x16')
    """
    found = TILES.fit(text)
    return "x".join(group for group in found.match.groups() if group) if found else None


# The operation inside a wrapper kernel: `vectorized_elementwise_kernel<4, FillFunctor<float>, …>`
# is a Fill. Works on identifiers in order: the first that is no wrapper and no type names it.


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
# What stands around a type is asked once for all of them: a name may have thousands of places.
_TOKEN = re.compile(
    r"(?<![\w:])(?:"
    + "|".join(rf"(?P<t{i}>(?:{spelt})(?!\w))" for i, (spelt, _, _) in enumerate(SPELLINGS))
    + ")"
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
