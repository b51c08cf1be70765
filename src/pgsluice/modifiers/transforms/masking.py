"""Parts of a text hidden behind stars."""

from __future__ import annotations

from typing import ClassVar, Final, Literal

from pydantic import field_validator, model_validator

from pgsluice.modifiers.transforms.base import Cell, Family, Nulls, Transform

Kind = Literal[
    "custom", "password", "name", "address", "email", "mobile", "tel", "id", "credit_card", "url", "default"
]

_WHATEVER: Final = "'************'"  # as long for all: the length of a password says something, too
_ADDRESS_SHOWN: Final = 6
# Inside of words; the second letter of words of two, and words of one letter.
_IN_NAMES: Final = r"(?<=[^ ])[^ ](?=[^ ]+)|(?<=(?<![^ ])[^ ])[^ ](?![^ ])|(?<![^ ])[^ ](?![^ ])"
_CUSTOM: Final = ("mask_begin", "mask_end", "unmask_begin", "unmask_end")
_START: Final = (None, "0", "0%")
_END: Final = (None, "100%")


class Masking(Transform):
    """Stars in place of characters; which ones stay depends on what the text is."""

    families: ClassVar[frozenset[Family] | None] = frozenset({"text"})

    type: Kind = "default"
    """What the text is: default hides all of it, custom what the other parameters say."""

    mask_begin: str | None = None
    """custom: where stars begin, as a place from 0 or as a part of the length such as 25%."""

    mask_end: str | None = None
    """custom: where stars end (that place is not hidden)."""

    unmask_begin: str | None = None
    """custom: where the part begins that is shown."""

    unmask_end: str | None = None
    """custom: where the part ends that is shown (that place is hidden)."""

    @field_validator(*_CUSTOM, mode="before")
    @classmethod
    def _place(cls, value: object) -> object:
        text = str(value).strip() if isinstance(value, int | str) and not isinstance(value, bool) else ""
        number = text.removesuffix("%")
        if value is not None and (not number.isdigit() or (text != number and int(number) > 100)):
            raise ValueError("give a place from 0, or a part of the length from 0% to 100%")
        return None if value is None else text

    @model_validator(mode="after")
    def _one_way(self) -> Masking:
        given = {name for name in _CUSTOM if getattr(self, name) is not None}
        if self.type != "custom" and given:
            raise ValueError(f"{sorted(given)[0]} is for type custom")
        if self.type == "custom" and (not given or len({name.startswith("un") for name in given}) > 1):
            raise ValueError("custom needs mask_begin and mask_end, or unmask_begin and unmask_end")
        if self._shows_part and self.unmask_begin in _START and self.unmask_end in _END:
            raise ValueError("unmask_begin and unmask_end show all of the text; noop is the name for that")
        return self

    @property
    def _shows_part(self) -> bool:
        return self.unmask_begin is not None or self.unmask_end is not None

    @property
    def nulls(self) -> Nulls:
        """Stars can stand for anything."""
        return "never"

    def sql(self, cell: Cell) -> str:
        """Characters and stars."""
        value = cell.value
        match self.type:
            case "password":
                return _WHATEVER
            case "name":
                return f"regexp_replace({value}, '{_IN_NAMES}', '*')"
            case "address":
                shown = _ADDRESS_SHOWN
                return f"left({value}, {shown}) || repeat('*', greatest(length({value}) - {shown}, 6))"
            case "email":
                return f"regexp_replace({value}, '(?<!^).(?=.*@)|^.(?=@)|(?<!@)^[^@]+$', '*')"
            case "mobile":
                return _between(value, "4", f"length({value}) - 3")
            case "tel":
                return _between(value, "0", f"length({value}) - 4")
            case "id":
                return _between(value, "0", f"length({value}) - 4", reverse=True)
            case "credit_card":
                return _between(value, "6", f"length({value}) - 4")
            case "url":
                return f"regexp_replace({value}, '(?<=://)[^@/]+(?=@)', '*')"
            case "custom" if self._shows_part:
                begin, end = self._ends(value, self.unmask_begin, self.unmask_end)
                return _between(value, begin, end, reverse=True)
            case "custom":
                return _between(value, *self._ends(value, self.mask_begin, self.mask_end))
            case _:
                return f"repeat('*', length({value}))"

    def _ends(self, value: str, begin: str | None, end: str | None) -> tuple[str, str]:
        return _at(value, begin or "0"), _at(value, end or "100%")


def _at(value: str, place: str) -> str:
    if place.endswith("%"):
        return f"cast(length({value}) * {int(place[:-1])} div 100 as int)"
    return place


def _between(value: str, begin: str, end: str, *, reverse: bool = False) -> str:
    """Stars from a place to another, or everywhere else; a text that is too short is hidden whole."""
    first = f"least(greatest({begin}, 0), length({value}))"
    last = f"least(greatest({end}, {first}), length({value}))"
    parts = (
        f"substr({value}, 1, {first})",
        f"substr({value}, {first} + 1, {last} - {first})",
        f"substr({value}, {last} + 1)",
    )
    hidden = (0, 2) if reverse else (1,)
    shown = [f"repeat('*', length({part}))" if i in hidden else part for i, part in enumerate(parts)]
    whole = f"repeat('*', length({value}))"
    hides = f"{last} - {first} < length({value})" if reverse else f"{last} > {first}"
    return f"if({end} > {begin} and {hides}, concat({', '.join(shown)}), {whole})"
