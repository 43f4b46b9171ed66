"""The shapes of a row's input tensors: lists of integers, and the text that people read and type.

A shape is one list of sizes per tensor, ``[[2, 3], [3, 4]]``; a tensor without dimensions is an
empty one. All sizes are known or the shape is null: whoever multiplies needs to ask nothing. What
a source writes that is not such a list (``s0x64``, a case's parameters) stays beside it as the
label ``shape``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import polars as pl

SHAPE = pl.List(pl.List(pl.Int64))
Sizes = tuple[int, ...]
# Per tensor its sizes.
Shape = tuple[Sizes, ...]

# Where the text of a shape stays that is not a list of integers.
SHAPE_LABEL = "label.shape"
# Tensors that a table, a chart or a sentence shows of one row.
SHOWN_TENSORS = 8
SCALAR = "scalar"

_TOKEN = re.compile(r"\s*(?:(scalar)|(\d+(?:\s*[x×*]\s*\d+)*)|([\[(])|([\])])|([,;]))\s*")
_SIZE = re.compile(r"\d+")
_LARGEST_SIZE = 2**63 - 1
_MOST_NESTED = 8


def tensor_shape(arguments: Iterable[object]) -> Shape | None:
    """The shape that a tracer's dimensions say, lists of tensors one by one.

    Tracers write `[]` for what is no tensor too: it says nothing.

    >>> tensor_shape([[2, 3], [[4], [5, 6]], [], 7]), tensor_shape([[2, -1], [4]])
    (((2, 3), (4,), (5, 6)), None)
    """
    found = list(_tensors(arguments, _MOST_NESTED))
    shape = tuple(sizes for sizes in found if sizes is not None)
    return shape if shape and len(shape) == len(found) else None


def _tensors(arguments: Iterable[object], depth: int) -> Iterator[Sizes | None]:
    for sizes in arguments:
        if not isinstance(sizes, list) or not sizes:
            continue
        if depth and all(isinstance(s, list) for s in sizes):
            yield from _tensors(sizes, depth - 1)
        else:
            yield tuple(sizes) if all(map(is_size, sizes)) else None


def is_size(value: object) -> bool:
    """Whether a value can be the size of a dimension."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST_SIZE


def shape_text(shape: Sequence[Sequence[int]] | None, most: int | None = None) -> str | None:
    """A shape as people read it; `parse_shape` reads it back unless `most` cuts it short.

    >>> shape_text([[2, 3], [], [4]]), shape_text([[2, 3], [4], [5]], most=1), shape_text(None)
    ('2x3, scalar, 4', '2x3 and 2 more', None)
    """
    if not shape:
        return None
    text = ", ".join("x".join(map(str, sizes)) or SCALAR for sizes in shape[:most])
    hidden = len(shape) - len(shape[:most])
    return f"{text} and {hidden} more" if hidden else text


def parse_shape(text: str | None) -> Shape | None:
    """The shape that a text says in any of the usual notations, None where it is not one.

    Sizes of one tensor are joined by x or stand in brackets; a bare number is a vector.

    >>> parse_shape("2x3, scalar, 4"), parse_shape("[[2, 3], [3, 4]]"), parse_shape("(64, 10)")
    (((2, 3), (), (4,)), ((2, 3), (3, 4)), ((64, 10),))
    >>> parse_shape("s0x64"), parse_shape("n=64"), parse_shape("2x3 and 2 more")
    (None, None, None)
    """
    shape: list[Sizes] = []
    opened: list[_Bracket] = []
    for token in _tokens(text or ""):
        if token is None or not _take(token, opened, shape):
            return None
    fits = all(size <= _LARGEST_SIZE for sizes in shape for size in sizes)
    return tuple(shape) if shape and fits and not opened else None


class _Bracket:
    """A pair of brackets that is open: numbers are one tensor's sizes, unless it holds tensors."""

    def __init__(self, place: int) -> None:
        self.place = place
        self.numbers: list[int] = []
        self.holds_tensors = False


def _tokens(text: str) -> Iterator[str | None]:
    """The words, numbers and brackets of a text; None where there is anything else."""
    place = 0
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            yield None
            return
        place = found.end()
        if found[5] is None:
            yield found[0].strip()


def _take(token: str, opened: list[_Bracket], shape: list[Sizes]) -> bool:
    """Take in one token; False where no shape can have it there."""
    inside = opened[-1] if opened else None
    if token in "[(":
        opened.append(_Bracket(len(shape)))
        return len(opened) <= _MOST_NESTED
    if token in "])":
        return bool(opened) and _close(opened, shape)
    sizes = tuple(int(size) for size in _SIZE.findall(token) if len(size) < 20)
    if inside is not None and len(sizes) == 1 and not inside.holds_tensors:
        inside.numbers.append(sizes[0])
        return True
    if inside is not None:
        inside.holds_tensors = True
    shape.append(sizes)
    return len(sizes) == len(_SIZE.findall(token))


def _close(opened: list[_Bracket], shape: list[Sizes]) -> bool:
    closed = opened.pop()
    if closed.holds_tensors or len(shape) > closed.place:
        # `[2x3, 4]` lists tensors: numbers before the first of them were vectors.
        shape[closed.place : closed.place] = [(size,) for size in closed.numbers]
    else:
        shape.append(tuple(closed.numbers))
    if opened:
        opened[-1].holds_tensors = True
    return True


def shape_series(shapes: Iterable[Shape | None], name: str = "shape") -> pl.Series:
    """Shapes as a column.

    >>> shape_series([((2, 3), ()), None]).to_list()
    [[[2, 3], []], None]
    """
    lists = [[list(sizes) for sizes in shape] if shape else None for shape in shapes]
    return pl.Series(name, lists, SHAPE)


def shape_texts(shapes: pl.Series, most: int | None = None) -> pl.Series:
    """A column of shapes as texts, each different one written once.

    >>> shape_texts(pl.Series([[[2, 3]], None, [[4], []]], dtype=SHAPE)).to_list()
    ['2x3', None, '4, scalar']
    """
    different = shapes.unique(maintain_order=True)
    texts = [shape_text(shape, most) for shape in different.to_list()]
    by_shape = pl.DataFrame([different.alias("shape"), pl.Series("text", texts, pl.String)])
    asked = pl.DataFrame([shapes.alias("shape")])
    joined = asked.join(by_shape, on="shape", how="left", nulls_equal=True, maintain_order="left")
    return joined["text"].alias(shapes.name)


def shown_shapes(rows: pl.DataFrame, most: int | None = SHOWN_TENSORS) -> pl.Series:
    """What views show as the shapes of rows: the lists as text, else what the source wrote."""
    texts = shape_texts(rows["shape"], most)
    if SHAPE_LABEL not in rows.columns:
        return texts
    both = pl.DataFrame([texts, rows[SHAPE_LABEL]])
    return both.select(pl.coalesce("shape", SHAPE_LABEL).alias("shape"))["shape"]


def with_shape_lists(table: pl.DataFrame) -> pl.DataFrame:
    """A table whose shapes are lists: texts are read, those that are none become the label.

    >>> table = pl.DataFrame({"shape": ["2x3, 4", "s0x64", None]})
    >>> with_shape_lists(table).to_dict(as_series=False)
    {'shape': [[[2, 3], [4]], None, None], 'label.shape': [None, 's0x64', None]}
    """
    if "shape" not in table.columns or table.schema["shape"] != pl.String:
        return table
    different = table["shape"].drop_nulls().unique(maintain_order=True)
    texts = different.to_list()
    shapes = [parse_shape(text) for text in texts]
    others = [t if s is None and t.strip() else None for t, s in zip(texts, shapes, strict=True)]
    columns = [shape_series(shapes, "_lists"), pl.Series("_other", others, pl.String)]
    by_text = pl.DataFrame([different, *columns])
    joined = table.join(by_text, on="shape", how="left", maintain_order="left")
    kept = pl.coalesce(*(c for c in (SHAPE_LABEL, "_other") if c in joined.columns))
    label = [kept.alias(SHAPE_LABEL)] if any(others) else []
    return joined.with_columns(pl.col("_lists").alias("shape"), *label).drop("_lists", "_other")
