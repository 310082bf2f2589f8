"""A hook of mkdocs.yml that makes links out of docs/ point to the repository on the site."""

from __future__ import annotations

import posixpath
import re
from typing import Any

LINK = re.compile(r"\]\((?!https?://|#|mailto:)(?P<path>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Return the text of a page in which links out of docs/ are absolute.

    MkDocs calls this for each page.
    """
    return outward(markdown, page.file.src_uri, config.repo_url)


def outward(markdown: str, name: str, repository: str) -> str:
    """Return the text of the page `name`, a path below docs/, with links out of docs/ made links to
    `repository`.
    """

    def link(found: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(name), found["path"]))
        if not path.startswith("../"):
            return found[0]
        below = posixpath.normpath(posixpath.join("docs", path))
        return f"]({repository}/blob/main/{below}{found['anchor'] or ''})"

    return LINK.sub(link, markdown)
