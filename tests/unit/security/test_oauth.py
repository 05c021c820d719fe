"""Access tokens of authorization servers: which are taken, and every other one refused."""

from __future__ import annotations

import json
import time
from typing import Any

import jwt
import pytest

from armory.domain.encoding import encoded
from armory.domain.principal import Principal
from armory.errors import AuthenticationFailed, BackendError, InsufficientScope
from armory.security.authentication import Authenticator, ProtectedResource
from armory.security.issuer import Issuer
from armory.security.oauth import OAuthScheme
from armory.security.settings import IntrospectionSettings, OAuthSettings
from armory.testing.clock import FakeClock
from armory.testing.identity import IdentityProvider

pytestmark = pytest.mark.anyio
HERE = "https://gateway.example/mcp"


def scheme(*providers: IdentityProvider, clock: Any = time.monotonic, **more: Any) -> OAuthScheme:
    names = [provider.issuer for provider in providers]
    issuers = [Issuer(name, clock=clock) for name in names]
    return OAuthScheme(OAuthSettings(names, **more), issuers)


def chain(*providers: IdentityProvider, **more: Any) -> Authenticator:
    protected = ProtectedResource(tuple(one.issuer for one in providers))
    return Authenticator(
        (), [scheme(*providers, **more)], allow_anonymous=False, protected=protected
    )


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def test_a_token_for_this_endpoint_names_user_and_scopes(provider: IdentityProvider) -> None:
    checks = chain(provider)
    token = provider.sign(aud=[HERE, "https://other.example"], scope="read write")
    found = await checks.authenticate(bearer(token), HERE)
    assert (found.user, found.method, found.scopes) == ("ann", "oauth", {"read", "write"})
    assert found.subject == f"{provider.issuer}|ann"
    assert await checks.authenticate(bearer(provider.sign(aud=f"{HERE}/")), HERE) == Principal(
        found.subject, "ann", frozenset(), "oauth"
    )
    assert found.expires_at is not None
    assert found.expires_at > time.time()


async def test_capitals_in_the_host_make_no_other_audience(provider: IdentityProvider) -> None:
    checks = chain(provider, audience=["api://Armory"])
    for said in ("HTTPS://Gateway.EXAMPLE/mcp", "api://armory"):
        await checks.authenticate(bearer(provider.sign(aud=said)), HERE)
    with pytest.raises(AuthenticationFailed):
        await checks.authenticate(bearer(provider.sign(aud=HERE.replace("mcp", "MCP"))), HERE)


async def test_claims_are_read_where_the_configuration_says(provider: IdentityProvider) -> None:
    checks = scheme(provider, user_claim="email", scopes_claim="roles", audience=["armory"])
    token = provider.sign(aud="armory", email="ann@example.org", roles=["admin"])
    found = await checks.identify(token)
    assert found is not None
    assert (found.user, found.scopes, found.audience) == ("ann@example.org", {"admin"}, None)


OVERAGE = [
    {"_claim_names": {"groups": "src1"}, "_claim_sources": {"src1": {"endpoint": "https://x"}}},
    {"_claim_names": {"groups": "src1"}, "groups": []},
    {"hasgroups": True},
    {"hasgroups": "true", "groups": None},
]
"""How Entra says that somebody is in more groups than fit into a token."""


@pytest.mark.parametrize("said", OVERAGE)
async def test_who_is_in_too_many_groups_to_say_is_refused(
    said: dict[str, Any], provider: IdentityProvider
) -> None:
    by_groups = scheme(provider, scopes_claim="groups")
    with pytest.raises(AuthenticationFailed, match="'groups' is left out of the token"):
        await by_groups.identify(provider.sign(aud=HERE, **said))
    assert await by_groups.identify(provider.sign(aud=HERE, _claim_names={"roles": "src1"}))
    assert await by_groups.identify(provider.sign(aud=HERE, groups=["a"], hasgroups=True))
    by_scopes = scheme(provider)
    found = await by_scopes.identify(provider.sign(aud=HERE, scope="read", **said))
    assert found is not None
    assert found.scopes == {"read"}, "where nothing goes by groups they are of no importance"


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "https://gateway.example/mcp/other"},
        {"aud": "https://gateway.example"},
        {"aud": "https://gateway.example.evil.org/mcp"},
        {"aud": None},
        {"aud": []},
        {"aud": HERE, "exp": None},
        {"aud": HERE, "exp": 1},
        {"aud": HERE, "exp": 10**400},
        {"aud": HERE, "nbf": 2**40},
        {"aud": HERE, "sub": None},
        {"aud": HERE, "sub": ""},
        {"aud": HERE, "iss": None},
        {"aud": HERE, "cnf": {"jkt": "a-key"}},
        {"aud": HERE, "typ": "oauth-id-jag+jwt"},
        {"aud": HERE, "typ": "logout+jwt"},
    ],
)
async def test_a_token_that_is_not_for_here_and_now_is_refused(
    provider: IdentityProvider, claims: dict[str, Any]
) -> None:
    checks = chain(provider)
    with pytest.raises(AuthenticationFailed):
        await checks.authenticate(bearer(provider.sign(**claims)), HERE)


HEADERS: list[dict[str, Any]] = [
    {"kid": "one"},
    {"kid": "one", "alg": None},
    {"kid": "one", "alg": ["ES256"]},
    {"kid": "one", "alg": "es256"},
]
"""Of tokens that do not say how they are signed."""


async def test_nobody_elses_signature_counts(provider: IdentityProvider) -> None:
    checks = chain(provider)
    good = provider.sign(aud=HERE)
    claims = jwt.decode(good, options={"verify_signature": False})
    head, body, signature = good.split(".")
    other = jwt.encode({"iss": provider.issuer}, "x" * 32, "HS256").split(".")[0]
    async with IdentityProvider() as stranger:
        forged = [
            jwt.encode(claims, "", "none"),
            jwt.encode(claims, "x" * 32, "HS256", headers={"kid": "one"}),
            f"{other}.{body}.{signature}",
            f"{head}.{body}.{signature[:-4]}AAAA",
            stranger.sign(iss=provider.issuer, aud=HERE),
            stranger.sign(aud=HERE),
            stranger.sign(aud=HERE, jku=f"{stranger.issuer}/jwks"),
            *(f"{encoded(json.dumps(header).encode())}.{body}.{signature}" for header in HEADERS),
        ]
        for token in forged:
            with pytest.raises(AuthenticationFailed):
                await checks.authenticate(bearer(token), HERE)
        assert stranger.fetched == {}
    assert await checks.authenticate(bearer(good), HERE)


async def test_two_issuers_are_not_mixed_up(provider: IdentityProvider) -> None:
    async with IdentityProvider() as other:
        checks = chain(provider, other)
        first = await checks.authenticate(bearer(provider.sign(aud=HERE)), HERE)
        second = await checks.authenticate(bearer(other.sign(aud=HERE)), HERE)
        assert first.user == "ann"
        assert second.user == f"{other.issuer}|ann"
        assert first.key != second.key
        mixed = other.sign(aud=HERE, iss=provider.issuer)
        with pytest.raises(AuthenticationFailed):
            await checks.authenticate(bearer(mixed), HERE)


async def test_nobody_at_the_first_issuer_is_called_like_one_of_another(
    provider: IdentityProvider,
) -> None:
    async with IdentityProvider() as other:
        checks = chain(provider, other, user_claim="nickname")
        token = provider.sign(aud=HERE, nickname=f"{other.issuer}|ann")
        with pytest.raises(AuthenticationFailed):
            await checks.authenticate(bearer(token), HERE)
        token = other.sign(aud=HERE, nickname="ann")
        found = await checks.authenticate(bearer(token), HERE)
        assert found.user == f"{other.issuer}|ann"


@pytest.mark.parametrize(("verified", "taken"), [
    (False, False), ("false", False), (True, True), ("true", True), (None, True),
    ("False", False), ("0", False), (0, False), ("", False), ([], False), ("True", True), (1, True),
])  # fmt: skip
async def test_an_address_that_nobody_has_checked_is_no_user(
    provider: IdentityProvider, verified: object, taken: bool
) -> None:
    checks = scheme(provider, user_claim="email")
    token = provider.sign(aud=HERE, email="boss@example.org", email_verified=verified)
    by_subject = await scheme(provider).identify(token)  # of whom the address is not asked
    assert by_subject is not None
    if taken:
        found = await checks.identify(token)
        assert found is not None
        assert found.user == "boss@example.org"
    else:
        with pytest.raises(AuthenticationFailed):
            await checks.identify(token)


async def test_metadata_of_somebody_else_are_not_believed(provider: IdentityProvider) -> None:
    provider.metadata = {"issuer": "https://evil.example"}
    with pytest.raises(BackendError, match="evil"):
        await chain(provider).authenticate(bearer(provider.sign(aud=HERE)), HERE)


async def test_a_token_holds_where_only_the_configured_audience_is_known(
    provider: IdentityProvider,
) -> None:
    checks = chain(provider, audience=["api://armory"])
    assert await checks.authenticate(bearer(provider.sign(aud="api://armory")))
    with pytest.raises(AuthenticationFailed, match="another resource"):
        await checks.authenticate(bearer(provider.sign(aud=HERE)))


async def test_a_broader_scope_has_those_that_it_implies(provider: IdentityProvider) -> None:
    implied = {"mcp:admin": ["mcp:write"], "mcp:write": ["mcp:use"]}
    checks = chain(provider, scopes=["mcp:use"], implied_scopes=implied)
    found = await checks.authenticate(bearer(provider.sign(aud=HERE, scope="mcp:admin x")), HERE)
    assert found.scopes == {"mcp:admin", "mcp:write", "mcp:use", "x"}
    with pytest.raises(InsufficientScope) as refused:
        await checks.authenticate(bearer(provider.sign(aud=HERE, scope="x")), HERE)
    assert list(refused.value.scopes) == ["mcp:use"]


async def test_scopes_that_imply_each_other_are_the_same(provider: IdentityProvider) -> None:
    checks = chain(provider, scopes=["a"], implied_scopes={"a": ["b"], "b": ["a"]})
    found = await checks.authenticate(bearer(provider.sign(aud=HERE, scope="b")), HERE)
    assert found.scopes == {"a", "b"}


async def test_scopes_that_every_token_needs(provider: IdentityProvider) -> None:
    checks = chain(provider, scopes=["mcp:use", "mcp:read"])
    with pytest.raises(InsufficientScope) as refused:
        await checks.authenticate(bearer(provider.sign(aud=HERE, scope="mcp:use")), HERE)
    said = checks.challenge(refused.value, bearer("x"), "https://gateway.example/metadata")
    assert said == (
        'Bearer error="insufficient_scope", scope="mcp:use mcp:read", '
        'resource_metadata="https://gateway.example/metadata"'
    )


async def test_a_scope_that_is_asked_for_by_its_full_name(provider: IdentityProvider) -> None:
    """Entra takes `URI/name` beside the `resource` of that URI alone, and says `name` in tokens."""
    full = f"{HERE}/access"
    checks = chain(provider, scopes=(full,), scopes_claim="scp")
    for said in ("access", full):
        token = provider.sign(aud=HERE, scp=f"other {said}")
        found = await checks.authenticate(bearer(token), HERE)
        assert found.scopes == {"other", said}
    for lacking in ("other", "mcp/access", HERE, ""):
        with pytest.raises(InsufficientScope) as refused:
            await checks.authenticate(bearer(provider.sign(aud=HERE, scp=lacking)), HERE)
        assert list(refused.value.scopes) == [full]
    checks = chain(provider, scopes=("mcp/access",), scopes_claim="scp")
    with pytest.raises(InsufficientScope):
        await checks.authenticate(bearer(provider.sign(aud=HERE, scp="access")), HERE)


async def test_keys_rotate_and_serve_while_the_provider_is_away(provider: IdentityProvider) -> None:
    clock = FakeClock()
    checks = scheme(provider, clock=clock.now)
    assert await checks.identify(provider.sign(aud=HERE, jti="1"))
    provider.add_key("two")
    await clock.advance(11)
    assert await checks.identify(provider.sign(aud=HERE, jti="2"))
    provider.away = True
    await clock.advance(3_700)
    assert await checks.identify(provider.sign(aud=HERE, jti="3"))
    provider.add_key("unseen")
    with pytest.raises(BackendError, match="not known"):  # 503, and nobody is logged out
        await checks.identify(provider.sign(aud=HERE, jti="4"))
    provider.forget_key("unseen")
    provider.away = False
    provider.forget_key("one")
    provider.add_key("three")
    await clock.advance(11)
    assert await checks.identify(provider.sign(aud=HERE, jti="4"))


async def test_a_provider_that_was_never_reached_is_no_reason_to_refuse_the_token(
    provider: IdentityProvider,
) -> None:
    provider.away = True
    checks = scheme(provider)
    asked = IntrospectionSettings("armory", "armory-secret")
    opaque = scheme(provider, introspection=asked)
    fetched: list[int] = []
    for _ in range(3):
        with pytest.raises(BackendError):
            await checks.identify(provider.sign(aud=HERE))
        with pytest.raises(BackendError):
            await opaque.identify("an-opaque-token")
        fetched.append(sum(provider.fetched.values()))
    assert fetched[0] == fetched[2] > 0


@pytest.mark.parametrize(("off_s", "taken"), [(-25, True), (25, True), (-300, False), (300, False)])
async def test_clocks_may_be_apart_by_half_a_minute(
    provider: IdentityProvider, off_s: int, taken: bool
) -> None:
    now = int(time.time())
    expiry = now + off_s if off_s < 0 else now + 600
    token = provider.sign(aud=HERE, exp=expiry, nbf=now + max(off_s, 0) if off_s > 0 else None)
    if taken:
        assert await scheme(provider).identify(token)
    else:
        with pytest.raises(AuthenticationFailed):
            await scheme(provider).identify(token)


async def test_who_logged_in_somewhere_else_is_not_signed_in(provider: IdentityProvider) -> None:
    checks = scheme(provider, user_claim="email")
    given = provider.sign("JWT", aud=["armory", "x"], email="ann@example.org")
    found = await checks.signed_in(given, "armory")
    assert (found.user, found.subject) == ("ann@example.org", f"{provider.issuer}|ann")
    async with IdentityProvider() as stranger:
        for token in (
            provider.sign("JWT", aud="another", email="ann@example.org"),
            provider.sign("JWT", aud="armory"),
            provider.sign("JWT", aud="armory", email="ann@example.org", exp=1),
            stranger.sign("JWT", iss=provider.issuer, aud="armory", email="ann@example.org"),
        ):
            with pytest.raises(AuthenticationFailed):
                await checks.signed_in(token, "armory")


async def test_a_provider_whose_keys_anybody_could_change_is_not_believed(
    provider: IdentityProvider,
) -> None:
    for name, token in (("jwks_uri", provider.sign(aud=HERE)), ("introspection_endpoint", "x")):
        provider.metadata = {name: "http://id.example/below"}
        asked = IntrospectionSettings("armory", "armory-secret")
        with pytest.raises(BackendError, match=f"{name} .* is not reached over https"):
            await scheme(provider, introspection=asked).identify(token)


@pytest.mark.parametrize(
    ("says", "own"),
    [
        ({"client_id": "armory"}, True),
        ({"azp": "armory"}, True),
        ({"cid": "armory", "azp": "armory"}, True),
        ({"client_id": "an-app"}, False),
        ({"client_id": "an-app", "azp": "armory"}, False),
        ({"client_id": ["armory"]}, False),
        ({}, False),
    ],
)
async def test_only_a_token_that_the_gateway_got_itself_is_its_own(
    says: dict[str, Any], own: bool, provider: IdentityProvider
) -> None:
    async with IdentityProvider() as second:
        checks = scheme(provider, second, client_id="armory")
        found = await checks.identify(provider.sign(aud=HERE, **says))
        assert found is not None
        assert found.delegated is not own
        found = await checks.identify(second.sign(aud=HERE, **says))
        assert found is not None
        assert found.delegated  # there somebody else may be called so
        found = await scheme(provider).identify(provider.sign(aud=HERE, **says))
        assert found is not None
        assert found.delegated


async def test_a_token_that_was_looked_at_expires_also_where_the_machine_slept(
    provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock by which it is kept for a minute stands still meanwhile."""
    checks = chain(provider)
    token = bearer(provider.sign(aud=HERE))
    await checks.authenticate(token, HERE)
    wakes = time.time() + 7_200
    monkeypatch.setattr(time, "time", lambda: wakes)
    with pytest.raises(AuthenticationFailed):
        await checks.authenticate(token, HERE)
