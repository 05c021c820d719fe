"""Schemas of callables whose annotations are unusual."""

from __future__ import annotations

import functools

import pytest

from armory import Tool


@pytest.mark.parametrize("annotation", ["the city", "os.NoSuchThing", "NoSuchType", "1 / 0"])
def test_annotations_that_cannot_be_resolved_cost_types_alone(annotation: str) -> None:
    def opened(path: str) -> None:
        """Open."""

    opened.__annotations__["path"] = annotation
    expected = {"type": "object", "properties": {"path": {}}, "required": ["path"]}
    assert Tool.of(opened).input_schema == expected


def test_the_schema_of_an_object_that_can_be_called_and_of_a_class() -> None:
    class Sender:
        """Send a message."""

        def __init__(self, host: str) -> None:
            self.host = host

        def __call__(self, to: str, times: int = 1) -> None:
            """Send it."""

    called, made = Tool.of(Sender("a")), Tool.of(Sender)
    assert (called.name, called.description) == ("Sender", "Send a message.")
    properties = {"to": {"type": "string"}, "times": {"type": "integer", "default": 1}}
    assert called.input_schema["properties"] == properties
    assert made.input_schema["properties"] == {"host": {"type": "string"}}


def test_a_tuples_schema_and_what_a_partial_calls() -> None:
    def plot(point: tuple[int, str], rest: tuple[float, ...] = (), unit: str = "m") -> None:
        """Draw a point."""

    tool = Tool.of(functools.partial(functools.partial(plot), unit="km"))
    assert (tool.identifier, tool.name, tool.description) == ("plot", "plot", "Draw a point.")
    properties = tool.input_schema["properties"]
    pair = [{"type": "integer"}, {"type": "string"}]
    assert properties["point"] == {
        "type": "array", "prefixItems": pair, "minItems": 2, "maxItems": 2,
    }  # fmt: skip
    assert properties["rest"] == {"type": "array", "items": {"type": "number"}}
    assert properties["unit"] == {"type": "string", "default": "km"}
