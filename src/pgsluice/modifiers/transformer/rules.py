"""The form of the rules: what a file or the section ``modifiers.transformations`` may say."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - pydantic reads the annotations
from typing import Annotated, Any, Final, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    field_serializer,
    model_validator,
)

from pgsluice.modifiers.transforms.base import Transform  # noqa: TC001 - pydantic reads the annotations
from pgsluice.modifiers.transforms.fixed import Noop
from pgsluice.modifiers.transforms.registry import make

_HIDDEN: Final = "**********"  # as pydantic writes secrets
_SPELLINGS: Final = {"fail": "stop", "pass-through": "pass_through"}

OnError = Annotated[
    Literal["stop", "null", "pass_through"],
    BeforeValidator(lambda value: _SPELLINGS.get(value, value) if isinstance(value, str) else value),
]
ValidationMode = Literal["relaxed", "strict", "table_level"]
References = Literal["follow", "check", "ignore"]


class _Rules(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, use_attribute_docstrings=True
    )


class DynamicParameter(_Rules):
    """A parameter that another column of the row gives."""

    column: str
    """The column."""


class ColumnRule(_Rules):
    """What happens to the values of one column."""

    name: Annotated[str, BeforeValidator(lambda value: "null" if value is None else value)] = ""
    """Name of the transformer; noop, or none, leaves values as they are. A bare null is that of this name."""

    parameters: dict[str, Any] = Field(default={}, repr=False)
    """What the transformer takes."""

    dynamic_parameters: dict[str, DynamicParameter] = {}
    """Parameters that other columns of the row give."""

    allow_uniqueness_loss: bool = False
    """Lets a key or a unique column have a transformer that may make two values one."""

    references: References | None = None
    """Of columns that point at this one by a foreign key; by default what transformations.references says."""

    _transform: Transform = PrivateAttr()

    @model_validator(mode="after")
    def _make(self) -> ColumnRule:
        transform = make(self.name, self.parameters)
        if unknown := sorted(set(self.dynamic_parameters) - transform.dynamic - transform.columns):
            raise ValueError(f"{self.name} takes no {unknown[0]} from another column")
        self._transform = transform
        return self

    @field_serializer("parameters")
    def _shown(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """What people may see of it: a key, a salt, a seed and what a function is given are secrets."""
        fields = type(self._transform).model_fields
        secret = {
            name for name, field in fields.items() if not field.repr or "SecretStr" in str(field.annotation)
        }
        return {name: _HIDDEN if name in secret else value for name, value in parameters.items()}

    @property
    def sources(self) -> dict[str, str]:
        """The columns that other columns' values are taken from, by parameter."""
        given = {name: each.column for name, each in self.dynamic_parameters.items()}
        return {name: name for name in sorted(self.transform.columns)} | given

    @property
    def transform(self) -> Transform:
        """The transformer with its parameters."""
        return self._transform

    @property
    def changes_values(self) -> bool:
        """Whether values don't go as they are."""
        return not isinstance(self._transform, Noop)


class TableRules(_Rules):
    """The rules of one table."""

    schema_: str = Field(default="public", alias="schema")
    """The table's schema."""

    table: str
    """The table."""

    validation_mode: Literal["relaxed", "strict"] | None = None
    """Under table_level: strict if every column of this table must have a rule."""

    column_transformers: dict[str, ColumnRule] = {}
    """The rules, by column."""


class Transformations(_Rules):
    """Which values are changed on their way, and how."""

    validation_mode: ValidationMode = "relaxed"
    """strict: every column of every table must have a rule; table_level: where the table says so."""

    on_error: OnError = "stop"
    """For a value that can't be changed: stop; null; pass_through, which lets it go as it is."""

    allow_plain: bool = False
    """Must be true for pass_through: plain values may leave then."""

    references: References = "check"
    """Of foreign keys onto a changed column: follow gives them its rule; check, they must have it; ignore."""

    salt: SecretStr | None = None
    """The secret of deterministic transformers; without one, one is made and kept in state_dir."""

    file: Path | None = None
    """A file of rules, beside that of the configuration; keys that stand here go before those of it."""

    infer_from_security_labels: bool = False
    """Take rules from the security labels of the provider anon, where a column has no rule here."""

    dump_inferred_rules: bool = False
    """Write the rules that labels gave to inferred_rules.yaml in state_dir."""

    table_transformers: tuple[TableRules, ...] = ()
    """The rules, by table."""

    @model_validator(mode="after")
    def _agree(self) -> Transformations:
        if self.on_error == "pass_through" and not self.allow_plain:
            raise ValueError("on_error pass_through lets plain values leave: it needs allow_plain: true")
        if (plain := self._plain()) and not self.allow_plain:
            raise ValueError(f"{plain} lets plain values leave: it needs allow_plain: true")
        names = [(rules.schema_, rules.table) for rules in self.table_transformers]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"{'.'.join(twice)} has rules twice")
        if self.validation_mode == "table_level":
            for rules in self.table_transformers:
                if rules.validation_mode is None:
                    raise ValueError(
                        f"{rules.schema_}.{rules.table} needs a validation_mode under table_level"
                    )
        return self

    def _plain(self) -> str | None:
        """A rule that leaves values as they are which it is given to change."""
        for rules in self.table_transformers:
            for name, rule in rules.column_transformers.items():
                if rule.transform.lets_plain_out:
                    return f"{rule.name} of {rules.schema_}.{rules.table}.{name}"
        return None

    def __bool__(self) -> bool:
        return bool(self.table_transformers) or self.validation_mode == "strict"

    @property
    def changes_values(self) -> bool:
        """Whether any rule does."""
        return any(
            rule.changes_values
            for rules in self.table_transformers
            for rule in rules.column_transformers.values()
        )

    def is_strict(self, rules: TableRules | None) -> bool:
        """Whether every column of a table must have a rule."""
        if self.validation_mode == "table_level":
            return rules is not None and rules.validation_mode == "strict"
        return self.validation_mode == "strict"
