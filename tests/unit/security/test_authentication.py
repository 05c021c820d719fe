"""Who is it: tokens, schemes, anonymous."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict

from armory.domain.principal import ANONYMOUS, Principal
from armory.errors import AuthenticationFailed, ConfigError
from armory.security.authentication import Authenticator, ProtectedResource, StaticToken

pytestmark = pytest.mark.anyio
TOKENS = [StaticToken("ci", "ci-secret-token", frozenset(("run",)), "robot")]


class Keys:
    """Knows one key, refuses others of its form."""

    async def identify(self, credential: str) -> Principal | None:
        if not credential.startswith("acx_"):
            return None
        if credential != "acx_good":
            raise AuthenticationFailed("the key was revoked")
        return Principal("key-1", method="api_key")


def bearer(token: str) -> CIMultiDict[str]:
    return CIMultiDict({"authorization": f"Bearer {token}"})


async def test_a_static_token_is_its_principal_in_either_header() -> None:
    chain = Authenticator(TOKENS, allow_anonymous=False)
    principal = await chain.authenticate(bearer("ci-secret-token"))
    assert principal == Principal("ci", "robot", frozenset(("run",)), "token")
    assert await chain.authenticate(CIMultiDict({"x-api-key": "ci-secret-token"}))


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong-token"},
        {"Authorization": "Basic eA=="},
        {"Authorization": "Basic ci-secret-token"},
        {"Authorization": "ci-secret-token"},
        {"Authorization": "Bearer", "X-API-Key": "ci-secret-token"},
        {"Authorization": "Bearer"},
        {"X-API-Key": "nope"},
    ],
)
async def test_everything_else_is_refused(headers: dict[str, str]) -> None:
    chain = Authenticator(TOKENS, allow_anonymous=False)
    with pytest.raises(AuthenticationFailed):
        await chain.authenticate(CIMultiDict(headers))


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("Bearer ${ARMORY_TOKEN}", "sends ${ARMORY_TOKEN} instead"),  # Claude Code 2.1.332
        ("Bearer $ARMORY_TOKEN", "sends $ARMORY_TOKEN instead"),
        ("Bearer ${env:ARMORY_TOKEN}", "sends ${env:ARMORY_TOKEN} instead"),
        ("Bearer", "may not have it set"),  # Gemini CLI 0.61.0
        ("Bearer $ecret-of-somebody", "the credential is not valid here"),
    ],
)
async def test_a_variable_that_the_client_has_not_is_named(header: str, said: str) -> None:
    chain = Authenticator(TOKENS, allow_anonymous=False)
    with pytest.raises(AuthenticationFailed) as refused:
        await chain.authenticate(CIMultiDict({"Authorization": header}))
    assert said in str(refused.value)


async def test_anonymous_only_without_a_credential() -> None:
    chain = Authenticator(TOKENS, allow_anonymous=True)
    assert await chain.authenticate(CIMultiDict()) is ANONYMOUS
    with pytest.raises(AuthenticationFailed):
        await chain.authenticate(bearer("mistyped-token"))


async def test_schemes_are_asked_in_order() -> None:
    chain = Authenticator(TOKENS, [Keys()], allow_anonymous=False)
    assert (await chain.authenticate(bearer("acx_good"))).method == "api_key"
    with pytest.raises(AuthenticationFailed, match="revoked"):
        await chain.authenticate(bearer("acx_old"))
    with pytest.raises(AuthenticationFailed, match="not valid"):
        await chain.authenticate(bearer("other-thing"))


def test_tokens_that_are_no_secrets() -> None:
    with pytest.raises(ConfigError, match=r"security\.tokens\.a\.token"):
        Authenticator([StaticToken("a", "7 chars")], allow_anonymous=False)
    assert Authenticator([StaticToken("a", "8 chars.")], allow_anonymous=False)
    with pytest.raises(ConfigError, match="twice"):
        Authenticator(
            [StaticToken("a", "same-secret"), StaticToken("b", "same-secret")],
            allow_anonymous=False,
        )


def test_the_challenge_says_where_to_log_in_where_somebody_can() -> None:
    failure = AuthenticationFailed("no")
    assert Authenticator(allow_anonymous=True).challenge(failure, {}) == "Bearer"
    unscoped = ProtectedResource(("https://id.example",))
    assert (
        Authenticator(allow_anonymous=True, protected=unscoped).challenge(failure, {}) == "Bearer"
    )
    protected = ProtectedResource(("https://id.example",), ("read", "write"))
    chain = Authenticator(allow_anonymous=False, protected=protected)
    said = 'scope="read write", resource_metadata="https://x/.well-known"'
    assert chain.challenge(failure, {}, "https://x/.well-known") == f"Bearer {said}"
    assert chain.challenge(failure, {}) == 'Bearer scope="read write"'
    sent = {"Authorization": "Bearer old"}
    assert chain.challenge(failure, sent, "https://x/.well-known") == (
        f'Bearer error="invalid_token", {said}'
    )
