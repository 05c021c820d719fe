"""What the doctor says of upstreams that want a login, or cannot be reached, and what to do."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from armory.runtime.doctor.findings import Finding
from armory.runtime.doctor.upstreams import upstreams
from armory.testing.upstreams.http import HttpUpstream
from armory.upstreams.oauth.grants import AuthorizationCode, ClientCredentials, Grant, Passthrough
from armory.upstreams.spec import UpstreamSpec

pytestmark = pytest.mark.anyio
WITHIN_S = 20.0
MACHINE = ClientCredentials(
    "armory", client_secret="a-secret-of-a-test", token_url="http://127.0.0.1:1/token"
)


@pytest.fixture
async def scripted() -> AsyncIterator[HttpUpstream]:
    async with HttpUpstream() as server:
        server.fail_with = 401
        yield server


async def found(scripted: HttpUpstream, auth: Grant | None) -> Finding:
    (finding,) = await upstreams([UpstreamSpec("it", url=scripted.url, auth=auth)], WITHIN_S)
    return finding


async def test_a_command_that_would_refuse_is_not_advised(scripted: HttpUpstream) -> None:
    """`armory login` refuses while nothing says that somebody logs in there."""
    finding = await found(scripted, None)
    assert finding.state == "failed"
    assert finding.detail.startswith("wants a login: it answered HTTP 401")
    assert "upstreams.it" not in finding.detail  # what to do is said once
    assert finding.fix.startswith("give upstreams.it.headers a token")
    assert finding.fix.endswith("authorization_code} and run `armory login it`")


@pytest.mark.parametrize(
    ("auth", "fix"),
    [(AuthorizationCode(), "`armory login it`"), (MACHINE, "correct upstreams.it.auth")],
)
async def test_where_no_token_is_had_the_fix_is_about_that(
    scripted: HttpUpstream, auth: Grant, fix: str
) -> None:
    finding = await found(scripted, auth)
    assert (finding.state, finding.fix) == ("failed", fix)


@pytest.mark.parametrize("auth", [AuthorizationCode(per="principal"), Passthrough()])
async def test_where_callers_have_accounts_of_their_own_nothing_is_wrong(
    scripted: HttpUpstream, auth: Grant
) -> None:
    finding = await found(scripted, auth)
    assert (finding.state, finding.fix) == ("ok", "")
    assert "accounts of their own" in finding.detail


def test_a_refusal_is_told_in_the_words_of_the_system() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        spec = UpstreamSpec("it", url=f"http://localhost:{probe.getsockname()[1]}/mcp")
    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:  # as the command has it
        (finding,) = runner.run(upstreams([spec], WITHIN_S))
    assert finding.detail.endswith("cannot be reached: Connection refused")
