"""An HTTP API behind an OpenAPI description, as an upstream whose tools are its operations.

Owns: `OpenApiLink`, which answers the protocol itself and calls the API. Never imports the other
local links.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import msgspec
from msgspec import Raw
from yarl import URL

from armory.errors import UpstreamTimeout
from armory.http1.failing import broken
from armory.http1.reading import BodyTooLarge, read_body
from armory.openapi.media import is_json
from armory.openapi.operation import Operation
from armory.openapi.operations import Operations
from armory.openapi.requests import request_for
from armory.openapi.results import refused, result_of
from armory.openapi.styles import BadArguments
from armory.protocol.codes import INVALID_PARAMS, METHOD_NOT_FOUND
from armory.protocol.link import Call, Reply
from armory.protocol.rawjson import brief, members, text_of, value
from armory.protocol.scanning.taking_apart import TooWide
from armory.threads import for_callers_if
from armory.upstreams.local.link import LocalLink, complete, error_reply, result_reply
from armory.upstreams.session.context import Identity, LinkContext
from armory.upstreams.transports.http_client import Answer, HttpClient

_PARAMETER_BYTES = 64 * 1024
_FORM_VALUES = 10_000
_LARGE_BYTES = 256 * 1024
"""Longer answers are turned into a result in a thread."""
_UNAVAILABLE = frozenset((502, 503, 504))


@dataclass(frozen=True, slots=True)
class Api:
    """A description that was read.

    Attributes:
        operations: what it offers.
        listed: the same as a list of tools, written beside the event loop.
        base: where it is.
        identity: what it says of itself.
    """

    operations: Operations
    listed: Raw
    base: str
    identity: Identity


class OpenApiLink(LocalLink):
    """An API. There is no session: the link is never dead.

    Args:
        context: as every link's.
        client: connections to the API; not closed by this one.
        api: its description.
    """

    def __init__(self, context: LinkContext, client: HttpClient, api: Api) -> None:
        super().__init__(context, api.identity)
        self._client = client
        self._api = api
        self.left_out = {"tools/list": api.operations.left_out}
        path, _, self._query = api.base.partition("?")
        self._base = path.rstrip("/")

    async def request(self, call: Call) -> Reply:
        """As `BaseLink.request`; answers `tools/list` and `tools/call`, refuses other methods."""
        if self._closing:
            raise self.unavailable("the session is closed")
        if call.method == "tools/list":
            return Reply(result=self._api.listed, era="modern")
        if call.method == "tools/call":
            return await self._call(call)
        if call.method == "server/discover":
            return result_reply({})
        return error_reply(METHOD_NOT_FOUND, f"Method not found: {call.method}")

    async def _call(self, call: Call) -> Reply:
        name = text_of(call.params, "name") or ""
        operation = self._api.operations.by_name.get(name)
        if operation is None:
            return error_reply(INVALID_PARAMS, f"Unknown tool: {name[:200]}")
        self.note_sent(call)
        try:
            return Reply(result=await self._answer(call, operation), era="modern")
        except BadArguments as problem:
            return result_reply(refused(f"{operation.name} was not called: {problem}"))

    async def _answer(self, call: Call, operation: Operation) -> Raw:
        made = request_for(operation, _arguments(operation, call.params.get("arguments")))
        own = {name.lower() for name in self.spec.headers}
        given = {k: v for k, v in made.headers.items() if k.lower() not in own}
        headers = {"Accept": "application/json, */*;q=0.5", **given, **self.spec.headers}
        timeout_s = self.spec.call_timeout_s if call.timeout_s is None else call.timeout_s
        url = URL(self._target(made.target), encoded=True)
        response: Answer | None = None
        try:
            response = await self._client.send(
                made.method, headers, made.body, timeout_s, url=url, what=operation.name
            )
            if response.status in _UNAVAILABLE:
                failing, response = response, None
                raise await self._client.failure(failing)
            body = await read_body(response, self.spec.message_bytes, self.meter)
            status, answered = response.status, cast("Mapping[str, str]", response.headers)
            response = None
            return await for_callers_if(
                len(body) > _LARGE_BYTES, _result, status, answered, bytes(body)
            )
        except TimeoutError:
            raise UpstreamTimeout(
                f"upstream {self.server!r} did not answer {operation.name} within {timeout_s:g} s",
                upstream=self.server,
            ) from None
        except broken() as error:
            raise self._client.failed(error) from error
        except BodyTooLarge as error:
            raise self.unreadable_answer(error) from None
        finally:
            if response is not None:
                response.close()

    def _target(self, target: str) -> str:
        if not self._query:
            return self._base + target
        path, _, query = target.partition("?")
        return f"{self._base}{path}?{self._query}{'&' if query else ''}{query}"


def _arguments(operation: Operation, given: Raw | None) -> dict[str, Any]:
    """The arguments of a call by name; a JSON body is not decoded.

    Raises:
        BadArguments: it is too much for the parameters of a request.
    """
    try:
        found = {} if given is None else members(given)
    except TooWide as error:
        raise BadArguments(str(error)) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return {}
    body = operation.body
    unopened = body.argument if body is not None and is_json(body.media_type) else None
    arguments: dict[str, Any] = {}
    for name, raw in found.items():
        view = memoryview(raw)
        if name == unopened and bytes(view[:5]) != b"null":
            arguments[name] = raw
            continue
        if len(view) > _PARAMETER_BYTES and (body is None or name != body.argument):
            raise BadArguments(
                f"the argument {name[:80]!r} has {len(view):,} bytes; {_PARAMETER_BYTES:,} are the "
                "most that a parameter may have"
            )
        try:
            if len(view) > _PARAMETER_BYTES and _many_values(raw):
                raise BadArguments(f"the argument {name[:80]!r} has too many values for a form")
            arguments[name] = value(raw)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            raise BadArguments(f"the argument {name[:80]!r} cannot be read: {brief(raw)}") from None
    return arguments


def _many_values(form: Raw) -> bool:
    """Whether a form has so many values that encoding it would hold the event loop."""
    parts = members(form).values() if bytes(memoryview(form)[:1]) == b"{" else (form,)
    texts = (bytes(memoryview(each)) for each in parts)
    return sum(text.count(b",") for text in texts if text[:1] in (b"[", b"{")) > _FORM_VALUES


def _result(status: int, headers: Mapping[str, str], body: bytes) -> Raw:
    return complete(result_of(status, headers, body))


def listed(operations: Operations) -> Raw:
    """The answer to `tools/list`."""
    tools = [operation.tool for operation in operations.by_name.values()]
    return complete({"tools": tools, "ttlMs": 0, "cacheScope": "private"})
