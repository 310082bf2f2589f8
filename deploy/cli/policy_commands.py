"""The command `schedbed policy check`: checks a user's own policy in small simulations."""

from __future__ import annotations

from typing import Annotated

import typer

policy_app = typer.Typer(
    help="Check policies of your own.\n\nExample: schedbed policy check my_policy.py:ShortestFirst",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@policy_app.callback()
def policy() -> None:
    """Do nothing. This callback makes typer keep `check` as a subcommand: `schedbed policy check`."""


@policy_app.command()
def check(
    spec: Annotated[
        str,
        typer.Argument(
            metavar="FILE.py:Class",
            help="File and class of the policy, optionally with parameters, such as "
            "my_policy.py:Mine:wait=5s.",
        ),
    ],
) -> None:
    """Simulate a policy of your own in several small scenarios, more than once, and print the errors found.

    Example: schedbed policy check my_policy.py:ShortestFirst
    """
    from schedbed.deploy.studies.policy_check import check_policy

    check_policy(spec, typer.echo)
