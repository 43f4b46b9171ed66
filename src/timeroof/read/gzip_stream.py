"""Gzip as a stream that gives all it can: several members, and bytes behind the last one.

The standard library's reader raises at bytes that follow the compressed data (padding of a tape,
a signature) before it hands over what came last; `gzip -d` and we ignore them.
"""

from __future__ import annotations

import io
import zlib
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MAGIC = b"\x1f\x8b"
_CHUNK_BYTES = 1 << 20
# zlib: 15 bits of window, and 16 says that a gzip header and checksum surround the data.
_GZIP_BITS = 15 + 16


class GzipStream(io.RawIOBase):
    """The decompressed bytes of a gzip file.

    >>> import gzip
    >>> GzipStream(io.BytesIO(gzip.compress(b"one ") + gzip.compress(b"two") + b"tail")).read()
    b'one two'
    """

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._member = zlib.decompressobj(_GZIP_BITS)
        self._waiting = b""
        self._done = False

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fill a buffer; 0 at the end, EOFError where the data break off."""
        view = memoryview(buffer).cast("B")
        while not self._done:
            data = self._member.decompress(self._more(), len(view)) if len(view) else b""
            self._waiting = self._member.unconsumed_tail
            if self._member.eof:
                self._next_member()
            if data or not len(view):
                view[: len(data)] = data
                return len(data)
        return 0

    def _more(self) -> bytes:
        data = self._waiting or self._raw.read(_CHUNK_BYTES)
        if not data:
            raise EOFError("the compressed data end early")
        return data

    def _next_member(self) -> None:
        rest = self._member.unused_data
        while len(rest) < len(MAGIC) and (more := self._raw.read(_CHUNK_BYTES)):
            rest += more
        self._done = not rest.startswith(MAGIC)
        self._waiting = b"" if self._done else rest
        if not self._done:
            self._member = zlib.decompressobj(_GZIP_BITS)
