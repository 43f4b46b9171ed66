"""What numpy does not give without a price."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

_Scalar = TypeVar("_Scalar", bound=np.generic)


def distinct(values: npt.NDArray[_Scalar]) -> npt.NDArray[_Scalar]:
    """The different values in order, as `np.unique`.

    Without counts numpy asks whether the array is masked, and imports `numpy.ma` for that: 10 ms.

    >>> distinct(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    values, _ = np.unique(values, return_counts=True)
    return values
