"""The templates of the report's pages, rendered by Jinja. Jinja escapes all text that is not marked as
HTML.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

if TYPE_CHECKING:
    from jinja2 import Environment


def part(name: str) -> str:
    """Return the text of the file `name` in this module's folder."""
    return resources.files("schedbed.deploy.results.page").joinpath(name).read_text(encoding="utf-8")


@cache
def environment() -> Environment:
    """Return the Jinja environment in which the templates are rendered.

    An undefined name in a template is an error. Data that the filter `tojson` inserts cannot end the script
    element around it.
    """
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    made = Environment(
        loader=FunctionLoader(part), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    made.policies["json.dumps_function"] = json.dumps
    return made


def filled(name: str, **values: Any) -> str:
    """Fill the template file `name` with the given values. Return the HTML."""
    return environment().get_template(name).render(**values)


def fill(text: str, **values: Any) -> str:
    """Fill the template `text` with the given values. Return the HTML."""
    return environment().from_string(text).render(**values)


def table(made: Any) -> str:
    """Convert a `report_tables.PageTable` to HTML."""
    return fill('{% from "macros.html" import table %}{{ table(made) }}', made=made)


def style() -> Markup:
    """Return the style sheet of all pages, marked so that Jinja does not escape it."""
    return Markup(part("style.css"))
