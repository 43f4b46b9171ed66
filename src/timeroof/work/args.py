"""Reading the arguments of a call; what cannot be read is a reason, not an exception to users."""

from __future__ import annotations

from collections.abc import Iterator

from timeroof.work.call import Arg, Tensor, Unrecorded
from timeroof.work.dtypes import FORMATS, parse_dtype, scalar_type

MAX_ELEMENTS = 1 << 62


class UncountableError(Exception):
    """Why a call cannot be counted. Caught by `count`, which returns it as a reason."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


def tensor(value: Arg, what: str = "a tensor") -> Tensor:
    """The argument as a tensor with whole, non-negative sizes and a known format."""
    found = shaped(value, what)
    if found.dtype not in FORMATS:
        raise UncountableError(f"number format of {what} is {found.dtype or 'not recorded'}")
    return found


def shaped(value: Arg, what: str = "a tensor") -> Tensor:
    """The argument as a tensor whose format may be unknown."""
    if isinstance(value, Unrecorded):
        raise UncountableError(f"{what}: {value.reason}")
    if not isinstance(value, Tensor):
        raise UncountableError(f"{what} is missing")
    for size in value.shape:
        if type(size) is not int:
            raise UncountableError(f"{what} has the symbolic size {size!r}")
        if size < 0:
            raise UncountableError(f"{what} has the negative size {size}")
    if value.count > MAX_ELEMENTS:
        raise UncountableError(f"{what} has an impossible size")
    return value


def ranked(value: Arg, what: str, *ranks: int) -> Tensor:
    """The argument as a tensor with one of these numbers of dimensions."""
    found = tensor(value, what)
    if len(found.shape) not in ranks:
        raise UncountableError(f"{what} has {len(found.shape)} dimensions")
    return found


def optional(value: Arg, what: str = "a tensor") -> Tensor | None:
    """The argument as a tensor, or None where there is none."""
    return tensor(value, what) if isinstance(value, Tensor) else None


def tensors(value: Arg, what: str = "a list of tensors") -> tuple[Tensor, ...]:
    """The argument as tensors: one, or a list of them (absent entries left out)."""
    if isinstance(value, Tensor):
        return (tensor(value, what),)
    if isinstance(value, Unrecorded):
        raise UncountableError(f"{what}: {value.reason}")
    if not isinstance(value, tuple):
        raise UncountableError(f"{what} is missing")
    return tuple(tensor(v, what) for v in value if v is not None)


def every_tensor(*values: Arg) -> Iterator[Tensor]:
    """All tensors in some arguments, lists opened."""
    for value in values:
        if isinstance(value, Tensor):
            yield tensor(value)
        elif isinstance(value, tuple):
            yield from every_tensor(*value)


def integer(value: Arg, what: str) -> int:
    """The argument as a whole number."""
    if isinstance(value, Unrecorded):
        raise UncountableError(f"{what}: {value.reason}")
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, int):
        raise UncountableError(f"{what} is missing")
    return int(value)


def integers(value: Arg, what: str, count: int | None = None) -> tuple[int, ...]:
    """The argument as whole numbers; a single one is repeated `count` times."""
    if isinstance(value, Unrecorded):
        raise UncountableError(f"{what}: {value.reason}")
    if isinstance(value, int):
        return (int(value),) * (count or 1)
    if not isinstance(value, tuple):
        raise UncountableError(f"{what} is missing")
    found = tuple(integer(v, what) for v in value)
    if count is not None and len(found) == 1:
        found *= count
    if count is not None and len(found) != count:
        raise UncountableError(f"{what} has {len(found)} numbers instead of {count}")
    return found


def flag(value: Arg, what: str, default: bool | None = None) -> bool:
    """The argument as yes or no; unrecorded is an error unless there is a default."""
    if isinstance(value, bool | int):
        return bool(value)
    if default is None:
        raise UncountableError(f"{what} is not recorded")
    return default


def flags(value: Arg, what: str, count: int) -> tuple[bool, ...]:
    """The argument as a mask, such as which gradients are wanted."""
    if not isinstance(value, tuple) or len(value) < count:
        raise UncountableError(f"{what} is not recorded")
    return tuple(flag(v, what) for v in value)


def number(value: Arg, default: float) -> float:
    """The argument as a number, or the default."""
    return float(value) if isinstance(value, int | float) else default


def dtype_of(value: Arg) -> str | None:
    """The number format that an argument names: a word, or torch's number for it."""
    if isinstance(value, str):
        return parse_dtype(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return scalar_type(value)
    return None
