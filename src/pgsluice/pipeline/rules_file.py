"""Rules in a file of their own: read, with every fault named by table and column."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from pgsluice.modifiers.transformer.check import RuleProblem
from pgsluice.modifiers.transformer.rules import Transformations
from pgsluice.pipeline.config.files import expand, map_strings, read_yaml, rules_section

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def read_rules(path: Path, variables: Mapping[str, str]) -> tuple[Transformations, list[RuleProblem]]:
    """The rules of a file as far as they can be read, and what is wrong with the others."""
    problems: list[RuleProblem] = []

    def expanded(_: object, text: str) -> str:
        try:
            return expand(text, variables)
        except ValueError as exc:
            problems.append(RuleProblem(str(path), None, str(exc), "Set the variable"))
            return text

    rules, more = rules_of(rules_section(map_strings(read_yaml(path), expanded)))
    return rules, problems + more


def rules_of(tree: Any) -> tuple[Transformations, list[RuleProblem]]:
    """What is left when faulty parts are taken out, so that the catalog can be asked about the rest."""
    problems: list[RuleProblem] = []
    while True:
        try:
            return Transformations.model_validate(tree), problems
        except ValidationError as exc:
            errors = exc.errors(include_input=False, include_url=False)
        for error in errors:
            problems.append(_problem(error, tree))
        if not isinstance(tree, dict):
            return Transformations(), problems
        tree = _without(tree, [list(error["loc"]) for error in errors])


def _without(tree: dict[str, Any], places: list[list[Any]]) -> dict[str, Any]:
    """Without what is faulty: the rule of a column becomes noop, other parts go."""
    if [] in places:  # the whole does not agree with itself; the rules may, by themselves
        alone = {"table_transformers": tree.get("table_transformers", []), "allow_plain": True}
        return {} if tree.keys() == alone.keys() else alone
    tree = copy.deepcopy(tree)
    faulty = set()
    for place in places:
        match place:
            case ["table_transformers", int(number), "column_transformers", column, *_]:
                tree["table_transformers"][number]["column_transformers"][column] = {"name": "noop"}
            case ["table_transformers", int(number), *_]:
                faulty.add(number)
            case [key, *_]:
                tree.pop(key, None)
    if faulty:
        tables = enumerate(tree["table_transformers"])
        tree["table_transformers"] = [each for number, each in tables if number not in faulty]
    return tree


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
