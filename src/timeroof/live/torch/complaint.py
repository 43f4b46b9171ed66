"""What a program said as it ended itself: the words of its argument parser, for a hint of ours."""

from __future__ import annotations

from collections.abc import Iterator

# What parsers call the sentence that they print before they exit.
_SENTENCES = ("message", "msg", "err", "error")
_LONGEST_CHAIN = 10


def complaint_of(error: SystemExit) -> str:
    r"""The words behind an exit, one text per line; empty where it has none.

    argparse prints its sentence and exits with a bare 2: the sentence is an argument of the
    frames it leaves. click, getopt and absl exit while they handle an error that has it.

    >>> complaint_of(SystemExit("unknown option --html")), complaint_of(SystemExit(2))
    ('unknown option --html', '')
    """
    texts = dict.fromkeys((*_own_words(error), *_chained(error), *_left_in_frames(error)))
    return "\n".join(text for text in texts if text)


def _own_words(error: SystemExit) -> Iterator[str]:
    if isinstance(error.code, str):
        yield error.code
    # fire's exit carries the trace of what it could not consume.
    yield from (_text(value) for value in vars(error).values())


def _chained(error: BaseException) -> Iterator[str]:
    found: BaseException | None = error
    for _ in range(_LONGEST_CHAIN):
        found = found.__cause__ or found.__context__ if found is not None else None
        if found is None:
            return
        yield _text(found)


def _left_in_frames(error: BaseException) -> Iterator[str]:
    trace = error.__traceback__
    while trace is not None:
        # A module's frame holds its globals, which are no parser's.
        if trace.tb_frame.f_code.co_name != "<module>":
            held = trace.tb_frame.f_locals
            yield from (v for k in _SENTENCES if isinstance(v := held.get(k), str))
        trace = trace.tb_next


def _text(value: object) -> str:
    """click's errors have their words apart from their details."""
    said = getattr(value, "format_message", None)
    try:
        return str(said() if callable(said) else value)
    except Exception:  # the program's own class
        return ""
