"""The results of WebHDFS's clients as a file, and as the table of docs/clients.md."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

NOT_BUILT = "snapshots are not built; the suite leaves them out itself, as with HttpFS"
OWN_SKIP = "the suite leaves it out on every server"
NAMED: Mapping[str, str] = {
    "test_webhdfs.test_simple": (
        "it expects that a user may not write to `/`; permissions are kept and shown, not enforced, "
        "and whoever shows the token may do anything"
    ),
    "test_client.TestSnapshot": NOT_BUILT,
    "test_client.TestOptions.test_timeout": OWN_SKIP,
    "test_client.TestLatestExpansion.test_resolve_file": OWN_SKIP,
    "test_client.TestSetTimes.test_negative": OWN_SKIP,
    "test_config.TestConfig.test_config_path": OWN_SKIP,
}
"""Why a test of a suite, or all of a class, does not pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientResult:
    """The result of one client.

    `failed` and `skipped` name tests of its suite; `trouble` says why a check failed.
    """

    client: str
    how: str
    passed: int = 0
    failed: Sequence[str] = ()
    skipped: Sequence[str] = ()
    trouble: str = ""

    @property
    def unexplained(self) -> list[str]:
        """Return `trouble` if there is any, and the names of failed and skipped tests without a reason in
        `NAMED`.
        """
        missed = [test for test in (*self.failed, *self.skipped) if _reason(test) is None]
        return [*missed, self.trouble] if self.trouble else missed


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFile:
    """The results of all clients, with when and where they ran."""

    date: str
    host: str
    command: str
    clients: Sequence[ClientResult]

    def save(self, path: Path) -> None:
        """Write the results to `path` as JSON."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    @staticmethod
    def load(path: Path) -> ClientFile:
        """Read results that `save` wrote."""
        raw = json.loads(path.read_text(encoding="utf-8"))
        return ClientFile(**{**raw, "clients": [ClientResult(**each) for each in raw["clients"]]})


def table(kept: ClientFile) -> str:
    """Return a Markdown table with a row for each client, followed by a list of its misses with their
    reasons.
    """
    lines = [
        f"Ran on {kept.date}. Host: {kept.host}. Command: `{kept.command}`.\n",
        "| client | what it did | result |",
        "|---|---|---|",
        *(f"| {each.client} | {each.how} | {_verdict(each)} |" for each in kept.clients),
        "\n| what does not pass | tests | why |",
        "|---|---|---|",
    ]
    for each in kept.clients:
        for name, count in _misses(each).items():
            lines.append(
                f"| {each.client.split()[0]}: `{name}` | {count} | {_reason(name) or 'not explained'} |"
            )
    return "\n".join(lines) + "\n"


def _verdict(each: ClientResult) -> str:
    if each.trouble:
        return f"failed: {each.trouble}"
    if not each.passed:
        return "passed"
    counts = {"failed": each.failed, "left out": each.skipped}
    return ", ".join([f"{each.passed} passed", *(f"{len(n)} {what}" for what, n in counts.items() if n)])


def _misses(each: ClientResult) -> dict[str, int]:
    found: dict[str, int] = {}
    for test in (*each.failed, *each.skipped):
        group = next((name for name in NAMED if _within(test, name)), test)
        found[group] = found.get(group, 0) + 1
    return found


def _reason(test: str) -> str | None:
    return next((why for name, why in NAMED.items() if _within(test, name)), None)


def _within(test: str, name: str) -> bool:
    return test == name or test.startswith(f"{name}.")
