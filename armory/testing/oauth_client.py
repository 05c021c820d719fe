"""An OAuth client and its user's browser; tests can make every parameter wrong.

Owns: `App`. Never imports the gateway.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from typing import Any, Self
from urllib.parse import parse_qsl, urlencode, urlsplit

import aiohttp

CALLBACK = "http://127.0.0.1:9/callback"


class App:
    """A client of the authorization server at `url`; its browser keeps cookies.

    Attributes:
        client_id: once it has registered.
        state, verifier: of its latest login.
    """

    def __init__(self, url: str, headers: dict[str, str] | None = None) -> None:
        self.url = url
        self.origin = "{0.scheme}://{0.netloc}".format(urlsplit(url))
        self.http = aiohttp.ClientSession(
            cookie_jar=aiohttp.CookieJar(unsafe=True), headers=headers
        )
        self.client_id = self.state = self.verifier = ""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.close()

    async def register(self, **metadata: Any) -> tuple[int, dict[str, Any]]:
        """(status, answer) of dynamic registration."""
        asked = {
            "client_name": "an app",
            "redirect_uris": [CALLBACK],
            "token_endpoint_auth_method": "none",
            **metadata,
        }
        async with self.http.post(f"{self.url}/oauth/register", json=asked) as response:
            answer = await response.json()
        self.client_id = answer.get("client_id", "")
        return response.status, answer

    def asking(self, **changed: str | None) -> dict[str, str]:
        """The parameters of a new authorization request."""
        self.verifier, self.state = secrets.token_urlsafe(48), secrets.token_urlsafe(8)
        digest = hashlib.sha256(self.verifier.encode()).digest()
        query: dict[str, str | None] = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": CALLBACK,
            "state": self.state,
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
            "resource": f"{self.url}/mcp",
            **changed,
        }
        return {name: said for name, said in query.items() if said is not None}

    async def get(self, url: str, **query: str) -> tuple[int, str]:
        """GET one page without following redirects: (status, Location or text)."""
        place = f"{url}?{urlencode(query)}" if query else url
        async with self.http.get(place, allow_redirects=False) as response:
            return response.status, response.headers.get("Location") or await response.text()

    async def authorize(self, **changed: str | None) -> tuple[int, str]:
        """(status, Location or page) of the authorization endpoint."""
        return await self.get(f"{self.url}/oauth/authorize", **self.asking(**changed))

    async def press(self, page: str, action: str = "allow", **more: str) -> tuple[int, str]:
        """Press a button of the consent page: (status, Location or page)."""
        found = re.search(r'name="request" value="([^"]+)"', page)
        assert found is not None, page
        headers = {"Origin": more.pop("origin", self.origin)}
        async with self.http.post(
            f"{self.url}/oauth/consent",
            data={"request": found[1], "action": action, **more},
            headers=headers,
            allow_redirects=False,
        ) as response:
            return response.status, response.headers.get("Location") or await response.text()

    async def log_in(self, **changed: str | None) -> dict[str, str]:
        """Log in and give consent; returns the parameters of the redirect to the client."""
        status, page = await self.authorize(**changed)
        if status == 200:  # else it is remembered
            status, page = await self.press(page)
        assert status == 303, page
        return await self.come_back(page)

    async def come_back(self, place: str) -> dict[str, str]:
        """Follow the redirects from the provider through the gateway to the client."""
        for _ in range(3):
            if place.startswith(CALLBACK):
                return dict(parse_qsl(urlsplit(place).query))
            status, place = await self.get(place)
            assert status in (302, 303), place
        raise AssertionError(place)

    async def token(self, **form: str) -> tuple[int, dict[str, Any]]:
        """(status, answer) of the token endpoint."""
        data = {"client_id": self.client_id, **form}
        async with self.http.post(f"{self.url}/oauth/token", data=data) as response:
            return response.status, await response.json()

    async def redeem(self, code: str, **form: str) -> tuple[int, dict[str, Any]]:
        """(status, answer) for a code."""
        said = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": CALLBACK,
            "code_verifier": self.verifier,
            **form,
        }
        return await self.token(**said)

    async def refresh(self, token: str, **form: str) -> tuple[int, dict[str, Any]]:
        """(status, answer) for a refresh token."""
        return await self.token(grant_type="refresh_token", refresh_token=token, **form)

    async def tokens(self, **changed: str | None) -> dict[str, Any]:
        """Run a whole login; returns the tokens."""
        if not self.client_id:
            await self.register()
        back = await self.log_in(**changed)
        assert back["state"] == self.state
        status, answer = await self.redeem(back["code"])
        assert status == 200, answer
        return answer
