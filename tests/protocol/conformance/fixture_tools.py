"""The tools of the fixture server, under the names that the conformance suite calls.

A tool that needs something of the client asks in the way of the client's era: on 2026-07-28 it
answers `input_required` and finishes on the retry, before that it sends requests of its own.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types.version import is_version_at_least

MODERN = "2026-07-28"
PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQ"
    "AAAABJRU5ErkJggg=="
)
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="
PAUSE_S = 0.05

Ctx = ServerRequestContext[Any, Any]
Result = types.CallToolResult | types.InputRequiredResult
Handler = Callable[[Ctx, types.CallToolRequestParams], Awaitable[Result]]

BUS = InMemorySubscriptionBus()
SESSIONS: dict[int, ServerSession] = {}
"""Legacy sessions that have listed or called something, to be told of changes."""
CHANGED = {"tools": False, "prompts": False}
"""Whether the list has its extra entry at the moment."""


@dataclass(frozen=True)
class Fixture:
    """One tool: what is listed, and what runs."""

    tool: types.Tool
    run: Handler


TOOLS: dict[str, Fixture] = {}


def fixture(
    name: str, description: str, schema: dict[str, Any] | None = None
) -> Callable[[Handler], Handler]:
    """Register a tool."""

    def register(run: Handler) -> Handler:
        tool = types.Tool(
            name=name,
            description=description,
            input_schema=schema or {"type": "object", "properties": {}},
        )
        TOOLS[name] = Fixture(tool, run)
        return run

    return register


def text(said: str, *, is_error: bool | None = None) -> types.CallToolResult:
    """A result of one text."""
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=said)]
    if is_error is None:
        return types.CallToolResult(content=content)
    return types.CallToolResult(content=content, is_error=is_error)


def modern(ctx: Ctx) -> bool:
    """Whether the client speaks the stateless era."""
    return is_version_at_least(ctx.protocol_version, MODERN)


def strings(*names: str) -> dict[str, Any]:
    """An object schema of required texts."""
    return {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "required": list(names),
    }


def elicit(message: str, schema: dict[str, Any]) -> types.ElicitRequest:
    """A form request."""
    params = types.ElicitRequestFormParams(message=message, requested_schema=schema)
    return types.ElicitRequest(method="elicitation/create", params=params)


def sample(prompt: str, max_tokens: int = 100) -> types.CreateMessageRequest:
    """A sampling request."""
    said = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=prompt))
    params = types.CreateMessageRequestParams(messages=[said], max_tokens=max_tokens)
    return types.CreateMessageRequest(method="sampling/createMessage", params=params)


ROOTS = types.ListRootsRequest(method="roots/list")

Asked = types.CreateMessageRequest | types.ListRootsRequest | types.ElicitRequest
Answered = dict[str, Any]


async def gather(
    ctx: Ctx,
    params: types.CallToolRequestParams | types.GetPromptRequestParams,
    asked: dict[str, Asked],
    state: str | None = None,
) -> Answered | types.InputRequiredResult:
    """The client's answers by key, or what to send so that they come."""
    if modern(ctx):
        _declared(ctx, asked)
        given = params.input_responses or {}
        if all(_fits(request, given.get(key)) for key, request in asked.items()):
            return {key: given[key] for key in asked}
        return types.InputRequiredResult(
            input_requests=dict(asked), request_state=state if state is not None else None
        )
    answers: Answered = {}

    async def ask(key: str, request: Asked) -> None:
        answers[key] = await _request(ctx, request)

    async with anyio.create_task_group() as group:
        for key, request in asked.items():
            group.start_soon(ask, key, request)
    return answers


def _declared(ctx: Ctx, asked: dict[str, Asked]) -> None:
    """Refuse when the client did not say that it can answer."""
    names = {
        "elicitation/create": "elicitation",
        "sampling/createMessage": "sampling",
        "roots/list": "roots",
    }
    capabilities = ctx.session.client_capabilities
    for request in asked.values():
        needed = names[request.method]
        if getattr(capabilities, needed, None) is None:
            raise MCPError(
                code=types.MISSING_REQUIRED_CLIENT_CAPABILITY,
                message=f"This needs {needed}",
                data={"requiredCapabilities": {needed: {}}},
            )


def _fits(request: Asked, response: object) -> bool:
    wanted = {
        "elicitation/create": types.ElicitResult,
        "sampling/createMessage": types.CreateMessageResult,
        "roots/list": types.ListRootsResult,
    }[request.method]
    return isinstance(response, wanted)


async def _request(ctx: Ctx, request: Asked) -> Any:
    session, related = ctx.session, ctx.request_id
    if isinstance(request, types.ElicitRequest):
        form = request.params
        assert isinstance(form, types.ElicitRequestFormParams)
        return await session.elicit_form(form.message, form.requested_schema, related)
    if isinstance(request, types.CreateMessageRequest):
        return await session.create_message(  # pyright: ignore[reportDeprecated]
            request.params.messages,
            max_tokens=request.params.max_tokens,
            related_request_id=related,
        )
    from mcp.shared.message import ServerMessageMetadata

    return await session.send_request(
        request, types.ListRootsResult, metadata=ServerMessageMetadata(related_request_id=related)
    )


def plain(answer: Any) -> str:
    """An answer as compact JSON."""
    if hasattr(answer, "model_dump"):
        answer = answer.model_dump(by_alias=True, mode="json", exclude_none=True)
    return json.dumps(answer, sort_keys=True)


# Plain content.


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


async def _told(
    ctx: Ctx,
    params: types.CallToolRequestParams,
    asked: dict[str, Asked],
    say: Callable[[Answered], str],
    state: str | None = None,
) -> Result:
    answers = await gather(ctx, params, asked, state)
    return answers if isinstance(answers, types.InputRequiredResult) else text(say(answers))


@fixture("test_sampling", "Asks the client's model", strings("prompt"))
async def sampling(ctx: Ctx, params: types.CallToolRequestParams) -> Result:
    prompt = str((params.arguments or {}).get("prompt", ""))
    return await _told(
        ctx, params, {"reply": sample(prompt)}, lambda got: f"LLM response: {plain(got['reply'])}"
    )


@fixture("test_elicitation", "Asks the user", strings("message"))
async def elicitation(ctx: Ctx, params: types.CallToolRequestParams) -> Result:
    message = str((params.arguments or {}).get("message", ""))
    form = elicit(message, strings("username", "email"))
    return await _told(
        ctx, params, {"user": form}, lambda got: f"User response: {plain(got['user'])}"
    )


@fixture("test_streaming_elicitation", "Asks the user on the request's stream")
async def streaming_elicitation(ctx: Ctx, params: types.CallToolRequestParams) -> Result:
    form = elicit("Who are you?", strings("name"))
    return await _told(ctx, params, {"who": form}, lambda got: f"Answer: {plain(got['who'])}")


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
    return await _told(ctx, params, {"form": form}, lambda got: _completed(got["form"]))


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
    return await _told(ctx, params, {"form": form}, lambda got: _completed(got["form"]))


@fixture("test_input_required_result_elicitation", "Asks for a name")
async def input_elicitation(ctx: Ctx, params: types.CallToolRequestParams) -> Result:
    form = elicit("What is your name?", strings("name"))

    def hello(got: Answered) -> str:
        return f"Hello, {(got['user_name'].content or {}).get('name', 'stranger')}!"

    return await _told(ctx, params, {"user_name": form}, hello)


@fixture("test_input_required_result_sampling", "Asks the client's model for a capital")
async def input_sampling(ctx: Ctx, params: types.CallToolRequestParams) -> Result:
    asked: dict[str, Asked] = {"capital_question": sample("What is the capital of France?")}
    return await _told(ctx, params, asked, lambda got: plain(got["capital_question"]))


@fixture("test_input_required_result_list_roots", "Asks for the client's roots")
async def input_roots(ctx: Ctx, params: types.CallToolRequestParams) -> Result:
    asked: dict[str, Asked] = {"client_roots": ROOTS}
    return await _told(ctx, params, asked, lambda got: plain(got["client_roots"]))


_CONFIRM = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}},
    "required": ["ok"],
}


@fixture("test_input_required_result_request_state", "Carries state over the question")
async def input_state(ctx: Ctx, params: types.CallToolRequestParams) -> Result:
    asked: dict[str, Asked] = {"confirm": elicit("Please confirm", _CONFIRM)}
    if modern(ctx) and params.input_responses and params.request_state != "asked-once":
        raise MCPError(code=types.INVALID_PARAMS, message="The request state does not fit")
    return await _told(ctx, params, asked, lambda _: "state-ok", "asked-once")


@fixture("test_input_required_result_tampered_state", "Refuses state that was tampered with")
async def input_tampered(ctx: Ctx, params: types.CallToolRequestParams) -> Result:
    return await input_state(ctx, params)


@fixture("test_input_required_result_multiple_inputs", "Asks for three things at once")
async def input_several(ctx: Ctx, params: types.CallToolRequestParams) -> Result:
    asked: dict[str, Asked] = {
        "user_name": elicit("What is your name?", strings("name")),
        "greeting": sample("Generate a greeting", 50),
        "client_roots": ROOTS,
    }
    return await _told(ctx, params, asked, lambda got: plain(sorted(got)), "three-asked")


@fixture("test_input_required_result_multi_round", "Asks in two rounds")
async def input_rounds(ctx: Ctx, params: types.CallToolRequestParams) -> Result:
    first: dict[str, Asked] = {
        "step1": elicit("Step 1: What is your name?", strings("name")),
    }
    second: dict[str, Asked] = {
        "step2": elicit("Step 2: What is your favorite color?", strings("color")),
    }
    if modern(ctx):
        if params.request_state == "round-2":
            return await _told(ctx, params, second, lambda got: plain(got["step2"]), "round-2")
        answers = await gather(ctx, params, first, "round-1")
        if isinstance(answers, types.InputRequiredResult):
            return answers
        return types.InputRequiredResult(input_requests=dict(second), request_state="round-2")
    await gather(ctx, params, first)
    return await _told(ctx, params, second, lambda got: plain(got["step2"]))


@fixture("test_input_required_result_capabilities", "Asks only for what the client can do")
async def input_capabilities(ctx: Ctx, params: types.CallToolRequestParams) -> Result:
    declared = ctx.session.client_capabilities
    asked: dict[str, Asked] = {}
    if declared is not None and declared.sampling is not None:
        asked["model"] = sample("Say something")
    if declared is not None and declared.elicitation is not None:
        asked["user"] = elicit("Say something", strings("something"))
    if not asked:
        return text("The client can be asked nothing.")
    return await _told(ctx, params, asked, lambda got: plain(sorted(got)))


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
