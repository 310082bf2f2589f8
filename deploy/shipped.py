"""The shipped scenarios: files in `deploy/scenarios`, which a command finds by name from any folder."""

from __future__ import annotations

from pathlib import Path

from schedbed.tasks.errors import BadInput

FOLDER = Path(__file__).resolve().parent / "scenarios"
SUFFIXES = (".yaml", ".yml", ".json")


def shipped() -> dict[str, Path]:
    """Return the paths of all shipped scenarios by name."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.yaml"))}


def scenario_file(source: str | Path) -> tuple[Path, Path]:
    """Return the path of the scenario named by an argument, and the base folder of relative paths in that
    file.

    An existing file takes precedence over a shipped scenario of the same name. The base folder of a shipped
    scenario is the working folder, since its traces are not shipped. Raises BadInput for a name that is
    neither a file nor a shipped scenario.
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
