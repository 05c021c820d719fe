"""Policy and the URIs of resources: what a pattern means for a URI that others read differently."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from armory.domain.catalog import ServerLists
from armory.domain.catalog_builder import build_catalog
from armory.domain.principal import ANONYMOUS
from armory.domain.uris import has_steps, plain
from armory.security.policy import Policy, Rule


@pytest.mark.parametrize(
    ("uri", "allowed"),
    [
        ("file:///public/a", True),
        ("file:///public/a%20b/%C3%BC", True),
        ("file:///public/secret", False),
        ("file:///public/%73ecret", False),
        ("file:///public/%2573ecret/x", False),
        ("FILE:///public/secret", False),
        ("file://LocalHost/public/secret", False),
        ("file:///public//secret", False),
        ("file:///public/..a", True),
        ("file:///public/../etc/passwd", False),
        ("file:///public/./a", False),
        ("file:///public/%2e%2E/etc", False),
        ("file:///public/%252e%252e%252fetc", False),
        ("file:///public/..\\etc", False),
        ("file:///public/?x=/../../etc", False),
        ("file:///public/..?x", False),
        ("file:///public/..#x", False),
        ("file:///public/..;x/etc", False),
        ("file:///public/a?b=..", True),
        ("file://../public/x", False),
        ("file:///etc/passwd", False),
        ("file:///etc/passwd#/public/a", False),
        ("file:///etc/passwd?/public/a", False),
        ("file:///etc/pas\nswd#/public/a", False),
        ("file:///public/a#part", True),
        ("file:///public/a?part", True),
    ],
)
def test_a_uri_is_allowed_as_whoever_opens_it_takes_it(uri: str, allowed: bool) -> None:
    rule = Rule(allow=("git+[Ff][Ii]*://*/public/*",), deny=("git+file:///public/secret*",))
    assert Policy([rule]).allows_uri(ANONYMOUS, "git", uri) is allowed
    assert Policy().allows_uri(ANONYMOUS, "git", uri)


def test_of_a_page_the_query_counts_and_the_fragment_does_not() -> None:
    policy = Policy([Rule(allow=("git+*/public/*",))])
    for uri, allowed in {
        "http://h/public/a#part": True,
        "HTTPS://h/etc/a#/public/a": False,
        "http://h/etc?of=/public/a": True,
        "doc://h/etc#/public/a": True,  # whose fragments nobody knows the meaning of
    }.items():
        assert policy.allows_uri(ANONYMOUS, "git", uri) is allowed, uri


def test_a_path_may_begin_with_a_step() -> None:
    allowing = Policy([Rule(allow=("*",))])
    for uri, allowed in {
        "file:../x": False,
        "file:..": False,
        "..": False,
        "urn:..x": True,
    }.items():
        assert allowing.allows_uri(ANONYMOUS, "git", uri) is allowed


def test_what_is_not_readable_is_not_listed() -> None:
    uris = ("file:///public/a", "FILE:///secret/a", "file:///public/%2e%2e/b", "file:///b%20c")
    skills = [
        {"uri": uri, "frontmatter": {"name": "b", "description": "what it is for"}}
        for uri in ("skill://b/SKILL.md", "skill://a/../b/SKILL.md")
    ]
    lists = ServerLists(
        resources=[{"uri": uri} for uri in uris],
        templates=[{"uriTemplate": "FILE:///secret/{x}"}],
        skills=skills,
    )
    listed = build_catalog({"git": lists})[0]
    policy = Policy([Rule(allow=("*",), deny=("git+file:///secret/*",))])
    visible = policy.visible_catalog(listed, ANONYMOUS)
    readable = {
        record.name
        for record in listed.resources.values()
        if policy.allows_uri(ANONYMOUS, "git", record.original_name)
    }
    assert visible.resources == readable == {"git+file:///public/a", "git+file:///b%20c"}
    assert visible.templates == frozenset()
    assert visible.skills == {"skill://git/b/SKILL.md"}
    assert len(Policy().visible_catalog(listed, ANONYMOUS).resources) == len(uris)


def test_what_a_uri_means_is_not_found_out_of_very_long_ones() -> None:
    longest, longer = (f"file:///{'%2541' * 20_000}"[:size] for size in (65_536, 65_537))
    ruled, free = Policy([Rule(allow=("*",))]), Policy()
    assert ruled.allows_uri(ANONYMOUS, "files", longest)
    assert not ruled.allows_uri(ANONYMOUS, "files", longer)
    assert free.allows_uri(ANONYMOUS, "files", longer)
    assert not ruled.bars_uri(ANONYMOUS, "files", longest)
    assert ruled.bars_uri(ANONYMOUS, "files", longer)
    lists = ServerLists(resources=[{"uri": longest}, {"uri": longer}])
    listed = build_catalog({"files": lists})[0]
    for policy, seen in ((ruled, 1), (free, 2)):
        assert len(policy.visible_catalog(listed, ANONYMOUS).resources) == seen


@given(st.text(alphabet="Fafile:/.2e?#;\\@localhost*-\n", max_size=40))
def test_how_a_uri_is_read_depends_on_no_encoding(text: str) -> None:
    encoded = "".join(f"%{ord(letter):02x}" for letter in text)
    for start in ("file://", "file:///a/", "http://"):
        assert plain(start + text) == plain(start + encoded)
        assert has_steps(start + text) is has_steps(start + encoded)


def test_plain_forms_of_uris() -> None:
    assert plain("HTTP://Example.ORG//a%2Fb") == "http://example.org/a/b"
    assert plain("Memo:x%20y") == "memo:x y"
    assert plain("https://me@Example.ORG.:443/a?b=c//#d") == "https://example.org/a?b=c//"
    assert plain("file:a\\b/?c") == "file:///a/b"
    assert plain("FILE://localhost/a") == "file:///a"
    assert plain("HTTP://LocalHost/a") == "http://localhost/a"
    assert plain("no uri") == "no uri"
    assert Policy([Rule(allow=("*",), deny=("ui://git/x",))]).allows_uri(ANONYMOUS, "git", "ui://y")
    assert not Policy([Rule(allow=("*",), deny=("ui://git/x",))]).allows_uri(
        ANONYMOUS, "git", "UI://x"
    )


def test_a_server_is_denied_whole_whatever_its_uris_begin_with() -> None:
    skill = {"uri": "skill://b/SKILL.md", "frontmatter": {"name": "b", "description": "a skill"}}
    lists = ServerLists(
        resources=[{"uri": "ui://panel"}, {"uri": "mem://x"}],
        templates=[{"uriTemplate": "ui://panel/{id}"}],
        skills=[skill],
    )
    listed = build_catalog({"git": lists, "web": lists})[0]
    policy = Policy([Rule(allow=("*",), deny=("git__*", "git+*"))])
    visible = policy.visible_catalog(listed, ANONYMOUS)
    assert visible.resources == {"ui://web/panel", "web+mem://x"}
    assert (visible.templates, visible.skills) == (
        {"ui://web/panel/{id}"},
        {"skill://web/b/SKILL.md"},
    )
    for uri in ("ui://panel", "UI://panel", "ui://%70anel", "skill://b/SKILL.md", "mem://x"):
        assert not policy.allows_uri(ANONYMOUS, "git", uri), uri
        assert policy.allows_uri(ANONYMOUS, "web", uri), uri
    assert policy.bars_uri(ANONYMOUS, "git", "ui://panel/{id}")
    some = Policy([Rule(allow=("*",), deny=("git+ui://panel",))])
    assert not some.allows_uri(ANONYMOUS, "git", "ui://panel")
    assert some.allows_uri(ANONYMOUS, "git", "ui://other")
