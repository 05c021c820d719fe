"""A gateway that grants logins, and a provider whose refresh tokens work once."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web
from sqlalchemy import update

from armory.authserver.clients import Client
from armory.authserver.grants import Grants
from armory.authserver.kept_grants import Grant
from armory.authserver.provider import Identity, Provider
from armory.authserver.requests import Request
from armory.authserver.scheme import GrantScheme
from armory.authserver.settings import ProxySettings
from armory.security.sealing import Seal
from armory.storage.cache import MemoryCache
from armory.storage.changes import ChangeFeed
from armory.storage.database import Database
from armory.storage.grants import GRANTS, StoredGrants
from armory.storage.tables import oauth_grants
from armory.testing.listening import listening
from armory.upstreams.oauth.logins import Login

CLIENT = Client("a-client", "a client", ("http://127.0.0.1/callback",))
WHERE, VERIFIER = "https://gateway.example/mcp", "v" * 43


class Gateway:
    """The gateway as far as grants go."""

    def __init__(self, database: Database, settings: ProxySettings) -> None:
        self.database = database
        self.feed = ChangeFeed(database, MemoryCache())
        seal = Seal(["a-secret-of-some-length"])
        self.store = StoredGrants(database, self.feed, seal)
        self.provider, self.seal = Provider(settings), seal
        self.grants = Grants(self.store, seal, self.provider)
        self.now = 0.0
        self.scheme = GrantScheme(self.grants, clock=lambda: self.now)
        self.ended: list[str | None] = []

        async def ended(id: str) -> None:
            self.ended.append(self.scheme.ended(id))

        self.feed.subscribe(GRANTS, ended)

    async def code(self, login: Login) -> str:
        """What ann's client comes back with."""
        digest = hashlib.sha256(VERIFIER.encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        asked = Request(CLIENT.digest, CLIENT.redirects[0], None, challenge, WHERE)
        id = await self.grants.begin("a state")
        assert id is not None
        return await self.grants.code(id, Grant(asked, Identity("idp|ann", "ann"), login))

    async def logged_in(self, login: Login) -> tuple[str, str]:
        """(access token, refresh token) of ann."""
        code = await self.code(login)
        given = await self.grants.redeem(code, CLIENT, "", VERIFIER, "")
        return given.access, given.refresh


@asynccontextmanager
async def gateway(folder: Path, settings: ProxySettings) -> AsyncGenerator[Gateway]:
    database = Database(f"sqlite:///{folder / 'armory.db'}")
    await database.open()
    try:
        async with asyncio.timeout(30):
            yield Gateway(database, settings)
    finally:
        await database.close()


class Rotations:
    """A provider's token endpoint, which answers once it may."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.goes_on, self.is_asked = asyncio.Event(), asyncio.Event()

    async def token(self, request: web.Request) -> web.Response:
        form = await request.post()
        number = len(self.asked) + 1
        assert form["refresh_token"] == f"r{number - 1}"
        self.asked.append(str(form["refresh_token"]))
        self.is_asked.set()
        await self.goes_on.wait()
        return web.json_response({"access_token": f"a{number}", "refresh_token": f"r{number}"})


@asynccontextmanager
async def rotating(folder: Path) -> AsyncGenerator[tuple[Gateway, Login, Rotations]]:
    """A gateway, a login, and a provider that takes each refresh token once."""
    made = Rotations()
    app = web.Application()
    app.router.add_post("/token", made.token)
    runner, url = await listening(app)
    settings = ProxySettings("armory", authorize_url=f"{url}/authorize", token_url=f"{url}/token")
    login = Login(url, f"{url}/token", "", "armory", access_token="a0", refresh_token="r0")
    try:
        async with gateway(folder, settings) as found:
            yield found, login, made
    finally:
        await runner.cleanup()


async def aged(found: Gateway, by_s: int) -> None:
    """As if so many seconds had passed for the database."""
    async with found.database.write() as connection:
        earlier = oauth_grants.c.expires_at_ms - by_s * 1_000
        await connection.execute(update(oauth_grants).values(expires_at_ms=earlier))
