"""Words of a program that ends because it does not know an option, for a hint where it goes.

Only where the program was given an option of timeroof's: `sys.exit` then looks at who calls it.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType
    from typing import NoReturn

    from timeroof_recorder.log import Log

# What parsers call the sentence that they print before they exit.
_SENTENCES = ("message", "msg", "err", "error")
_LONGEST_CHAIN = 10
_MOST_CHARACTERS = 2000


def listen(log: "Log") -> None:
    """Write the words behind an exit down."""
    original = sys.exit

    def exit(status: object = None, /) -> "NoReturn":  # noqa: A001
        texts = dict.fromkeys(
            [*_own(status), *_chained(sys.exc_info()[1]), *_left_in(sys._getframe(1))]
        )
        words = "\n".join(text for text in texts if text)
        log.write("refused", words[:_MOST_CHARACTERS])
        sys.exit = original
        original(status)  # type: ignore[arg-type]

    sys.exit = exit


def _own(status: object) -> "Iterator[str]":
    if isinstance(status, str):
        yield status


def _chained(error: BaseException | None) -> "Iterator[str]":
    for _ in range(_LONGEST_CHAIN):
        if error is None:
            return
        yield _text(error)
        error = error.__cause__ or error.__context__


def _left_in(frame: "FrameType | None") -> "Iterator[str]":
    while frame is not None:
        # A module's frame holds its globals, which are no parser's.
        if frame.f_code.co_name != "<module>":
            held = frame.f_locals
            yield from (v for k in _SENTENCES if isinstance(v := held.get(k), str))
        frame = frame.f_back


def _text(error: BaseException) -> str:
    said = getattr(error, "format_message", None)
    try:
        return str(said() if callable(said) else error)
    except Exception:  # the program's own class
        return ""
