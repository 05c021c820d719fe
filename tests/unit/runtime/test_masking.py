"""A configuration as it is shown: no secret in it, and every character back when it is saved."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from armory.config import ConfigProblems, load_text
from armory.config.expand import referred
from armory.errors import ConfigError
from armory.observability import redaction
from armory.runtime.editing.masking import Masked
from armory.runtime.editing.message_redaction import redacted_message, values_in

FILE = """\
# top  token: hunter2
server: {port: 8080, metrics: {token: abc}}
security:
  tokens:
    root: {token: "s3cr'et", scopes: [admin]}
    ann:
      token: ${ANN_TOKEN}   # from the environment
      # token: oldsecret
    bob:
      token: ${BOB:-fallback}
  encryption_key: [one-key, 'two-key']
  jwt:
    secret: &same plain text secret
    issuer: https://issuer.example
upstreams:
  a:
    command: npx
    args: ["--api-key", "kkk", "--token=zzz", --db, "postgres://u:pw@h/x?password=foo", "--max-tokens=5"]
    env: {GITHUB_TOKEN: ghx, PLAIN: kept, KEY2: "Bearer ${X}"}
    headers: {Authorization: "Bearer ${T}", X-Api-Key: q}
    auth:
      private_key: |
        -----BEGIN
        abcdef
        -----END

      # after it
      client_secret: null
mcpServers:
  x: {command: y, env: {A_SECRET: *same, KEPT: "https://u:${P}@h"}}
tool_rag: {openai: {api_key: sk-abcdef123456}, max_tools: 12}
"""  # noqa: E501
SECRETS = (
    *("hunter2", "abc", "s3cr'et", "oldsecret", "fallback", "one-key", "two-key", "kkk", "zzz"),
    *("plain text secret", "u:pw", "foo", "ghx", "abcdef", "sk-"),
)
KEPT = (
    *("${ANN_TOKEN}", "# from the environment", "command: npx", "PLAIN: kept", "Bearer ${T}"),
    *("--max-tokens=5", "# after it", "client_secret: null", "*same", "u:${P}@h", "max_tools: 12"),
)


def test_keys_in_urls_are_hidden_whatever_they_are_called() -> None:
    key, other = "b6907d289e10d714a6e88b30761fae22", "1a2b3c4d5e6f7g8h9i0j"
    text = f"""\
upstreams:
  weather: {{openapi: "https://api.example/data/2.5/spec.json?appid={key}&units=metric"}}
  # hosted: {{url: https://mcp.example/s/{other}/mcp}}
  args: {{command: npx, args: [mcp-remote, https://mcp.example/v1/{other}/sse]}}
"""
    masked = Masked(text)
    assert key not in masked.shown
    assert other not in masked.shown
    for kept in ("https://api.example/data/2.5/spec.json?appid=<", ">&units=metric", "/mcp"):
        assert kept in masked.shown
    assert masked.restored(masked.shown).text == text


def test_short_keys_in_addresses_are_hidden_from_who_may_not_edit() -> None:
    text = """\
upstreams:
  weather: {url: "https://api.example/mcp?appid=k1&units=${UNITS}&q", args: [x, "http://h/?v=2"]}
  # other: {url: https://api.example/mcp?appid=k0#part}
storage: {url: "postgresql://u@h/x?sslmode=require"}
"""
    assert Masked(text).shown == text
    masked = Masked(text, parameters=True)
    assert masked.hidden == ("k1", "2", "k0")
    assert masked.restored(masked.shown).text == text


def test_secrets_are_hidden_and_nothing_else() -> None:
    shown = Masked(FILE).shown
    for secret in SECRETS:
        assert secret not in shown, secret
    for text in KEPT:
        assert text in shown, text


def test_an_edit_keeps_what_is_hidden_and_moves_with_its_lines() -> None:
    masked = Masked(FILE)
    assert masked.restored(masked.shown) == masked.unedited
    assert masked.unedited.text == FILE
    edited = masked.shown.replace("command: npx", "command: uvx").replace("port: 8080, ", "")
    restored = masked.restored(edited)
    assert restored.text == FILE.replace("command: npx", "command: uvx").replace("port: 8080, ", "")
    # the key of several lines is one line where it is hidden
    written = restored.text.splitlines()
    for line, text in enumerate(written, 1):
        shown = edited.splitlines()[(restored.shown_line(line) or 0) - 1]
        assert text.strip() == shown.strip() or "<hidden-" in shown or "-----END" in text


def test_what_is_parsed_to_mask_it_is_loaded_as_it_is() -> None:
    text = (
        "upstreams: {a: &a {command: x, env: {T: y}}, b: {<<: *a, command: z}}\nserver: {port: 1}\n"
    )
    masked = Masked(text)
    assert masked.shown == text
    loaded, again = load_text(text, node=masked.node), load_text(text)
    assert loaded.config == again.config
    assert loaded.place(("upstreams", "b", "env")) == again.place(("upstreams", "b", "env"))


def test_a_new_value_takes_the_place_of_a_hidden_one() -> None:
    masked = Masked("server: {metrics: {token: old-one}}\n")
    assert masked.shown == "server: {metrics: {token: <hidden-1>}}\n"
    assert masked.restored("server: {metrics: {token: new}}\n").text.count("new") == 1


@pytest.mark.parametrize("mark", ["<hidden-2>", "<hidden-0>", "<hidden-", "<hidden-1"])
def test_a_mask_is_never_written(mark: str) -> None:
    masked = Masked("a: 1\nserver: {metrics: {token: old-one}}\n")
    with pytest.raises(ConfigProblems) as refused:
        masked.restored(f"server:\n  host: {mark}\n")
    assert refused.value.problems[0].line == 2


def test_a_text_that_looks_like_a_mask_is_not_taken_for_one() -> None:
    text = "server: {host: <hidden-1>, metrics: {token: old-one}}\n"
    masked = Masked(text)
    assert "host: <hidden-1>" in masked.shown
    assert "token: <hidden1-1>" in masked.shown
    assert masked.restored(masked.shown).text == text


def test_newlines_stay_those_of_the_file() -> None:
    text = "# one\r\nserver:\r\n  metrics: {token: old-one}\r\n"
    masked = Masked(text)
    through_a_browser = masked.shown.replace("\r\n", "\n")
    assert masked.restored(through_a_browser).text == text


def test_values_in_force_are_hidden_wherever_they_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_known", ["value-in-force"])
    shown = Masked("# it was value-in-force\nupstreams: {a: {command: value-in-force}}\n").shown
    assert shown == "# it was <hidden-1>\nupstreams: {a: {command: <hidden-2>}}\n"


def test_of_a_file_that_is_no_yaml_nothing_is_shown() -> None:
    with pytest.raises(ConfigError, match="no YAML"):
        _ = Masked("server: {metrics: {token: abc\n").shown


_VALUES = st.sampled_from(
    ["token", "<hidden-1>", "s: x", "'q'", '"d"', "# c", "|\n      x\n", "&a b", "${V}", "é\u2028"]
)
_NAMES = st.sampled_from(["a_token", "x", "env"])


@given(st.lists(st.tuples(_NAMES, _VALUES), max_size=6))
def test_whatever_can_be_shown_comes_back(pairs: list[tuple[str, str]]) -> None:
    text = "server:\n" + "".join(f"  {name}: {value}\n" for name, value in pairs)
    masked = Masked(text)
    try:
        shown = masked.shown
    except ConfigError:
        return
    assert masked.restored(shown) == masked.unedited
    assert masked.unedited.text == text


@pytest.mark.parametrize(
    "edited",
    [
        "tool_rag: {{ranker: {}}}\n",
        "upstreams: {{a: {{command: x, args: [{}]}}}}\n",
        "# it is {} by now\n",
        "upstreams: {{a: {{command: x, env: {{PLAIN: {}}}}}}}\n",
        "sets: {{{}: {{}}}}\n",
    ],
)
def test_a_hidden_value_stays_where_it_is_hidden(edited: str) -> None:
    """Else whoever moves it reads it, in what is shown next or in the message of a problem."""
    masked = Masked("# token: once-it-was\nserver: {metrics: {token: old-one}}\n")
    for mark in ("<hidden-1>", "<hidden-2>"):
        with pytest.raises(ConfigProblems, match="no secret is expected") as refused:
            masked.restored("server: {}\n" + edited.format(mark))
        assert refused.value.problems[0].line == 2
        assert mark in str(refused.value)
    elsewhere = (
        "upstreams: {a: {url: http://x, headers: {X-Api-Key: <hidden-2>}}}\n# key: <hidden-1>\n"
    )
    assert masked.restored(elsewhere).text.count("old-one") == 1


def test_messages_do_without_values() -> None:
    hidden, variables = ["'Secret one'", "x" * 90, "abc"], {"HOME_KEY": "it's\n"}
    for message, told in (
        ("no plan is called 'secret ONE' here", "no plan is called '***' here"),
        (f"it is '{'x' * 76}...", "it is '***..."),
        ('"it\'s" is no address', '"${HOME_KEY}" is no address'),
        ("abc is short", "abc is short"),
    ):
        assert redacted_message(message, hidden, variables) == told
    assert redacted_message(repr("it's\nmore"), (), {"K": "it's\nmore"}) == '"${K}"'
    assert referred("${A} ${env:B} $${C} ${D:-x${E}}") == {"A", "B", "D", "E"}


def test_where_the_env_file_cannot_be_read_the_environment_is_hidden_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text("A=x\n", encoding="utf-16")
    monkeypatch.setenv("KEY", "a-secret")
    known = values_in(tmp_path / "armory.yaml", "a: ${KEY} ${A}")
    assert known == {"KEY": "a-secret"}
