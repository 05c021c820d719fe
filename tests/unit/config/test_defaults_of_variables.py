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
        ("${principal:-nobody}", "nobody"),
        ("${A:-$${B}}", "${B}"),
        ("${B:-${C}}", "of b"),
        ('${A:-{"k": 1}}', '{"k": 1}'),
    ],
)
def test_a_default_may_hold_a_variable(text: str, said: str) -> None:
    assert argument(text, B="of b") == said


def test_a_default_as_shells_write_it_is_told() -> None:
    assert argument("${MY-OWN}", **{"MY-OWN": "x"}) == "x"
    with pytest.raises(ConfigProblems) as caught:
        argument("${PORT-8080}")
    (problem,) = caught.value.problems
    assert problem.message == (
        "the variable PORT-8080 is not set; set it, or write ${PORT:-8080} if '8080' is to be the "
        "default of PORT"
    )


def test_what_a_default_lacks_is_named() -> None:
    with pytest.raises(ConfigProblems, match="the variable C is not set"):
        argument("${A:-${C}}", B="of b")


def test_what_a_whole_upstream_lacks_is_named() -> None:
    with pytest.raises(ConfigProblems, match="the variable A is not set"):
        load_text("upstreams: {a: '${A}'}", environ={})


@pytest.mark.parametrize("text", ["upstreams: '${A}'", "storage: '${A}'", "storage: 3"])
def test_a_block_that_is_none_is_named(text: str) -> None:
    with pytest.raises(ConfigProblems) as caught:
        load_text(text, environ={})
    assert [problem.path for problem in caught.value.problems] == [text.partition(":")[0]]


def test_what_an_editor_would_ask_its_user_is_a_variable_here() -> None:
    with pytest.raises(ConfigProblems, match=r"asks an editor's user.*write \$\{MY_KEY\} and set"):
        argument("${input:my-key}", **{"my-key": "set"})


def test_only_where_the_gateway_connects_itself_a_password_is_encoded() -> None:
    assert argument("postgresql://me:${B}@db/x", B="p@/w") == "postgresql://me:p@/w@db/x"


def test_a_variable_as_shells_write_it_is_pointed_out_in_lists_too() -> None:
    text = "server: {allowed_hosts: [a.example, $HOST]}"
    (said,) = load_text(text, environ={"HOST": "b.example"}).notices
    assert said.startswith("server.allowed_hosts[1]: a $NAME is taken as it stands")


def test_a_password_out_of_a_default_is_encoded_in_a_url() -> None:
    text = "storage: {url: 'postgresql://me:${A:-${B}}@db/x'}"
    assert load_text(text, environ={"B": "p@/w"}).config.storage.url.endswith("me:p%40%2Fw@db/x")
