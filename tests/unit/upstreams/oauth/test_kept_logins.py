"""What becomes of logins that are kept: refused, outdated, or of another server."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Mapping
from dataclasses import replace
from errno import EMFILE, ENOSPC
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from msgspec import Raw
from yarl import URL

from armory.domain.principal import Principal
from armory.errors import UpstreamUnavailable
from armory.files import alone
from armory.protocol.link import Call, Owner
from armory.testing.upstreams.oauth import World
from armory.upstreams.oauth.discovery import Challenge, is_at
from armory.upstreams.oauth.logins import FileLogin, Login, Logins
from armory.upstreams.oauth.person import AuthorizationCodeTokens
from armory.upstreams.pool import Pool
from armory.upstreams.spec import UpstreamSpec

if TYPE_CHECKING:
    from tests.unit.upstreams.oauth.conftest import Rig

pytestmark = pytest.mark.anyio
REDIRECT = "http://127.0.0.1:3456/callback"


async def expired(rig: Rig) -> AuthorizationCodeTokens:
    """What the login is used with, which has to be refreshed first."""
    store = FileLogin(rig.file, "kept")
    mine = await store.load()
    assert mine is not None
    await store.save(msgspec.structs.replace(mine, expires_at=0.0))
    return AuthorizationCodeTokens("kept", rig.grant, store, named=(rig.world.url,))


@pytest.mark.parametrize(
    ("status", "answer", "helps"),
    [
        (429, {}, False),
        (400, {"error": "temporarily_unavailable"}, False),
        (401, {"error": "invalid_client"}, False),
        (401, {}, False),
        (400, {"error": "invalid_grant"}, True),
        (403, {"error": "invalid_grant"}, True),
        (200, {"error": "bad_refresh_token"}, True),  # GitHub's
    ],
)
async def test_a_person_is_asked_to_log_in_again_where_that_helps(
    rig: Rig, status: int, answer: dict[str, Any], helps: bool
) -> None:
    rig.grant = replace(rig.grant, client_id="armory", client_secret="hush")
    await rig.log_in()
    tokens = await expired(rig)
    rig.world.refusal, rig.world.refused_with = answer, status
    with pytest.raises(UpstreamUnavailable, match=f"HTTP {status}") as failed:
        await tokens.current(URL(rig.world.url))
    assert ("run: armory login kept" in failed.value.message) is helps
    rig.world.refusal = None
    assert await tokens.current(URL(rig.world.url)) == f"token-{len(rig.world.requests)}"


class FullDisk(FileLogin):
    """A file on a disk that may be full."""

    full = True
    tries = 0

    async def replace(self, login: Login, before: Login) -> bool:
        self.tries += 1
        if self.full:
            raise OSError(ENOSPC, os.strerror(ENOSPC))
        return await super().replace(login, before)


async def refreshed_on_a_full_disk(rig: Rig, url: URL) -> tuple[AuthorizationCodeTokens, FullDisk]:
    """A login whose tokens have changed once and end at once, and the store that kept none."""
    await rig.log_in()
    store = FullDisk(rig.file, "kept")
    await expired(rig)
    tokens = AuthorizationCodeTokens("kept", rig.grant, store, named=(rig.world.url,))
    rig.world.lifetime = 0
    assert await tokens.current(url) == "token-2"
    return tokens, store


async def test_a_login_that_cannot_be_kept_is_used_and_kept_later(rig: Rig) -> None:
    """The refresh token that is kept may have worked for the last time."""
    url = URL(rig.world.url)
    tokens, store = await refreshed_on_a_full_disk(rig, url)
    rig.world.lifetime = 600
    assert await tokens.current(url) == "token-3"
    used = [form["refresh_token"] for form in rig.world.requests[1:]]
    assert used == ["refresh-1", "refresh-2"]
    assert await tokens.current(url) == "token-3"
    kept = await store.load()
    assert kept is not None
    assert kept.refresh_token == "refresh-1"
    store.full = False
    assert await tokens.current(url) == "token-3"
    kept = await store.load()
    assert kept is not None
    assert kept.refresh_token == "refresh-3"
    tries = store.tries
    assert await tokens.current(url) == "token-3"
    assert store.tries == tries
    assert len(rig.world.requests) == 3


async def test_who_logs_out_elsewhere_meanwhile_is_logged_out(rig: Rig) -> None:
    url = URL(rig.world.url)
    tokens, store = await refreshed_on_a_full_disk(rig, url)
    await store.save(None)
    assert await tokens.current(url) is None


def test_a_file_that_cannot_be_read_just_now_keeps_its_logins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logins = Logins(tmp_path / "logins.json")
    mine = Login("https://as.example", "https://as.example/token", "https://a.example", "me")
    logins.save("docs", mine)
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(Path, "read_bytes", _too_many_files)
        assert logins.load("docs") is None
        with pytest.raises(OSError, match="Too many open files"):
            logins.save("mail", mine)
    logins.save("mail", mine)
    assert (logins.load("docs"), logins.load("mail")) == (mine, mine)


def _too_many_files(_: Path) -> bytes:
    raise OSError(EMFILE, os.strerror(EMFILE))


async def test_a_registration_that_the_server_has_lost_is_made_anew(rig: Rig) -> None:
    async def visit(url: str) -> Mapping[str, str]:
        return rig.world.sent_back(url)

    await rig.log_in()
    tokens, url = await expired(rig), URL(f"{rig.world.url}/mcp")
    for _ in range(2):
        await tokens.log_in(url, Challenge(), REDIRECT, visit)
    assert len(rig.world.registered) == 2  # by `rig.log_in` and here
    tokens = await expired(rig)
    await tokens.log_in(url, Challenge(), REDIRECT, visit)
    assert len(rig.world.registered) == 3
    kept = await tokens.kept(url)
    assert kept is not None
    await FileLogin(rig.file, "kept").save(msgspec.structs.replace(kept, expires_at=0.0))
    tokens.forget()
    rig.world.refusal = {"error": "invalid_client"}
    with pytest.raises(UpstreamUnavailable, match="run: armory login kept"):
        await tokens.current(url)
    rig.world.refusal = None
    await tokens.log_in(url, Challenge(), REDIRECT, visit)
    assert len(rig.world.registered) == 4
    assert rig.world.asked["client_id"] == "client-4"


async def test_a_configured_secret_is_the_one_of_now(rig: Rig) -> None:
    """Secrets expire at many providers; that is no reason for anybody to log in again."""
    rig.grant = replace(rig.grant, client_id="armory", client_secret="old")
    await rig.log_in()
    for grant, secret in (
        (replace(rig.grant, client_secret="new"), "new"),
        (replace(rig.grant, client_secret="new", issuer=rig.world.issuer), "new"),
        (replace(rig.grant, client_secret="new", issuer="https://another.example"), "old"),
        (replace(rig.grant, client_secret="new", client_id="another"), "old"),
    ):
        rig.grant = grant
        await (await expired(rig)).current(URL(rig.world.url))
        sent = rig.world.requests[-1]["basic"].removeprefix("Basic ")
        assert base64.b64decode(sent).decode() == f"armory:{secret}"


async def test_a_login_is_not_used_at_another_upstream_of_the_same_key(rig: Rig) -> None:
    await rig.log_in()
    mine = URL(f"{rig.world.url}/mcp")
    async with World() as other:
        other.takes_people()
        spec = UpstreamSpec("kept", url=f"{other.url}/mcp", auth=rig.grant)
        pool = Pool([spec])
        try:
            call = Call("tools/call", {"name": Raw(b'"t"'), "arguments": Raw(b"{}")})
            with pytest.raises(UpstreamUnavailable, match="run: armory login kept"):
                await pool.request("kept", Owner(Principal("ann")), call)
        finally:
            await pool.close()
        assert set(other.tokens) == {None}
        assert other.requests == []
    assert (await rig.call())["content"] == []  # which is there as before
    for resource, there in (
        (str(mine.with_scheme("https").with_port(8443)), True),  # it had moved to https
        (str(mine.with_port(1)), False),
        (str(mine.with_host("evil.example")), False),
        ("http://[", False),
        ("", False),
    ):
        assert is_at(resource, mine) is there, resource


@pytest.mark.parametrize("how", ["save", "replace"])
async def test_a_login_that_another_process_keeps_meanwhile_is_not_lost(
    tmp_path: Path, how: str
) -> None:
    path = tmp_path / "logins.json"
    old, new = (Login("https://as.example", "/token", "r", "id", access_token=t) for t in "ab")
    mine = FileLogin(path, "mine")
    await mine.save(old)
    kept = Logins(path)
    with alone(path):
        every = {"mine": old, "other": new}  # `armory login other` has read the file, and writes
        keeping = mine.save(new) if how == "save" else mine.replace(new, old)
        task = asyncio.ensure_future(keeping)
        await asyncio.sleep(0)  # it begins, and has to wait
        path.write_bytes(msgspec.json.encode(every))
    await task
    assert [kept.load(name) for name in ("mine", "other")] == [new, new]
