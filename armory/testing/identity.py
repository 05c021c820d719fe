"""A scripted identity provider over real HTTP: signs tokens, and validates every parameter.

Owns: `IdentityProvider`. Never imports the gateway.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import secrets
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_plus

import jwt
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec
from yarl import URL

from armory.testing.listening import listening

EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_TYPE = "urn:ietf:params:oauth:token-type:"
_CLIENT = {"client_id", "client_secret", "grant_type", "scope", "resource"}
_EXCHANGED = _CLIENT | {
    "subject_token", "subject_token_type", "requested_token_type", "audience"
}  # fmt: skip
_REDEEMED = _CLIENT | {"assertion"}


@dataclass
class IdentityProvider:
    """A provider at /idp on its own port.

    Attributes:
        url: its origin.
        clients: secret by client id; "" for a public one.
        redirects: redirect URIs of clients, exact.
        user: who is logged in in the browser, as far as this provider goes.
        lifetime: of access tokens, in seconds.
        vouched: client id at another authorization server, by that one's issuer: for whom it
            gives out ID-JAGs.
        trusted: providers whose ID-JAGs it takes.
        opaque: what is said of opaque tokens, by token.
        forms: every form that the token endpoint took.
        refusal: what the token endpoint answers instead of a token, by status.
        held: (set when the token endpoint is asked, set when it may answer); None: it just answers.
        says: further claims of its ID tokens.
        tells: further claims of userinfo; None: it refuses to say anything.
        withholds: members of its answers with tokens that it leaves out.
        metadata: further members of its metadata; None takes one away.
        away: whether every answer is 503.
        ahead_s: of its clock, before everybody else's.
        fetched: how often each path was asked for.
    """

    url: str = ""
    clients: dict[str, str] = field(default_factory=lambda: {"armory": "armory-secret"})
    redirects: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    user: str = "ann"
    lifetime: int = 600
    vouched: dict[str, str] = field(default_factory=dict[str, str])
    trusted: list[IdentityProvider] = field(default_factory=list["IdentityProvider"])
    opaque: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    forms: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    refusal: tuple[int, dict[str, Any]] | None = None
    held: tuple[asyncio.Event, asyncio.Event] | None = None
    says: dict[str, Any] = field(default_factory=dict[str, Any])
    tells: dict[str, Any] | None = field(default_factory=dict[str, Any])
    withholds: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    away: bool = False
    ahead_s: int = 0
    fetched: dict[str, int] = field(default_factory=dict[str, int])
    _keys: dict[str, ec.EllipticCurvePrivateKey] = field(default_factory=dict)
    _codes: dict[str, dict[str, str]] = field(default_factory=dict)
    _refresh: dict[str, dict[str, str]] = field(default_factory=dict)
    _redeemed: set[str] = field(default_factory=set[str])

    async def __aenter__(self) -> IdentityProvider:
        self.add_key("one")
        app = web.Application(middlewares=[self._counted])
        app.router.add_get("/.well-known/oauth-authorization-server/idp", self._metadata)
        app.router.add_get("/idp/jwks", self._jwks)
        app.router.add_get("/idp/authorize", self._authorize)
        app.router.add_post("/idp/token", self._token)
        app.router.add_get("/idp/userinfo", self._userinfo)
        app.router.add_post("/idp/introspect", self._introspect)
        app.router.add_post("/idp/revoke", self._revoke)
        self._runner, self.url = await listening(app)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    @property
    def issuer(self) -> str:
        """Its issuer identifier."""
        return f"{self.url}/idp"

    @property
    def refresh_tokens(self) -> list[str]:
        """The valid refresh tokens."""
        return list(self._refresh)

    def add_key(self, kid: str) -> None:
        """Sign with a new key from now on; the old ones stay published."""
        self._keys[kid] = ec.generate_private_key(ec.SECP256R1())

    def forget_key(self, kid: str) -> None:
        """Withdraw a key."""
        del self._keys[kid]

    def sign(self, typ: str = "at+jwt", **claims: Any) -> str:
        """A token with these claims in addition to the usual ones; None removes one."""
        now = int(time.time()) + self.ahead_s
        usual = {"iss": self.issuer, "sub": self.user, "iat": now, "exp": now + self.lifetime}
        said = {name: value for name, value in (usual | claims).items() if value is not None}
        kid = list(self._keys)[-1]
        return jwt.encode(said, self._keys[kid], "ES256", headers={"kid": kid, "typ": typ})

    @web.middleware
    async def _counted(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.fetched[request.path] = self.fetched.get(request.path, 0) + 1
        if self.away:
            return web.Response(status=503)
        return await handler(request)

    async def _metadata(self, _request: web.Request) -> web.Response:
        found: dict[str, Any] = {
            "issuer": self.issuer,
            "jwks_uri": f"{self.issuer}/jwks",
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "introspection_endpoint": f"{self.issuer}/introspect",
            "revocation_endpoint": f"{self.issuer}/revoke",
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
        }
        found |= self.metadata
        return web.json_response({name: said for name, said in found.items() if said is not None})

    async def _jwks(self, _request: web.Request) -> web.Response:
        algorithm = jwt.get_algorithm_by_name("ES256")
        keys: list[dict[str, Any]] = []
        for kid, key in self._keys.items():
            public: Any = algorithm.to_jwk(key.public_key(), as_dict=True)
            keys.append({**public, "kid": kid, "use": "sig"})
        return web.json_response({"keys": keys})

    async def _introspect(self, request: web.Request) -> web.Response:
        form = await request.post()
        if self._client(request, {}) is None:
            return web.json_response({"error": "invalid_client"}, status=401)
        return web.json_response(self.opaque.get(str(form.get("token")), {"active": False}))

    async def _revoke(self, request: web.Request) -> web.Response:
        form = {name: str(value) for name, value in (await request.post()).items()}
        self._refresh.pop(form.get("token", ""), None)
        return web.Response()

    async def _userinfo(self, request: web.Request) -> web.Response:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        claims = self.verified(token)
        if claims is None or self.tells is None:
            return web.Response(status=401)
        return web.json_response({"sub": claims["sub"], **self.tells})

    # -- logging in --------------------------------------------------------------------------

    async def _authorize(self, request: web.Request) -> web.Response:
        """Log `user` in without asking, and redirect the browser back."""
        query = dict(request.query)
        client, redirect = query.get("client_id", ""), query.get("redirect_uri", "")
        known = self.redirects.get(client)
        if client not in self.clients or (known is not None and redirect not in known):
            return web.Response(status=400, text="unknown client or redirect_uri")
        back = {"state": query.get("state", ""), "iss": self.issuer}
        if query.get("response_type") != "code" or query.get("code_challenge_method") != "S256":
            back |= {"error": "invalid_request"}
        else:
            code = back["code"] = secrets.token_urlsafe(12)
            self._codes[code] = {**query, "user": self.user}
        raise web.HTTPFound(str(URL(redirect).update_query(back)))

    async def _token(self, request: web.Request) -> web.Response:
        form = {name: str(value) for name, value in (await request.post()).items()}
        self.forms.append(form)
        if self.held is not None:
            self.held[0].set()
            await self.held[1].wait()
        if self.refusal is not None:
            return web.json_response(self.refusal[1], status=self.refusal[0])
        client = self._client(request, form)
        if client is None:
            return web.json_response({"error": "invalid_client"}, status=401)
        grants = {
            "authorization_code": self._code,
            "refresh_token": self._refreshed,
            EXCHANGE: self._exchanged,
            BEARER: self._bearer,
        }
        grant = grants.get(form.get("grant_type", ""))
        given = None if grant is None else grant(form, client)
        if given is None:
            return web.json_response({"error": "invalid_grant"}, status=400)
        answer = {"token_type": "Bearer", "expires_in": self.lifetime, **given}
        return web.json_response({k: v for k, v in answer.items() if k not in self.withholds})

    def _client(self, request: web.Request, form: dict[str, str]) -> str | None:
        header = request.headers.get("Authorization", "")
        if header.startswith("Basic "):
            id, _, secret = base64.b64decode(header[6:]).decode().partition(":")
            id, secret = unquote_plus(id), unquote_plus(secret)
        else:
            id, secret = form.get("client_id", ""), form.get("client_secret", "")
        expected = self.clients.get(id)
        return id if expected is not None and expected == secret else None

    def _code(self, form: dict[str, str], client: str) -> dict[str, Any] | None:
        asked = self._codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if asked is None or (
            asked["client_id"],
            asked["redirect_uri"],
            asked["code_challenge"],
        ) != (
            client,
            form.get("redirect_uri"),
            challenge,
        ):
            return None
        return self._granted(
            asked["user"], asked.get("resource", ""), asked.get("scope", ""), client
        )

    def _refreshed(self, form: dict[str, str], client: str) -> dict[str, Any] | None:
        kept = self._refresh.pop(form.get("refresh_token", ""), None)
        if kept is None or kept["client"] != client:
            return None
        return self._granted(kept["user"], kept["resource"], kept["scope"], client)

    def _granted(self, user: str, resource: str, scope: str, client: str) -> dict[str, Any]:
        refresh = secrets.token_urlsafe(12)
        self._refresh[refresh] = {
            "user": user, "resource": resource, "scope": scope, "client": client
        }  # fmt: skip
        claims = {"sub": user, "aud": resource or client, "scope": scope, "jti": refresh[:6]}
        claims["client_id"] = client  # RFC 9068, 2.2
        found = {"access_token": self.sign(**claims), "refresh_token": refresh, "scope": scope}
        if "openid" in scope.split():
            found["id_token"] = self.sign("JWT", sub=user, aud=client, **self.says)
        return found

    # -- other people's tokens ---------------------------------------------------------------

    def verified(self, token: str) -> dict[str, Any] | None:
        """The claims of a token that it signed; None: invalid or expired."""
        try:
            kid = jwt.get_unverified_header(token)["kid"]
            key = self._keys[kid].public_key()
            found: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=["ES256"],
                options={"verify_aud": False, "verify_exp": False, "verify_iat": False},
            )
        except (jwt.PyJWTError, KeyError):
            return None
        now = time.time() + self.ahead_s  # by its own clock
        return found if found["exp"] > now else None

    def _exchanged(self, form: dict[str, str], client: str) -> dict[str, Any] | None:
        """RFC 8693: an access token for another audience, or an ID-JAG for another issuer."""
        kind = form.get("subject_token_type")
        subject = self.verified(form.get("subject_token", ""))
        if subject is None or kind != _type_of(form["subject_token"]):
            return None
        if kind == f"{TOKEN_TYPE}id_token" and subject.get("aud") != client:
            return None
        if form.keys() - _EXCHANGED:
            return None
        wanted = form.get("requested_token_type", f"{TOKEN_TYPE}access_token")
        audience, resource = form.get("audience", ""), form.get("resource", "")
        scope = form.get("scope", "")
        if wanted == f"{TOKEN_TYPE}id-jag":
            if audience not in self.vouched or not resource:
                return None
            claims = {"aud": audience, "client_id": self.vouched[audience]}
            claims |= {"jti": secrets.token_hex(8), "sub": subject["sub"]}
            claims |= {"resource": resource, "scope": scope}
            grant = self.sign("oauth-id-jag+jwt", **claims)
            return {"access_token": grant, "issued_token_type": wanted, "token_type": "N_A"}
        if wanted != f"{TOKEN_TYPE}access_token" or not (audience or resource):
            return None
        token = self.sign(
            sub=subject["sub"], aud=audience or resource, scope=scope, act={"sub": client}
        )
        return {"access_token": token, "issued_token_type": wanted, "scope": scope}

    def _bearer(self, form: dict[str, str], client: str) -> dict[str, Any] | None:
        """RFC 7523: an access token for an ID-JAG of a trusted provider; each is accepted once."""
        assertion = form.get("assertion", "")
        claims = next(filter(None, (one.verified(assertion) for one in self.trusted)), None)
        if claims is None or form.keys() - _REDEEMED:
            return None
        if jwt.get_unverified_header(assertion).get("typ") != "oauth-id-jag+jwt":
            return None
        said = (claims.get("client_id"), claims.get("aud"), claims.get("resource"))
        if said != (client, self.issuer, form.get("resource")) or claims["jti"] in self._redeemed:
            return None
        if form.get("scope", "") != claims.get("scope"):
            return None
        self._redeemed.add(claims["jti"])
        return {"access_token": self.sign(sub=claims["sub"], aud=claims["resource"])}


def _type_of(token: str) -> str:
    """What a token is, by its header: the type that an exchange must name."""
    typ = jwt.get_unverified_header(token).get("typ")
    return f"{TOKEN_TYPE}id_token" if typ == "JWT" else f"{TOKEN_TYPE}access_token"
