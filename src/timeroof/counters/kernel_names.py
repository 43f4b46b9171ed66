"""One kernel, several spellings: traces and profilers demangle names in their own ways."""

from __future__ import annotations

import re

_CAST = re.compile(r"\((?:unsigned |signed )?(?:int|long|bool|char|short|size_t)\)(?=[-\w])")
_LAMBDA = re.compile(
    r"\{lambda\([^{}]*?\)#\d+\}|\[lambda\([^\[\]]*?\)(?:\s*\(instance \d+\))?\]|::lambda\(.*?\)#\d+"
)
_NAMELESS = re.compile(r"\(anonymous namespace\)|<unnamed>|_GLOBAL__N__\w+|\{unnamed\}")
_SUFFIX = re.compile(r"\s*\[clone [^\]]*\]|\.kd$")
_GAPS = re.compile(r"\s+")


def plain_name(name: str) -> str:
    """A kernel's name without what demanglers spell differently.

    >>> plain_name("void k<(int)4, <unnamed>::F>(float *)") == plain_name(
    ...     "void k<4, (anonymous namespace)::F>(float*)"
    ... )
    True
    """
    text = _SUFFIX.sub("", name)
    text = _NAMELESS.sub("{nameless}", text)
    text = _LAMBDA.sub("{lambda}", text)
    return _GAPS.sub("", _CAST.sub("", text)).removeprefix("void")


def base_of(name: str) -> str:
    """A kernel's bare name: no template arguments, parameters, return type or namespace marks.

    >>> base_of("void at::native::reduce_kernel<512, 1>(at::R)"), base_of("volta_sgemm_128x64_nn")
    ('at::native::reduce_kernel', 'volta_sgemm_128x64_nn')
    """
    text = _NAMELESS.sub("{nameless}", _SUFFIX.sub("", name)).strip().removeprefix("void ")
    return re.split(r"[<(]", text, maxsplit=1)[0].strip()
