"""Clients and what they ask for: who is known, and of which mistakes the client hears."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from armory.authserver.clients import Client, Registrations
from armory.authserver.errors import OAuthError, UnusableClient
from armory.authserver.requests import Returned, each_once, read
from armory.authserver.settings import KnownClient
from armory.security.sealing import Seal

BACK, OTHER = "https://a.example/back", "http://127.0.0.1/back"
SEAL = Seal(["a-secret-of-some-length"])
ISSUER, WHERE = "https://gateway.example", "https://gateway.example/mcp"
CLIENT = Client("a-client", "A", (BACK, OTHER))
GOOD = {
    "redirect_uri": BACK, "state": "s", "response_type": "code", "code_challenge": "c" * 43,
    "code_challenge_method": "S256", "resource": WHERE,
}  # fmt: skip
is_endpoint: Callable[[str], bool] = WHERE.__eq__


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": ""}, "unsupported_response_type"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge": "c" * 42}, "invalid_request"),
        ({"code_challenge": "c" * 44}, "invalid_request"),
        ({"code_challenge": "+" * 43}, "invalid_request"),
        ({"prompt": "none"}, "interaction_required"),
        ({"resource": f"{WHERE}/other"}, "invalid_target"),
    ],
)
def test_a_client_hears_what_is_wrong(changed: dict[str, str], code: str) -> None:
    with pytest.raises(Returned) as told:
        read({**GOOD, **changed}, CLIENT, ISSUER, is_endpoint, WHERE)
    assert told.value.url.startswith(f"{BACK}?")
    said = parse_qs(urlsplit(told.value.url).query)
    assert (said["error"], said["state"], said["iss"]) == ([code], ["s"], [ISSUER])


def test_a_state_comes_back_where_it_is_not_too_long() -> None:
    longest = "x" * 1_000
    found = read({**GOOD, "state": longest}, CLIENT, ISSUER, is_endpoint, WHERE)
    assert parse_qs(urlsplit(found.back(ISSUER, code="c")).query) == {
        "code": ["c"], "state": [longest], "iss": [ISSUER],
    }  # fmt: skip
    with pytest.raises(Returned) as told:
        read({**GOOD, "state": f"{longest}x"}, CLIENT, ISSUER, is_endpoint, WHERE)
    said = parse_qs(urlsplit(told.value.url).query)
    assert (said["error"], "state" in said) == (["invalid_request"], False)
    without = {name: value for name, value in GOOD.items() if name not in ("state", "resource")}
    found = read(without, CLIENT, ISSUER, is_endpoint, WHERE)
    assert (found.state, found.resource, found.client) == (None, WHERE, CLIENT.digest)
    assert "state" not in found.back(ISSUER, code="c")


def test_nobody_is_sent_where_the_client_did_not_say() -> None:
    for uri in ("", "https://b.example/", "javascript:alert(1)"):
        with pytest.raises(UnusableClient, match="has not registered"):
            read({**GOOD, "redirect_uri": uri}, CLIENT, ISSUER, is_endpoint, WHERE)
    odd = Client("odd", "O", ("javascript:alert(1)",))  # whoever registered it
    for uri in ("", "javascript:alert(1)"):
        with pytest.raises(UnusableClient, match="has not registered"):
            read({**GOOD, "redirect_uri": uri}, odd, ISSUER, is_endpoint, WHERE)
    one = Client("one", "One", (BACK,))
    with pytest.raises(UnusableClient, match="has not registered"):
        read({**GOOD, "redirect_uri": OTHER}, one, ISSUER, is_endpoint, WHERE)
    assert read({**GOOD, "redirect_uri": ""}, one, ISSUER, is_endpoint, WHERE).redirect_uri == BACK


def test_a_parameter_comes_once() -> None:
    assert each_once({"a": "1"}, lambda _: 1) == {"a": "1"}
    with pytest.raises(OAuthError, match="'a' is given more than once"):
        each_once({"a": "1"}, lambda _: 2)


def test_a_client_that_registered_is_known_by_its_id_and_secret_alone() -> None:
    found = Registrations(SEAL)
    said = found.register({"redirect_uris": [BACK], "client_name": " A\u202eB ", "x": 1})
    id, secret = said["client_id"], said["client_secret"]
    client = found.find(id)
    assert client is not None
    assert client == Client(id, "AB", (BACK,), "client_secret_basic")
    found.check(client, secret)
    another = found.register({"redirect_uris": [BACK]})
    for wrong in ("", secret[:-1], another["client_secret"], id):
        with pytest.raises(UnusableClient, match="not the one that was given"):
            found.check(client, wrong)
    for unknown in ("", "else", id[:-1], id.removeprefix("armory_client_"), f"x{id}"):
        assert found.find(unknown) is None
    assert Registrations(Seal(["another-secret-of-it"])).find(id) is None
    assert Registrations(SEAL, ["https://b.example/"]).find(id) is None, "allowed no more"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "give 1 to 10"),
        ({"redirect_uris": [f"{BACK}/{number}" for number in range(11)]}, "give 1 to 10"),
        ({"redirect_uris": [BACK, "javascript:alert(1)"]}, "belongs to browsers"),
        ({"redirect_uris": [BACK, "https://b.example/"]}, "the operator does not allow it"),
        ({"redirect_uris": [BACK], "grant_types": ["implicit"]}, "lacks authorization_code"),
        ({"redirect_uris": [BACK], "response_types": ["token"]}, "lacks code"),
        ({"redirect_uris": [f"{BACK}/{'x' * 460}{n}" for n in range(9)]}, "too long in all"),
    ],
)
def test_what_cannot_be_registered(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(OAuthError, match=said):
        Registrations(SEAL, ["https://a.example/back*"]).register(asked)


def test_a_client_is_called_something() -> None:
    for name, shown in (
        (" ", "a client without a name"),
        ("x" * 101, "x" * 100),
        (7, "a client w"),
    ):
        said = Registrations(SEAL).register({"redirect_uris": [BACK, BACK], "client_name": name})
        assert said["client_name"].startswith(shown)
        assert len(said["client_name"]) <= 100
        assert said["redirect_uris"] == (BACK,)


def test_a_client_that_asks_for_what_there_is_not_has_no_secret() -> None:
    found = Registrations(SEAL)
    for method in ("none", "private_key_jwt", "tls_client_auth", 7):
        said = found.register({"redirect_uris": [OTHER], "token_endpoint_auth_method": method})
        assert said["token_endpoint_auth_method"] == "none"
        assert "client_secret" not in said
        client = found.find(said["client_id"])
        assert client is not None
        found.check(client, "whatever it says")


def test_a_client_of_the_operator_is_known_as_it_is_written() -> None:
    by_hand = {
        "desk": KnownClient(client_secret="the-secret", redirects=(BACK,)),
        "open": KnownClient("Open", redirects=(BACK,)),
    }
    found = Registrations(SEAL, by_hand=by_hand)
    desk, public = found.find("desk"), found.find("open")
    assert desk == Client("desk", "desk", (BACK,), "client_secret_basic")
    assert public == Client("open", "Open", (BACK,), "none")
    assert desk is not None
    found.check(desk, "the-secret")
    for wrong in ("", "the-secret "):
        with pytest.raises(UnusableClient, match="not the configured one"):
            found.check(desk, wrong)
