"""Multi-round-trip requests and server-to-client requests, each turned into the other.

Owns: driving a modern upstream's `input_required` for a legacy client, parking a legacy upstream's
question for a modern client, and sealing request state. Never imports a transport.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec
import structlog
from mcp.server.request_state import AESGCMRequestStateCodec, InvalidRequestState
from msgspec import Raw

from armory.gateway.context import RequestContext
from armory.protocol import codes, jsonrpc
from armory.protocol.client_requests import CAPABILITY
from armory.protocol.codes import INVALID_PARAMS
from armory.protocol.errors import RpcError
from armory.protocol.link import Answer, ClientChannel, ClientGone, Params, Reply
from armory.protocol.rawjson import EMPTY_OBJECT, encode, members_or_none, pack, text_of, value
from armory.wire.eras import ladder as eras
from armory.wire.interaction.parked import Binding, ParkedCall

_log = structlog.get_logger(__name__)
Invoke = Callable[[dict[str, Raw]], Awaitable[Reply]]
MAX_ROUNDS = 10
_sorted = msgspec.json.Encoder(order="deterministic").encode
_STATE = "requestState"
_RESPONSES = "inputResponses"
_REFUSED = "Invalid or expired requestState"


class OwnedByReplica(Exception):
    """The call is parked at another replica, which alone can go on with it."""

    def __init__(self, replica: str) -> None:
        super().__init__(replica)
        self.replica = replica


class Interactions:
    """The bridge between the eras' ways of asking the client.

    Args:
        keys: secrets (32 bytes or more) that seal request state, the first one seals; replicas
            share them. None: one made now.
        ttl_s: how long a parked call waits for its answers, in seconds.
        capacity: how many calls may be parked at once.
        replica: name of this replica among those that share the keys.
    """

    def __init__(
        self,
        keys: Sequence[bytes] | None = None,
        *,
        ttl_s: float = 300.0,
        capacity: int = 1_000,
        replica: str = "",
    ) -> None:
        self._codec = AESGCMRequestStateCodec(list(keys) if keys else [os.urandom(32)])
        self.ttl_s = ttl_s
        self._capacity = capacity
        self._replica = replica
        self._parked: dict[str, ParkedCall] = {}
        self._running: set[ParkedCall] = set()

    @property
    def parked(self) -> int:
        """How many calls wait for answers right now."""
        return len(self._parked)

    async def run(
        self, context: RequestContext, method: str, params: dict[str, Raw], invoke: Invoke
    ) -> Reply:
        """Answer an interactive request, in as many rounds as its client's era takes.

        Raises:
            RpcError: a request state that is not ours, not for this request, or expired.
        """
        if context.era == "legacy":
            reply = await invoke(params)
            if asks_for_input(reply):
                return await self._drive(context, params, invoke, reply)
            return reply
        return await self._modern(context, method, params, invoke)

    # -- a legacy client, a modern upstream --------------------------------------------------

    async def _drive(
        self, context: RequestContext, params: dict[str, Raw], invoke: Invoke, reply: Reply
    ) -> Reply:
        pause_s = 0.05
        for _ in range(MAX_ROUNDS):
            asked = members_or_none(reply.result) or {}
            retry = {k: v for k, v in params.items() if k not in (_STATE, _RESPONSES)}
            requests = members_or_none(asked.get("inputRequests"))
            if requests:
                answers = await _ask_all(context, requests)
                if isinstance(answers, Reply):
                    return answers
                retry[_RESPONSES] = pack(answers)
                pause_s = 0.05
            else:
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, 0.25)
            if _STATE in asked:
                retry[_STATE] = asked[_STATE]
            reply = await invoke(retry)
            if not asks_for_input(reply):
                return reply
        message = f"the upstream asked for input more than {MAX_ROUNDS} times in one call"
        return Reply(error=jsonrpc.error(codes.INTERNAL_ERROR, message))

    # -- a modern client ---------------------------------------------------------------------

    async def _modern(
        self, context: RequestContext, method: str, params: dict[str, Raw], invoke: Invoke
    ) -> Reply:
        binding = Binding(context, method, params)
        if _STATE in params:
            kind, inner = self._unseal(text_of(params, _STATE), binding.digest)
            if kind == "parked":
                return await self._resume(context, params, binding, inner)
            del params[_STATE]
            if kind == "upstream":
                params[_STATE] = pack(inner)
            else:  # "again": a URL was visited; the upstream hears the call anew
                params.pop(_RESPONSES, None)
        if not _interactive(context.client.capabilities):
            reply = await invoke(params)
            return self._sealed(context, reply, binding)
        live = ParkedCall(context.client, context.version, binding)
        context.client = live
        live.start(invoke(params))
        self._running.add(live)
        return await self._attend(live, context)

    async def _attend(self, live: ParkedCall, context: RequestContext) -> Reply:
        """Wait until the call is over, or asks; a client that leaves meanwhile ends it."""
        try:
            await live.pause()
        except asyncio.CancelledError:
            self._running.discard(live)
            await live.end()
            raise
        task = live.running
        if task.done():
            self._running.discard(live)
            live.timer_off()
            return self._sealed(context, task.result(), live.binding)
        if len(self._parked) >= self._capacity:
            self._running.discard(live)
            await live.end()
            raise RpcError(
                codes.LIMITED,
                "too many calls wait for input (server.limits.parked_interactions); try later",
            )
        handle = secrets.token_urlsafe(18)
        self._parked[handle] = live
        live.timer = asyncio.get_running_loop().call_later(self.ttl_s, self._expire, handle)
        result = {
            "resultType": "input_required",
            "inputRequests": live.requests(),
            "requestState": self._seal("parked", handle, live.binding),
        }
        return Reply(Raw(encode(result)), era="modern")

    async def _resume(
        self, context: RequestContext, params: Mapping[str, Raw], binding: Binding, handle: str
    ) -> Reply:
        live = self._parked.get(handle)
        if live is None or live.binding.digest != binding.digest:
            raise RpcError(INVALID_PARAMS, _REFUSED, {"reason": "invalid_request_state"})
        del self._parked[handle]
        live.timer_off()
        live.face = context.client
        context.client = live
        live.deliver(members_or_none(params.get(_RESPONSES)) or {})
        return await self._attend(live, context)

    def _expire(self, handle: str) -> None:
        live = self._parked.pop(handle, None)
        if live is not None:
            _log.info("parked_call_expired", ttl_s=self.ttl_s)
            self._running.discard(live)
            live.stop()

    async def close(self) -> None:
        """End every parked call."""
        self._parked.clear()
        for live in list(self._running):
            await live.end()
        self._running.clear()

    # -- state -------------------------------------------------------------------------------

    def _sealed(self, context: RequestContext, reply: Reply, binding: Binding) -> Reply:
        """A modern upstream's own state goes to the client only sealed for it."""
        if reply.error is not None:
            return self._url_as_input(context, reply, binding)
        if not asks_for_input(reply):
            return reply
        opened = members_or_none(reply.result)
        if opened is None:
            return reply
        undeclared = _undeclared(context, members_or_none(opened.get("inputRequests")) or {})
        if undeclared is not None:
            return Reply(error=undeclared, era="modern")
        state = text_of(opened, _STATE)
        if state is None:
            return reply
        opened[_STATE] = pack(self._seal("upstream", state, binding))
        return Reply(pack(opened), era=reply.era)

    def _url_as_input(self, context: RequestContext, reply: Reply, binding: Binding) -> Reply:
        """A 2025-11-25 upstream's "admitted this URL first" error, as the modern era says it."""
        error = members_or_none(reply.error)
        if error is None or bytes(memoryview(error.get("code", Raw(b"0")))) != b"-32042":
            return reply
        data = members_or_none(error.get("data")) or {}
        listed: Any = value(data["elicitations"]) if "elicitations" in data else []
        probe = {"mode": Raw(b'"url"')}
        capabilities = context.client.capabilities
        if not eras.may_ask("elicitation/create", probe, capabilities, "modern", ""):
            needed = {"requiredCapabilities": {"elicitation": {"url": {}}}}
            message = "the upstream needs the user to admitted a URL first"
            return Reply(error=jsonrpc.error(codes.MISSING_CAPABILITY, message, needed))
        requests: dict[str, Any] = {}
        for place, entry in enumerate(listed):
            asked = {k: v for k, v in entry.items() if k != "elicitationId"}
            requests[f"url-{place}"] = {
                "method": "elicitation/create",
                "params": {**asked, "mode": "url"},
            }
        result = {
            "resultType": "input_required",
            "inputRequests": requests,
            "requestState": self._seal("again", "", binding),
        }
        return Reply(Raw(encode(result)), era="modern")

    def _seal(self, kind: str, inner: str, binding: Binding) -> str:
        claims = {
            "k": kind,
            "s": inner,
            "d": binding.digest,
            "r": self._replica,
            "e": time.time() + self.ttl_s,
        }
        return self._codec.seal(encode(claims))

    def _unseal(self, sealed: str | None, digest: str) -> tuple[str, str]:
        if sealed is None:
            raise RpcError(INVALID_PARAMS, _REFUSED, {"reason": "invalid_request_state"})
        try:
            claims: Any = value(self._codec.unseal(sealed))
        except (InvalidRequestState, msgspec.DecodeError) as error:
            _log.info("request_state_refused", reason=str(error))
            raise RpcError(INVALID_PARAMS, _REFUSED, {"reason": "invalid_request_state"}) from None
        if claims["d"] != digest or not time.time() < claims["e"]:
            _log.info("request_state_refused", reason="not for this request, or expired")
            raise RpcError(INVALID_PARAMS, _REFUSED, {"reason": "invalid_request_state"})
        if claims["k"] == "parked" and claims["r"] != self._replica:
            raise OwnedByReplica(claims["r"])
        return claims["k"], claims["s"]


def asks_for_input(reply: Reply) -> bool:
    """Whether a reply is a modern `input_required`."""
    if reply.result is None or b'"input_required"' not in reply.outline:
        return False
    opened = members_or_none(reply.result)
    return opened is not None and text_of(opened, "resultType") == "input_required"


def _interactive(capabilities: Mapping[str, Any]) -> bool:
    return bool(capabilities) and any(name in capabilities for name in CAPABILITY.values())


def _undeclared(context: RequestContext, requests: Mapping[str, Raw]) -> Raw | None:
    """The refusal of input requests that the client did not say it can answer; None: it did."""
    for raw in requests.values():
        request = members_or_none(raw) or {}
        method = text_of(request, "method") or ""
        params = members_or_none(request.get("params")) or {}
        if not eras.may_ask(method, params, context.client.capabilities, "modern", ""):
            needed = CAPABILITY.get(method, method)
            message = f"the upstream needs {needed}, which the client did not declare"
            data = {"requiredCapabilities": {needed: {}}}
            return jsonrpc.error(codes.MISSING_CAPABILITY, message, data)
    return None


async def _ask_all(context: RequestContext, requests: Mapping[str, Raw]) -> dict[str, Raw] | Reply:
    """Put every input request to a legacy client; a refusal ends the call."""
    asked: list[tuple[str, str, Params]] = []
    for key, raw in requests.items():
        request = members_or_none(raw) or {}
        method = text_of(request, "method") or ""
        params = _asked_legacy(method, members_or_none(request.get("params")) or {})
        client = context.client
        if not eras.may_ask(method, params, client.capabilities, "legacy", context.version):
            message = f"the upstream asked for {method[:100]}, which this client cannot answer"
            return Reply(error=jsonrpc.error(codes.INTERNAL_ERROR, message))
        asked.append((key, method, params))
    try:
        answers = await _gather(context.client, asked)
    except ClientGone as gone:
        message = f"the client could not be asked: {gone}"
        return Reply(error=jsonrpc.error(codes.INTERNAL_ERROR, message))
    found: dict[str, Raw] = {}
    for (key, _, _), answer in zip(asked, answers, strict=True):
        if answer.error is not None:
            return Reply(error=answer.error, era="legacy")
        found[key] = answer.result if answer.result is not None else EMPTY_OBJECT
    return found


async def _gather(client: ClientChannel, asked: list[tuple[str, str, Params]]) -> list[Answer]:
    tasks = [asyncio.ensure_future(client.ask(method, params)) for _, method, params in asked]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()


def _asked_legacy(method: str, params: Params) -> Params:
    """A modern upstream's question in the legacy form."""
    if method == "elicitation/create" and eras.asks_url(params):
        params.setdefault("elicitationId", pack(secrets.token_urlsafe(12)))
    return params
