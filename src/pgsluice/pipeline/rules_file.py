"""Rules in a file of their own: read, with every fault named by table and column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from pgsluice.modifiers.transformer.check import RuleProblem
from pgsluice.modifiers.transformer.rules import Transformations
from pgsluice.pipeline.config.files import expand, map_strings, read_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def read_rules(path: Path, variables: Mapping[str, str]) -> tuple[Transformations | None, list[RuleProblem]]:
    """The rules of a file; or None, and what is wrong with it."""
    tree: Any = read_yaml(path)
    for section in ("modifiers", "transformations"):
        tree = tree.get(section, tree) if isinstance(tree, dict) else tree
    try:
        return Transformations.model_validate(map_strings(tree, lambda _, text: expand(text, variables))), []
    except ValidationError as exc:
        return None, [_problem(error, tree) for error in exc.errors(include_input=False, include_url=False)]
    except ValueError as exc:
        return None, [RuleProblem(str(path), None, str(exc), "Set the variable")]


def _problem(error: Any, tree: Any) -> RuleProblem:
    """By the names of the file, where pydantic has numbers."""
    place = list(error["loc"])
    words = str(error["ctx"]["error"]) if error["type"] == "value_error" else str(error["msg"])
    table, column = "transformations", None
    if place[:1] == ["table_transformers"] and len(place) > 1:
        rules = tree["table_transformers"][place[1]]
        named = isinstance(rules, dict) and "table" in rules
        table = (
            f"{rules.get('schema', 'public')}.{rules['table']}"
            if named
            else f"table_transformers[{place[1]}]"
        )
        place = place[2:]
        if place[:1] == ["column_transformers"] and len(place) > 1:
            column, place = str(place[1]), place[2:]
    at = f"{'.'.join(map(str, place))}: " if place else ""
    return RuleProblem(table, column, f"{at}{words}", "Mend the rule in the file")
