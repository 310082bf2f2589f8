"""The files that users send with their jobs, since users have no access to the cluster's host."""

from __future__ import annotations

import base64
import hashlib
import shlex
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from schedbed.tasks.errors import BadInput
from schedbed.tasks.own.imported_files import with_imported
from schedbed.tasks.own.program import COMMANDS, is_app_file

SENT_BYTES = 5 << 20
"""Largest size in bytes of a request's files; in base64 they fit into a body of the API."""
SENT = "sent"
"""Folder of sent files in the results, so that scenario.yaml can repeat the jobs."""


def is_plain(name: str) -> bool:
    """Return whether `name` is a relative path that does not leave its folder."""
    path = PurePosixPath(name)
    return not (
        path.is_absolute() or ".." in path.parts or name.startswith("~") or "\0" in name or not path.parts
    )


# ----------------------------------------------------------------------------------------------- the user's side


def pack_files(entries: Any, base: Path) -> dict[str, str]:
    """Return the input and code files of jobs (entries of a scenario) by name, in base64.

    Raises BadInput for a file outside of `base`, an unreadable one, or files too large together.
    """
    packed: dict[str, str] = {}
    length = 0
    for name in dict.fromkeys(name for entry in _mappings(entries) for name in _names(entry, base)):
        if not is_plain(name):
            raise BadInput(
                f"{name}: expected the name of a file below {base}, since files are sent to the cluster"
            )
        try:
            data = (base / name).read_bytes()
        except OSError as error:
            raise BadInput(f"{base / name}: {error.strerror or error}") from None
        length += len(data)
        if length > SENT_BYTES:
            raise BadInput(
                f"{name}: the files of one submission are larger than {SENT_BYTES >> 20} MiB together"
            )
        packed[name] = base64.b64encode(data).decode()
    return packed


def _mappings(entries: Any) -> Iterator[Mapping[str, Any]]:
    yield from (each for each in (entries if isinstance(entries, list) else ()) if isinstance(each, Mapping))


def _names(entry: Mapping[str, Any], base: Path) -> Iterator[str]:
    files = entry.get("files")
    given = [entry.get("input"), *(files if isinstance(files, list) else ())]
    yield from (name for name in given if isinstance(name, str))
    app = entry.get("app")
    if isinstance(app, str) and is_app_file(app):
        yield from _with_imports(app.partition(".py:")[0].removesuffix(".py") + ".py", base)
    params = entry.get("params")
    for role in COMMANDS:
        command = entry.get(role) or (params.get(role) if isinstance(params, Mapping) else None)
        if isinstance(command, str):
            words = [word for word in _words(command) if is_plain(word) and _is_file(base / word)]
            yield from (name for word in words for name in _with_imports(word, base))


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # The cluster complains about it.
        return []


def _with_imports(name: str, base: Path) -> Iterator[str]:
    """Yield a file below `base`, and the Python files in its folder that it imports."""
    yield name
    if is_plain(name) and _is_file(base / name):
        file = base / name
        yield from (str(Path(name).parent / each.relative_to(file.parent)) for each in with_imported(file))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # The name may be too long, for example.
        return False


# -------------------------------------------------------------------------------------------- the cluster's side


def unpack_files(sent: Any) -> dict[str, bytes]:
    """Return a request's `files` by name.

    Raises BadInput for a name outside the folder, data that are not base64, or too many bytes.
    """
    if not isinstance(sent, Mapping):
        raise BadInput("files: expected a mapping from names to data in base64")
    found: dict[str, bytes] = {}
    for name, data in sent.items():
        if not isinstance(name, str) or not isinstance(data, str) or not is_plain(name):
            raise BadInput(
                f"files: {name!r} is not the name of a file below the working folder, with its data"
            )
        try:
            found[str(PurePosixPath(name))] = base64.b64decode(data, validate=True)
        except ValueError:
            raise BadInput(f"files: {name}: not base64") from None
    if sum(map(len, found.values())) > SENT_BYTES:
        raise BadInput(f"files: more than {SENT_BYTES >> 20} MiB together")
    return found


@contextmanager
def kept_files(files: Mapping[str, bytes], folder: Path) -> Iterator[Path]:
    """Write files to a subfolder, the same for equal names and contents, and yield it.

    If the `with` block raises an exception, a new subfolder is removed, so that refused jobs leave no files.
    Only one thread may call this at a time.
    """
    digest = hashlib.sha256()
    for name, data in sorted(files.items()):
        digest.update(
            hashlib.sha256(name.encode(errors="surrogatepass")).digest() + hashlib.sha256(data).digest()
        )
    place = folder / digest.hexdigest()[:16]
    is_new = not place.exists()
    try:
        if is_new:
            _write(files, place)
        yield place
    except BaseException:
        if is_new:
            shutil.rmtree(place, ignore_errors=True)
        raise


def _write(files: Mapping[str, bytes], place: Path) -> None:
    place.mkdir(parents=True, mode=0o700)
    for name, data in files.items():
        path = place / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            path.chmod(0o700)  # File modes are not sent, and a streaming command must be executable.
        except (OSError, ValueError) as error:
            raise BadInput(f"files: {name}: {error}") from None
