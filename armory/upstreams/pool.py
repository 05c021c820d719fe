"""Which upstream session serves which caller, within which bounds.

Owns: sessions by isolation and capability profile, concurrency, breaker, caps, idle time-outs.
Never imports `gateway` or above.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from armory.upstreams.clock import Clock
from armory.upstreams.link import Call, Era, Listener, Owner, Reply
from armory.upstreams.spec import UpstreamSpec


class Pool:
    """All upstream sessions of one gateway."""

    def __init__(
        self,
        specs: Iterable[UpstreamSpec] = (),
        *,
        listener: Listener | None = None,
        clock: Clock | None = None,
        client_info: dict[str, Any] | None = None,
    ) -> None:
        raise NotImplementedError

    async def request(self, server: str, owner: Owner, call: Call) -> Reply:
        raise NotImplementedError

    async def set_subscriptions(self, server: str, owner: Owner, uris: frozenset[str]) -> None:
        raise NotImplementedError

    def key(self, server: str, owner: Owner) -> str:
        raise NotImplementedError

    def era(self, server: str) -> Era | None:
        raise NotImplementedError

    async def release_session(self, session_id: str) -> None:
        raise NotImplementedError

    async def update(self, specs: Iterable[UpstreamSpec]) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError
