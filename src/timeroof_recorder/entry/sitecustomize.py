"""The recorder's way in where its `.pth` file is not installed; then the user's own, if any.

Any Python 3 may come by here: nothing newer than that is used.
"""

import sys


def _begin():  # type: ignore[no-untyped-def]
    here = __file__.rpartition("/")[0]
    root = here.rpartition("/")[0].rpartition("/")[0]
    try:
        if sys.version_info >= (3, 11):  # noqa: UP036
            __import__("timeroof_recorder").start()
    except ImportError:
        pass
    path = list(sys.path)
    for entry in (here, root):
        if entry in sys.path:
            sys.path.remove(entry)
    external = sys.modules["_frozen_importlib_external"]
    spec = external.PathFinder.find_spec("sitecustomize", list(sys.path))
    # What the recorder still imports is found by its package.
    if root in path:
        sys.path.append(root)
    if spec is not None and spec.loader is not None and spec.origin != __file__:
        spec.loader.exec_module(sys.modules["sitecustomize"])


_begin()  # type: ignore[no-untyped-call]
