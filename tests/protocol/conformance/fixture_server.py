"""A server of both eras with the names that the conformance suite expects; written on the SDK.

    python fixture_server.py [--port 0] [--one-way]

Prints its URL on the first line of standard output.
"""

from __future__ import annotations

import argparse
import socket
import warnings
from typing import Any

import fixture_inputs
import fixture_tools
import mcp_types as types
import uvicorn
from fixture_kit import (
    BUS,
    CHANGED,
    ONE_WAY,
    PNG,
    SESSIONS,
    TOOLS,
    Ctx,
    elicit,
    gather,
    modern,
    plain,
    strings,
)
from mcp.server.caching import CacheHint
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp_types.methods import CacheableMethod

# Importing them registers their tools.
_REGISTERED = (fixture_tools, fixture_inputs)
STATIC_TEXT = "test://static-text"
STATIC_BINARY = "test://static-binary"
WATCHED = "test://watched-resource"
TEMPLATE = "test://template/{id}/data"

HINT = CacheHint(5_000, "public")
HINTS: dict[CacheableMethod, CacheHint] = {
    "server/discover": HINT,
    "tools/list": HINT,
    "prompts/list": HINT,
    "resources/list": HINT,
    "resources/templates/list": HINT,
    "resources/read": HINT,
}
Paged = types.PaginatedRequestParams | None


async def list_tools(ctx: Ctx, params: Paged) -> types.ListToolsResult:
    """Every tool, and one that comes and goes."""
    remember(ctx)
    extra = [EXTRA_TOOL] if CHANGED["tools"] else []
    return types.ListToolsResult(tools=[*(fixture.tool for fixture in TOOLS.values()), *extra])


async def call_tool(
    ctx: Ctx, params: types.CallToolRequestParams
) -> types.CallToolResult | types.InputRequiredResult:
    """Run a tool."""
    remember(ctx)
    found = TOOLS.get(params.name)
    if found is None:
        raise MCPError(code=types.INVALID_PARAMS, message=f"Unknown tool: {params.name}")
    return await found.run(ctx, params)


async def list_resources(ctx: Ctx, params: Paged) -> types.ListResourcesResult:
    """The three resources."""
    return types.ListResourcesResult(
        resources=[
            types.Resource(
                uri=STATIC_TEXT, name="static-text", description="A text", mime_type="text/plain"
            ),
            types.Resource(
                uri=STATIC_BINARY, name="static-binary", description="A pixel",
                mime_type="image/png",
            ),
            types.Resource(
                uri=WATCHED, name="watched-resource", description="Can be watched",
                mime_type="text/plain",
            ),
        ]
    )  # fmt: skip


async def list_templates(ctx: Ctx, params: Paged) -> types.ListResourceTemplatesResult:
    """The one template."""
    template = types.ResourceTemplate(
        uri_template=TEMPLATE,
        name="template",
        description="Data by id",
        mime_type="application/json",
    )
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def read_resource(
    ctx: Ctx, params: types.ReadResourceRequestParams
) -> types.ReadResourceResult:
    """Read one, or say that it is not there in the way of the era."""
    uri = str(params.uri)
    content: types.TextResourceContents | types.BlobResourceContents
    if uri == STATIC_TEXT:
        content = types.TextResourceContents(
            uri=uri, mime_type="text/plain", text="This is the content of the static text resource."
        )
    elif uri == STATIC_BINARY:
        content = types.BlobResourceContents(uri=uri, mime_type="image/png", blob=PNG)
    elif uri == WATCHED:
        content = types.TextResourceContents(uri=uri, mime_type="text/plain", text="Unchanged.")
    elif uri.startswith("test://template/") and uri.endswith("/data"):
        number = uri.removeprefix("test://template/").removesuffix("/data")
        said = plain({"id": number, "templateTest": True, "data": f"Data for ID: {number}"})
        content = types.TextResourceContents(uri=uri, mime_type="application/json", text=said)
    else:
        code = types.INVALID_PARAMS if modern(ctx) else -32002
        raise MCPError(code=code, message="Resource not found", data={"uri": uri})
    return types.ReadResourceResult(contents=[content])


def _argument(name: str) -> types.PromptArgument:
    return types.PromptArgument(name=name, description=f"The {name}", required=True)


PROMPTS = [
    types.Prompt(name="test_simple_prompt", description="Without arguments"),
    types.Prompt(
        name="test_prompt_with_arguments",
        description="With two arguments",
        arguments=[_argument("arg1"), _argument("arg2")],
    ),
    types.Prompt(
        name="test_prompt_with_embedded_resource",
        description="Embeds a resource",
        arguments=[_argument("resourceUri")],
    ),
    types.Prompt(name="test_prompt_with_image", description="Shows an image"),
    types.Prompt(name="test_input_required_result_prompt", description="Asks for its context"),
]
EXTRA_TOOL = types.Tool(
    name="test_extra", description="Comes and goes", input_schema={"type": "object"}
)
EXTRA_PROMPT = types.Prompt(name="test_extra_prompt", description="Comes and goes")


def remember(ctx: Ctx) -> None:
    """Keep a legacy session, to tell it of changes."""
    if not modern(ctx):
        SESSIONS[id(ctx.session)] = ctx.session


async def list_prompts(ctx: Ctx, params: Paged) -> types.ListPromptsResult:
    """Every prompt, and one that comes and goes."""
    remember(ctx)
    extra = [EXTRA_PROMPT] if CHANGED["prompts"] else []
    return types.ListPromptsResult(prompts=[*PROMPTS, *extra])


def _user(*contents: types.ContentBlock | str) -> types.GetPromptResult:
    blocks = [types.TextContent(type="text", text=c) if isinstance(c, str) else c for c in contents]
    return types.GetPromptResult(
        messages=[types.PromptMessage(role="user", content=block) for block in blocks]
    )


async def get_prompt(
    ctx: Ctx, params: types.GetPromptRequestParams
) -> types.GetPromptResult | types.InputRequiredResult:
    """Fill in a prompt."""
    given: dict[str, Any] = dict(params.arguments or {})
    match params.name:
        case "test_simple_prompt":
            return _user("This is a simple prompt for testing.")
        case "test_prompt_with_arguments":
            said = f"Prompt with arguments: arg1='{given.get('arg1')}', arg2='{given.get('arg2')}'"
            return _user(said)
        case "test_prompt_with_embedded_resource":
            inner = types.TextResourceContents(
                uri=str(given.get("resourceUri")),
                mime_type="text/plain",
                text="Embedded resource content for testing.",
            )
            return _user(
                types.EmbeddedResource(type="resource", resource=inner),
                "Please process the embedded resource above.",
            )
        case "test_prompt_with_image":
            image = types.ImageContent(type="image", data=PNG, mime_type="image/png")
            return _user(image, "Please analyze the image above.")
        case "test_input_required_result_prompt":
            form = elicit("What context should the prompt use?", strings("context"))
            answers = await gather(ctx, params, {"user_context": form})
            if isinstance(answers, types.InputRequiredResult):
                return answers
            return _user(f"Use this context: {plain(answers['user_context'])}")
        case _:
            raise MCPError(code=types.INVALID_PARAMS, message=f"Unknown prompt: {params.name}")


async def complete(ctx: Ctx, params: types.CompleteRequestParams) -> types.CompleteResult:
    """Words that begin as the argument does."""
    known = ["paris", "park", "party", "test", "testing"]
    found = [word for word in known if word.startswith(params.argument.value)]
    completion = types.Completion(values=found, total=len(found), has_more=False)
    return types.CompleteResult(completion=completion)


async def nothing(ctx: Ctx, params: object) -> types.EmptyResult:
    """Accept."""
    return types.EmptyResult()


def build() -> Server[Any]:
    """The server."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        server: Server[Any] = Server(  # pyright: ignore[reportDeprecated] # logging is tested
            "armory-conformance-fixture",
            version="1.0.0",
            cache_hints=HINTS,
            get_tool_input_schema=lambda name: (
                TOOLS[name].tool.input_schema if name in TOOLS else None
            ),
            on_list_tools=list_tools,
            on_call_tool=call_tool,
            on_list_resources=list_resources,
            on_list_resource_templates=list_templates,
            on_read_resource=read_resource,
            on_subscribe_resource=nothing,
            on_unsubscribe_resource=nothing,
            on_subscriptions_listen=ListenHandler(BUS),
            on_list_prompts=list_prompts,
            on_get_prompt=get_prompt,
            on_completion=complete,
            on_set_logging_level=nothing,
        )
    security = RequestStateSecurity.ephemeral()
    server.middleware.append(RequestStateBoundary(security, default_audience=server.name))
    return server


def main() -> None:
    """Serve on the loopback until killed."""
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--one-way", action="store_true", help="as the official SDKs' servers")
    given = parser.parse_args()
    ONE_WAY["chosen"] = given.one_way
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", given.port))
    port = listening.getsockname()[1]
    print(f"http://127.0.0.1:{port}/mcp", flush=True)  # noqa: T201 # the answer to the caller
    app = build().streamable_http_app()
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
