"""Clocks and system calls as they were before the program's first line: it may patch them."""

import posix as _posix
import sys
import time as _time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import posix
    import time
else:
    _Copy = type(sys.implementation)
    posix, time = _Copy(**vars(_posix)), _Copy(**vars(_time))

__all__ = ["posix", "time"]
