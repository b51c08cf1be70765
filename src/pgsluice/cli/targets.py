"""``pgsluice targets``: the kinds of target and the options of each, from their models; and ``forget``."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from pgsluice.cli.options import JsonOutput, Name, StateDir, flags
from pgsluice.cli.output import print_json, print_table, print_text
from pgsluice.cli.settings import load_config, settings

if TYPE_CHECKING:
    from pgsluice.sinks.base import SinkKind

_FORGET: Final = "forget"


def targets(
    context: typer.Context,
    kind: Annotated[str | None, typer.Argument(help="One kind, with all its options; or forget.")] = None,
    target: Annotated[
        str | None, typer.Argument(help="After forget: the target that nothing is kept for any more.")
    ] = None,
    name: Name = None,
    state_dir: StateDir = None,
    json_output: JsonOutput = False,
) -> None:
    """List the kinds of target, or every option of one; `targets forget NAME` lets the log go."""
    from pgsluice.sinks import registry

    if kind == _FORGET:
        _forget(context, target, flags(name=name, state_dir=state_dir))
        return

    kinds = list(registry.kinds().values()) if kind is None else [registry.kind(kind)]
    no_color = settings(context).no_color
    if json_output:
        described = [describe(each) for each in kinds]
        print_json(described if kind is None else described[0])
    elif kind is None:
        rows = [(each.name, each.form, each.guarantee, each.summary) for each in kinds]
        print_table(("kind", "form", "guarantee", "what it is"), rows, no_color=no_color)
    else:
        _print_kind(kinds[0], no_color)


def _forget(context: typer.Context, target: str | None, given: dict[str, Any]) -> None:
    from pgsluice.errors import ConfigError
    from pgsluice.pipeline.leave import forget_target

    if target is None:
        raise ConfigError("forget which target?", remedy="pgsluice targets forget NAME; `status` lists them")
    config = load_config(context, given)
    position = forget_target(config.log_dir, config.state_dir, target)
    if not settings(context).quiet:
        print_text(f"forgot {target}, which stood at {position}: the change log is no longer kept for it")


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
