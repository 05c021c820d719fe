"""Secrets in JSON: what is named like one, and what has its form, however long the text is."""

from __future__ import annotations

import json

import pytest

from armory.observability.redaction import hide, redacted, redacted_json, redacted_value

GIVEN = {
    "user": "ann",
    "password": "correct horse",
    "apiKey": 'a"b\\',
    "db-password": 1234,
    "tokens": ["one", "two"],
    "credentials": {"a": {"b": ["s}]", {"c": 1}], "d": '\\"'}, "e": {}, "token": {}},
    "api_key": [[["x"]], {"y": []}],
    "login": {"secret": {"value": "x"}, "passwd": "", "cookie": None, "tokenizer": "words"},
}


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_members_that_are_named_like_a_secret_are_hidden_as_in_logs(
    separators: tuple[str, str],
) -> None:
    told = json.loads(redacted_json(json.dumps(GIVEN, separators=separators)))
    assert told == redacted_value("", GIVEN)
    login = {"secret": "***", "passwd": "", "cookie": None, "tokenizer": "words"}
    assert told["login"] == login


@pytest.mark.parametrize(
    "secret", ["Bearer " + "a1" * 40, "sk-" + "b2" * 9_000, "token=c3c3c3c3c3"]
)
def test_a_secret_is_found_wherever_a_long_text_is_searched_in_pieces(secret: str) -> None:
    for before in (*range(8_100, 8_200, 9), *range(8_185, 8_195), 14_300, 50_000):
        text = "x " * (before // 2) + "," * (before % 2) + secret + " y" * 9_000
        assert redacted_json(text) == redacted(text)
        assert "***" in redacted(text)


@pytest.mark.parametrize("length", [1, 5_000, 9_000, 50_000])
def test_so_is_what_stands_under_a_name(length: int) -> None:
    for before in (0, 8_150, 8_180, 8_192, 8_200):
        given = {"x": "y" * before, "password": "p " * length, "tokens": ["q"] * length, "z": "é"}
        told = json.loads(redacted_json(json.dumps(given)))
        assert told == {**given, "password": "***", "tokens": "***"}


@pytest.mark.parametrize("within", [9_000, 50_000])
def test_so_is_all_that_stands_within(within: int) -> None:
    for before in (0, 8_150, 8_180, 8_192):
        inner = {"a": [{"b": "p{" * within}], "password": [within], "c": {"d": ["q"] * within}}
        given = {"x": "y" * before, "token": inner, "password": [[["r"]]], "z": ["é"]}
        told = json.loads(redacted_json(json.dumps(given)))
        assert told == {**given, "password": "***", "token": "***"}


def test_what_is_cut_within_a_secret_shows_nothing_of_it() -> None:
    text = '{"x": 1, "password": {"a": [{"b": "secret"}, {"c": "secret"}]}}'
    for end in range(text.index("{", 1) + 1, len(text)):
        assert "secret" not in redacted_json(text[:end])


def test_a_configured_secret_is_found_as_other_languages_write_it() -> None:
    hide(['a/b+c&d"e'])
    for written in (
        r"a\/b+c&d\"e",  # PHP
        r"a/b+c\u0026d\"e",  # Go
        r"a/b\u002Bc\u0026d\u0022e",  # .NET
    ):
        assert redacted(f'no such key: "{written}"') == 'no such key: "***"'


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (r'{"passw\u006Frd":"geheim"}', {"password": "***"}),
        (r'{"x":"pa\/th\u002Bk\u00E9y\/"}', {"x": "***"}),
        (r'{"x":"\\u006f\ud83d\ude00\u0022\n\/"}', {"x": '\\u006f\U0001f600"\n/'}),
        (r'{"x":"{\"token\": \"abcdefg1\"}"}', {"x": '{"token": "***"}'}),
    ],
)
def test_a_secret_is_found_however_json_is_written(written: str, shown: dict[str, str]) -> None:
    """Encoders of PHP and .NET escape what need not be."""
    hide(["pa/th+kéy/"])
    for before in (0, *range(8_160, 8_200)):
        text = f'{{"before":"{"," * before}",{written[1:]}'
        assert json.loads(redacted_json(text)) == {"before": "," * before, **shown}
