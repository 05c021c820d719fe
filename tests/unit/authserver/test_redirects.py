"""Where people may be sent back to: in tables, beside what attackers try through a gateway."""

from __future__ import annotations

import pytest

from armory.authserver.redirects import is_allowed, is_registered, problem, shown


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("https://a.example/back", None),
        ("https://a.example:8443/back?x=1", None),
        ("http://127.0.0.1/", None),
        ("http://127.0.0.1:65535/cb", None),
        ("http://localhost:9/cb", None),
        ("http://LOCALHOST:9/cb", None),
        ("http://[::1]:9/cb", None),
        ("http://[::1]/cb", None),
        ("com.example.app:/cb", None),
        ("cursor://anysphere/cb", None),
        ("https://a.example/" + "x" * 482, None),
        ("https://a.example/" + "x" * 483, "at most 500 characters"),
        ("", "at most 500 characters"),
        ("https://a.example/#x", "no fragment"),
        ("https://a.example/ü", "ASCII"),
        ("https://a.example/ x", "ASCII"),
        ("/back", "absolute"),
        ("HTTPS://a.example/", "lower case"),
        ("https://ann@a.example/", "names no user"),
        ("https://a.example:80@b.example/", "names no user"),
        ("cursor://ann@a/", "names no user"),
        ("https://a.example:123456/", "1 to 5 digits"),
        ("https://a.example:8x/", "1 to 5 digits"),
        ("http://127.0.0.1:8x/", "1 to 5 digits"),
        ("https:///back", "names a host"),
        ("https:back", "names a host"),
        ("http://a.example/back", "on loopback"),
        ("http://127.0.0.1.a.example/", "on loopback"),
        ("http:///back", "on loopback"),
        ("https://a.example%2eb.example/", "without %"),
        ("https://[::1]a.example/", "1 to 5 digits"),
        ("https://a.]example/", "can be read"),
        ("https://a.example:99999/", "can be read"),
        ("cursor://a:80b/", "can be read"),
        ("javascript:alert(1)", "belongs to browsers"),
        ("data:text/html,x", "belongs to browsers"),
        ("blob:https://a.example/x", "belongs to browsers"),
    ],
)
def test_where_nobody_can_be_sent_safely(uri: str, said: str | None) -> None:
    found = problem(uri)
    assert found is None if said is None else said in (found or "")


@pytest.mark.parametrize(
    ("pattern", "fits", "others"),
    [
        (
            "https://*.a.example/cb",
            ["https://x.a.example/cb", "https://X.A.example/cb?x=1"],
            [
                "https://a.example/cb", "https://x.a.example/", "https://x.a.example:1/cb",
                "http://x.a.example/cb", "https://b.example/.a.example/cb",
            ],
        ),
        (
            "http://127.0.0.1:*/*",
            ["http://127.0.0.1:9/cb", "http://127.0.0.1/cb", "http://127.0.0.1:9/"],
            ["http://localhost:9/cb", "https://127.0.0.1:9/cb", "http://127.0.0.1:9@b.example/"],
        ),
        ("https://a.example:8443", ["https://a.example:8443/"], ["https://a.example:8443/cb"]),
        ("cursor://*/cb", ["cursor://anysphere/cb"], ["vscode://anysphere/cb", "cursor:/x"]),
        ("nonsense", [], ["https://a.example/", "nonsense"]),
    ],
)  # fmt: skip
def test_a_pattern_compares_each_part_by_itself(
    pattern: str, fits: list[str], others: list[str]
) -> None:
    for uri in fits:
        assert is_allowed(uri, ["https://nobody.example/", pattern]), uri
    for uri in others:
        assert not is_allowed(uri, [pattern]), uri
        assert is_allowed(uri, [])


@pytest.mark.parametrize(
    ("known", "uri", "registered"),
    [
        ("https://a.example/cb", "https://a.example/cb", True),
        ("https://a.example/cb", "https://a.example/cb/", False),
        ("https://a.example/cb", "https://a.example:443/cb", False),
        ("http://127.0.0.1/cb", "http://127.0.0.1:9/cb", True),
        ("http://127.0.0.1:8/cb", "http://127.0.0.1:9/cb", True),
        ("http://127.0.0.1:8/cb", "http://127.0.0.1/cb", True),
        ("http://[::1]/cb?x=1", "http://[::1]:9/cb?x=1", True),
        ("http://127.0.0.1/cb", "http://127.0.0.1:9/cb?x=1", False),
        ("http://127.0.0.1/cb", "http://127.0.0.1:9/cb/x", False),
        ("http://127.0.0.1/cb", "http://localhost:9/cb", False),
        ("http://127.0.0.1/cb", "https://127.0.0.1:9/cb", False),
        ("http://127.0.0.1/cb", "http://127.0.0.1:9@b.example/cb", False),
        ("http://127.0.0.1/cb", "http://127.0.0.1:99999999/cb", False),
        ("http://a.example/cb", "http://a.example:9/cb", False),
    ],
)
def test_on_loopback_the_port_may_be_another(known: str, uri: str, registered: bool) -> None:
    assert is_registered(uri, ["https://b.example/", known]) is registered


def test_people_are_told_where_it_leads() -> None:
    assert shown("https://A.example:8443/cb") == "a.example"
    assert shown("http://127.0.0.1:9/cb") == "a program on this computer"
    assert shown("cursor://x/cb") == "a program on this device (cursor:)"
