"""`${VAR:-default}` where the default holds a variable itself."""

from __future__ import annotations

import pytest

from armory.config import ConfigProblems, load_text


def argument(text: str, **environ: str) -> str:
    loaded = load_text(f"upstreams: {{a: {{command: x, args: ['{text}']}}}}", environ=environ)
    return loaded.config.upstreams["a"].args[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("${A:-${B}}", "of b"),
        ("${A:-x-${B}-y}", "x-of b-y"),
        ("${A:-${C:-c}}", "c"),
        ("${A:-${principal}}", "${principal}"),
        ("${A:-$${B}}", "${B}"),
        ("${B:-${C}}", "of b"),
        ('${A:-{"k": 1}}', '{"k": 1}'),
    ],
)
def test_a_default_may_hold_a_variable(text: str, said: str) -> None:
    assert argument(text, B="of b") == said


def test_what_a_default_lacks_is_named() -> None:
    with pytest.raises(ConfigProblems, match="the variable C is not set"):
        argument("${A:-${C}}", B="of b")


def test_a_password_out_of_a_default_is_encoded_in_a_url() -> None:
    text = "storage: {url: 'postgresql://me:${A:-${B}}@db/x'}"
    assert load_text(text, environ={"B": "p@/w"}).config.storage.url.endswith("me:p%40%2Fw@db/x")
