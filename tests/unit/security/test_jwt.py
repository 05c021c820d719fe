"""Session tokens: what is accepted, and every way of cheating that must fail."""

from __future__ import annotations

import base64
import hmac
import json
import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization

from armory.errors import AuthenticationFailed, ConfigError
from armory.security.issuer import issuer_named
from armory.security.jwt import JwtScheme
from armory.security.settings import JwtSettings
from tests.unit.security.jwt_provider import Provider, claims, provider_with_keys, scheme

pytestmark = pytest.mark.anyio
SECRET = "a-shared-secret-that-is-long-enough-to-keep"


@pytest.fixture(scope="module")
def provider() -> Provider:
    return provider_with_keys()


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
        {"sub": " ann"},
        {"sub": "ann\u3000"},
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
