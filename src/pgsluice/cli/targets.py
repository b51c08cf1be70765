"""``pgsluice targets``: what kinds of target there are, and the options of each, from their models."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pgsluice.cli.options import JsonOutput  # noqa: TC001 - typer reads annotations
from pgsluice.cli.output import print_json, print_table, print_text
from pgsluice.cli.settings import settings

if TYPE_CHECKING:
    from pgsluice.sinks.base import SinkKind


def targets(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="One kind, with all its options.")] = None,
    json_output: JsonOutput = False,
) -> None:
    """List the kinds of target and their guarantees, or every option of one of them."""
    from pgsluice.sinks import registry

    kinds = list(registry.kinds().values()) if name is None else [registry.kind(name)]
    no_color = settings(context).no_color
    if json_output:
        described = [describe(kind) for kind in kinds]
        print_json(described if name is None else described[0])
    elif name is None:
        rows = [(kind.name, kind.form, kind.guarantee, kind.summary) for kind in kinds]
        print_table(("kind", "form", "guarantee", "what it is"), rows, no_color=no_color)
    else:
        _print_kind(kinds[0], no_color)


def describe(kind: SinkKind) -> dict[str, Any]:
    """A kind as plain data."""
    from pgsluice.pipeline.config.describe import settings as settings_of
    from pgsluice.pipeline.config.targets import options_model

    return {
        "kind": kind.name,
        "summary": kind.summary,
        "form": kind.form,
        "guarantee": kind.guarantee,
        "install": f"pip install 'pgsluice[{kind.extra}]'" if kind.extra else None,
        "options": [
            {
                "key": setting.name,
                "type": setting.type,
                "required": setting.required,
                "default": None if setting.required else setting.default_text,
                "description": setting.description,
            }
            for setting in settings_of(options_model(kind))
            if not setting.section
        ],
        "example": kind.example,
    }


def _print_kind(kind: SinkKind, no_color: bool) -> None:
    described = describe(kind)
    print_text(f"{kind.name}: {kind.summary}")
    print_text(f"form: {kind.form}; guarantee: {kind.guarantee}")
    if described["install"]:
        print_text(described["install"])
    print_text()
    rows = [
        (
            option["key"],
            option["type"],
            "required" if option["required"] else option["default"],
            option["description"],
        )
        for option in described["options"]
    ]
    print_table(("option", "type", "default", "description"), rows, no_color=no_color)
    print_text(
        "\nexample:\n" + textwrap.indent(f"target:\n{textwrap.indent(kind.example.rstrip(), '  ')}", "  ")
    )
