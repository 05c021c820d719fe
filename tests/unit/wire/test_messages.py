"""A refusal says what came, what was expected and where."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import Raw

from armory.gateway.metatools.arguments import reading_call
from armory.protocol import bodies, codes, jsonrpc
from armory.protocol.errors import Malformed, RpcError
from armory.protocol.scanning.values import at_once
from armory.wire.eras.inbound import refusal
from armory.wire.messages import AT_ONCE_BYTES, opened, taken_apart_in_steps
from armory.wire.methods import named_parameter, refuse_large

META = (
    b'{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
    b'"io.modelcontextprotocol/clientCapabilities":{}}'
)
VERSION = "2026-07-28"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', 'jsonrpc is "1.0"; expected "2.0"'),
        (b'{"id":1,"method":"ping"}', 'jsonrpc is null; expected "2.0"'),
        (b'{"jsonrpc":"2.0","id":[7],"method":"ping"}', "id is [7]; expected a string or"),
        (b"[]", "the batch is empty: []"),
    ],
)
def test_what_is_no_message(body: bytes, said: str) -> None:
    with pytest.raises(Malformed) as refused:
        at_once(bodies.batch_items(body)) if bodies.is_batch(body) else jsonrpc.decode(body)
    assert said in refused.value.message


def test_params_and_arguments_show_what_came() -> None:
    message = jsonrpc.decode(b'{"jsonrpc":"2.0","id":1,"method":"x","params":[1,2]}')
    with pytest.raises(Malformed, match=r"params is \[1,2\]; expected an object"):
        jsonrpc.params_of(message)
    given = Raw(b'{"name":"a__b","arguments":"' + b"x" * 500 + b'"}')
    with pytest.raises(RpcError) as refused:
        at_once(reading_call({"name": Raw(b'"call_tool"'), "arguments": given}))
    assert 'arguments.arguments is "xxx' in refused.value.message
    assert len(refused.value.message) < 250


def test_arguments_of_very_many_members_go_to_the_tool() -> None:
    many = b"{" + b",".join(b'"k%d":[]' % number for number in range(10_000)) + b"}"
    given = Raw(b'{"name":"a__b","arguments":' + many + b"}")
    params = at_once(reading_call({"name": Raw(b'"call_tool"'), "arguments": given}))
    assert bytes(memoryview(params["arguments"])) == many


def test_large_arguments_of_call_tool_are_opened_in_steps() -> None:
    many = b"{" + b",".join(b'"k%d":[]' % number for number in range(100_000)) + b"}"
    given = {"arguments": Raw(b'{"name":"a__b","arguments":' + many + b"}")}
    assert sum(1 for _ in reading_call(given)) > len(many) // (2 * AT_ONCE_BYTES)


HALF = {
    "method": b'{"jsonrpc":"2.0","id":1,"method":"a\xff","params":{"x":"%b"}}',
    "version": b'{"jsonrpc":"2\xff","id":1,"method":"a","params":{"x":"%b"}}',
    "name of a parameter": b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"\xff":"%b"}}',
    "name of a member": b'{"jsonrpc":"2.0","id":1,"\xff":"%b"}',
    "meta": b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"\xff":"%b"}}}',
    "arguments": b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"arguments":{"x":"\xff%b"}}}',
    "answer of a client": b'{"jsonrpc":"2.0","id":1,"result":{"x":"%b\xe2\x82"}}',
    "longer than it need be": b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":"%b\xc0\xa2"}}',
    "half of a character": b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":"%b\xed\xa0\x80"}}',
}


@pytest.mark.anyio
@pytest.mark.parametrize("size", [1, 70_000])
@pytest.mark.parametrize("place", HALF)
async def test_what_is_no_utf8_is_no_message(place: str, size: int) -> None:
    with pytest.raises(Malformed):
        await taken_apart_in_steps(HALF[place] % (b"x" * size), lambda _: None)


@pytest.mark.anyio
async def test_characters_of_several_bytes_may_stand_anywhere_in_a_large_message() -> None:
    for before in range(4):
        body = '{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":"%s%s"}}'
        text = "x" * before + "\U0001f600" * 40_000
        message, (params, _) = await taken_apart_in_steps(
            (body % ("", text)).encode(), lambda _: None
        )
        assert message.method == "a"
        assert bytes(memoryview(params["x"])).decode() == f'"{text}"'


def test_null_stands_for_no_params() -> None:
    message = jsonrpc.decode(b'{"jsonrpc":"2.0","id":1,"method":"x","params":null}')
    assert opened(message) == ({}, {})
    message = jsonrpc.decode(b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":null}}')
    assert opened(message)[1] == {}


@pytest.mark.parametrize(
    ("method", "params", "headers", "said"),
    [
        ("tools/list", {}, {}, 'it is missing; expected "2026-07-28", as in the body'),
        (
            "tools/list",
            {},
            {"MCP-Protocol-Version": VERSION, "Mcp-Method": "tools/call"},
            'mcp-method header does not match the request body\'s method: it is "tools/call"; '
            'expected "tools/list"',
        ),
        (
            "tools/call",
            {"name": Raw(b'"a__b"')},
            {"MCP-Protocol-Version": VERSION, "Mcp-Method": "tools/call", "Mcp-Name": "a__c"},
            'it is "a__c"; expected "a__b"',
        ),
        (
            "tasks/get",
            {"taskId": Raw(b'"s:1"')},
            {"MCP-Protocol-Version": VERSION, "Mcp-Method": "tasks/get", "Mcp-Name": "s:2"},
            'it is "s:2"; expected "s:1"',
        ),
    ],
)
def test_a_header_that_does_not_match_shows_both_values(
    method: str, params: dict[str, Raw], headers: dict[str, str], said: str
) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": Raw(b'"2026-07-28"'),
        "io.modelcontextprotocol/clientCapabilities": Raw(b"{}"),
    }
    verdict = refusal(
        method, VERSION, {**params, "_meta": Raw(META)}, meta, named_parameter(method), headers
    )
    assert verdict is not None
    assert verdict.code == codes.HEADER_MISMATCH
    assert said in verdict.message


@pytest.mark.anyio
async def test_of_a_large_request_meta_is_opened_in_turns_and_once() -> None:
    meta = b",".join(b'"k%d":"%b"' % (number, b"x" * 6_000) for number in range(400))
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{%b}}}' % meta
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count())
    message, known = await taken_apart_in_steps(body, refuse_large)
    counting.cancel()
    assert turns > 2 * len(body) // (2 * AT_ONCE_BYTES), "for the envelope's and for its own"
    assert opened(message, known)[1] is known[1]
    assert len(known[1] or {}) == 400
