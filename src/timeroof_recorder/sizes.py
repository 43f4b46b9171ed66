"""The size by which steps of one kind are told apart: that of a batch."""

# How many values of a container are looked at for a size.
_FEW = 4


def sizes_of(args: tuple[object, ...]) -> tuple[int, ...]:
    """The sizes of the last argument that has any: parameters come first, a batch last.

    >>> class Array:
    ...     shape = (8, 3)
    >>> sizes_of(({"w": None}, {"image": Array(), "label": 0}, 7))
    (8, 3)
    """
    for given in reversed(args):
        values = given.values() if isinstance(given, dict) else given
        few = list(values)[:_FEW] if isinstance(values, (tuple, list)) else [given]
        if isinstance(given, dict):
            few = list(given.values())[:_FEW]
        for value in few:
            shape = getattr(value, "shape", None)
            if shape is not None and not callable(shape) and len(shape or ()):
                return tuple(size for size in shape if isinstance(size, int))
    return ()
