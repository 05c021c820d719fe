"""A stdio link that each test starts, and the observer of its events."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from armory.testing.clients.recording import RecordingObserver
from armory.testing.processes import alive
from armory.upstreams.session.context import Identity, LinkContext
from armory.upstreams.session.handshake import initialize
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.transports.stdio import StdioLink
from tests.unit.upstreams.transports.stdio_links import Start


@pytest.fixture
def observer() -> RecordingObserver:
    return RecordingObserver()


@pytest.fixture
async def start(observer: RecordingObserver) -> AsyncIterator[Start]:
    links: list[StdioLink] = []

    async def starting(spec: UpstreamSpec, *, hello: bool = True) -> StdioLink:
        link = StdioLink(LinkContext(spec, {"name": "test", "version": "0"}, observer))
        links.append(link)
        await link.open()
        if hello:
            link.adopt(await initialize(link, "2025-11-25", {}))
        else:
            link.adopt(Identity("legacy", "2025-11-25"))
        return link

    yield starting
    for link in links:
        await link.close()
        assert not alive(link.pid)
