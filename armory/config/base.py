"""The base class and types that all blocks of the configuration share.

Owns: the base model, the field types that several blocks use, and both ways between a block and a
room's settings: the defaults that it takes, the values that it gives. Never imports a room.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import MISSING, fields
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast, get_args
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    SecretStr,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_S = TypeVar("_S", bound="DataclassInstance")


class Block(BaseModel):
    """One block of `armory.yaml`: unknown keys are refused, values never change once read."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _truth_is_no_number(cls, values: Any) -> Any:
        """`true` where a number is expected becomes a text, which is refused: pydantic takes it
        for 1.
        """
        if not isinstance(values, dict):
            return values
        given = cast("dict[Any, Any]", values)
        return {name: cls._as_text(name, value) for name, value in given.items()}

    @classmethod
    def _as_text(cls, name: Any, value: Any) -> Any:
        field = cls.model_fields.get(name) if isinstance(value, (bool, list, dict)) else None
        kinds = set[Any]() if field is None else _kinds(field.annotation)
        return _without_truth(value) if kinds & {int, float} and bool not in kinds else value


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


def defaults_of(settings: type[_S]) -> _S:
    """The defaults of a room's settings, to be read as its attributes.

    A default stands once, with the code that goes by it; the model of `armory.yaml` refers to it.
    """
    found: dict[str, Any] = {}
    for field in fields(settings):
        if field.default is not MISSING:
            found[field.name] = field.default
        elif field.default_factory is not MISSING:
            found[field.name] = field.default_factory()
    return cast("_S", SimpleNamespace(**found))


def values_for(
    settings: type[DataclassInstance], block: Block, *, but: Collection[str] = ()
) -> dict[str, Any]:
    """What a block says under the names that a room's settings have, too, as plain values.

    Lists become tuples, secrets texts. Blocks within the block are left out: they have settings of
    their own, or other names there.

    Args:
        settings: a dataclass.
        block: says the values.
        but: names that mean something else on either side.
    """
    names = {field.name for field in fields(settings)} & type(block).model_fields.keys()
    return {
        name: _plain(value)
        for name in sorted(names.difference(but))
        if not isinstance(value := getattr(block, name), BaseModel)
    }


def _kinds(annotation: Any) -> set[Any]:
    """The types that an annotation is made of."""
    return {annotation}.union(*map(_kinds, get_args(annotation)))


def _without_truth(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return [_without_truth(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: _without_truth(item) for key, item in cast("dict[Any, Any]", value).items()}
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    return tuple(value) if isinstance(value, list) else value


HTTP_URL = r"^https?://[^\s]+$"
NO_HOST = "expected a URL with a host, and with a port from 1 to 65535 if it has one"
VARIABLE_PATTERN = r"^[^\s=]+$"
BASE_PATH = r"^(/[A-Za-z0-9._~-]+)*/?$"
REDIS_PREFIX_PATTERN = r"^[!-~]{1,100}$"


def _number_as_text(value: Any) -> Any:
    """YAML reads `PORT: 8080` as a number; in a process's environment it is text."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    return value


def _blank_as_none(value: Any) -> Any:
    """`${VAR:-}` with VAR unset leaves an empty text, which means that there is no secret."""
    return None if value == "" else value


def has_host(url: str) -> bool:
    """Whether a URL can be asked: `urlsplit` says of others what is wrong, but quotes it."""
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _with_host(url: str) -> str:
    if not has_host(url):
        raise PydanticCustomError("url", NO_HOST)
    return url


def _one_as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _secrets_as_list(value: Any) -> Any:
    if value is None or value == "":
        return []
    return [value] if isinstance(value, str) else value


# an editor's schema takes what the validators take
Text = Annotated[str, BeforeValidator(_number_as_text, json_schema_input_type=str | float)]
Name = Annotated[str, Field(min_length=1)]
OptionalSecret = Annotated[SecretStr | None, BeforeValidator(_blank_as_none)]
OptionalText = Annotated[str | None, BeforeValidator(_blank_as_none)]
OptionalTexts = Annotated[
    str | Annotated[list[str], Field(max_length=16)] | None, BeforeValidator(_blank_as_none)
]
Url = Annotated[str, Field(pattern=HTTP_URL), AfterValidator(_with_host)]
OptionalUrl = Annotated[Url | None, BeforeValidator(_blank_as_none)]
Texts = Annotated[list[str], BeforeValidator(_one_as_list, json_schema_input_type=list[str] | str)]
Secrets = Annotated[
    list[SecretStr],
    BeforeValidator(_secrets_as_list, json_schema_input_type=list[SecretStr] | SecretStr | None),
]
_Pattern = Annotated[str, Field(pattern=VARIABLE_PATTERN)]
Patterns = Annotated[
    list[_Pattern],
    BeforeValidator(_one_as_list, json_schema_input_type=list[_Pattern] | _Pattern),
]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
