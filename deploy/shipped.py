"""The shipped scenarios in `deploy/scenarios`, which commands find by name from any working folder."""

from __future__ import annotations

from pathlib import Path

from schedbed.tasks.errors import BadInput

FOLDER = Path(__file__).resolve().parent / "scenarios"
SUFFIXES = (".yaml", ".yml", ".json")


def shipped() -> dict[str, Path]:
    """Return the shipped scenarios' files by name."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.yaml"))}


def scenario_file(source: str | Path) -> tuple[Path, Path]:
    """Return a scenario's file, and the folder from which relative paths in it start.

    For a shipped scenario, named in `source`, that is the working folder, where users must put the traces,
    which are not shipped. Raises BadInput if it is neither a file nor a shipped scenario.
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
    except OSError:  # For example, the name is too long.
        return False
