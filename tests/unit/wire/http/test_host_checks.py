"""From which hosts and origins requests are taken."""

from __future__ import annotations

import weakref

import pytest
from multidict import CIMultiDict

from armory.domain.hosts import is_loopback
from armory.errors import ConfigError
from armory.wire.http.host_checks import (
    PASSED,
    HostChecks,
    cors_headers,
    preflight_headers,
)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("x.y", False)],
)
def test_which_addresses_are_this_machines_own(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("localhost:8080", True),
        ("LOCALHOST", True),
        ("127.0.0.1:1", True),
        ("[::1]:80", True),
        ("gate.example", True),
        ("gate.example:99", True),
        ("port.example:8443", True),
        ("port.example", False),
        ("secure.example:443", True),
        ("secure.example", True),
        ("secure.example:8443", False),
        ("evil.example", False),
        ("gate.example:80@evil.example", False),
        ("localhost:80@evil.example", False),
        ("gate.example:80, evil.example", False),
        ("gate.example:\N{SUPERSCRIPT TWO}", False),
        ("gate.example:", True),
        ("", False),
        (None, False),
    ],
)
def test_hosts_on_loopback(host: str | None, allowed: bool) -> None:
    checks = HostChecks("127.0.0.1", ["Gate.example", "port.example:8443", "secure.example:443"])
    assert checks.host_allowed(host) is allowed
    assert checks.host_allowed(host) is allowed


def test_a_gateway_that_others_reach_takes_any_host_unless_told_which() -> None:
    assert HostChecks("0.0.0.0").host_allowed("anything")
    assert HostChecks("0.0.0.0").host_allowed(None)
    assert not HostChecks("0.0.0.0", ["gate.example"]).host_allowed("localhost")
    assert HostChecks("127.0.0.1", ["*"]).host_allowed("anything")


class Text(str):
    """A text of which can be told whether anybody still holds it."""

    __slots__ = ("__weakref__",)


def test_known_hosts_stay_bounded() -> None:
    checks = HostChecks("127.0.0.1")
    held: list[weakref.ref[Text]] = []
    for number in range(2_100):
        host = Text(f"h{number}")
        assert not checks.host_allowed(host)
        held.append(weakref.ref(host))
    assert checks.host_allowed("localhost")
    assert sum(host() is not None for host in held) < 1_100


@pytest.mark.parametrize(
    ("bind", "origin", "allowed"),
    [
        ("127.0.0.1", "http://localhost:3000", True),
        ("127.0.0.1", "https://[::1]", True),
        ("127.0.0.1", "file://localhost", False),
        ("127.0.0.1", "http://[", False),
        ("127.0.0.1", "null", False),
        ("127.0.0.1", "https://app.example", True),
        ("0.0.0.0", "http://localhost", False),
        ("0.0.0.0", "https://APP.example/", True),
        ("0.0.0.0", "https://other.example", False),
    ],
)
def test_own_and_configured_origins_are_allowed(bind: str, origin: str, allowed: bool) -> None:
    checks = HostChecks(bind, allowed_origins=["https://app.example/"])
    assert checks.origin_allowed(origin) is allowed
    assert HostChecks(bind, allowed_origins=["*"]).origin_allowed(origin)


def test_forwarding_headers_count_only_from_trusted_proxies() -> None:
    headers = CIMultiDict(
        {
            "Host": "inner",
            "X-Forwarded-Host": "outer",
            "X-Forwarded-For": "9.9.9.9, 1.2.3.4, 10.0.0.2",
        }
    )
    checks = HostChecks(trusted_proxies=["10.0.0.0/8"])
    assert checks.seen_as("10.0.0.1", headers) == ("1.2.3.4", "outer")
    assert checks.seen_as("1.1.1.1", headers) == ("1.1.1.1", "inner")
    assert checks.seen_as(None, headers) == (None, "inner")
    assert checks.seen_as("unix", headers) == ("unix", "inner")
    assert checks.seen_as("10.0.0.1", CIMultiDict({"Host": "h"})) == ("10.0.0.1", "h")
    assert HostChecks().seen_as("10.0.0.1", headers) == ("10.0.0.1", "inner")


def test_a_proxy_that_adds_a_line_of_its_own_is_believed_and_not_its_client() -> None:
    """As HAProxy does with `option forwardfor`."""
    lines = [("Host", "h"), ("X-Forwarded-For", "6.6.6.6"), ("x-forwarded-for", "1.2.3.4")]
    checks = HostChecks(trusted_proxies=["10.0.0.1"])
    assert checks.seen_as("10.0.0.1", CIMultiDict(lines)) == ("1.2.3.4", "h")
    told = checks.passed_on("10.0.0.1", "http", CIMultiDict(lines))
    assert told["X-Forwarded-For"] == "1.2.3.4"


def test_another_replica_says_how_it_saw_a_request() -> None:
    proxied = CIMultiDict(
        {"Host": "inner", "X-Forwarded-For": "6.6.6.6, 1.2.3.4", "X-Forwarded-Proto": "https"}
    )
    there, here = HostChecks(trusted_proxies=["10.0.0.1"]), HostChecks()
    here.hop = "secret"
    told = CIMultiDict({**there.passed_on("10.0.0.1", "http", proxied), "Host": "inner"})
    for said, seen, origin in (
        ("secret", "1.2.3.4", "https://inner"),
        ("1", "10.0.0.2", "http://inner"),
        ("\udcff", "10.0.0.2", "http://inner"),
    ):
        headers = CIMultiDict({**told, PASSED: said})
        assert here.seen_as("10.0.0.2", headers) == (seen, "inner")
        assert here.origin_of("10.0.0.2", "http", headers) == origin
    assert HostChecks().seen_as("10.0.0.2", CIMultiDict({**told, PASSED: ""}))[0] == "10.0.0.2"
    assert there.passed_on(None, "http", {}) == {"X-Forwarded-Proto": "http"}


def test_a_proxy_that_is_none_is_named() -> None:
    with pytest.raises(ConfigError, match=r"server\.trusted_proxies\[1\]"):
        HostChecks(trusted_proxies=["10.0.0.1", "proxy.example"])


@pytest.mark.parametrize(
    ("bind", "allowed", "itself"),
    [
        ("127.0.0.1", [], True),
        ("127.0.0.1", ["*"], False),
        ("0.0.0.0", [], False),
        ("0.0.0.0", ["gate.example"], True),
        ("0.0.0.0", ["gate.example", "*"], False),
    ],
)
def test_whether_a_url_is_its_own_or_one_that_a_sender_chose(
    bind: str, allowed: list[str], itself: bool
) -> None:
    assert HostChecks(bind, allowed).names_itself is itself


def test_a_network_may_be_written_by_an_address_in_it() -> None:
    checks = HostChecks(trusted_proxies=["10.1.2.3/8"])
    said = {"X-Forwarded-For": "1.2.3.4"}
    assert checks.seen_as("10.9.9.9", said)[0] == "1.2.3.4"
    assert checks.seen_as("11.1.2.3", said)[0] == "11.1.2.3"


def test_answers_to_browsers_name_what_is_allowed() -> None:
    assert cors_headers("https://a")["Vary"] == "Origin"
    assert preflight_headers("https://a", "x-one")["Access-Control-Allow-Headers"] == "x-one"
    assert "Mcp-Method" in preflight_headers("https://a", None)["Access-Control-Allow-Headers"]
