"""The arrays of a recording.

A module of its own: numpy reads its settings (threads) when it is loaded, so nothing that is
needed before the program runs may load it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
