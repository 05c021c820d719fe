"""An upstream that is reached through a proxy, whose client is loaded when it is first needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from armory.domain.principal import ANONYMOUS
from armory.errors import UpstreamUnavailable
from armory.protocol.link import Owner
from armory.testing.clients.recording import RecordingObserver
from armory.testing.upstreams.http import ScriptedUpstream
from armory.upstreams.connecting.negotiate import Connector
from armory.upstreams.spec import UpstreamSpec

NOWHERE = "http://127.0.0.1:1"
PROGRAM = """
import sys
import armory.upstreams.transports.http_client
from armory.http1.failing import broken
print("aiohttp" in sys.modules, broken() == (OSError,))
import aiohttp
print(broken() == (aiohttp.ClientError, OSError))
"""


@pytest.mark.anyio
async def test_a_proxy_is_used_and_one_that_is_away_is_an_upstream_that_is_away() -> None:
    async with ScriptedUpstream() as server:
        # asked with the whole URL, as a proxy is, it answers like the server itself
        through = Connector(UpstreamSpec("up", url=server.url, proxy=server.url), {})
        link = await through.connect(Owner(ANONYMOUS), {}, RecordingObserver())
        assert link.era == "modern"
        await link.close()
        await through.close()
        away = Connector(UpstreamSpec("up", url=server.url, proxy=NOWHERE), {})
        with pytest.raises(UpstreamUnavailable, match=r"'up': no connection to http://127"):
            await away.connect(Owner(ANONYMOUS), {}, RecordingObserver())
        await away.close()


def test_aiohttp_is_loaded_for_proxies_alone_and_its_errors_are_caught_from_then_on() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["False", "True", "True"]
