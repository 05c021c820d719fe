"""What the fixture server's tools are made of: registering them, asking the client.

A tool that needs something of the client asks in the way of the client's era: on 2026-07-28 it
answers `input_required` and finishes on the retry, before that it sends requests of its own. With
`ONE_WAY` each tool knows one of the two, as those of the official SDKs' own servers do.
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
from mcp.server.subscriptions import InMemorySubscriptionBus
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
ONE_WAY = {"chosen": False}
"""Whether `test_input_required_*` alone answer `input_required`, and all others never do."""
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


def asks_in_results(
    ctx: Ctx, params: types.CallToolRequestParams | types.GetPromptRequestParams
) -> bool:
    """Whether what is asked goes into the result."""
    if ONE_WAY["chosen"]:
        return params.name.startswith("test_input_required")
    return modern(ctx)


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
    if asks_in_results(ctx, params):
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


async def told(
    ctx: Ctx,
    params: types.CallToolRequestParams,
    asked: dict[str, Asked],
    say: Callable[[Answered], str],
    state: str | None = None,
) -> Result:
    answers = await gather(ctx, params, asked, state)
    return answers if isinstance(answers, types.InputRequiredResult) else text(say(answers))
