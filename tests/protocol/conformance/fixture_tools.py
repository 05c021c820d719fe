"""The plain tools of the fixture server, under the names that the conformance suite calls."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import mcp_types as types
from fixture_kit import (
    BUS,
    CHANGED,
    PAUSE_S,
    PNG,
    SESSIONS,
    WAV,
    Ctx,
    Result,
    elicit,
    fixture,
    plain,
    sample,
    strings,
    text,
    told,
)
from mcp.server.session import ServerSession
from mcp.server.subscriptions import PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError


@fixture("test_simple_text", "Answers one text")
async def simple_text(ctx: Ctx, params: types.CallToolRequestParams) -> Result:
    return text("This is a simple text response for testing.")


def _image() -> types.ImageContent:
    return types.ImageContent(type="image", data=PNG, mime_type="image/png")


def _embedded(uri: str, kind: str, said: str) -> types.EmbeddedResource:
    inner = types.TextResourceContents(uri=uri, mime_type=kind, text=said)
    return types.EmbeddedResource(type="resource", resource=inner)


@fixture("test_image_content", "Answers an image")
async def image_content(ctx: Ctx, params: types.CallToolRequestParams) -> Result:
    return types.CallToolResult(content=[_image()])


@fixture("test_audio_content", "Answers a sound")
async def audio_content(ctx: Ctx, params: types.CallToolRequestParams) -> Result:
    sound = types.AudioContent(type="audio", data=WAV, mime_type="audio/wav")
    return types.CallToolResult(content=[sound])


@fixture("test_embedded_resource", "Answers an embedded resource")
async def embedded_resource(ctx: Ctx, params: types.CallToolRequestParams) -> Result:
    inner = _embedded(
        "test://embedded-resource", "text/plain", "This is an embedded resource content."
    )
    return types.CallToolResult(content=[inner])


@fixture("test_multiple_content_types", "Answers text, image and resource")
async def multiple_content_types(ctx: Ctx, params: types.CallToolRequestParams) -> Result:
    inner = _embedded(
        "test://mixed-content-resource", "application/json", '{"test":"data","value":123}'
    )
    said = types.TextContent(type="text", text="Multiple content types test:")
    return types.CallToolResult(content=[said, _image(), inner])


@fixture("test_error_handling", "Always fails")
async def error_handling(ctx: Ctx, params: types.CallToolRequestParams) -> Result:
    return text("This tool intentionally returns an error for testing", is_error=True)


# Progress, logging, changes.


@fixture("test_tool_with_progress", "Tells of its progress")
async def tool_with_progress(ctx: Ctx, params: types.CallToolRequestParams) -> Result:
    for done in (0, 50, 100):
        await ctx.session.report_progress(done, 100)
        await anyio.sleep(PAUSE_S)
    return text("The work is done.")


async def _log(ctx: Ctx, *lines: str) -> None:
    for line in lines:
        await ctx.session.send_log_message(  # pyright: ignore[reportDeprecated]
            "info", line, "fixture", ctx.request_id
        )
        await anyio.sleep(PAUSE_S)


@fixture("test_tool_with_logging", "Logs three lines")
async def tool_with_logging(ctx: Ctx, params: types.CallToolRequestParams) -> Result:
    await _log(ctx, "Tool execution started", "Tool processing data", "Tool execution completed")
    return text("Three lines were logged.")


@fixture("test_logging_tool", "Logs one line")
async def logging_tool(ctx: Ctx, params: types.CallToolRequestParams) -> Result:
    await _log(ctx, "One line")
    return text("One line was logged.")


async def _tell(send: Callable[[ServerSession], Awaitable[None]]) -> None:
    for key, session in list(SESSIONS.items()):
        try:
            await send(session)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, MCPError):
            SESSIONS.pop(key, None)


@fixture("test_trigger_tool_change", "Changes the list of tools")
async def trigger_tool_change(ctx: Ctx, params: types.CallToolRequestParams) -> Result:
    CHANGED["tools"] = not CHANGED["tools"]
    await BUS.publish(ToolsListChanged())
    await _tell(lambda session: session.send_tool_list_changed())
    return text("Told everybody.")


@fixture("test_trigger_prompt_change", "Changes the list of prompts")
async def trigger_prompt_change(ctx: Ctx, params: types.CallToolRequestParams) -> Result:
    CHANGED["prompts"] = not CHANGED["prompts"]
    await BUS.publish(PromptsListChanged())
    await _tell(lambda session: session.send_prompt_list_changed())
    return text("Told everybody.")


@fixture("test_missing_capability", "Needs sampling")
async def missing_capability(ctx: Ctx, params: types.CallToolRequestParams) -> Result:
    declared = ctx.session.client_capabilities
    if declared is None or declared.sampling is None:
        raise MCPError(
            code=types.MISSING_REQUIRED_CLIENT_CAPABILITY,
            message="This tool needs sampling",
            data={"requiredCapabilities": {"sampling": {}}},
        )
    return text("Sampling is there.")


# Asking the client.


@fixture("test_sampling", "Asks the client's model", strings("prompt"))
async def sampling(ctx: Ctx, params: types.CallToolRequestParams) -> Result:
    prompt = str((params.arguments or {}).get("prompt", ""))
    return await told(
        ctx, params, {"reply": sample(prompt)}, lambda got: f"LLM response: {plain(got['reply'])}"
    )


@fixture("test_elicitation", "Asks the user", strings("message"))
async def elicitation(ctx: Ctx, params: types.CallToolRequestParams) -> Result:
    message = str((params.arguments or {}).get("message", ""))
    form = elicit(message, strings("username", "email"))
    return await told(
        ctx, params, {"user": form}, lambda got: f"User response: {plain(got['user'])}"
    )


@fixture("test_streaming_elicitation", "Asks the user on the request's stream")
async def streaming_elicitation(ctx: Ctx, params: types.CallToolRequestParams) -> Result:
    form = elicit("Who are you?", strings("name"))
    return await told(ctx, params, {"who": form}, lambda got: f"Answer: {plain(got['who'])}")


_DEFAULTS = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "default": True},
    },
}


def _completed(answer: Any) -> str:
    content = json.dumps(answer.content, sort_keys=True)
    return f"Elicitation completed: action={answer.action}, content={content}"


@fixture("test_elicitation_sep1034_defaults", "Asks with default values")
async def elicitation_defaults(ctx: Ctx, params: types.CallToolRequestParams) -> Result:
    form = elicit("Check these values", _DEFAULTS)
    return await told(ctx, params, {"form": form}, lambda got: _completed(got["form"]))


def _titled(*pairs: tuple[str, str]) -> list[dict[str, str]]:
    return [{"const": value, "title": title} for value, title in pairs]


_OPTIONS = ["option1", "option2", "option3"]
_ENUMS = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": _OPTIONS},
        "titledSingle": {
            "type": "string",
            "oneOf": _titled(
                ("value1", "First Option"), ("value2", "Second Option"), ("value3", "Third Option")
            ),
        },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": _OPTIONS}},
        "titledMulti": {
            "type": "array",
            "items": {
                "anyOf": _titled(
                    ("value1", "First Choice"),
                    ("value2", "Second Choice"),
                    ("value3", "Third Choice"),
                )
            },
        },
    },
}


@fixture("test_elicitation_sep1330_enums", "Asks with every kind of choice")
async def elicitation_enums(ctx: Ctx, params: types.CallToolRequestParams) -> Result:
    form = elicit("Choose", _ENUMS)
    return await told(ctx, params, {"form": form}, lambda got: _completed(got["form"]))


# Schemas and headers.

_SCHEMA_2020_12: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


@fixture("json_schema_2020_12_tool", "Tool with JSON Schema 2020-12 features", _SCHEMA_2020_12)
async def json_schema_tool(ctx: Ctx, params: types.CallToolRequestParams) -> Result:
    return text(f"Called with {plain(params.arguments or {})}")


_MIRRORED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "priority": {"type": "integer", "x-mcp-header": "Priority"},
        "query": {"type": "string"},
    },
}


@fixture("test_mirrored_headers", "Its arguments travel as headers too", _MIRRORED)
async def mirrored_headers(ctx: Ctx, params: types.CallToolRequestParams) -> Result:
    return text(f"Called with {plain(params.arguments or {})}")
