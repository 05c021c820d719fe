"""What every block of the configuration shares.

Owns: the base model and the field types that several blocks use. Never imports a room.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr


class Block(BaseModel):
    """One block of `armory.yaml`: unknown keys are refused, values never change once read."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        hide_input_in_errors=True,
    )


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
