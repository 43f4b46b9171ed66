"""Columns of a table as compact JSON: constants once, words by number, numbers with six digits."""

from __future__ import annotations

from typing import Any

import polars as pl

from timeroof.views.page.text import clip, plain_line

DIGITS = 6
# Characters that all words of one column may take together, and one word at most.
WORDS_BUDGET = 1_200_000
LONGEST_WORD = 2_000
SHORTEST_CLIP = 120

Column = dict[str, Any]


def column(values: pl.Series) -> Column:
    """One column: `{"c": constant}`, `{"d": words, "i": places}` or `{"v": numbers}`.

    >>> column(pl.Series([1.0, 1.0])), column(pl.Series([1.0, None, 2.5]))
    ({'c': 1.0}, {'v': [1.0, None, 2.5]})
    >>> column(pl.Series(["a", "b", "a", None]))
    {'d': ['a', 'b'], 'i': [0, 1, 0, -1]}
    """
    if values.n_unique() <= 1:
        value = values[0] if len(values) else None
        return {"c": plain_line(clip(value, LONGEST_WORD)) if isinstance(value, str) else value}
    if values.dtype == pl.String:
        return _words(values)
    return {"v": _numbers(values)}


def _words(values: pl.Series) -> Column:
    words = values.drop_nulls().unique(maintain_order=True)
    places = pl.DataFrame({"word": words}).with_row_index("place")
    found = pl.DataFrame({"word": values}).join(
        places, on="word", how="left", maintain_order="left"
    )
    codes = found["place"].cast(pl.Int64).fill_null(-1).to_list()
    return {"d": shortened(words.to_list()), "i": codes}


def shortened(words: list[str]) -> list[str]:
    """Words that fit their column's budget together; each stays in its place.

    >>> shortened(["a" * 4000])[0].count("a")
    2000
    """
    limit = LONGEST_WORD
    if sum(min(len(w), limit) for w in words) > WORDS_BUDGET:
        limit = max(SHORTEST_CLIP, WORDS_BUDGET // len(words))
    return [plain_line(clip(word, limit)) for word in words]


def _numbers(values: pl.Series) -> list[Any]:
    if values.dtype.is_integer():
        return values.to_list()
    rounded = values.round_sig_figs(DIGITS)
    whole = rounded.drop_nulls()
    if whole.len() and bool(((whole == whole.round(0)) & (whole.abs() < 2**53)).all()):
        rounded = rounded.cast(pl.Int64)
    return rounded.to_list()
