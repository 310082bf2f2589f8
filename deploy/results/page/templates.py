"""The templates of the report's pages, filled by Jinja. Jinja escapes all text except text marked as HTML."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

if TYPE_CHECKING:
    from jinja2 import Environment


def part(name: str) -> str:
    """Return the text of a file in this module's folder."""
    return resources.files("schedbed.deploy.results.page").joinpath(name).read_text(encoding="utf-8")


@cache
def environment() -> Environment:
    """Return the Jinja environment for the templates.

    An undefined name in a template is an error, and text from `|tojson` cannot end the enclosing script
    element.
    """
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    made = Environment(
        loader=FunctionLoader(part), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    made.policies["json.dumps_function"] = json.dumps
    return made


def filled(name: str, **values: Any) -> str:
    """Return the template file `name`, filled with the values, as HTML."""
    return environment().get_template(name).render(**values)


def fill(text: str, **values: Any) -> str:
    """Return the template text, filled with the values, as HTML."""
    return environment().from_string(text).render(**values)


def table(made: Any) -> str:
    """Return a `report_tables.PageTable` as HTML."""
    return fill('{% from "macros.html" import table %}{{ table(made) }}', made=made)


def style() -> Markup:
    """Return the style sheet of all pages as text that Jinja does not escape."""
    return Markup(part("style.css"))
