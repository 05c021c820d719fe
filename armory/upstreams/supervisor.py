"""One owner task per upstream for the gateway's own session: connect, list, listen, come back.

Owns: back-off, last-good lists, the state of every upstream. Never imports `gateway` or above.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from armory.domain.catalog import ServerLists
from armory.upstreams.clock import Clock
from armory.upstreams.link import Era
from armory.upstreams.pool import Pool
from armory.upstreams.spec import UpstreamSpec

State = Literal["connecting", "ready", "down"]


@dataclass(frozen=True, slots=True)
class UpstreamStatus:
    state: State
    error: str = ""
    since: float = 0.0
    era: Era | None = None
    protocol_version: str = ""
    tools: int = 0


class Supervisor:
    def __init__(
        self,
        specs: Iterable[UpstreamSpec],
        pool: Pool,
        on_lists: Callable[[str, ServerLists], None],
        *,
        clock: Clock | None = None,
    ) -> None:
        raise NotImplementedError

    async def start(self) -> None: ...

    async def wait_first(self, timeout_s: float) -> bool:
        raise NotImplementedError

    async def refresh(self, server: str) -> None:
        raise NotImplementedError

    def status(self) -> Mapping[str, UpstreamStatus]:
        raise NotImplementedError

    async def update(self, specs: Iterable[UpstreamSpec]) -> None: ...

    async def stop(self) -> None: ...
