"""Variables in the configuration: filled in, missing, secret, and inside URLs."""

from __future__ import annotations

import pytest

from armory.config import ConfigProblems, load_text
from tests.unit.config.refused import problems


def test_variables_are_filled_and_defaults_count_for_empty_ones() -> None:
    text = """
upstreams:
  a: {url: "https://${HOST}/mcp", headers: {A: "${X:-none}", B: "${env:Y}", C: "$${Z}"}}
server: {port: "${PORT:-9000}"}
"""
    config = load_text(text, environ={"HOST": "h.example", "X": "", "Y": "y"}).config
    assert config.upstreams["a"].url == "https://h.example/mcp"
    assert config.upstreams["a"].headers == {"A": "none", "B": "y", "C": "${Z}"}
    assert config.server.port == 9000


def test_missing_variables_are_named_by_path_each() -> None:
    text = 'upstreams: {a: {url: "${U}", headers: {Authorization: "Bearer ${T}"}}}'
    found = problems(text)
    assert "variable U is not set" in found["upstreams.a.url"]
    assert "variable T is not set" in found["upstreams.a.headers.Authorization"]


def test_the_principal_is_left_for_later_in_upstreams_alone() -> None:
    text = 'upstreams: {a: {command: x, args: ["--file", "${principal}.json"]}}'
    assert load_text(text, environ={}).config.upstreams["a"].args[1] == "${principal}.json"
    assert "server.host" in problems('server: {host: "${principal}"}')


def test_secrets_never_show_in_messages() -> None:
    with pytest.raises(ConfigProblems) as caught:
        load_text(
            "security: {tokens: {a: {token: [hush-hush], scopes: 3}}}\n"
            'upstreams: {a: {url: "ftp://user:hush-hush@h", headers: hush-hush}}',
            environ={},
        )
    assert "hush-hush" not in str(caught.value)


def test_a_variable_shows_as_it_is_written_not_as_it_is_filled() -> None:
    with pytest.raises(ConfigProblems) as caught:
        load_text('server: {port: "${PORT}"}', environ={"PORT": "hush-hush"})
    assert "${PORT}" in str(caught.value)
    assert "hush-hush" not in str(caught.value)


PASSWORDS = {
    "plain-1": "plain-1",
    "p@ss/w#rd?": "p%40ss%2Fw%23rd%3F",
    "half%percent": "half%25percent",
    "already%40encoded": "already%40encoded",
    "me:p@ss": "me:p%40ss",
    "from-a-file\n": "from-a-file",
}


@pytest.mark.parametrize("password", PASSWORDS)
def test_a_password_that_a_variable_brings_is_encoded_where_a_url_asks_for_it(
    password: str,
) -> None:
    text = (
        "storage:\n"
        "  url: postgresql://armory:${PW}@${HOST:-db/x}:5432/${NAME}?a=${PW}\n"
        "  redis: rediss://:${PW}@redis/0\n"
        "upstreams: {a: {url: https://h/mcp, headers: {Authorization: 'Basic ${PW}'}}}\n"
    )
    environ = {"PW": password, "HOST": "pg", "NAME": "tools"}
    config = load_text(text.replace("db/x", "db"), environ=environ).config
    encoded, bare = PASSWORDS[password], password.rstrip("\n")
    assert config.storage.url == f"postgresql://armory:{encoded}@pg:5432/tools?a={bare}"
    assert config.storage.redis == f"rediss://:{encoded}@redis/0"
    assert config.upstreams["a"].headers == {"Authorization": f"Basic {bare}"}


@pytest.mark.parametrize("url", ["u:p@ss@h/d", "u:p/ss@h/d", "u:p#ss@h/d", "u:p?ss@h/d"])
@pytest.mark.parametrize("kind", ["url", "redis"])
def test_a_password_that_tears_its_url_apart_is_refused_without_being_shown(
    kind: str, url: str
) -> None:
    scheme = {"url": "postgresql", "redis": "redis"}[kind]
    found = problems(f"storage: {{{kind}: '${{WHOLE}}'}}", WHOLE=f"{scheme}://{url}")
    (message,) = found.values()
    assert list(found) == [f"storage.{kind}"]
    assert "%40" in message
    assert "ss@" not in message


def test_newlines_at_the_end_of_secrets_go_and_those_of_a_server_s_environment_stay() -> None:
    text = (
        "security: {tokens: {main: {token: '${T}'}}}\n"
        "upstreams: {a: {command: x, args: ['${T}'], env: {KEY: '${T}'}}}\n"
    )
    config = load_text(text, environ={"T": "secret\r\n"}).config
    assert config.security.tokens["main"].token.get_secret_value() == "secret"
    assert config.upstreams["a"].env == {"KEY": "secret\r\n"}
    assert config.upstreams["a"].args == ["secret"]
