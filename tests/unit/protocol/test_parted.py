"""A request in parts is the one that is written whole, and holds nothing twice."""

import json

import msgspec
import pytest
from msgspec import Raw

from armory.protocol import jsonrpc
from armory.protocol.jsonrpc import request_in_parts

LARGE = json.dumps("é" * 100_000).encode()


@pytest.mark.parametrize("id", [7, 'a"b'])
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"name": b'"a"'},
        {"arguments": LARGE},
        {"name": b'"a"', 'odd"name é': LARGE, "_meta": b"{}", "more": LARGE},
    ],
)
def test_it_is_what_a_whole_one_says(id: int | str, params: dict[str, bytes]) -> None:
    given = {name: Raw(value) for name, value in params.items()}
    parts = request_in_parts(id, "tools/call", given)
    said = b"".join(parts.parts)
    assert len(parts) == len(said)
    whole = jsonrpc.request(id, "tools/call", given)
    assert msgspec.json.decode(said) == msgspec.json.decode(whole)
    large = [part for part in parts.parts if isinstance(part, memoryview)]
    assert len(large) == sum(value is LARGE for value in params.values())


def test_no_part_holds_what_many_members_say() -> None:
    """Added one by one to one text, hundreds of them were copied hundreds of times."""
    given = {f"k{number}": Raw(b'"%b"' % (b"x" * 7_000)) for number in range(490)}
    parts = request_in_parts(1, "tools/call", given)
    assert max(map(len, parts.parts)) < 80_000
    assert msgspec.json.decode(b"".join(parts.parts))["params"].keys() == given.keys()
