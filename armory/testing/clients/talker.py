"""A client that completes its requests: it answers the server's questions, and keeps a transcript.

Owns: `Talker` for both eras over HTTP. Never imports a server.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import aiohttp

from armory.testing.clients.raw import PREFIX, LegacyClient, modern_body, modern_headers

ANSWERS: dict[str, Any] = {
    "elicitation/create": {
        "action": "accept",
        "content": {"name": "Ada", "color": "green", "ok": True, "context": "tests"},
    },
    "sampling/createMessage": {
        "role": "assistant",
        "content": {"type": "text", "text": "Paris"},
        "model": "scripted",
        "stopReason": "endTurn",
    },
    "roots/list": {"roots": [{"uri": "file:///work", "name": "work"}]},
}
CAPABILITIES: dict[str, Any] = {"elicitation": {}, "sampling": {}, "roots": {}}
_MAX_ROUNDS = 6


@dataclass
class CompletedRequest:
    """One completed request.

    Attributes:
        message: the last JSON-RPC message, without its id.
        asked: (method, params) of everything that the server asked meanwhile.
        notes: (method, params) of every notification meanwhile.
        status: HTTP status of the last answer.
    """

    message: dict[str, Any] = field(default_factory=dict[str, Any])
    asked: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    notes: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    status: int = 0


class Talker:
    """A client of one era at one URL.

    Args:
        http: for the connections.
        url: of the MCP endpoint.
        era: which era to speak.
        capabilities: what it declares; it answers whatever it is asked from `ANSWERS`.
    """

    def __init__(
        self,
        http: aiohttp.ClientSession,
        url: str,
        era: Literal["modern", "legacy"],
        capabilities: dict[str, Any] | None = None,
    ) -> None:
        self._http = http
        self._url = url
        self.era = era
        self._capabilities = CAPABILITIES if capabilities is None else capabilities
        self._legacy: LegacyClient | None = None
        self._count = 0

    @property
    def hello(self) -> dict[str, Any]:
        """The result of `initialize`; empty in the modern era."""
        return self._legacy.hello if self._legacy is not None else {}

    async def tell(self, method: str, params: Mapping[str, Any] | None = None) -> CompletedRequest:
        """Send one request and wait until it is complete."""
        told = CompletedRequest()
        if self.era == "legacy":
            await self._tell_legacy(method, dict(params or {}), told)
        else:
            await self._tell_modern(method, dict(params or {}), told)
        told.message.pop("id", None)
        return told

    async def _tell_modern(
        self, method: str, params: dict[str, Any], told: CompletedRequest
    ) -> None:
        retry = dict(params)
        for _ in range(_MAX_ROUNDS):
            self._count += 1
            meta = {f"{PREFIX}logLevel": "debug", "progressToken": f"p{self._count}"}
            body = modern_body(self._count, method, retry, meta, self._capabilities)
            headers = modern_headers(body)
            async with self._http.post(self._url, json=body, headers=headers) as response:
                told.status = response.status
                async for message in _messages(response):
                    self._note(message, told)
            result = told.message.get("result", {})
            if result.get("resultType") != "input_required":
                return
            requests = result.get("inputRequests", {})
            told.asked += [(r["method"], r.get("params", {})) for r in requests.values()]
            retry = {
                **params,
                "inputResponses": {key: ANSWERS[r["method"]] for key, r in requests.items()},
            }
            if "requestState" in result:
                retry["requestState"] = result["requestState"]
        raise AssertionError(f"{method}: asked more than {_MAX_ROUNDS} times")

    async def _tell_legacy(
        self, method: str, params: dict[str, Any], told: CompletedRequest
    ) -> None:
        if self._legacy is None:
            self._legacy = LegacyClient(self._url, self._http, "2025-11-25")
            await self._legacy.initialize(self._capabilities)
        self._count += 1
        params["_meta"] = {"progressToken": f"p{self._count}"}
        body = {"jsonrpc": "2.0", "id": self._count, "method": method, "params": params}
        headers = self._legacy.headers
        async with self._http.post(self._url, json=body, headers=headers) as response:
            told.status = response.status
            async for message in _messages(response):
                if "method" in message and "id" in message:
                    told.asked.append((message["method"], message.get("params", {})))
                    answer = {"jsonrpc": "2.0", "id": message["id"]}
                    await self._legacy.send({**answer, "result": ANSWERS[message["method"]]})
                else:
                    self._note(message, told)

    def _note(self, message: dict[str, Any], told: CompletedRequest) -> None:
        if "method" in message:
            params = dict(message.get("params", {}))
            params.pop("progressToken", None)
            told.notes.append((message["method"], params))
        else:
            told.message = message


async def _messages(response: aiohttp.ClientResponse) -> AsyncIterator[dict[str, Any]]:
    """The messages of a response, each as it arrives."""
    if response.content_type != "text/event-stream":
        body = await response.read()
        if body:
            yield json.loads(body)
        return
    async for line in response.content:
        if line.startswith(b"data:") and line[5:].strip():
            yield json.loads(line[5:])
