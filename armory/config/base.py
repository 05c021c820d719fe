"""What every block of the configuration shares.

Owns: the base model and the field types that several blocks use. Never imports a room.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    SecretStr,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema


class Block(BaseModel):
    """One block of `armory.yaml`: unknown keys are refused, values never change once read."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        hide_input_in_errors=True,
    )


class Named:
    """A text that names one of a table's parts; what the table gains later counts as well.

    Args:
        table: by name.
        also: further names.
    """

    def __init__(self, table: Mapping[str, object], *also: str) -> None:
        self._table = table
        self._also = also

    @property
    def names(self) -> tuple[str, ...]:
        """What may be given."""
        return (*self._also, *self._table)

    def _known(self, value: str) -> str:
        names = self.names
        if value not in names:
            quoted = [f"'{name}'" for name in names]
            expected = f"{', '.join(quoted[:-1])} or {quoted[-1]}"
            raise PydanticCustomError(
                "literal_error", "Input should be {expected}", {"expected": expected}
            )
        return value

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._known, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"enum": list(self.names), "type": "string"}


def _number_as_text(value: Any) -> Any:
    """YAML reads `PORT: 8080` as a number; in a process's environment it is text."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    return value


def _blank_as_none(value: Any) -> Any:
    """`${VAR:-}` with VAR unset leaves an empty text, which means that there is no secret."""
    return None if value == "" else value


def _one_as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Text = Annotated[str, BeforeValidator(_number_as_text)]
OptionalSecret = Annotated[SecretStr | None, BeforeValidator(_blank_as_none)]
OptionalText = Annotated[str | None, BeforeValidator(_blank_as_none)]
Texts = Annotated[list[str], BeforeValidator(_one_as_list)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
