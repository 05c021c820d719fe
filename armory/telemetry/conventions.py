"""The semantic conventions for MCP, and for HTTP where REST is spoken, in one place.

Owns: names of attributes and metrics, and which errors are the caller's. The conventions are in
development: a name that changes is changed here and nowhere else. Imports `protocol` alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from armory.protocol import codes

Side = Literal["server", "client"]
Kind = Literal["tool", "prompt", "resource"]
"""What a request is about."""

METHOD = "mcp.method.name"
VERSION = "mcp.protocol.version"
SESSION = "mcp.session.id"
RESOURCE = "mcp.resource.uri"
TOOL = "gen_ai.tool.name"
PROMPT = "gen_ai.prompt.name"
OPERATION = "gen_ai.operation.name"
REQUEST_ID = "jsonrpc.request.id"
STATUS_CODE = "rpc.response.status_code"
ERROR = "error.type"
TRANSPORT = "network.transport"
PROTOCOL = "network.protocol.name"
CLIENT_ADDRESS = "client.address"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"
HTTP_METHOD = "http.request.method"
HTTP_ROUTE = "http.route"
HTTP_STATUS = "http.response.status_code"
URL_PATH = "url.path"
URL_SCHEME = "url.scheme"
EXECUTE_TOOL = "execute_tool"
TOOL_ERROR = "tool_error"
OTHER = "_OTHER"
"""Stands for a method that no specification knows, where a name would make a series of its own."""


class Series(NamedTuple):
    """The attributes that identify one time series of a duration.

    Attributes:
        method: of the request; `OTHER` for one that is not known.
        kind: what it is about.
        name: the tool or prompt, where it exists; never a URI, of which there is no end.
        failure: `error.type`; None: it went well.
        status: code of a JSON-RPC error; None: there was none.
        version: the revision that is spoken; None where it is not known.
        transport: `tcp` or `pipe`.
        host, port: of the server, on the client's side.
    """

    method: str
    kind: Kind | None
    name: str | None
    failure: str | None
    status: str | None
    version: str | None
    transport: str
    host: str | None = None
    port: int | None = None


DURATION: Mapping[Side, str] = {
    "server": "mcp.server.operation.duration",
    "client": "mcp.client.operation.duration",
}
SESSION_DURATION: Mapping[Side, str] = {
    "server": "mcp.server.session.duration",
    "client": "mcp.client.session.duration",
}
BOUNDARIES_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)

CALLERS_FAULT = frozenset(
    (
        codes.PARSE_ERROR,
        codes.INVALID_REQUEST,
        codes.METHOD_NOT_FOUND,
        codes.INVALID_PARAMS,
        codes.RESOURCE_NOT_FOUND,
    )
)
"""Codes of the caller's mistakes: a server's span is not marked as failed for them."""

RETRIEVAL = "retrieval"
"""Name of the span of a search, and value of its `gen_ai.operation.name`."""
CANDIDATES = "armory.retrieval.candidates"
RETURNED = "armory.retrieval.returned"
THRESHOLD = "armory.retrieval.threshold"
TOP_SCORE = "armory.retrieval.top_score"
CATALOG_VERSION = "armory.catalog.version"
DEGRADED = "armory.retrieval.degraded"
QUERY = "armory.retrieval.query"
"""Only where `observability.otel.queries` asks for it."""


TARGETS: Mapping[str, tuple[str, Kind]] = {
    "tools/call": ("name", "tool"),
    "prompts/get": ("name", "prompt"),
    "resources/read": ("uri", "resource"),
    "resources/subscribe": ("uri", "resource"),
    "resources/unsubscribe": ("uri", "resource"),
}
"""By method: the parameter that says what it is about, and of which kind that is."""
TARGET_ATTRIBUTE: Mapping[Kind, str] = {"tool": TOOL, "prompt": PROMPT, "resource": RESOURCE}
