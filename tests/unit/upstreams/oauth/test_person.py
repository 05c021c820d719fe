"""People who log in at upstreams, and the tokens that they leave behind."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import stat
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from yarl import URL

from armory.errors import ConfigError, UpstreamUnavailable
from armory.testing.waiting import until
from armory.upstreams.oauth.grants import AuthorizationCode
from armory.upstreams.oauth.logins import FileLogin, Login, Logins
from armory.upstreams.oauth.person import AuthorizationCodeTokens
from armory.upstreams.spec import UpstreamSpec

if TYPE_CHECKING:
    from tests.unit.upstreams.oauth.conftest import Rig

pytestmark = pytest.mark.anyio
REDIRECT = "http://127.0.0.1:3456/callback"


async def test_logging_in_once_serves_everybody_after(rig: Rig) -> None:
    world = rig.world
    world.challenge_scope = "read"
    with pytest.raises(UpstreamUnavailable, match="nobody has logged in; run: armory login kept"):
        await rig.call()
    await rig.log_in()
    assert (await rig.call())["content"] == []
    (client,) = world.registered
    assert client["application_type"] == "native"
    assert client["redirect_uris"] == [REDIRECT]
    asked, (form,) = world.asked, world.requests
    assert (asked["client_id"], asked["redirect_uri"], asked["scope"]) == (
        "client-1",
        REDIRECT,
        "read",
    )
    digest = hashlib.sha256(form["code_verifier"].encode()).digest()
    assert asked["code_challenge"] == base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    assert (form["code"], form["resource"]) == ("the-code", f"{world.url}/mcp")
    assert stat.S_IMODE(rig.file.stat().st_mode) == 0o600


async def test_tokens_are_refreshed_before_they_expire_and_when_they_are_refused(rig: Rig) -> None:
    await rig.log_in()
    await rig.call()
    rig.world.valid.clear()
    await rig.call()
    assert rig.world.requests[-1]["refresh_token"] == "refresh-1"
    rig.world.lifetime = 0
    rig.world.valid.clear()
    await rig.call()
    before = len(rig.world.requests)
    await rig.call()
    assert len(rig.world.requests) == before + 1
    rig.world.refusal = {"error": "invalid_grant"}
    with pytest.raises(UpstreamUnavailable, match="invalid_grant; run: armory login kept"):
        await rig.call()


async def test_another_process_may_have_refreshed_first(rig: Rig) -> None:
    await rig.log_in()
    await rig.call()
    logins = Logins(rig.file)
    mine = logins.load("kept")
    assert mine is not None
    world = rig.world
    world.gate.clear()
    world.valid.clear()
    world.refusal = {"error": "invalid_grant"}
    calling = asyncio.ensure_future(rig.call())
    await until(lambda: len(world.requests) >= 2)
    world.valid.add("theirs")
    theirs = msgspec.structs.replace(mine, access_token="theirs", refresh_token="rotated")
    logins.save("kept", theirs)
    world.gate.set()
    assert (await asyncio.wait_for(calling, 10))["content"] == []
    assert world.tokens[-1] == "theirs"


async def test_a_login_of_a_command_counts_from_the_next_request_on(rig: Rig) -> None:
    """Whoever uses the gateway's own file beside it: of another account, or none any more."""
    await rig.log_in()
    await rig.call()
    logins = Logins(rig.file)
    mine = logins.load("kept")
    assert mine is not None
    rig.world.valid.add("another's")
    logins.save("kept", msgspec.structs.replace(mine, access_token="another's"))
    await rig.call()
    assert rig.world.tokens[-1] == "another's"
    logins.save("kept", None)
    with pytest.raises(UpstreamUnavailable, match="nobody has logged in; run: armory login kept"):
        await rig.call()


async def refreshing(rig: Rig) -> asyncio.Task[Any]:
    """A call that waits for the token endpoint, which has been asked for a new token."""
    await rig.log_in()
    await rig.call()
    rig.world.valid.clear()
    rig.world.gate.clear()
    asked = len(rig.world.requests)
    calling = asyncio.ensure_future(rig.call())
    await until(lambda: len(rig.world.requests) > asked)
    return calling


async def test_a_call_that_is_given_up_during_a_refresh_leaves_the_new_token(rig: Rig) -> None:
    calling = await refreshing(rig)
    calling.cancel()
    await asyncio.wait((calling,), timeout=10)
    next_one = asyncio.ensure_future(rig.call())
    rig.world.gate.set()
    assert (await asyncio.wait_for(next_one, 10))["content"] == []
    used = [form["refresh_token"] for form in rig.world.requests if "refresh_token" in form]
    assert used == ["refresh-1"]


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_whoever_logs_out_during_a_refresh_stays_logged_out(
    rig: Rig, elsewhere: bool
) -> None:
    calling = await refreshing(rig)
    tokens = rig.pool.upstream("kept").connector.client.tokens
    assert isinstance(tokens, AuthorizationCodeTokens)
    if elsewhere:
        Logins(rig.file).save("kept", None)
        rig.world.gate.set()
        with pytest.raises(UpstreamUnavailable, match="nobody is logged in"):
            await asyncio.wait_for(calling, 10)
    else:
        leaving = asyncio.ensure_future(tokens.log_out())
        await asyncio.sleep(0)
        rig.world.gate.set()
        both = asyncio.gather(leaving, calling, return_exceptions=True)
        assert (await asyncio.wait_for(both, 10))[0] is True
    assert Logins(rig.file).load("kept") is None
    with pytest.raises(UpstreamUnavailable, match="nobody has logged in"):
        await rig.call()


async def test_whoever_logs_in_anew_during_a_refresh_stays_so(rig: Rig) -> None:
    calling = await refreshing(rig)
    logins = Logins(rig.file)
    mine = logins.load("kept")
    assert mine is not None
    rig.world.valid.add("another's")
    anew = msgspec.structs.replace(mine, access_token="another's", refresh_token="of another")
    logins.save("kept", anew)
    rig.world.gate.set()
    assert (await asyncio.wait_for(calling, 10))["content"] == []
    assert rig.world.tokens[-1] == "another's"
    assert logins.load("kept") == anew


class LookedUpSlowly(FileLogin):
    """A store that is changed elsewhere, which is heard of, while what it read is on its way."""

    tokens: AuthorizationCodeTokens | None = None

    async def load(self) -> Login | None:
        login = await super().load()
        tokens, self.tokens = self.tokens, None
        if tokens is not None:
            await self.save(None)
            tokens.forget()
        return login


async def test_a_login_that_ends_while_it_is_looked_up_is_not_used(rig: Rig) -> None:
    await rig.log_in()
    store = LookedUpSlowly(rig.file, "kept")
    tokens = AuthorizationCodeTokens("kept", rig.grant, store, named=(rig.world.url,))
    store.tokens = tokens
    for _ in range(2):
        assert await tokens.current(URL(rig.world.url)) is None


class AnotherWasFirst(FileLogin):
    """A store in which another process refreshes between a look and the lease."""

    theirs: Login | None = None
    released = 0

    async def lease(self) -> bool:
        if self.theirs is not None:
            await self.save(self.theirs)
        return True

    async def release(self) -> None:
        self.released += 1


@pytest.mark.parametrize("lifetime_s", [600, 0])
async def test_another_process_may_have_refreshed_before_this_one_has_the_lease(
    rig: Rig, lifetime_s: int
) -> None:
    """Its refresh token works once; to use it again would end the login at many providers."""
    await rig.log_in()
    store = AnotherWasFirst(rig.file, "kept")
    mine = await store.load()
    assert mine is not None
    before = len(rig.world.requests)
    await store.save(msgspec.structs.replace(mine, expires_at=0.0))
    store.theirs = msgspec.structs.replace(
        mine,
        access_token="theirs",
        refresh_token="rotated",
        expires_at=time.time() + lifetime_s,
    )
    tokens = AuthorizationCodeTokens("kept", rig.grant, store, named=(rig.world.url,))
    given = await tokens.current(URL(rig.world.url))
    used = [form["refresh_token"] for form in rig.world.requests[before:]]
    if lifetime_s:
        assert (given, used, store.released) == ("theirs", [], 1)
    else:  # expired again: theirs is refreshed
        assert used == ["rotated"]


async def test_further_permissions_take_another_login_that_keeps_the_old_ones(rig: Rig) -> None:
    world = rig.world
    world.challenge_scope = "read"
    await rig.log_in()
    await rig.call()
    world.needed = {"write"}
    for _ in range(2):
        with pytest.raises(UpstreamUnavailable):
            await rig.call()
    await rig.log_in()
    assert world.asked["scope"] == "read write"
    assert (await rig.call())["content"] == []


async def test_a_client_is_known_by_its_document_where_that_is_taken(rig: Rig) -> None:
    rig.world.takes_people(client_id_metadata_document_supported=True)
    rig.grant = replace(rig.grant, client_metadata_url="https://me.example/armory.json")
    await rig.log_in()
    assert rig.world.asked["client_id"] == "https://me.example/armory.json"
    assert rig.world.registered == []


async def test_a_client_registered_by_hand_proves_itself(rig: Rig) -> None:
    rig.grant = replace(rig.grant, client_id="armory", client_secret="hush")
    await rig.log_in()
    pair = base64.b64decode(rig.world.requests[-1]["basic"].removeprefix("Basic "))
    assert pair == b"armory:hush"
    assert rig.world.registered == []


@pytest.mark.parametrize(
    ("back", "metadata", "says"),
    [
        ({"state": "another"}, {}, "state differs"),
        ({"iss": "https://evil.example"}, {}, "issuer 'https://evil.example'"),
        ({"iss": "{issuer}/"}, {}, "issuer"),
        (
            {"iss": None},
            {"authorization_response_iss_parameter_supported": True},
            "names no issuer",
        ),
        ({"error": "access_denied"}, {}, "refused: access_denied"),
        ({"code": None}, {}, "no code"),
        ({}, {"code_challenge_methods_supported": ["plain"]}, "S256"),
        ({}, {"authorization_endpoint": None}, "no authorization_endpoint"),
        ({}, {"authorization_endpoint": "http://as.example/login"}, "not reached over https"),
        ({}, {"authorization_endpoint": "https://as\0.example/login"}, "not reached over https"),
        ({}, {"registration_endpoint": None}, "client_id"),
    ],
)
async def test_answers_that_are_not_as_they_must_be_get_no_token(
    rig: Rig, back: dict[str, str | None], metadata: dict[str, Any], says: str
) -> None:
    rig.world.takes_people(**metadata)
    rig.world.back = {
        name: text and text.format(issuer=rig.world.issuer) for name, text in back.items()
    }
    with pytest.raises(UpstreamUnavailable, match=says):
        await rig.log_in()
    assert rig.world.requests == []
    assert not rig.file.exists()


async def test_a_login_is_not_used_at_another_authorization_server(rig: Rig) -> None:
    await rig.log_in()
    await rig.call()
    rig.world.valid.clear()
    rig.world.issuer_path = "/other"
    rig.world.named = f"{rig.world.url}/other"
    with pytest.raises(UpstreamUnavailable):
        await rig.call()
    assert len(rig.world.requests) == 1


def test_keys_that_do_not_fit_are_refused() -> None:
    for grant in (
        AuthorizationCode(client_secret="x"),
        AuthorizationCode(client_metadata_url="http://me.example"),
    ):
        with pytest.raises(ConfigError, match=r"upstreams\.up\.auth"):
            UpstreamSpec("up", url="http://127.0.0.1/mcp", auth=grant)
