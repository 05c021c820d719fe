"""Converts between multi-round-trip requests (modern) and server-to-client requests (legacy).

Owns: `Interactions`: which way an interactive request takes, parking a legacy upstream's question
for a modern client, and the answers to a modern client whose upstream wants input. Never imports a
transport.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from armory.domain.principal import Principal
from armory.errors import RateLimited
from armory.gateway.calls.permitted import is_permitted
from armory.gateway.context import RequestContext
from armory.gateway.results.answers import failed_call
from armory.logger import Logger
from armory.protocol import codes, jsonrpc
from armory.protocol.capabilities import may_be_asked
from armory.protocol.errors import RpcError
from armory.protocol.link import ClientChannel, Reply
from armory.protocol.rawjson import NULL, brief, encode, members_or_none, pack, text_of
from armory.wire.eras.questions import may_ask, required
from armory.wire.interaction.legacy_rounds import RESPONSES, STATE, answer_rounds, asks_for_input
from armory.wire.interaction.parked import ParkedCall
from armory.wire.interaction.state import Binding, RequestStates, refused_state
from armory.wire.methods import Handler
from armory.wire.settings import PARKED, PARKED_TIMEOUT_S

_log = Logger(__name__)
_elicitations = msgspec.json.Decoder(list[dict[str, Any]])
_NOT_VISITED = jsonrpc.error(
    codes.INTERNAL_ERROR, "the user did not visit the URL that the upstream asks to visit first"
)
_VISITS_BYTES = 64 * 1024


class Interactions:
    """The bridge between the eras' ways of asking the client.

    Args:
        ttl_s: how long a parked call waits for its answers, in seconds.
        capacity: how many calls may be parked at once.
        per_principal: the same for one principal; None: no other.
        replica: name of this replica among those that share the keys.

    Attributes:
        refused: how many calls were ended because too many were parked.
    """

    def __init__(
        self,
        *,
        ttl_s: float = PARKED_TIMEOUT_S,
        capacity: int = PARKED,
        per_principal: int | None = None,
        replica: str = "",
    ) -> None:
        self._states = RequestStates(ttl_s, replica)
        self._ttl_s = ttl_s
        self._capacity = capacity
        self._per_principal = capacity if per_principal is None else per_principal
        self._parked_by: dict[str, Principal] = {}
        self.refused = 0
        self._parked: dict[str, ParkedCall] = {}
        self._running: set[ParkedCall] = set()

    def seal_with(self, secret: bytes) -> None:
        """Seal request state with another secret from now on."""
        self._states.seal_with(secret)

    @property
    def parked(self) -> int:
        """How many calls are parked now."""
        return len(self._parked)

    def run(
        self, context: RequestContext, method: str, params: dict[str, Raw], handler: Handler
    ) -> Coroutine[Any, Any, Reply]:
        """Answer an interactive request, in as many rounds as the client's era takes.

        Raises:
            RpcError: a request state that is not ours, not for this request, or expired.
            OwnedByReplica: only another replica can go on.
        """
        if context.era == "modern":
            return self._modern(context, method, params, handler)
        return self._legacy(context, params, handler)

    async def _legacy(
        self, context: RequestContext, params: dict[str, Raw], handler: Handler
    ) -> Reply:
        reply = await handler(context, params)
        if not asks_for_input(reply):
            return reply
        return await answer_rounds(context, params, lambda again: handler(context, again), reply)

    async def _modern(
        self, context: RequestContext, method: str, params: dict[str, Raw], handler: Handler
    ) -> Reply:
        binding = Binding(context, method, params)
        if STATE in params:
            await self._states.load()
            kind, inner = self._states.unseal(text_of(params, STATE), binding)
            if kind == "parked":
                permitted = is_permitted(context, method, params)
                return await self._resume(context, params, binding, inner, permitted=permitted)
            del params[STATE]
            if kind == "upstream":
                params[STATE] = pack(inner)
            elif _declined(params.pop(RESPONSES, None)):
                return Reply(error=_NOT_VISITED)
            # else "again": a URL was visited; the upstream hears the call anew
        if not may_be_asked(context.client.capabilities):
            reply = await handler(context, params)
            return await self._sealed(context, reply, binding)
        call = ParkedCall(context.client, context.version, binding)
        call.start(handler(context.with_client(call), params))
        self._running.add(call)
        return await self._attend(call, context)

    async def _attend(self, call: ParkedCall, context: RequestContext) -> Reply:
        """Wait until the call has ended, or asks something; a client that disconnects meanwhile
        ends it.
        """
        try:
            await call.pause()
            if not call.over and not self._states.loaded:
                await self._states.load()
                await call.pause()  # as it is by now
        except asyncio.CancelledError as cancelled:
            self._running.discard(call)
            await call.end(*cancelled.args)
            raise
        if call.over:
            return await self._finished(context, call)
        if (limit := self._limit_reached(context.principal)) is not None:
            if call.answered:  # answered already: only a question is left
                return await self._finished(context, call)
            self._running.discard(call)
            self.refused += 1
            await call.end()
            said = f"too many calls wait for input (server.limits.{limit}); try later"
            if call.binding.method == "tools/call":  # which a model reads
                return failed_call(RateLimited(said))
            raise RateLimited(said)
        handle = secrets.token_urlsafe(18)
        self._parked[handle] = call
        self._parked_by[handle] = context.principal
        call.timer = asyncio.get_running_loop().call_later(self._ttl_s, self._expire, handle)
        return _input_required(call.requests(), self._states.seal("parked", handle, call.binding))

    def _limit_reached(self, principal: Principal) -> str | None:
        """The limit that leaves no room for one more parked call. One that has ended meanwhile, as
        by the end of its upstream, makes room: its client is not told any more how.
        """
        parked, limit = list(self._parked), "parked_interactions"
        mine = [h for h, owner in self._parked_by.items() if owner.person == principal.person]
        if len(mine) >= self._per_principal:
            parked, limit = mine, "parked_per_principal"
        elif len(parked) < self._capacity:
            return None
        ended = next((handle for handle in parked if self._parked[handle].over), None)
        return limit if ended is None or not self._stop(ended) else None

    async def _finished(self, context: RequestContext, call: ParkedCall) -> Reply:
        self._running.discard(call)
        call.leave()
        return await self._sealed(context, call.outcome(), call.binding)

    async def _resume(
        self,
        context: RequestContext,
        params: Mapping[str, Raw],
        binding: Binding,
        handle: str,
        *,
        permitted: bool,
    ) -> Reply:
        """Resume a parked call; it ends if it is not permitted any more."""
        call = self._parked.get(handle)
        if call is None or call.binding.digest != binding.digest:
            raise refused_state()
        answers = _answers(call, params)
        del self._parked[handle], self._parked_by[handle]
        call.timer_off()
        if not permitted:
            self._running.discard(call)
            await call.end()
            raise refused_state()
        call.client = context.client
        call.deliver(answers)
        return await self._attend(call, context)

    def _expire(self, handle: str) -> None:
        if self._stop(handle):
            _log.rate_limited("info", "parked_call_expired", ttl_s=self._ttl_s)

    def _stop(self, handle: str) -> bool:
        """End a parked call; returns whether it still existed."""
        call = self._parked.pop(handle, None)
        self._parked_by.pop(handle, None)
        if call is not None:
            self._running.discard(call)
            call.stop()
        return call is not None

    def end_those(self, whose: Callable[[Principal], bool]) -> None:
        """End the parked calls of some principals, who can answer no longer."""
        for handle in [handle for handle, owner in self._parked_by.items() if whose(owner)]:
            self._stop(handle)

    def leave(self, client: ClientChannel) -> None:
        """End the call that was parked for an answer to `client`, which did not receive the
        question.
        """
        for handle in [handle for handle, call in self._parked.items() if call.client is client]:
            self._stop(handle)

    async def close(self) -> None:
        """End every parked call."""
        self._parked.clear()
        self._parked_by.clear()
        for call in list(self._running):
            await call.end()
        self._running.clear()

    # -- answers to a modern client whose upstream wants input -------------------------------

    async def _sealed(self, context: RequestContext, reply: Reply, binding: Binding) -> Reply:
        """Seal a modern upstream's own request state for this client."""
        if reply.error is not None:
            return await self._url_as_input(context, reply.error, binding) or reply
        if not asks_for_input(reply):
            return reply
        result = members_or_none(reply.result)
        if result is None:
            return reply
        undeclared = _undeclared(context, members_or_none(result.get("inputRequests")) or {})
        if undeclared is not None:
            return Reply(error=undeclared, era="modern")
        state = text_of(result, STATE)
        if state is None:
            return reply
        await self._states.load()
        result[STATE] = pack(self._states.seal("upstream", state, binding))
        return Reply(pack(result), era=reply.era)

    async def _url_as_input(
        self, context: RequestContext, error: Raw, binding: Binding
    ) -> Reply | None:
        """A 2025-11-25 upstream's "visit this URL first" error in the modern form; None for other
        errors.
        """
        if jsonrpc.code_of(error) != codes.URL_ELICITATION_REQUIRED:
            return None
        visits = _visits(error)
        if not visits:
            return None
        probe = {"mode": Raw(b'"url"')}
        capabilities = context.client.capabilities
        if not may_ask("elicitation/create", probe, capabilities, "modern", ""):
            needed = {"requiredCapabilities": {"elicitation": {"url": {}}}}
            message = "the upstream needs the user to visit a URL first"
            return Reply(error=jsonrpc.error(codes.MISSING_CAPABILITY, message, needed))
        requests: dict[str, Any] = {}
        for place, entry in enumerate(visits):
            question = {k: v for k, v in entry.items() if k != "elicitationId"}
            requests[f"url-{place}"] = {
                "method": "elicitation/create",
                "params": {**question, "mode": "url"},
            }
        await self._states.load()
        return _input_required(requests, self._states.seal("again", "", binding))


def _visits(error: Raw) -> list[dict[str, Any]]:
    """The URLs that an error asks to visit; empty where it is malformed."""
    data = members_or_none((members_or_none(error) or {}).get("data")) or {}
    said = data.get("elicitations", NULL)
    if len(memoryview(said)) > _VISITS_BYTES:
        return []
    try:
        listed = _elicitations.decode(said)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return []
    return listed if all(isinstance(entry.get("url"), str) for entry in listed) else []


def _answers(call: ParkedCall, params: Mapping[str, Raw]) -> Mapping[str, Raw]:
    """The answers in a retry; an answer that is no object is refused, since a server's SDK could
    not read it.

    Raises:
        RpcError: there is such a one; the call stays parked.
    """
    raw = params.get(RESPONSES, NULL)
    answers = {} if raw == NULL else members_or_none(raw)
    given = (
        {RESPONSES: raw}
        if answers is None
        else {f"{RESPONSES}.{key}": answers[key] for key in call.requests() if key in answers}
    )
    for name, answer in given.items():
        if bytes(memoryview(answer)[:1]) != b"{":
            raise RpcError(
                codes.INVALID_PARAMS,
                f"params.{name} is {brief(answer)}; expected an object",
                {"parameter": name},
            )
    return answers or {}


def _declined(responses: Raw | None) -> bool:
    """Whether the user refused to visit an upstream's URL: they are not asked again."""
    answers = members_or_none(responses) or {}
    return any(
        text_of(members_or_none(answer) or {}, "action") in ("decline", "cancel")
        for answer in answers.values()
    )


def _input_required(requests: Mapping[str, Any], state: str) -> Reply:
    result = {"resultType": "input_required", "inputRequests": requests, "requestState": state}
    return Reply(Raw(encode(result)), era="modern")


def _undeclared(context: RequestContext, requests: Mapping[str, Raw]) -> Raw | None:
    """The error for input requests that the client has not declared that it can answer; None: it
    has.
    """
    for raw in requests.values():
        request = members_or_none(raw) or {}
        method = text_of(request, "method") or ""
        params = members_or_none(request.get("params")) or {}
        if not may_ask(method, params, context.client.capabilities, "modern", ""):
            needed = required(method, params)
            named = ", ".join(".".join((name, *modes)) for name, modes in needed.items())
            message = f"the upstream needs {named}, which the client did not declare"
            data = {"requiredCapabilities": needed}
            return jsonrpc.error(codes.MISSING_CAPABILITY, message, data)
    return None
