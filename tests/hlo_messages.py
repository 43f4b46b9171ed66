"""HloProto messages written by hand, for tests that have no XLA."""

from __future__ import annotations

from tests.read.test_xplane import field

F32, BF16, PRED, TUPLE = 11, 16, 1, 13


def shape(*dims: int, kind: int = F32) -> bytes:
    return field(2, kind) + b"".join(field(3, d) for d in dims)


def tuple_of(*parts: bytes) -> bytes:
    return field(2, TUPLE) + b"".join(field(4, part) for part in parts)


def instruction(
    number: int, name: str, opcode: str, of: bytes, operands: tuple[int, ...] = (), *more: bytes,
    called: tuple[int, ...] = (), op_name: str = "", frame: int = 0,
) -> bytes:  # fmt: skip
    body = field(1, name) + field(2, opcode) + field(3, of) + field(35, number)
    body += b"".join(field(36, o) for o in operands) + b"".join(field(38, c) for c in called)
    body += field(7, field(2, op_name) + field(15, frame))
    return body + b"".join(more)


def parameter(number: int, place: int, of: bytes) -> bytes:
    return instruction(number, f"p{number}", "parameter", of, (), field(9, place))


def contracted(lhs: int, rhs: int) -> bytes:
    return field(30, field(1, lhs) + field(2, rhs))


def computation(number: int, root: int, *instructions: bytes) -> bytes:
    body = field(1, f"c{number}") + field(5, number) + field(6, root)
    return body + b"".join(field(2, i) for i in instructions)


def module(entry: int, *computations: bytes, name: str = "jit_f", frames: bytes = b"") -> bytes:
    body = field(1, name) + field(5, 7) + field(6, entry)
    body += b"".join(field(3, c) for c in computations)
    return body + (field(17, frames) if frames else b"")


def hlo(module_bytes: bytes) -> bytes:
    return field(1, module_bytes)
