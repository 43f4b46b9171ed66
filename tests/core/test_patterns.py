"""Tables of patterns: words asked first change no answer, and spare most of the searching."""

from __future__ import annotations

import re
from functools import cache
from itertools import product

import pytest
from hypothesis import given, strategies as st

from tests.recorded_data import needs_recorded_data
from tests.work.names.recorded import recorded_names
from timeroof.core.vocabulary import FAMILIES, FirstFit, needed_words
from timeroof.work.names import algorithms, anatomy

TABLES = {
    "families": FAMILIES,
    "algorithms": algorithms.ALGORITHMS,
    "passes": algorithms.PASSES,
    "libraries": algorithms.LIBRARIES,
    "precisions": algorithms.PRECISIONS,
    "tiles": anatomy.TILES,
}


def searched_one_by_one(table: FirstFit[object], *texts: str) -> object:
    """What the table says without a question for words."""
    for (pattern, value), place in zip(table.rows, table.places, strict=True):
        if re.search(pattern, texts[place], table.flags):
            return value
    return None


@cache
def recorded_texts() -> list[tuple[str, str]]:
    """Head and signature of every recorded name."""
    names = sorted({name for times in recorded_names().values() for name in times})
    assert len(names) > 1300
    return [texts_of(name) for name in names]


def texts_of(name: str) -> tuple[str, str]:
    parts = anatomy.take_apart(name)
    return parts.head, parts.signature


def words_of_patterns() -> list[str]:
    """Pieces that patterns are made of: texts of these meet many of them."""
    rows = (pattern for table in TABLES.values() for pattern, _ in table.rows)
    return sorted({word for pattern in rows for word in re.findall(r"\w+|::|<|_", pattern)})


@needs_recorded_data
@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_recorded_name_is_told_as_by_searching_all_patterns(table: FirstFit[object]) -> None:
    for texts in recorded_texts():
        assert table.first(*texts) == searched_one_by_one(table, *texts), texts


@given(st.lists(st.sampled_from([*words_of_patterns(), " ", "(", ">", "1"]), max_size=12))
def test_texts_of_the_patterns_own_words_are_told_alike(words: list[str]) -> None:
    text = "".join(words)
    for table in TABLES.values():
        for texts in ((text, text), (text.upper(), text)):
            assert table.first(*texts) == searched_one_by_one(table, *texts)


@needs_recorded_data
def test_few_patterns_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []
    pattern_of = FirstFit.pattern
    monkeypatch.setattr(
        FirstFit, "pattern", lambda table, rank: searched.append(rank) or pattern_of(table, rank)
    )
    for texts, table in product(recorded_texts(), TABLES.values()):
        table.first(*texts)
    assert len(searched) < 25 * len(recorded_texts())
    assert sum(len(table.rows) for table in TABLES.values()) > 250


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (r"(?<!b)cast|convertTensor", ("cast", "convertTensor")),
        (r"gemm(?!_gpu|::cuda)", ("gemm",)),
        (r"a\(b|c", ("a(b", "c")),
        (r"(?:LSTM|GRU)_element", ("_element",)),
        (r"(?:kernel|fusion(?:_out)?)\d", ("kernel", "fusion")),
        (r"(?:optional_word)?x*", ()),
        (r"^\w+?$", ()),
        (r"", ()),
    ],
)
def test_words_that_a_pattern_needs(pattern: str, words: tuple[str, ...]) -> None:
    assert needed_words(pattern) == words
