"""The templates of the report's pages, rendered by Jinja. Jinja escapes all text that is not marked as HTML."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

if TYPE_CHECKING:
    from jinja2 import Environment


def part(name: str) -> str:
    """Return the text of the file `name` in this folder."""
    return resources.files("schedbed.deploy.results.page").joinpath(name).read_text(encoding="utf-8")


@cache
def environment() -> Environment:
    """Return the Jinja environment: an undefined name is an error, and `tojson` data cannot end its script element."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    made = Environment(
        loader=FunctionLoader(part), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    made.policies["json.dumps_function"] = json.dumps
    return made


def filled(name: str, **values: Any) -> str:
    return environment().get_template(name).render(**values)


def fill(text: str, **values: Any) -> str:
    return environment().from_string(text).render(**values)


def table(made: Any) -> str:
    """Convert a `report_tables.PageTable` to HTML."""
    return fill('{% from "macros.html" import table %}{{ table(made) }}', made=made)


def style() -> Markup:
    """Return the style sheet of all pages, not to be escaped by Jinja."""
    return Markup(part("style.css"))
