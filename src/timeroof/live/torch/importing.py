"""Do something as soon as a module has been imported, and nothing if it never is."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def after_import(name: str, action: Callable[[], None]) -> Callable[[], None]:
    """Call `action` once the module is imported, now if it is; returns a way to take it back."""
    if name in sys.modules:
        action()
        return lambda: None
    finder = _Finder(name, action)
    sys.meta_path.insert(0, finder)
    return finder.remove


class _Finder(MetaPathFinder):
    """Finds one module through the others, and has it loaded by a loader that tells.

    Looking is not loading: a program may ask for the spec first (`importlib.util.find_spec`), as
    often as it likes, and an import may fail and be tried again. So it stays until the module is
    there.
    """

    def __init__(self, name: str, action: Callable[[], None]) -> None:
        self._name, self._action = name, action
        self._looking = threading.local()
        self._is_over = threading.Lock()

    def remove(self) -> None:
        """Await the module no longer, whoever loads it with a spec of ours."""
        self._is_over.acquire(blocking=False)
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of the awaited module, with a loader that acts after loading."""
        # Other finders of this kind ask all finders, and so this one again.
        if fullname != self._name or getattr(self._looking, "now", False):
            return None
        self._looking.now = True
        try:
            spec = self._found(path, target)
        finally:
            self._looking.now = False
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Telling(spec.loader, self)
        return spec

    def _found(self, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = find(self._name, path, target) if find is not None else None
            if isinstance(spec, ModuleSpec):
                return spec
        return None

    def loaded(self) -> None:
        """Act, once, unless somebody loaded a module of that name for himself alone."""
        if self._name in sys.modules and self._is_over.acquire(blocking=False):
            self.remove()
            self._action()


class _Telling(Loader):
    """A loader that hands everything on, and tells when the module is there."""

    def __init__(self, loader: Any, finder: _Finder) -> None:
        self._loader, self._finder = loader, finder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """Programs that ask for the loader's kind get that of the real one."""
        return type(self._loader)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Copies are those of the real loader."""
        return self._loader.__reduce_ex__(protocol)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the real loader does it."""
        create = getattr(self._loader, "create_module", None)
        made: ModuleType | None = create(spec) if create is not None else None
        return made

    def exec_module(self, module: ModuleType) -> None:
        """Put the real loader back, load, tell."""
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._finder.loaded()
