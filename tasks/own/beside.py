"""Imports between the Python files in a user's folder (policies, applications).

`import helper` there imports `helper.py` beside it, whatever the working folder and however late, without a
change of `sys.path`. Each folder is a package of its own, whose modules have an `__import__` that searches it
first.
"""

from __future__ import annotations

import builtins
import importlib
import sys
import zlib
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

PREFIX = "schedbed_beside_"


def load_with_files_beside(path: Path) -> ModuleType:
    """Run a Python file as a new module; other files of its folder run again when imported."""
    folder = path.resolve().parent
    package = f"{PREFIX}{zlib.crc32(str(folder).encode()):08x}"
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]
    importlib.invalidate_caches()  # The folder may have new files.
    holder = ModuleType(package)
    holder.__path__ = [str(folder)]
    sys.modules[package] = holder
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)
    name = f"{package}.{path.stem}"
    spec = spec_from_file_location(name, path, loader=_FolderLoader(name, str(path)))
    assert spec is not None and spec.loader is not None  # A loader was given above.
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look up modules there.
    spec.loader.exec_module(module)
    return module


class _Finder:
    """An entry of `sys.meta_path` that finds modules in users' folders."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        """Return the spec that loads a module in a user's folder, or None for any other module."""
        if not name.startswith(PREFIX):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _FolderLoader(spec.loader.name, spec.loader.path)
        return spec


class _FolderLoader(SourceFileLoader):
    """A loader of Python files in users' folders. The imports of a loaded file search its folder first."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the file's code in the module, with an `__import__` that searches the file's folder first."""
        package = module.__name__.partition(".")[0]
        vars(module)["__builtins__"] = {**vars(builtins), "__import__": _import_of(package)}
        super().exec_module(module)


def _import_of(package: str) -> Any:
    """Return an `__import__` that searches the folder of `package` first."""
    folder = Path(sys.modules[package].__path__[0])

    def find(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        top = name.partition(".")[0]
        if level or not _lies_in(folder, top):
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        module = importlib.import_module(f"{package}.{name}")
        if not fromlist:
            return sys.modules[f"{package}.{top}"]
        for part in fromlist:
            if part != "*" and not hasattr(module, part) and hasattr(module, "__path__"):
                importlib.import_module(f"{package}.{name}.{part}")
        return module

    return find


def _lies_in(folder: Path, name: str) -> bool:
    if name == "schedbed":  # User files must import the running program, not a copy in their folder.
        return False
    return (folder / f"{name}.py").is_file() or (folder / name / "__init__.py").is_file()
