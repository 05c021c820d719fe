"""The schemas of callables, from the annotations that people write."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, Optional, TypedDict

import pytest
from pydantic import BaseModel, Field

from armory import Tool

if TYPE_CHECKING:
    from armory.nowhere import Context  # pyright: ignore


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Place(TypedDict):
    city: Annotated[str, "without the country"]
    zip: NotRequired[int]
    inside: NotRequired[Place]


@dataclasses.dataclass
class Point:
    x: float
    y: float = 0.0


class Order(BaseModel):
    """Order something."""

    item: str
    where: Point


class Bare(BaseModel):
    item: str


def properties(function: Callable[..., Any]) -> dict[str, Any]:
    return Tool.of(function).input_schema["properties"]


def test_types_beyond_the_plain_ones() -> None:
    def book(
        colour: Colour,
        one: Literal[Colour.RED],
        when: datetime.date,
        point: Point,
        order: Order,
        names: Sequence[str],
        many: list[Point],
        maybe: Optional[Order] = None,  # noqa: UP045 - as people write it
    ) -> None:
        """Book it."""

    schema = Tool.of(book).input_schema
    found = schema["properties"]
    assert found["colour"]["enum"] == ["red", "blue"]
    assert found["one"]["const"] == "red"
    assert found["when"] == {"type": "string", "format": "date"}
    assert found["point"]["required"] == ["x"]
    assert found["names"] == {"type": "array", "items": {"type": "string"}}
    assert found["many"]["items"] == {"$ref": "#/$defs/Point"}
    assert found["maybe"]["properties"]["where"] == {"$ref": "#/$defs/Point"}
    assert schema["$defs"]["Point"]["required"] == ["x"]
    assert schema["required"][-1] == "many"


def test_a_typed_dict_even_one_that_holds_itself() -> None:
    def move(place: Place, others: list[Place]) -> None:
        """Move."""

    found = properties(move)
    assert found["place"] == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "without the country"},
            "zip": {"type": "integer"},
            "inside": {"type": "object"},
        },
        "required": ["city"],
    }
    assert found["others"]["items"] == found["place"]


def test_what_annotations_say_of_parameters_is_kept() -> None:
    def look(
        city: Annotated[str, "the city"],
        days: Annotated[int, Field(ge=1, description="how many")] = 3,
        unit: Annotated[Literal["C", "F"] | None, "of degrees"] = None,
    ) -> None:
        """Look."""

    assert properties(look) == {
        "city": {"type": "string", "description": "the city"},
        "days": {"type": "integer", "minimum": 1, "description": "how many", "default": 3},
        "unit": {"type": "string", "enum": ["C", "F"], "description": "of degrees"},
    }


def test_one_annotation_that_cannot_be_resolved_costs_no_other_its_type() -> None:
    def ask(context: Context, city: str, call: Callable[[], None], days: int = 1) -> None:
        """Ask."""

    assert properties(ask) == {
        "context": {},
        "city": {"type": "string"},
        "call": {},
        "days": {"type": "integer", "default": 1},
    }


def test_a_decorated_function_keeps_its_types() -> None:
    class Decorated:
        def __init__(self, function: Callable[..., Any]) -> None:
            functools.update_wrapper(self, function)

        def __call__(self, *args: Any, **options: Any) -> None: ...

    @functools.lru_cache
    def cached(city: str) -> str:
        """Cached."""
        return city

    @Decorated
    def wrapped(city: str) -> None:
        """Wrapped."""

    for given, name in ((cached, "cached"), (wrapped, "wrapped")):
        assert Tool.of(given).name == name
        assert properties(given) == {"city": {"type": "string"}}


@pytest.mark.parametrize(("model", "said"), [(Order, "Order something."), (Bare, "")])
def test_a_model_is_a_tool_whose_fields_are_the_arguments(
    model: type[BaseModel], said: str
) -> None:
    tool = Tool.of(model)
    assert (tool.name, tool.description) == (model.__name__, said)
    assert properties(model)["item"]["type"] == "string"


def test_types_of_the_same_name_are_not_taken_for_each_other() -> None:
    first = dataclasses.make_dataclass("Same", [("a", int)])
    second = dataclasses.make_dataclass("Same", [("b", int)])

    def both(one: list[Any], other: list[Any]) -> None:
        """Both."""

    both.__annotations__ = {"one": list[first], "other": list[second]}
    found = properties(both)
    assert (found["one"]["items"], found["other"]) == ({"$ref": "#/$defs/Same"}, {})
