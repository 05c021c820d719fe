"""What an upstream session reports by itself: changes of lists and of resources, and its log.

Owns: `Subscriptions`, in both eras. Never imports a link.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Raw

from armory.errors import UpstreamTimeout, UpstreamUnavailable
from armory.logger import Logger
from armory.protocol import codes, jsonrpc
from armory.protocol.capabilities import declares_groups
from armory.protocol.link import RESOURCE_META, Call, Params, Refused, Reply
from armory.protocol.methods import LISTEN, LOG_LEVELS, loud_enough
from armory.protocol.rawjson import encode
from armory.tasks import Tasks, retrieve_failure
from armory.upstreams.session.context import UNKNOWN, Identity
from armory.upstreams.session.listening import ListenStream
from armory.upstreams.spec import UpstreamSpec

log = Logger(__name__)
_KINDS = ("tools", "prompts", "resources")
_LEVEL_S = 1.0
"""How long a call waits for the upstream's answer to `logging/setLevel`."""


class Subscriptions:
    """The subscriptions of one link.

    Args:
        spec: the upstream.
        request: sends a call over the link.
        notified: takes the notifications of a modern upstream's stream.

    Attributes:
        identity: what the link negotiated.
    """

    def __init__(
        self,
        spec: UpstreamSpec,
        request: Callable[[Call], Awaitable[Reply]],
        notified: Callable[[str, Params], None],
    ) -> None:
        self.identity: Identity = UNKNOWN
        self._spec = spec
        self._request = request
        self._notified = notified
        self._log_level: str | None = None
        self._wanted: set[str] = set()
        self._reported: set[str] = set()  # legacy: another object for each session
        self._lock = asyncio.Lock()
        self._levelling = asyncio.Lock()
        self._asking = Tasks()
        self._stream: ListenStream | None = None

    async def watch_lists(self) -> bool:
        """Subscribe to changes of lists; returns False when the upstream cannot report them.

        Legacy upstreams announce by themselves what their capabilities promise.
        """
        able = any(_flag(self.identity.capabilities, kind, "listChanged") for kind in _KINDS)
        if able and self.identity.era == "modern":
            return await self._listen_stream().want(lists=True)
        return able

    @property
    def promised(self) -> bool:
        """Whether the upstream's capabilities promise to report changes of all lists
        that it has.
        """
        capabilities = self.identity.capabilities
        offered = [kind for kind in _KINDS if isinstance(capabilities.get(kind), dict)]
        return bool(offered) and all(_flag(capabilities, kind, "listChanged") for kind in offered)

    async def set_resources(self, uris: frozenset[str]) -> None:
        """Subscribe to exactly these resources (original URIs).

        Legacy: `resources/subscribe` and `unsubscribe` for the difference. Modern: a new
        `subscriptions/listen` with the union before the old one is let go.

        Raises:
            Refused: the upstream said no; what it accepted before stays.
            UpstreamUnavailable: as for `BaseLink.request`.
        """
        async with self._lock:
            if self.identity.era == "modern":
                if (wanted := set(uris)) != self._wanted:
                    await self._listen_for(uris)
                    self._wanted = wanted
                return
            for uri in sorted(self._wanted - uris):
                self._wanted.discard(uri)
                if uri in self._reported:
                    self._reported.discard(uri)
                    await self._ask("resources/unsubscribe", uri)
            for uri in sorted(uris - self._reported):
                await self._subscribe(uri)
                self._wanted.add(uri)

    async def subscribe_again(self, uri: str) -> None:
        """Legacy: send `resources/subscribe` again because one more client subscribed. Does nothing
        in the modern era.

        Raises:
            Refused: the upstream said no; the subscription stays.
            UpstreamUnavailable: as for `BaseLink.request`.
        """
        if self.identity.era == "legacy" and uri in self._wanted:
            await self._ask("resources/subscribe", uri)

    async def ensure_log_level(self, wanted: str | None) -> None:
        """Legacy: set the upstream's log level to the lowest that any caller has wanted.

        Where it does not answer in time, calls go on and it is not asked again. Calls that come
        meanwhile wait as well: they must not overtake the first one.
        """
        if self.identity.era == "modern" or wanted is None or wanted not in LOG_LEVELS:
            return
        if self._logs_from(wanted) and not self._levelling.locked():
            return
        async with self._levelling:
            if not self._logs_from(wanted):
                await self._set_log_level(wanted)

    async def renew(self) -> None:
        """Legacy: subscribe and set the log level again after the session was replaced.

        If that happens once more meanwhile, it starts over.
        """
        self._reported = set()
        async with self._lock:
            level, self._log_level = self._log_level, None
            await self.ensure_log_level(level)
            for uri in sorted(self._wanted - self._reported):
                try:
                    await self._subscribe(uri)
                except Refused as refused:
                    self._wanted.discard(uri)
                    error = str(refused)
                    log.info("upstream_resubscribe_refused", upstream=self._spec.key, error=error)

    async def close(self) -> None:
        """End the stream of a modern upstream, where there is one, and pending requests."""
        await self._asking.stop()
        if self._stream is not None:
            await self._stream.close()

    def _logs_from(self, wanted: str) -> bool:
        return self._log_level is not None and loud_enough(wanted, self._log_level)

    async def _set_log_level(self, wanted: str) -> None:
        before, self._log_level = self._log_level, wanted
        asking = self._asking.start(self._ask_log_level(wanted, before), "log level")
        try:
            await asyncio.wait((asking,), timeout=_LEVEL_S)
        except asyncio.CancelledError:
            asking.cancel()
            raise
        if not asking.done():
            asking.add_done_callback(retrieve_failure)  # a session that ends is reported elsewhere
        elif not asking.cancelled():
            try:
                asking.result()
            finally:
                del asking  # whose error holds this frame by its trace

    async def _ask_log_level(self, wanted: str, before: str | None) -> None:
        level = {"level": Raw(encode(wanted))}
        wait_s = self._spec.connect_timeout_s
        try:
            reply = await self._request(Call("logging/setLevel", level, timeout_s=wait_s))
        except UpstreamTimeout as error:
            log.info("upstream_log_level_unanswered", upstream=self._spec.key, error=str(error))
            return
        except BaseException:
            self._not_set(wanted, before)
            raise
        if reply.error is not None:
            self._not_set(wanted, before)
            log.info("upstream_log_level_refused", upstream=self._spec.key, level=wanted)

    def _not_set(self, wanted: str, before: str | None) -> None:
        if self._log_level == wanted:  # else another one was set meanwhile
            self._log_level = before

    async def _listen_for(self, uris: frozenset[str]) -> None:
        key, stream = self._spec.key, self._listen_stream()
        if not await stream.want(uris=uris) and uris:
            raise UpstreamUnavailable(
                f"upstream {key!r}: it does not serve subscriptions/listen", upstream=key
            )
        if unheard := stream.unheard(uris):
            await stream.want(uris=frozenset(self._wanted))
            why = f"upstream {key!r} reports no updates of {min(unheard)[:200]}"
            raise Refused(LISTEN, jsonrpc.error(codes.INVALID_PARAMS, why))

    async def _subscribe(self, uri: str) -> None:
        session = self._reported
        await self._ask("resources/subscribe", uri)
        session.add(uri)

    async def _ask(self, method: str, uri: str) -> None:
        params = {"uri": Raw(encode(uri))}
        meta = RESOURCE_META.get()
        if meta is not None and meta[0] == uri:
            params["_meta"] = meta[1]
        reply = await self._request(Call(method, params))
        if reply.error is not None:
            raise Refused(method, reply.error)

    def _listen_stream(self) -> ListenStream:
        if self._stream is None:
            groups = self._spec.groups and declares_groups(self.identity.capabilities)
            self._stream = ListenStream(
                self._spec.key, self._request, self._notified, groups=groups
            )
        return self._stream


def _flag(capabilities: Mapping[str, Any], kind: str, name: str) -> bool:
    entry = capabilities.get(kind)
    return isinstance(entry, dict) and bool(entry.get(name))  # pyright: ignore[reportUnknownMemberType]
