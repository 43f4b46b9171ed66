"""Tables of patterns over hostile names: the first that fits decides, in a time that is bounded.

A name has few of the words that hundreds of patterns need. Those words are looked for first, all
of a table at once, and only the patterns that can fit are searched.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

Value = TypeVar("Value")
# Names are untrusted and may be huge: what matters stands in the first few thousand characters.
LONGEST_NAME = 6000
WORD_REACH = 250
TEXT_REACH = 400


class Fit(NamedTuple, Generic[Value]):
    """A pattern that fits, and what its table says then."""

    match: re.Match[str]
    value: Value


class _Asked(NamedTuple):
    """What a table asks of one text: rows by a word that allows them, and rows that need none."""

    place: int
    words: dict[str, list[int]]
    always: list[int]


class FirstFit(Generic[Value]):
    r"""A table of patterns: the value of the first that fits a text.

    Some look at another text than others: `places` says at which, by row. Each pattern is compiled
    when a text first has its words.

    >>> table = FirstFit([(r"flash_\w*fwd", "forward"), (r"flash", "attention")])
    >>> table.first("my_flash_kernel"), table.first("flash_fwd"), table.first("fill")
    ('attention', 'forward', None)
    """

    def __init__(
        self, rows: Iterable[tuple[str, Value]], flags: int = 0, places: Iterable[int] | None = None
    ) -> None:
        self.flags, self._any_case = flags, bool(flags & re.IGNORECASE)
        listed = [(bounded(pattern), value) for pattern, value in rows]
        self.rows: list[tuple[str, Value]] = listed
        self.places = [0] * len(listed) if places is None else list(places)
        self._compiled: dict[int, re.Pattern[str]] = {}

    @cached_property
    def _asked(self) -> list[_Asked]:
        """By text that rows look at: what is asked of it before they are searched."""
        asked: dict[int, _Asked] = {}
        for rank, ((pattern, _), place) in enumerate(zip(self.rows, self.places, strict=True)):
            of_text = asked.setdefault(place, _Asked(place, {}, []))
            needed = needed_words(pattern)
            for word in needed:
                of_text.words.setdefault(self._folded(word), []).append(rank)
            of_text.always.extend([] if needed else [rank])
        return list(asked.values())

    def _folded(self, text: str) -> str:
        return text.lower() if self._any_case else text

    def first(self, *texts: str) -> Value | None:
        """The value of the first row that fits, None where none does."""
        fit = self.fit(*texts)
        return None if fit is None else fit.value

    def fit(self, *texts: str) -> Fit[Value] | None:
        """The first row that fits, and where it does."""
        ranks: set[int] = set()
        for place, words, always in self._asked:
            text = self._folded(texts[place])
            ranks.update(always, *[allowed for word, allowed in words.items() if word in text])
        for rank in sorted(ranks):
            match = self.pattern(rank).search(texts[self.places[rank]])
            if match:
                return Fit(match, self.rows[rank][1])
        return None

    def pattern(self, rank: int) -> re.Pattern[str]:
        """The pattern of a row, compiled when it is first searched."""
        if rank not in self._compiled:
            self._compiled[rank] = re.compile(self.rows[rank][0], self.flags)
        return self._compiled[rank]


def bounded(pattern: str) -> str:
    r"""A pattern in which `\w*` and `.*` reach a fixed number of characters.

    No search may take more than linear time.

    >>> bounded(r"a.*b")
    'a.{0,400}b'
    """
    for endless, least in ((r"\w", WORD_REACH), (".", TEXT_REACH)):
        pattern = pattern.replace(f"{endless}*", f"{endless}{{0,{least}}}")
        pattern = pattern.replace(f"{endless}+", f"{endless}{{1,{least}}}")
    return pattern


# One part of a pattern and how often it may stand; groups are taken out whole before.
_GROUP = re.compile(r"(?<!\\)\((\?[:=!<]{0,2}|)((?:[^()\\]|\\.)*)\)([?*+]|\{[\d,]*\})?\??")
_PART = re.compile(r"(\\.|\[\^?\]?[^\]]*\]|[^\\])((?:[?*+]|\{[\d,]*\})?)\??")
_BREAK = "\0"
# Groups that are taken out leave a letter of this private range, which their words are kept by.
_PRIVATE = 0xE000


def needed_words(pattern: str) -> tuple[str, ...]:
    r"""Words of which a text has at least one if a pattern fits it; none where nothing is certain.

    >>> needed_words(r"_MT(\d+)x(\d+)"), needed_words("flash_fwd|fmha_v2"), needed_words("a|b?")
    (('_MT',), ('flash_fwd', 'fmha_v2'), ())
    >>> needed_words(r"(^|\W)(bmm|addbmm)(\W|$)"), needed_words(r"(?:max|avg)_pool")
    (('bmm', 'addbmm'), ('_pool',))
    """
    groups: dict[str, tuple[str, ...]] = {}

    def taken_out(group: re.Match[str]) -> str:
        kind, inside, times = group.groups()
        if kind not in ("", "?:") or times not in (None, "+"):
            return _BREAK
        letter = chr(_PRIVATE + len(groups))
        groups[letter] = _words_of(inside, groups)
        return letter

    found = 1
    while found:
        pattern, found = _GROUP.subn(taken_out, pattern)
    return _words_of(pattern, groups)


def _words_of(pattern: str, groups: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Of a pattern without groups but those taken out: the best words of each alternative."""
    plain = "".join(_certain(*part) for part in _PART.findall(pattern))
    best = [_best(choice, groups) for choice in plain.split("|")]
    return tuple(dict.fromkeys(word for words in best for word in words)) if all(best) else ()


def _best(choice: str, groups: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Of what must all stand in a text: the words that fewest texts have, the longest ones."""
    parts = re.split(f"([{_BREAK}{chr(_PRIVATE)}-{chr(_PRIVATE + 999)}])", choice)
    wanted = [groups.get(part, (part,)) for part in parts if part not in ("", _BREAK)]
    known = [words for words in wanted if words]
    return max(known, key=lambda words: (min(map(len, words)), -len(words)), default=())


def _certain(part: str, times: str) -> str:
    """The letter that a part of a pattern stands for, if it stands there for certain."""
    letter = part[-1]
    is_letter = not letter.isalnum() if part[0] == "\\" else len(part) == 1 and part not in ".^$"
    if not is_letter or times not in ("", "+"):
        return _BREAK
    return letter + _BREAK if times else letter
