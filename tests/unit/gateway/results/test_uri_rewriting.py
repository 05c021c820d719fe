"""URIs, links and task ids inside results: mapped wherever the specification puts one."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Generator
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from armory.gateway.results.uri_rewriting import (
    expose_params,
    exposing_data,
    exposing_result,
)
from armory.protocol.scanning.pieces import PIECE_BYTES
from armory.protocol.scanning.values import at_once
from armory.testing.front import plain, raws
from armory.threads import for_callers, steps_for_callers

LINK = {"type": "resource_link", "uri": "file:///a", "name": "a", "x": 1}
EMBEDDED = {"type": "resource", "resource": {"uri": "file:///b", "text": "uri"}}
TEXT = {"type": "text", "text": 'not a "uri": file:///a'}


def exposed(result: Any) -> Any:
    return msgspec.json.decode(at_once(exposing_result(Raw(msgspec.json.encode(result)), "s")))


def test_uris_in_content_blocks_name_their_server() -> None:
    assert exposed({"content": [TEXT, LINK, EMBEDDED], "structuredContent": {"uri": "kept"}}) == {
        "content": [
            TEXT,
            {**LINK, "uri": "s+file:///a"},
            {"type": "resource", "resource": {"uri": "s+file:///b", "text": "uri"}},
        ],
        "structuredContent": {"uri": "kept"},
    }


def test_messages_and_contents() -> None:
    messages = [{"role": "user", "content": EMBEDDED}, {"role": "user", "content": [LINK, TEXT]}]
    got = exposed({"messages": messages})["messages"]
    assert got[0]["content"]["resource"]["uri"] == "s+file:///b"
    assert got[1]["content"][0]["uri"] == "s+file:///a"
    contents = [{"uri": "ui://x", "text": "", "_meta": {"ui": {"resourceUri": "ui://x"}}}]
    assert exposed({"contents": contents})["contents"] == [
        {"uri": "ui://s/x", "text": "", "_meta": {"ui": {"resourceUri": "ui://s/x"}}}
    ]


def test_tool_results_inside_sampling_messages() -> None:
    block = {"type": "tool_result", "toolUseId": "1", "content": [LINK]}
    got = expose_params(raws({"messages": [{"role": "user", "content": [block]}]}), "s")
    assert plain(got)["messages"][0]["content"][0]["content"][0]["uri"] == "s+file:///a"


def test_ids_of_tasks_name_their_server_wherever_they_stand() -> None:
    related = {"io.modelcontextprotocol/related-task": {"taskId": "1"}}
    assert exposed({"task": {"taskId": "1"}, "_meta": related}) == {
        "task": {"taskId": "s:1"},
        "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "s:1"}},
    }
    assert exposed({"tasks": [{"taskId": "1"}, 3]}) == {"tasks": [{"taskId": "s:1"}, 3]}
    done = {"taskId": "1", "status": "completed", "result": {"content": [LINK]}}
    got = exposed(done)
    assert got["taskId"] == "s:1"
    assert got["result"]["content"][0]["uri"] == "s+file:///a"


def test_links_of_apps_name_their_server() -> None:
    assert exposed({"content": [], "_meta": {"ui/resourceUri": "ui://x", "k": 1}}) == {
        "content": [],
        "_meta": {"ui/resourceUri": "ui://s/x", "k": 1},
    }
    block = {**TEXT, "_meta": {"ui": {"resourceUri": "ui://x"}}}
    assert exposed({"content": [block]})["content"][0]["_meta"]["ui"]["resourceUri"] == "ui://s/x"


@pytest.mark.parametrize(
    "text",
    [
        '{ "content": [ {"type":"text", "text":"x"} ] , "n": 1.50 }',
        '{"content":[{"type":"custom","uri":"kept"}]}',
        '{"content":"uri","x":{"uri":1}}',
        '{"uri":3,"content":[{"type":"resource_link","uri":null}]}',
        '{"contents":3,"messages":{"content":5,"uri":"x"},"note":"\\"uri\\""}',
        '["uri"]',
        '{"content":[],"uri":"a:b","taskId":"1"}',
        '"taskId"',
    ],
)
def test_what_has_no_link_is_the_same_bytes(text: str) -> None:
    raw = Raw(text.encode())
    assert bytes(memoryview(at_once(exposing_result(raw, "s")))) == text.encode()


def test_params_without_links_are_the_same_object() -> None:
    for more in ({}, {"uri": "kept", "taskId": "kept"}):
        params = raws({"level": "info", "data": {"uri": "kept"}, **more})
        assert expose_params(params, "s") is params


def test_an_error_may_name_what_there_is_none_of() -> None:
    data = Raw(b'{"uri":"a:b","taskId":"1","x":1.50}')
    assert bytes(at_once(exposing_data(data, "s"))) == b'{"uri":"s+a:b","taskId":"s:1","x":1.50}'


def test_numbers_beside_a_link_stay_as_they_were_written() -> None:
    raw = Raw(b'{"x": 1.50, "content":[{"type":"resource_link","uri":"a:b","size": 1e3}]}')
    assert b"1.50" in bytes(memoryview(at_once(exposing_result(raw, "s"))))
    assert b"1e3" in bytes(memoryview(at_once(exposing_result(raw, "s"))))


def test_input_requests() -> None:
    sampling = {"method": "sampling/createMessage", "params": {"messages": [{"content": [LINK]}]}}
    ui = {"method": "elicitation/create", "params": {"_meta": {"ui": {"resourceUri": "ui://f"}}}}
    plain_one = {"method": "roots/list"}
    asked = {"inputRequests": {"a": sampling, "b": ui, "c": plain_one}, "requestState": "s"}
    got = exposed(asked)
    messages = got["inputRequests"]["a"]["params"]["messages"]
    assert messages[0]["content"][0]["uri"] == "s+file:///a"
    assert got["inputRequests"]["b"]["params"]["_meta"]["ui"]["resourceUri"] == "ui://s/f"
    assert got["inputRequests"]["c"] == plain_one
    assert got["requestState"] == "s"


def test_links_among_very_many_other_items_take_little_memory() -> None:
    data = b'{"content":[%b{"type":"resource_link","uri":"a:1"}]}' % (b"[]," * 300_000)
    tracemalloc.start()
    found = bytes(memoryview(at_once(exposing_result(Raw(data), "s"))))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == data.replace(b'"a:1"', b'"s+a:1"')
    assert peak < 10 * len(data)


MANY = Raw(b'{"content":[%b]}' % b",".join(
    b'{"type":"resource_link","uri":"a:b","name":"%b"}' % (b"x" * 2_000) for _ in range(500)
))  # fmt: skip


def test_very_many_links_are_renamed_in_steps() -> None:
    steps = exposing_result(MANY, "up")
    assert sum(1 for _ in steps) >= len(memoryview(MANY)) // (2 * PIECE_BYTES)
    content = msgspec.json.decode(at_once(exposing_result(MANY, "up")))["content"]
    assert content == [{"type": "resource_link", "uri": "up+a:b", "name": "x" * 2_000}] * 500


@pytest.mark.anyio
async def test_what_others_wait_for_goes_between_the_steps_of_very_many_links() -> None:
    steps = exposing_result(MANY, "up")
    first, begun = asyncio.Event(), asyncio.get_running_loop()

    def told() -> Generator[None, None, Raw]:
        for _ in steps:
            begun.call_soon_threadsafe(first.set)
            yield
        return MANY

    renaming = asyncio.ensure_future(steps_for_callers(told()))
    async with asyncio.timeout(20):
        await first.wait()
        assert await for_callers(bytes, b"another's") == b"another's"
        assert not renaming.done()
        await renaming
