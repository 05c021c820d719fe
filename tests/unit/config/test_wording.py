"""Every message about a wrong value: its path, the value, what was expected, in Armory's words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

import pytest
import yaml

from armory.config.load import ConfigProblems, load_text
from armory.config.model import Config
from armory.config.problems import dotted
from armory.config.validation import SECRET_PARTS

FOREIGN = re.compile(
    r"[Ii]nput should|valid (string|integer|number|boolean|list)|([Ss]tring|[Vv]alue) should"
    r"|unable to|validation|[Pp]attern|(greater|less) than|fractional|JSON|dictionary"
    r"|None|True|False"
)
WRONG = (-1, 10**12, 1.5, True, float("nan"), "a word", [], {"a": 1})
Path = tuple[str | int, ...]


def places(schema: dict[str, Any], path: Path, seen: frozenset[str]) -> Iterator[Path]:
    """Where a value may stand; `some` for a name that a person chooses, entry 0 of each list."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name not in seen:
            yield from places(DEFINITIONS[name], path, seen | {name})
        return
    if path:
        yield path
    for part in schema.get("anyOf", ()):
        yield from places(part, path, seen)
    for key, inner in schema.get("properties", {}).items():
        yield from places(inner, (*path, key), seen)
    for keyword, step in (("additionalProperties", "some"), ("items", 0)):
        if isinstance(inner := schema.get(keyword), dict):
            yield from places(cast("dict[str, Any]", inner), (*path, step), seen)


SCHEMA = Config.model_json_schema()
DEFINITIONS = SCHEMA["$defs"]
PLACES = sorted(set(places(SCHEMA, (), frozenset())), key=str)


def told(path: Path, value: object) -> list[tuple[str, str]]:
    """(path, message) of each problem of a file with one value in it."""
    for part in reversed(path):
        value = [value] if isinstance(part, int) else {part: value}
    try:
        load_text(yaml.safe_dump(value), environ={})
    except ConfigProblems as found:
        return [(problem.path, problem.message) for problem in found.problems]
    return []


def test_every_key_is_there() -> None:
    assert len(PLACES) > 200
    assert ("upstreams", "some", "auth", "token_url") in PLACES


@pytest.mark.parametrize("block", sorted({str(path[0]) for path in PLACES}))
def test_no_message_has_words_of_the_library_and_each_says_what_is_there(block: str) -> None:
    for path in (path for path in PLACES if path[0] == block):
        for value in WRONG:
            for place, message in told(path, value):
                assert place, message
                assert not FOREIGN.search(message), (dotted(path), value, message)
                if message.startswith("expected ") and not SECRET_PARTS.intersection(path):
                    assert "; it is " in message, (dotted(path), value, message)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("server", "host"), 5, "expected text; it is 5; put it in quotes: '5'"),
        (("server", "port"), "a word", "expected a whole number; it is 'a word'"),
        (("server", "port"), 1.5, "expected a whole number; it is 1.5"),
        (("server", "port"), True, "expected a whole number; it is true"),
        (("server", "limits", "body_bytes"), 0, "expected at least 1; it is 0"),
        (("tool_rag", "enabled"), "a word", "expected true or false; it is 'a word'"),
        (("tool_rag", "ranker"), "semantics", "'semantic'?"),
        (("inherit_env",), 5, "expected a list; it is 5"),
        (("server", "base_path"), "x y", "expected a path as /armory"),
        (("server",), 5, "expected a mapping of keys; it is 5"),
        (("upstreams", "some", "url"), "ftp://x", "expected an http:// or https:// URL"),
        (("upstreams", "some", "url"), "http://x:70000/", "a port from 1 to 65535"),
        (("upstreams", "some", "url"), "http://user:hunter/22@x/", "expected a URL with a host"),
        (("upstreams", "some", "proxy"), "http://[::1", "expected a URL with a host"),
        (("security", "oauth", "proxy", "issuer"), "https:///x", "expected a URL with a host"),
        (("tool_rag", "miss_cost"), -1, "expected 'auto' or more than 0; it is -1"),
        (("upstreams", "some", "tools", "rename", "some"), "", "expected at least 1 character"),
        (("upstreams",), None, "expected a mapping of keys; it is empty; leave the key out"),
        (("server", "allowed_hosts"), None, "expected a list; it is empty; leave the key out"),
        (("upstreams", "some", "tags"), "one", "expected a list; it is 'one'; write it as ['one']"),
        (("security", "rate_limit"), 20, "expected a mapping of keys: per_s, burst; it is 20"),
        (("security", "tokens", "some"), "a", "expected a mapping of keys: token, scopes, user"),
    ],
)
def test_what_is_expected_is_said_in_plain_words(path: Path, value: object, message: str) -> None:
    said = [found for place, found in told(path, value) if place == dotted(path)]
    assert any(message in found for found in said)
    assert "hunter" not in str(said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("upstreams:\n  a: {command: x}\n   b: 1\n", "indented otherwise"),
        (" a: 1\nb: 2\n", "indented less"),
        ("upstreams:\n\ta: 1\n", "a tab"),
        ("server: port: 80\n", "a colon that cannot stand here"),
        ("server:\n  port\nb\n", "a colon is missing"),
        ("server: 'x\n", "quotes"),
        (
            "upstreams: {a: {args: [-y, @scope/server]}}\n",
            "begins with this character needs quotes",
        ),
        ("tools: {allow: [*]}\n", "begins with . or & needs quotes"),
        ("tools: {allow: [*_read]}\n", "begins with . needs quotes"),
        ("env: {TOKEN: !secret x}\n", "begins with ! needs quotes"),
        ("headers: {Authorization: Bearer ${DOCS}}\n", "between brackets needs quotes"),
        ("args: [-m, server\n", "closing bracket is missing"),
        ("args: [\n", "a bracket is not closed"),
        ("args: - one\n", "begins in a line of its own"),
        ("upstreams: {}\n---\nserver: {}\n", "'---' begins a second file"),
    ],
)
def test_usual_mistakes_of_yaml_are_told_in_words(text: str, said: str) -> None:
    with pytest.raises(ConfigProblems) as caught:
        load_text(text, environ={})
    (problem,) = caught.value.problems
    assert re.fullmatch(rf"broken YAML in column \d+: .*{said}.*", problem.message)
    assert not re.search("block|token|mapping|document|stream", problem.message)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("1: a", "1"),
        ("upstreams: {x: {command: y, env: {1: a}}}", "upstreams.x.env.1"),
        ("upstreams: {x: {command: y, tools: {rename: {1: a}}}}", "upstreams.x.tools.rename.1"),
        ("accounts: {plans: {free: {}, 1: {}}}", "accounts.plans.1"),
    ],
)
def test_a_number_for_a_key_is_told_where_it_stands(text: str, path: str) -> None:
    with pytest.raises(ConfigProblems) as caught:
        load_text(text, environ={})
    (problem,) = caught.value.problems
    assert (problem.path, problem.line) == (path, 1)
    assert problem.message == "a key is text here; put it in quotes: '1'"


@pytest.mark.parametrize("block", ["tool_rag: {openai", "tool_rag: {qdrant", "security: {jwt"])
def test_a_secret_in_place_of_its_block_is_not_shown(block: str) -> None:
    with pytest.raises(ConfigProblems) as caught:
        load_text(f"{block}: sk-hush-hush}}", environ={})
    assert "expected a mapping of keys" in str(caught.value)
    assert "hush" not in str(caught.value)
