"""JSON in one form: the numbers and strings of RFC 8785."""

from __future__ import annotations

import json

import pytest

from armory.gateway.lists.canonical import canonical


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("333333333.33333329", "333333333.3333333"),
        ("1E30", "1e+30"),
        ("4.50", "4.5"),
        ("2e-3", "0.002"),
        ("0.000000000000000000000000001", "1e-27"),
        ("-0", "0"),
        ("-0.0", "0"),
        ("1.0", "1"),
        ("1e-6", "0.000001"),
        ("1e-7", "1e-7"),
        ("1.5e-7", "1.5e-7"),
        ("1e20", "100000000000000000000"),
        ("1.2345678901234568e20", "123456789012345680000"),
        ("1e21", "1e+21"),
        ("9007199254740992", "9007199254740992"),
        ("9223372036854775807", "9223372036854776000"),
        ("-9223372036854775808", "-9223372036854776000"),
        ("5e-324", "5e-324"),
        ("1.7976931348623157e308", "1.7976931348623157e+308"),
        ("1" * 400, "null"),
        ("-" + "1" * 400, "null"),
    ],
)
def test_numbers_are_those_of_ecmascript(said: str, written: str) -> None:
    assert canonical(json.loads(said)) == written


def test_members_are_sorted_and_strings_are_escaped_as_little_as_can_be() -> None:
    said = {"é": 1, "b": [True, False, None, {}], "a": '€$\u000f\nA\'B"\\\\"/\u007f\u2028'}
    text = canonical(said)
    assert text == (
        '{"a":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/\u007f\u2028","b":[true,false,null,{}],"é":1}'
    )
    assert json.loads(text) == said
