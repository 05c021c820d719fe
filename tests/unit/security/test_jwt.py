"""Session tokens: what is accepted, and every way of cheating that must fail."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import time
from collections.abc import Mapping
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from armory.errors import AuthenticationFailed, BackendError, ConfigError
from armory.security.issuer import Issuer, issuer_named
from armory.security.jwt import JwtScheme
from armory.security.keys import KeySet
from armory.security.settings import JwtSettings

pytestmark = pytest.mark.anyio
ISSUER, AUDIENCE = "https://id.example", "armory"
SECRET = "a-shared-secret-that-is-long-enough-to-keep"


class Provider:
    """An identity provider: keys that rotate, and a document that can be away."""

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {}
        self.fetched = 0
        self.away = False
        self.says: dict[str, Any] = {}

    def add(self, kid: str, kind: str = "RSA") -> None:
        if kind == "RSA":
            self.keys[kid] = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        else:
            self.keys[kid] = ec.generate_private_key(ec.SECP256R1())

    def sign(self, kid: str, claims: Mapping[str, Any], algorithm: str = "RS256") -> str:
        return jwt.encode(dict(claims), self.keys[kid], algorithm, headers={"kid": kid})

    async def fetch(self, url: str) -> bytes:
        self.fetched += 1
        if self.away:
            raise BackendError("away")
        found: list[dict[str, Any]] = []
        for kid, key in self.keys.items():
            algorithm = jwt.get_algorithm_by_name(
                "RS256" if isinstance(key, rsa.RSAPrivateKey) else "ES256"
            )
            public: Any = algorithm.to_jwk(key.public_key(), as_dict=True)
            found.append({**public, "kid": kid, "use": "sig", **self.says})
        return json.dumps({"keys": found}).encode()


def claims(**other: Any) -> dict[str, Any]:
    now = int(time.time())
    base = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": now + 600, "iat": now}
    return {**base, **other}


@pytest.fixture(scope="module")
def provider() -> Provider:
    found = Provider()
    found.add("one")
    found.add("two", "EC")
    return found


def scheme(provider: Provider, leeway_s: float = 30.0, **more: Any) -> JwtScheme:
    url = "https://id.example/jwks"
    settings = JwtSettings(issuer=ISSUER, audience=AUDIENCE, jwks_url=url, **more)
    return JwtScheme(settings, fetch=provider.fetch, leeway_s=leeway_s)


async def test_a_good_token_names_user_and_scopes(provider: Provider) -> None:
    checks = scheme(provider)
    found = await checks.identify(provider.sign("one", claims(scope="read admin")))
    assert found is not None
    assert (found.user, found.subject, found.method) == ("ann", "ann", "jwt")
    assert found.scopes == {"read", "admin"}
    listed = provider.sign("two", claims(scope=["read", 3]), "ES256")
    again = await checks.identify(listed)
    assert again is not None
    assert again.scopes == {"read"}
    assert await checks.identify("acx_notajwt") is None
    other = scheme(provider, user_claim="email", scopes_claim="roles")
    mail = await other.identify(provider.sign("one", claims(email="a@b.c", roles=["x"])))
    assert mail is not None
    assert (mail.user, mail.scopes) == ("a@b.c", {"x"})


async def test_who_has_no_subject_is_told_apart_by_its_user(provider: Provider) -> None:
    checks = scheme(provider, user_claim="name")
    for said, shown in (({"sub": ""}, "x"), ({"sub": "7"}, "7"), ({}, "x")):
        given = {name: value for name, value in claims(name="x").items() if name != "sub"}
        found = await checks.identify(provider.sign("one", {**given, **said}))
        assert found is not None
        assert (found.subject, found.user) == (shown, "x")
    longest = await scheme(provider).identify(provider.sign("one", claims(sub="x" * 200)))
    assert longest is not None


async def test_a_key_that_is_for_something_else_signs_nothing() -> None:
    provider = Provider()
    provider.add("one")
    provider.says = {"use": "enc"}
    with pytest.raises(AuthenticationFailed):
        await scheme(provider).identify(provider.sign("one", claims()))


@pytest.mark.parametrize(
    "wrong",
    [
        {"exp": 1},
        {"exp": None},
        {"exp": 10**400},
        {"nbf": 99_999_999_999},
        {"iss": "https://other.example"},
        {"iss": None},
        {"aud": "other"},
        {"aud": None},
        {"sub": None},
        {"sub": 7},
        {"sub": ""},
        {"sub": "x" * 201},
        {"sub": "a\nb"},
        {"sub": "token:ci"},
        {"sub": "anonymous:anonymous"},
        {"cnf": {"jkt": "of a key that the bearer does not show"}},
        {"events": {"http://schemas.openid.net/event/backchannel-logout": {}}},
    ],
)
async def test_claims_that_do_not_hold_are_refused(provider: Provider, wrong: Any) -> None:
    given = {key: value for key, value in claims(**wrong).items() if value is not None}
    # signed as bytes: of some of these the library writes no claims
    body, key = json.dumps(given).encode(), provider.keys["one"]
    token = jwt.PyJWS().encode(body, key, "RS256", headers={"kid": "one"})
    with pytest.raises(AuthenticationFailed):
        await scheme(provider).identify(token)


@pytest.mark.parametrize(
    ("typ", "taken"),
    [("JWT", True), ("at+jwt", True), ("session+jwt", True), ("logout+jwt", False),
     ("application/secevent+jwt", False), ("DPoP+jwt", False), ("oauth-id-jag+jwt", False)],
)  # fmt: skip
async def test_what_says_that_it_is_for_something_else_is_no_session(
    provider: Provider, typ: str, taken: bool
) -> None:
    token = jwt.encode(claims(), provider.keys["one"], "RS256", headers={"kid": "one", "typ": typ})
    if taken:
        assert await scheme(provider).identify(token) is not None
    else:
        with pytest.raises(AuthenticationFailed):
            await scheme(provider).identify(token)


async def test_clocks_may_be_a_little_apart(provider: Provider) -> None:
    late = provider.sign("one", claims(exp=int(time.time()) - 20))
    assert await scheme(provider).identify(late) is not None
    with pytest.raises(AuthenticationFailed):
        await scheme(provider, leeway_s=0).identify(late)


def b64(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


async def test_swapped_and_absent_algorithms_are_refused(provider: Provider) -> None:
    public = (
        provider.keys["one"]
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    body = b64(json.dumps(claims()).encode())
    import hashlib
    import hmac

    heads: list[dict[str, Any]] = [{"alg": name} for name in ("HS256", "none", "None", "RS256", 7)]
    for said in (*heads, {}):
        head = b64(json.dumps({**said, "kid": "one", "typ": "JWT"}).encode())
        mac = hmac.new(public, f"{head}.{body}".encode(), hashlib.sha256).digest()
        for signature in (b64(mac), "AA"):
            with pytest.raises(AuthenticationFailed):
                await scheme(provider).identify(f"{head}.{body}.{signature}")


async def test_forged_and_foreign_signatures_are_refused(provider: Provider) -> None:
    stranger = Provider()
    stranger.add("one")
    with pytest.raises(AuthenticationFailed):
        await scheme(provider).identify(stranger.sign("one", claims(scope="admin")))
    head, body, signature = provider.sign("one", claims()).split(".")
    forged = b64(json.dumps(claims(sub="root")).encode())
    for token in (f"{head}.{forged}.{signature}", f"{head}.{body}.{signature[:-4]}AAAA"):
        with pytest.raises(AuthenticationFailed):
            await scheme(provider).identify(token)
    pointing = jwt.encode(
        claims(), stranger.keys["one"], "RS256",
        headers={"kid": "three", "jku": "https://evil.example/jwks"},
    )  # fmt: skip
    with pytest.raises(AuthenticationFailed):
        await scheme(provider).identify(pointing)


async def test_a_token_that_names_no_key_is_of_the_only_one() -> None:
    provider = Provider()
    provider.add("one")
    token = jwt.encode(claims(), provider.keys["one"], "RS256")
    assert await scheme(provider).identify(token) is not None
    provider.add("two")
    with pytest.raises(AuthenticationFailed):
        await scheme(provider).identify(token)


async def test_of_a_document_with_very_many_keys_the_first_are_read() -> None:
    provider = Provider()
    for number in range(4):
        provider.add(str(number))
    keys = KeySet("https://x", ["RS256"], fetch=provider.fetch, most=2)
    found = [await keys.key(str(number), "RS256") is not None for number in range(4)]
    assert found == [True, True, False, False]


async def test_keys_rotate_and_a_provider_that_is_away_costs_nothing() -> None:
    provider, now = Provider(), 0.0
    provider.add("old")
    keys = KeySet("https://x", ["RS256"], fetch=provider.fetch, clock=lambda: now)
    assert await keys.key("old", "RS256") is not None
    assert await keys.key("old", "RS256") is not None
    assert provider.fetched == 1
    provider.add("new")
    now = 11.0
    assert await keys.key("new", "RS256") is not None
    assert provider.fetched == 2
    for _ in range(5):  # unknown ids do not make everybody fetch
        assert await keys.key("nobody", "RS256") is None
    assert provider.fetched == 2
    provider.away, now = True, 700.0
    assert await keys.key("old", "RS256") is not None
    with pytest.raises(BackendError, match="away"):  # it may be a new one, which is no reason to
        await keys.key("newer", "RS256")  # log anybody out
    now = 90_000.0
    with pytest.raises(BackendError):
        await keys.key("old", "RS256")


@pytest.mark.parametrize("algorithm", ["RS256", "RS512", "PS256"])
async def test_a_key_that_names_no_algorithm_serves_for_each_of_its_kind(algorithm: str) -> None:
    provider = Provider()
    provider.add("one")
    checks = scheme(provider, algorithms=["RS256", "RS512", "PS256"])
    assert await checks.identify(provider.sign("one", claims(), algorithm))
    provider.says = {"alg": "RS384"}
    for named in ("RS384", algorithm):
        checks = scheme(provider, algorithms=["RS256", "RS384", "RS512", "PS256"])
        token = provider.sign("one", claims(), named)
        if named == "RS384":
            assert await checks.identify(token)
        else:
            with pytest.raises(AuthenticationFailed):
                await checks.identify(token)


async def test_who_leaves_while_keys_are_fetched_costs_the_others_nothing() -> None:
    provider, goes_on = Provider(), asyncio.Event()
    provider.add("one")
    about = {"issuer": "https://i.example", "jwks_uri": "https://i.example/jwks"}

    async def fetch(url: str) -> bytes:
        await goes_on.wait()
        return await provider.fetch(url) if "jwks" in url else json.dumps(about).encode()

    async with asyncio.timeout(20):
        issuer = Issuer("https://i.example", fetch=fetch)
        for ask in (issuer.metadata, lambda: issuer.keys.key("one", "RS256")):
            leaves = asyncio.ensure_future(ask())
            await asyncio.sleep(0)
            leaves.cancel()
            stays = asyncio.ensure_future(ask())
            goes_on.set()
            assert await stays is not None
            goes_on.clear()


async def test_keys_are_fetched_once_for_many_tokens() -> None:
    own = Provider()
    own.add("a")
    own.add("b")
    checks = scheme(own)
    token = own.sign("a", claims())
    assert await checks.identify(token) is not None
    assert await checks.identify(token) is not None
    assert own.fetched == 1


async def test_a_shared_secret_goes_with_hs_alone() -> None:
    assert JwtScheme(JwtSettings(secret="x" * 32, algorithms=["HS256"]))
    checks = JwtScheme(JwtSettings(secret=SECRET, algorithms=["HS256"]))
    assert await checks.identify(jwt.encode(claims(), SECRET, "HS256")) is not None
    with pytest.raises(AuthenticationFailed):
        await checks.identify(jwt.encode(claims(), SECRET + "x", "HS256"))
    with pytest.raises(AuthenticationFailed):
        await checks.identify(jwt.encode(claims(), SECRET + SECRET, "HS512"))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "exactly one"),
        ({"jwks_url": "https://x", "secret": SECRET}, "exactly one"),
        ({"jwks_url": "https://x", "algorithms": ["HS256"]}, "whoever knows them"),
        ({"jwks_url": "file:///etc/passwd"}, "http or https"),
        ({"jwks_url": "https://x", "algorithms": ["none"]}, "no algorithm"),
        ({"jwks_url": "https://x", "algorithms": []}, "no algorithm"),
        ({"secret": SECRET}, "need jwks_url"),
        ({"secret": "x" * 31, "algorithms": ["HS256"]}, "can be guessed"),
    ],
)
def test_settings_that_invite_cheating_are_refused(settings: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        JwtScheme(JwtSettings(**settings))


async def test_keys_come_over_http_and_other_answers_are_refused(provider: Provider) -> None:
    from aiohttp import web

    from armory.security.jwt import fetch

    async def good(_request: web.Request) -> web.Response:
        return web.Response(body=await provider.fetch(""))

    async def large(_request: web.Request) -> web.Response:
        return web.Response(body=b" " * 1_100_000)

    app = web.Application()
    app.router.add_get("/jwks", good)
    app.router.add_get("/large", large)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    base = f"http://127.0.0.1:{runner.addresses[0][1]}"
    checks = JwtScheme(JwtSettings(issuer=ISSUER, audience=AUDIENCE, jwks_url=f"{base}/jwks"))
    assert await checks.identify(provider.sign("one", claims())) is not None
    for path in ("/large", "/absent"):
        with pytest.raises(BackendError):
            await fetch(base + path)
    await runner.cleanup()
    with pytest.raises(BackendError):
        await fetch(f"{base}/jwks")


async def test_half_characters_in_a_token_are_not_taken_over(provider: Provider) -> None:
    checks = scheme(provider, user_claim="name")
    said = claims(name="ann", sub="\ud800", jti="\udfff", scope=["read", "\ud800"])
    found = await checks.identify(provider.sign("one", said))
    assert found is not None
    assert (found.subject, found.user, found.scopes) == ("ann", "ann", {"read"})
    with pytest.raises(AuthenticationFailed):
        await checks.identify(provider.sign("one", claims(name="\ud800")))


DEEP = b"[" * 5_000 + b"]" * 5_000


@pytest.mark.parametrize(
    ("head", "payload"),
    [(b'{"alg":"HS256","x":' + DEEP + b"}", b"{}"), (b'{"alg":"HS256"}', b'{"x":' + DEEP + b"}")],
)
async def test_a_token_that_is_nested_thousands_deep_is_refused(
    head: bytes, payload: bytes
) -> None:
    parts = [base64.urlsafe_b64encode(part).rstrip(b"=") for part in (head, payload)]
    parts.append(hmac.digest(SECRET.encode(), b".".join(parts), "sha256"))
    parts[2] = base64.urlsafe_b64encode(parts[2]).rstrip(b"=")
    token = b".".join(parts).decode()
    assert issuer_named(token) == ""
    checks = JwtScheme(JwtSettings(secret=SECRET, algorithms=("HS256",)))
    with pytest.raises(AuthenticationFailed):
        await checks.identify(token)


@pytest.mark.parametrize("document", [b"", b"[]", b'{"keys": 1}', b'{"keys": [1, {"kty": "RSA"}]}'])
async def test_documents_that_hold_no_keys_let_nobody_in(
    provider: Provider, document: bytes
) -> None:
    async def odd(url: str) -> bytes:
        return document

    checks = JwtScheme(JwtSettings(jwks_url="https://x"), fetch=odd)
    with pytest.raises((AuthenticationFailed, BackendError)):
        await checks.identify(provider.sign("one", claims()))
