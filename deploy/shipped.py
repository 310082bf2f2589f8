"""The scenarios shipped with the software, each a file in `deploy/scenarios`, found by name from any folder."""

from __future__ import annotations

from pathlib import Path

from schedbed.tasks.errors import BadInput

FOLDER = Path(__file__).resolve().parent / "scenarios"
SUFFIXES = (".yaml", ".yml", ".json")


def shipped() -> dict[str, Path]:
    """Return the files of all shipped scenarios by name."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.yaml"))}


def scenario_file(source: str | Path) -> tuple[Path, Path]:
    """Return the file that an argument means, and the folder that relative paths in the file start from.

    An existing file wins. The name of a shipped scenario means that scenario, and its relative paths (such as that of
    a trace, which is not shipped) start from the working folder. Raises BadInput if a plain word is neither.
    """
    path = Path(source)
    if _is_file(path) or len(path.parts) != 1 or path.suffix in SUFFIXES:
        return path, path.parent
    known = shipped()
    name = str(source).replace("-", "_")
    if name not in known:
        raise BadInput(f"{source}: no such scenario, expected a file or one of {', '.join(known)}")
    return known[name], Path.cwd()


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # such as a name that is too long
        return False
