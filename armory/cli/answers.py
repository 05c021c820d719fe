"""Requests and answers of commands, wherever the gateway runs: results, pages, errors by kind.

Owns: packing a request's members and reading its answer. Never imports a transport.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol, cast

import msgspec
from msgspec import Raw

from armory.cli.output import err, tell
from armory.domain.principal import Principal
from armory.errors import (
    ArmoryError,
    BackendError,
    InvalidRequest,
    QuotaExceeded,
    RateLimited,
    UnknownTool,
    UpstreamOverloaded,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from armory.protocol.codes import INVALID_PARAMS, TIMED_OUT, UNAVAILABLE
from armory.protocol.jsonrpc import ErrorObject, error_of
from armory.protocol.link import Answer, ClientGone, Params, Reply
from armory.protocol.meta import ERROR, SELECTION
from armory.protocol.methods import LOGGED

OPERATOR = Principal("operator", method="internal")
_MAX_PAGES = 1_000
_KINDS: Mapping[str, type[ArmoryError]] = {
    kind.code: kind
    for kind in (
        ArmoryError,
        InvalidRequest,
        UnknownTool,
        RateLimited,
        QuotaExceeded,
        UpstreamUnavailable,
        UpstreamTimeout,
        UpstreamOverloaded,
        BackendError,
    )
}
_KIND_OF_CODE: Mapping[int, type[ArmoryError]] = {
    UNAVAILABLE: UpstreamUnavailable,
    TIMED_OUT: UpstreamTimeout,
}
"""For errors without `data.code`."""


class JsonRpcError(ArmoryError):
    """An error that is none of Armory's kinds: mostly the upstream's own, passed on.

    Attributes:
        rpc_code: its JSON-RPC code.
        data: its `data`; None: it has none.
    """

    code = "jsonrpc_error"

    def __init__(self, error: ErrorObject) -> None:
        super().__init__(error.message or "refused")
        self.rpc_code = error.code
        self.data: Any = error.data


class AnyGateway(Protocol):
    """A gateway as commands ask it, wherever it runs."""

    async def ask(
        self, method: str, params: Mapping[str, Any], meta: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Send one request; returns its result.

        Raises:
            ArmoryError: it was refused, or nobody could be asked.
        """
        ...

    def unreached(self) -> Mapping[str, str]:
        """Upstreams that could not be reached, and why; empty where the gateway does not tell."""
        ...


class CommandLine:
    """A client that shows progress and log lines and answers no questions."""

    capabilities: Mapping[str, Any] = {}
    log_level: str | None = None
    progress_token: Raw | None = None

    async def notify(self, method: str, params: Params) -> None:
        """Log lines go to standard error."""
        if method == LOGGED:
            said = bytes(params.get("data", Raw(b"null"))).decode("utf-8", "replace")
            tell(said, console=err())

    async def ask(self, method: str, params: Params) -> Answer:
        """Refuses: there is nobody to be asked."""
        raise ClientGone(f"{method} cannot be answered by a command line")


async def all_tools(
    gateway: AnyGateway, meta: Mapping[str, Any] | None = None
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Every page of `tools/list`: the definitions, and the selection that the answer tells of."""
    tools: list[dict[str, Any]] = []
    cursor: str | None = None
    selection: dict[str, Any] = {}
    for _ in range(_MAX_PAGES):
        page = await gateway.ask("tools/list", {"cursor": cursor} if cursor else {}, meta)
        tools += page.get("tools", [])
        selection = (page.get("_meta") or {}).get(SELECTION, selection)
        cursor = page.get("nextCursor")
        if not cursor:
            break
    return tools, selection


def packed_value(value: Any) -> Raw:
    """A value as JSON."""
    return Raw(json.dumps(value).encode())


def packed(values: Mapping[str, Any]) -> dict[str, Raw]:
    """The members of an object as JSON."""
    return {name: packed_value(value) for name, value in values.items()}


def result_of(reply: Reply) -> dict[str, Any]:
    """The result of a reply.

    Raises:
        ArmoryError: the request was refused.
    """
    if reply.error is not None:
        raise error_of_response(error_of(reply.error))
    return msgspec.json.decode(b"".join(reply.parts))


def error_of_response(error: ErrorObject) -> ArmoryError:
    """The exception for a JSON-RPC error, of the kind in `error.data`."""
    data = cast("dict[str, Any]", error.data) if isinstance(error.data, dict) else {}
    kind = _KIND_OF_CODE.get(error.code)
    if error.code == INVALID_PARAMS and "parameter" in data:  # which was written wrong
        kind = InvalidRequest
    if kind is None and str(data.get("code")) not in _KINDS:
        return JsonRpcError(error)
    return _error(error.message or "refused", data, kind or ArmoryError)


def _error(
    message: str, details: Mapping[str, Any], otherwise: type[ArmoryError] = ArmoryError
) -> ArmoryError:
    """The exception for an error that a gateway reports.

    Args:
        message: for people.
        details: `error.data`, or what a result has in `_meta[dev.armory/error]`.
        otherwise: its kind where they do not say it.
    """
    found = _KINDS.get(str(details.get("code")), otherwise)(message)
    wait_s = details.get("retry_after_s")
    if isinstance(wait_s, int | float):
        found.retry_after_s = wait_s
    if isinstance(found, InvalidRequest):
        found.parameter = details.get("parameter")
    return found


def error_of_result(result: Mapping[str, Any], otherwise: str) -> ArmoryError:
    """The exception for a result with `isError`.

    Args:
        result: of a call.
        otherwise: the message where it has no text.
    """
    texts = [block.get("text", "") for block in result.get("content") or []]
    details = (result.get("_meta") or {}).get(ERROR) or {}
    return _error("\n".join(texts) or otherwise, details)


def kind_of(error: ErrorObject) -> str:
    """`error.data.code`; empty where there is none."""
    data = error.data
    return str(cast("dict[str, Any]", data).get("code")) if isinstance(data, dict) else ""
