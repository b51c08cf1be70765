"""From the text of a template to nodes; ValueError names what is not known here."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pgsluice.modifiers.transforms.gotemplate.functions import FUNCTIONS
from pgsluice.modifiers.transforms.gotemplate.nodes import (
    Call,
    Choice,
    Constant,
    Dynamic,
    Joined,
    Node,
    Value,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pgsluice.modifiers.transforms.gotemplate.functions import Taken

_ACTION: Final = re.compile(r"\{\{(-(?=\s))?(.*?)((?<=\s)-)?\}\}", re.DOTALL)
_TOKEN: Final = re.compile(
    r'\s+|"(?:[^"\\\n]|\\.)*"|`[^`]*`|[()|]|[+-]?\d+(?![\w.])|\.[A-Za-z_]\w*|[A-Za-z_]\w*|(?P<unknown>\S\S*)'
)
_VERB: Final = re.compile(r"%(.?)", re.DOTALL)
_VERBS: Final[dict[str, Taken]] = {"s": "text", "d": "number", "v": "any"}


@dataclass(slots=True)
class _Open:
    """An ``if`` that has not come to its end."""

    condition: Node | None
    parts: list[Node] = field(default_factory=list)
    then: Joined | None = None  # what stands before ``else``
    is_chained: bool = False  # an ``else if`` ends with the one that it belongs to


def parse(template: str) -> Node:
    """The nodes of a template."""
    levels = [_Open(None)]
    for text, action in _pieces(template):
        if text:
            levels[-1].parts.append(Constant(text))
        if action is None:
            continue
        tokens = list(_tokens(action))
        match tokens[:2]:
            case ["if", *_]:
                levels.append(_Open(_condition(tokens[1:])))
            case ["else", *more] if len(levels) > 1 and levels[-1].then is None:
                levels[-1].then, levels[-1].parts = Joined(tuple(levels[-1].parts)), []
                if more == ["if"]:
                    levels.append(_Open(_condition(tokens[2:]), is_chained=True))
                elif more:
                    raise ValueError(f"else is followed by {more[0]}")
            case ["end"] if len(levels) > 1:
                _close(levels)
            case ["end" | "else", *_]:
                raise ValueError(f"{tokens[0]} stands without an if")
            case _:
                levels[-1].parts.append(_pipeline(tokens))
    if len(levels) > 1:
        raise ValueError("an if has no end")
    return Joined(tuple(levels[0].parts))


def _close(levels: list[_Open]) -> None:
    is_chained = True
    while is_chained:
        own = levels.pop()
        assert own.condition is not None
        last = Joined(tuple(own.parts))
        choice = Choice(own.condition, own.then or last, last if own.then else Constant(""))
        levels[-1].parts.append(choice)
        is_chained = own.is_chained


def _pieces(template: str) -> Iterator[tuple[str, str | None]]:
    """Texts, and the action behind each; a hyphen takes white space away from the text beside it."""
    done, trims = 0, False
    for match in _ACTION.finditer(template):
        text = template[done : match.start()]
        text = text.lstrip() if trims else text
        yield (text.rstrip() if match[1] else text), None if match[2].strip().startswith("/*") else match[2]
        done, trims = match.end(), match[3] is not None
    rest = template[done:]
    if "{{" in rest:
        raise ValueError("{{ has no }}")
    yield (rest.lstrip() if trims else rest), None


def _tokens(action: str) -> Iterator[str]:
    for match in _TOKEN.finditer(action):
        if match["unknown"]:
            raise ValueError(f"{match['unknown']} is not known in templates here")
        if not match[0].isspace():
            yield match[0]


def _condition(tokens: list[str]) -> Node:
    node = _pipeline(tokens)
    if node.kind == "text":
        return Call("ne", (node, Constant("")), "truth")
    if node.kind == "number":
        raise ValueError("if asks a number; compare texts by eq or ne")
    return node


def _pipeline(tokens: list[str]) -> Node:
    node, rest = _commands(tokens)
    if rest:
        raise ValueError(f"{rest[0]} stands where nothing is expected")
    return node


def _commands(tokens: list[str]) -> tuple[Node, list[str]]:
    """Commands with | between them: what one gives is the last argument of the next."""
    given: tuple[Node, ...] = ()
    while True:
        node, tokens = _command(tokens, given)
        if not tokens or tokens[0] != "|":
            return node, tokens
        given, tokens = (node,), tokens[1:]


def _command(tokens: list[str], given: tuple[Node, ...]) -> tuple[Node, list[str]]:
    if not tokens:
        raise ValueError("an action is empty")
    name, rest = tokens[0], tokens[1:]
    if not (name[0].isalpha() or name[0] == "_") or name in ("true", "false"):
        node, rest = _operand(tokens)
        if given:
            raise ValueError(f"{name} is no function, and | gives it a value")
        return node, rest
    arguments: list[Node] = []
    while rest and rest[0] not in (")", "|"):
        node, rest = _operand(rest)
        arguments.append(node)
    return _call(name, (*arguments, *given)), rest


def _operand(tokens: list[str]) -> tuple[Node, list[str]]:
    word, rest = tokens[0], tokens[1:]
    match word[0]:
        case "(":
            node, rest = _commands(rest)
            if rest[:1] != [")"]:
                raise ValueError("( has no )")
            return node, rest[1:]
        case '"' | "`":
            return Constant(_unquoted(word)), rest
        case ".":
            return _field(word, rest)
    if word in ("true", "false"):
        return Constant(word == "true"), rest
    if word[0].isalpha() or word[0] == "_":
        return _call(word, ()), rest
    if word in (")", "|"):
        raise ValueError(f"{word} stands where a value is expected")
    return Constant(int(word)), rest


def _unquoted(word: str) -> str:
    try:
        text: str = word[1:-1] if word[0] == "`" else json.loads(word, strict=False)
    except ValueError:
        raise ValueError("a text has an escape that is not known here") from None
    return text


def _field(word: str, rest: list[str]) -> tuple[Node, list[str]]:
    if word == ".GetValue":
        return Value(), rest
    if word == ".GetDynamicValue":
        if not rest or rest[0][0] not in '"`':
            raise ValueError(".GetDynamicValue needs the name of a column, in quotes")
        return Dynamic(_unquoted(rest[0])), rest[1:]
    raise ValueError(f"{word} is not known in templates here")


def _call(name: str, arguments: tuple[Node, ...]) -> Node:
    if name == "printf":
        return _printf(arguments)
    function = FUNCTIONS.get(name)
    if function is None:
        raise ValueError(f"the function {name} is not known in templates here")
    takes = function.takes
    if function.more:
        takes += takes[-1:] * (len(arguments) - len(takes))
    if len(takes) != len(arguments):
        raise ValueError(f"{name} takes {len(takes)} values, and {len(arguments)} are given")
    for argument, wanted in zip(arguments, takes, strict=True):
        _check(name, argument, wanted)
    return Call(name, arguments, function.gives)


def _check(name: str, node: Node, wanted: Taken) -> None:
    if wanted.startswith("some ") and (not isinstance(node, Constant) or node.value == ""):
        raise ValueError(f"{name} needs a literal")
    kind = wanted.removeprefix("some ")
    if kind not in ("any", node.kind):
        raise ValueError(f"{name} takes a {kind}, and a {node.kind} is given")


def _printf(arguments: tuple[Node, ...]) -> Node:
    """The pieces of the format, with values between them."""
    if not arguments or not isinstance(arguments[0], Constant) or not isinstance(arguments[0].value, str):
        raise ValueError("printf needs its format as a literal")
    form, values = arguments[0].value, list(arguments[1:])
    parts: list[Node] = []
    done = 0
    for match in _VERB.finditer(form):
        parts.append(Constant(form[done : match.start()]))
        done = match.end()
        if match[1] == "%":
            parts.append(Constant("%"))
        elif match[1] not in _VERBS or not match[1]:
            raise ValueError(f"printf knows %s, %d, %v and %% here, not {match[0]}")
        elif not values:
            raise ValueError("printf has more verbs than values")
        else:
            _check(f"printf %{match[1]}", values[0], _VERBS[match[1]])
            parts.append(values.pop(0))
    if values:
        raise ValueError("printf has more values than verbs")
    return Joined((*parts, Constant(form[done:])))
