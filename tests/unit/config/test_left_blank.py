"""What `${VAR:-}` leaves of an unset variable is nothing said; queries are as callers send them."""

from __future__ import annotations

import pytest

from armory.config import load_text
from tests.unit.config.refused import problems


def test_an_unset_variable_is_no_query_of_a_set() -> None:
    text = "upstreams: {a: {command: x}}\nsets: {s: {servers: [a], query: '${JOB:-}'}}"
    assert load_text(text, environ={}).config.sets["s"].query is None
    assert load_text(text, environ={"JOB": "mail"}).config.sets["s"].query == "mail"


def test_an_unset_variable_is_no_user_whom_tokens_would_share() -> None:
    text = "security: {tokens: {a: {token: a-long-enough-token, user: '${WHO:-}'}}}"
    assert load_text(text, environ={}).config.security.tokens["a"].user is None
    assert load_text(text, environ={"WHO": "ann"}).config.security.tokens["a"].user == "ann"


@pytest.mark.parametrize(
    ("query", "limits", "path", "said"),
    [
        ("'  '", "{}", "sets.s.query", "it is blank"),
        ("[mail, '${JOB:-}']", "{}", "sets.s.query[1]", "it is blank"),
        (f"'{'x' * 8_001}'", "{}", "sets.s.query", "8,001 characters"),
        ("[write mail, read]", "{query_chars: 13}", "sets.s.query", "query_chars allows 13"),
    ],
)
def test_a_query_that_no_caller_could_send_is_refused(
    query: str, limits: str, path: str, said: str
) -> None:
    text = f"server: {{limits: {limits}}}\nsets: {{s: {{tools: [a], query: {query}}}}}"
    found = problems(text)
    assert list(found) == [path]
    assert said in found[path]


def test_a_query_of_the_length_that_callers_may_send_is_taken() -> None:
    text = "server: {limits: {query_chars: 14}}\nsets: {s: {tools: [a], query: [write mail, read]}}"
    assert load_text(text, environ={}).config.sets["s"].query == ["write mail", "read"]
