"""The `subscriptions/listen` stream of a modern upstream, kept open and renewed.

Owns: one listening task per link, replacing a stream before letting the old one go. Never imports
a transport.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from msgspec import Raw

from armory.errors import ArmoryError
from armory.logger import Logger
from armory.protocol.capabilities import GROUPS_DECLARED
from armory.protocol.codes import METHOD_NOT_FOUND
from armory.protocol.jsonrpc import error_of
from armory.protocol.link import FOREVER_S, Answer, Call, ClientGone, Params, Reply
from armory.protocol.meta import SUBSCRIPTION_ID
from armory.protocol.methods import ACKNOWLEDGED, LISTEN, LISTENED, LISTS_CHANGED, RESOURCE_UPDATED
from armory.protocol.rawjson import encode, members_or_none, object_of, pack
from armory.tasks import spawn, start, stop
from armory.upstreams.oauth.subjects import CALLER

log = Logger(__name__)

_LISTS = tuple((name, method) for name, method in LISTENED.items() if method in LISTS_CHANGED)
_ACK_S = 15.0
_HONOURED_BYTES = 4 * 1024 * 1024
_END_S = 5.0
_RETRY_S = (1.0, 2.0, 5.0, 10.0, 30.0)


class _Stream:
    """One `subscriptions/listen` request; its own `ClientChannel`."""

    log_level: str | None = None
    progress_token: Raw | None = None

    def __init__(
        self,
        hear: Callable[[str, Params], None],
        capabilities: Mapping[str, Any],
        wanted: Mapping[str, Any],
    ) -> None:
        self._hear = hear
        self._wanted = wanted
        self.capabilities = capabilities
        self.answered = asyncio.Event()
        self.acknowledged = False
        self.honoured: Mapping[str, Any] = {}
        self.task: asyncio.Task[Reply | None] | None = None

    async def notify(self, method: str, params: Params) -> None:
        if method == ACKNOWLEDGED:
            said = params.get("notifications")
            self.honoured = self._wanted if said is None else _honoured(said)
            self.acknowledged = True
            self.answered.set()
            return
        self._hear(method, without_subscription(params))

    @property
    def honours(self) -> bool:
        """Whether the upstream reports anything on it; if not, it may end the stream at once."""
        return any(self.honoured.values())

    async def ask(self, method: str, params: Params) -> Answer:
        raise ClientGone


def without_subscription(params: Params) -> Params:
    """The parameters of a notification without the id of the gateway's own subscription."""
    meta = members_or_none(params.get("_meta"))
    if "_meta" not in params or (meta is not None and SUBSCRIPTION_ID not in meta):
        return params
    # what is too large to be opened may name it, too
    rest = {key: raw for key, raw in (meta or {}).items() if key != SUBSCRIPTION_ID}
    kept = {key: value for key, value in params.items() if key != "_meta"}
    return {**kept, "_meta": pack(rest)} if rest else kept


def _honoured(said: Raw) -> Mapping[str, Any]:
    """What the upstream acknowledged that it will report; nothing where that is too long."""
    return object_of(said) if len(memoryview(said)) <= _HONOURED_BYTES else {}


class ListenStream:
    """Keeps one stream open that covers all subscriptions of a link.

    Args:
        server: key of the upstream, for the log.
        request: sends a call over the link.
        hear: takes the notifications, and one for each thing wanted after a gap.
        groups: whether news of its own groups are wanted along with those of its lists.
    """

    def __init__(
        self,
        server: str,
        request: Callable[[Call], Awaitable[Reply]],
        hear: Callable[[str, Params], None],
        *,
        groups: bool = False,
    ) -> None:
        self._declared: Mapping[str, Any] = GROUPS_DECLARED if groups else {}
        self._kinds = tuple(LISTENED.items()) if groups else _LISTS
        self._server = server
        self._request = request
        self._hear = hear
        self._lists = False
        self._uris: frozenset[str] = frozenset()
        self._stream: _Stream | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self._closed = False

    def unheard(self, uris: frozenset[str]) -> frozenset[str]:
        """Those of these resources whose updates the upstream did not agree to report."""
        honoured = {} if self._stream is None else self._stream.honoured
        named = honoured.get("resourceSubscriptions")
        known = cast("list[object]", named) if isinstance(named, list) else []
        if len(known) >= len(uris):  # it named as many, perhaps spelled in another way
            return frozenset()
        return uris.difference(map(str, known))

    async def want(self, *, lists: bool | None = None, uris: frozenset[str] | None = None) -> bool:
        """Change the subscriptions; returns True once the upstream has acknowledged them, though
        perhaps not all (see `unheard`). Without an acknowledgement nothing is added: the upstream
        would refuse the rest as well when the stream is opened again.
        """
        async with self._lock:
            before = self._lists, self._uris
            self._lists = self._lists if lists is None else lists
            self._uris = self._uris if uris is None else uris
            renewed = False
            try:
                renewed = await self._renew()
            finally:
                if not renewed:
                    self._lists, self._uris = self._lists and before[0], self._uris & before[1]
            return renewed

    async def close(self) -> None:
        """End the stream and the task that keeps it."""
        self._closed = True
        keeper, stream = self._keeper, self._stream
        self._keeper, self._stream = None, None
        await stop(keeper, stream and stream.task, timeout_s=_END_S)

    async def _renew(self) -> bool:
        old = self._stream
        if not self._lists and not self._uris:
            self._stream = None
            await _end(old)
            return True
        stream = await self._open()
        if stream is None:
            return False
        if self._closed:  # meanwhile
            await _end(stream)
            return False
        self._stream = stream
        await _end(old)
        if self._keeper is None:
            self._keeper = spawn(self._keep(), f"subscriptions of {self._server}")
        return True

    async def _open(self) -> _Stream | None:
        wanted: dict[str, Any] = {name: True for name, _ in self._kinds} if self._lists else {}
        if self._uris:
            wanted["resourceSubscriptions"] = sorted(self._uris)
        stream = _Stream(self._hear, self._declared, wanted)
        call = Call(
            LISTEN,
            {"notifications": Raw(encode(wanted))},
            client=stream,
            timeout_s=FOREVER_S,
        )
        stream.task = start(self._run(stream, call), f"subscriptions/listen at {self._server}")
        try:
            async with asyncio.timeout(_ACK_S):
                await stream.answered.wait()
        except TimeoutError:
            log.info("upstream_listen_unacknowledged", upstream=self._server)
        except asyncio.CancelledError:
            stream.task.cancel()
            raise
        if not stream.acknowledged:
            await _end(stream)
            return None
        return stream

    async def _run(self, stream: _Stream, call: Call) -> Reply | None:
        CALLER.set(None)  # it outlives the call that began it
        try:
            return await self._request(call)
        except ArmoryError as error:
            log.debug("upstream_listen_lost", upstream=self._server, error=str(error))
            return None
        finally:
            stream.answered.set()

    async def _keep(self) -> None:
        failures = 0
        while not self._closed:
            stream = self._stream
            if stream is None or stream.task is None:
                self._keeper = None
                return
            await asyncio.wait([stream.task])
            async with self._lock:
                if self._stream is not stream:
                    failures = 0
                    continue
                if self._has_no_listening(stream.task):
                    self._stream = self._keeper = None
                    return
            await asyncio.sleep(_RETRY_S[min(failures, len(_RETRY_S) - 1)])
            failures += 1
            async with self._lock:
                if self._stream is stream and (renewed := await self._open()) is not None:
                    self._stream = renewed
                    if renewed.honours:
                        failures = 0
                    self._report_gap()

    def _has_no_listening(self, ended: asyncio.Task[Reply | None]) -> bool:
        """Whether a stream ended because the upstream does not know the method; logs
        any refusal.
        """
        try:
            reply = None if ended.cancelled() else ended.result()
        finally:
            del ended  # whose error holds this frame by its trace
        if reply is None or reply.error is None:
            return False
        code = error_of(reply.error).code
        log.info("upstream_listen_refused", upstream=self._server, code=code)
        return code == METHOD_NOT_FOUND

    def _report_gap(self) -> None:
        if self._lists:
            for _, method in self._kinds:
                self._hear(method, {})
        for uri in sorted(self._uris):
            self._hear(RESOURCE_UPDATED, {"uri": Raw(encode(uri))})


async def _end(stream: _Stream | None) -> None:
    if stream is not None:
        await stop(stream.task, timeout_s=_END_S)
