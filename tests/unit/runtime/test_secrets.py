"""Which values of a configuration are secret, and that no text shows them."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pytest
import yaml

from armory.cli.config.clear_secrets import clear_secrets
from armory.config import Config, load_text
from armory.config.source import composed
from armory.observability import redaction
from armory.observability.redaction import hide, redacted, redacted_value, secret_arguments
from armory.runtime.blocks.secrets import hide_secrets, secret_values
from armory.runtime.editing.secret_places import secret_places
from armory.upstreams.transports.http_failures import http_failure

SECRETS = {
    "security": {"tokens": {"main": {"token": "of-the-main-door", "scopes": ["admin"]}}},
    "storage": {"url": "postgresql://armory:pw%2Fof-base@db/armory"},
    "tool_rag": {"openai": {"api_key": "of-the-embedder"}},
    "upstreams": {
        "git": {
            "command": "git-server",
            "args": ["--api-key", "of-an-argument", "--token=of-another", "--root", "not-secret"],
            "env": {
                "GITHUB_TOKEN": "of-the-environment",
                "HOME_FOLDER": "not-secret-either",
                "BASE": "mysql://me:of-the-inner-url@db/x",
            },
        },
        "web": {
            "url": "https://host.example/mcp?api_key=of-the-query&region=not-a-secret",
            "headers": {"Authorization": "Bearer of-the-header", "X-Region": "not-a-secret"},
        },
        "api": {
            "openapi": "https://api.example/a1/projects/a-long-name-of-2026-01/openapi-3.1.json",
            "base_url": "https://api.example/v1?appid=0a1b2c3d4e5f6071&api-version=2024-02-15-beta",
        },
        "hosted": {"url": "https://h.example/s/NzQ5ZDk3YzAtMDQ5Mi00ODk3/mcp?key=of%2Bthe/path+3"},
    },
}


def test_every_configured_secret_is_known_and_nothing_else(tmp_path: Path) -> None:
    loaded = load_text(yaml.safe_dump(SECRETS), environ={"ARMORY_HOME": str(tmp_path)})
    assert secret_values(loaded.config) == {
        "of-the-main-door",
        "pw%2Fof-base",
        "pw/of-base",
        "of-the-embedder",
        "of-an-argument",
        "of-another",
        "of-the-environment",
        "of-the-inner-url",
        "of-the-query",
        "of-the-header",
        "0a1b2c3d4e5f6071",
        "NzQ5ZDk3YzAtMDQ5Mi00ODk3",
        *("of%2Bthe/path+3", "of+the/path+3", "of+the/path 3"),  # however it is written
    }


def test_parameters_of_upstreams_addresses_are_shown_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redaction, "_told", [])
    monkeypatch.setattr(redaction, "_told_parameters", [])
    weather = {"url": "https://h.example/mcp?appid=k1&units=metric"}
    remote = {"command": "npx", "args": ["mcp-remote", "http://h/?v=2#x"]}
    text = yaml.safe_dump({"upstreams": {"weather": weather, "remote": remote}})
    hide_secrets(load_text(text, environ={"ARMORY_HOME": str(tmp_path)}).config)
    said = "GET https://h.example/mcp?appid=k1&units=metric: 404; v=2, k1, ?v=2"
    shown = "GET https://h.example/mcp?appid=***&units=***: 404; v=2, k1, ?v=***"
    assert redacted(said) == shown


def test_where_a_redirect_leads_is_told_without_the_key_that_it_takes_over() -> None:
    failure = http_failure("up", 301, b"", leads_to="https://h.example/mcp/?appid=k1&x=a%20b#c")
    assert "'https://h.example/mcp/?appid=***&x=***#c'" in failure.message


def test_a_configured_value_is_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_told", [])
    hide(["plain words", "plain", "abc"])
    assert redacted("it said: plain words, and abc") == "it said: ***, and abc"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Error: API_KEY=abcdefg1234 is wrong", "Error: API_KEY=*** is wrong"),
        ('{"access_token": "abcdefg1234"}', '{"access_token": "***"}'),
        ("git clone https://ghp_0123456789abcdefghij@host.example/x", None),
        ("ghp_0123456789abcdefghij", "***"),
        ("invalid_token: the access token expired", "invalid_token: the access token expired"),
        ("password: required", "password: required"),
        ("ssh://git@host.example/x", "ssh://git@host.example/x"),
        ("see https://host.example/keys?page=2", "see https://host.example/keys?page=2"),
    ],
)
def test_what_has_the_form_of_a_secret_is_hidden_and_other_text_stays(
    text: str, shown: str | None
) -> None:
    found = redacted(text)
    assert "0123456789" not in found
    assert shown is None or found == shown


@pytest.mark.parametrize(
    "name",
    [
        "accessToken",
        "clientSecret",
        "x-api-key",
        "privateKey",
        "private_key",
        "userPassword",
        "pwd",
    ],
)
def test_values_by_the_name_of_a_secret_are_hidden(name: str) -> None:
    assert redacted_value("", {name: "abc", "nextPage": "abc", "monkey": "abc"}) == {
        name: "***",
        "nextPage": "abc",
        "monkey": "abc",
    }


def test_a_secret_is_hidden_as_json_and_urls_spell_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lone half of a character, which no URL has, is no reason to fail."""
    monkeypatch.setattr(redaction, "_told", [])
    secret = 'pa"ss\\wört/7'
    hide([secret, "half \ud800 of it"])
    for spelt in (secret, json.dumps({"a": secret}), json.dumps(secret, ensure_ascii=False)):
        assert "ss" not in redacted(spelt)
    assert redacted(f"GET /?q={quote(secret, safe='')}") == "GET /?q=***"


def test_secrets_that_change_again_and_again_are_not_all_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(redaction, "_told", [])
    monkeypatch.setattr(redaction, "_told_parameters", [])

    def told(place: int) -> Config:
        url = f"https://up.example/mcp?tenant={place}-of-many"
        upstream = {"url": url, "headers": {"Authorization": f"Bearer changing-{place:04d}"}}
        return load_text(json.dumps({"upstreams": {"up": upstream}})).config

    for place in range(100):
        hide_secrets(told(place))
    for _ in range(100):  # the same one again pushes none out
        hide_secrets(told(99))
    for place in (0, 85, 99):  # what it began with may take a restart to change
        assert redacted(f"changing-{place:04d}") == "***"
        assert redacted(f"https://x/?tenant={place}-of-many") == "https://x/?tenant=***"
    assert redacted("changing-0020") == "changing-0020"
    assert redacted("https://x/?tenant=20-of-many") == "https://x/?tenant=20-of-many"


@pytest.mark.parametrize(
    ("arguments", "secret"),
    [
        (["--token", "abc-def"], [(1, 0, "--token")]),
        (["--token=abc-def", "rest"], [(0, 8, "--token")]),
        (["run", "API_KEY=a=b"], [(1, 8, "API_KEY")]),
        (["--password", "-s3cret!"], [(1, 0, "--password")]),
        (["--token", "--verbose", "-v", "abc"], []),
        (["--token", "-v"], []),
        (["--max-tokens", "128000", "--max-tokens=4096"], []),
        (["--password", "123456", "--pass=1234"], [(1, 0, "--password"), (2, 7, "--pass")]),
        (["--token", "${TOKEN}"], [(1, 0, "--token")]),
        (["--token=", "abc", ""], []),
    ],
)
def test_what_of_a_commands_arguments_is_secret_is_said_once(
    arguments: list[str], secret: list[tuple[int, int, str]]
) -> None:
    assert list(secret_arguments(arguments)) == secret


def test_how_many_tokens_there_may_be_is_no_secret() -> None:
    arguments = ["--max-tokens", "128000", "--api-key", "of-an-argument"]
    text = yaml.safe_dump({"upstreams": {"up": {"command": "serve", "args": arguments}}})
    assert secret_values(load_text(text).config) == {"of-an-argument"}
    assert [text[start:end] for start, end in secret_places(text, composed(text))] == [
        "of-an-argument"
    ]
    found = clear_secrets({"up": {"command": "serve", "args": arguments}})
    assert [arguments[int(each.at)][each.start : each.end] for each in found] == ["of-an-argument"]
