"""A plugin for pytest that adds the WebHDFS token to every request of a client's own tests."""

from __future__ import annotations

import os
from typing import Any

import requests  # pyright: ignore[reportMissingModuleSource]

_request = requests.Session.request


def _request_with_token(self: requests.Session, method: str, url: str, **how: Any) -> requests.Response:
    shown = {"Authorization": f"Bearer {os.environ['SCHEDBED_WEBHDFS_TOKEN']}"}
    return _request(self, method, url, **{**how, "headers": {**shown, **(how.get("headers") or {})}})


setattr(requests.Session, "request", _request_with_token)  # noqa: B010
