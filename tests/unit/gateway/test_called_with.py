"""What a tool is called with through `call_tool`."""

from __future__ import annotations

import msgspec
import pytest

from armory.gateway.metatools.arguments import reading_call
from armory.protocol.errors import RpcError
from armory.protocol.scanning.values import at_once


def called_with(arguments: object) -> bytes:
    said = msgspec.json.encode({"name": "up__say", "arguments": arguments})
    params = {"name": msgspec.Raw(b'"call_tool"'), "arguments": msgspec.Raw(said)}
    return bytes(at_once(reading_call(params))["arguments"])


def test_an_object_goes_on_as_it_came() -> None:
    assert called_with({"to": "ann", "n": 1.0}) == b'{"to":"ann","n":1.0}'


@pytest.mark.parametrize("text", ['{"to": "ann", "n": 1.0}', ' {"to": "ann", "n": 1.0}\n'])
def test_the_text_of_one_is_one(text: str) -> None:
    """Models often write it where an object stands in an object."""
    assert called_with(text) == b'{"to": "ann", "n": 1.0}'


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[1]", "1", '"{}"', '{"a": 1} x', "{'a': 1}", '{"a": "\\ud800"'),
        '{"a":' * 65 + "1" + "}" * 65,
        '{"a": "' + "x" * 65_536 + '"}',
    ],
)
def test_no_other_text_is(text: str) -> None:
    with pytest.raises(RpcError, match="expected an object, the called tool's own arguments"):
        called_with(text)


@pytest.mark.parametrize(
    ("given", "said"), [(b"{}", "missing"), (b'{"name": 5}', "5"), (b'{"name": ["a"]}', '["a"]')]
)
def test_what_stands_for_the_name_is_said(given: bytes, said: str) -> None:
    with pytest.raises(RpcError, match=r"arguments\.name is ") as refused:
        at_once(reading_call({"arguments": msgspec.Raw(given)}))
    assert refused.value.message == f"arguments.name is {said}; expected the tool's exact name"
