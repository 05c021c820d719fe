"""What is valid and still said."""

from __future__ import annotations

import pytest
import yaml

from armory.config import load_text, warnings_of

LOGS_IN = "security: {oauth: {issuer: 'https://login.example', client_id: armory}%s}\n"
HOSTS = "server: {allowed_hosts: [tools.example]}\n"
REDIS = "storage: {redis: 'redis://cache/0'}\n"
KEY = ", encryption_key: ['abcdefghijklmnopqrstuvwxyz012345']"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LOGS_IN % "" + HOSTS + REDIS, True),
        (LOGS_IN % "" + HOSTS, False),
        (LOGS_IN % KEY + HOSTS + REDIS, False),
        (HOSTS + REDIS, False),
    ],
)
def test_replicas_that_log_people_in_to_the_console_need_one_key(text: str, said: bool) -> None:
    warnings = warnings_of(load_text(text, environ={}).config)
    assert any("security.encryption_key" in warning for warning in warnings) == said


@pytest.mark.parametrize(
    ("oauth", "said"),
    [
        ("scopes: [mcp:use, admin], proxy: {%s}", True),
        ("scopes: [mcp:use], proxy: {%s}", False),
        ("scopes: [admin], issuer: 'https://login.example'", False),  # there it is asked for
    ],
)
def test_that_everybody_who_logs_in_would_administer_is_pointed_out(oauth: str, said: bool) -> None:
    proxy = "issuer: 'https://login.example', client_id: armory"
    text = f"security: {{oauth: {{{oauth.replace('%s', proxy)}}}}}\n{HOSTS}"
    warnings = warnings_of(load_text(text, environ={}).config)
    assert any("an administrator" in warning for warning in warnings) == said


TOKENS = "tokens: {ci: {token: a-token-for-a-test, scopes: [deploy]}}"


@pytest.mark.parametrize(
    ("claim", "who", "said"),
    [
        ("login", "[ci]", True),
        ("login", "[octocat, 'c*']", True),
        ("login", "[deploy]", True),
        ("login", "[admin]", True),  # the scope, wherever it comes from
        ("login", "[use]", True),
        ("login", "[octocat]", False),
        ("login", "['*']", False),
        ("sub", "[ci]", False),  # which nobody chooses
    ],
)
def test_that_a_person_may_choose_the_name_of_a_token_is_pointed_out(
    claim: str, who: str, said: bool
) -> None:
    oauth = f"oauth: {{issuer: 'https://login.example', user_claim: {claim}, scopes: [use]}}"
    rule = f"policies: [{{allow: [a__b]}}, {{who: {who}, allow: ['*']}}]"
    text = f"security: {{{oauth}, {TOKENS}, {rule}}}\n{HOSTS}"
    warnings = warnings_of(load_text(text, environ={}).config)
    assert any("security.policies.1.who" in warning for warning in warnings) == said


@pytest.mark.parametrize("text", ["$TOKEN", "Bearer $TOKEN", "${TOKEN", "${}", "a ${TOKEN:?no}"])
def test_what_looks_like_a_reference_and_is_none_is_told_and_not_quoted(text: str) -> None:
    config = f"mcpServers: {{Far: {{url: 'http://x', headers: {{Key: '{text}'}}}}}}"
    loaded = load_text(config, environ={})
    assert loaded.config.upstreams["far"].headers == {"Key": text}
    (notice,) = [said for said in loaded.notices if "as it stands" in said]
    assert notice.startswith("mcpServers.Far.headers.Key: ")
    assert "write ${NAME}" in notice
    assert "TOKEN" not in notice


@pytest.mark.parametrize(
    "block",
    [
        "env: {A: '${B}'}",
        "env: {A: '${B:-${C}}'}",
        "env: {A: '$${B}'}",
        "env: {A: 'pa$$word', B: 'a $B c', C: '$1', D: '$'}",
        "env: {A: '${principal}'}",
        "args: [-c, '$HOME', '${1:?none}']",
    ],
)
def test_references_and_other_signs_are_not_pointed_out(block: str) -> None:
    text = f"upstreams: {{a: {{command: sh, {block}}}}}"
    assert load_text(text, environ={"B": "$SECRET", "C": "c"}).notices == ()


@pytest.mark.parametrize(
    ("security", "said"),
    [
        ("", True),
        ("security: {tokens: {ci: {token: a-token-for-a-test}}}", True),
        ("security: {allow_anonymous: true}", False),
        (LOGS_IN % "", False),
    ],
)
def test_whom_a_proxy_lets_in_without_a_credential_is_pointed_out(
    security: str, said: bool
) -> None:
    text = f"server: {{trusted_proxies: [127.0.0.1], allowed_hosts: [tools.example]}}\n{security}"
    warnings = warnings_of(load_text(text, environ={}).config)
    assert any("come through server.trusted_proxies" in line for line in warnings) == said
    assert not any("only this machine reaches" in line for line in warnings)


@pytest.mark.parametrize(
    ("jwt", "said"),
    [
        ("jwks_url: 'https://login.example/keys'", "without issuer and audience"),
        ("jwks_url: 'https://login.example/keys', issuer: 'https://a'", "without audience"),
        ("jwks_url: 'https://login.example/keys', audience: armory", "without issuer"),
        ("jwks_url: 'https://login.example/keys', audience: armory, issuer: 'https://a'", ""),
        ("secret: 'a-secret-of-at-least-32-characters', algorithms: [HS256]", ""),
    ],
)
def test_that_tokens_for_anybody_would_be_taken_is_pointed_out(jwt: str, said: str) -> None:
    warnings = warnings_of(load_text(f"security: {{jwt: {{{jwt}}}}}", environ={}).config)
    found = [warning for warning in warnings if warning.startswith("security.jwt: ")]
    assert [said in warning for warning in found] == ([True] if said else [])


@pytest.mark.parametrize(
    "rag",
    [
        {"embedding_model": "text-embedding-3-small"},
        {"embedding_provider": "openai"},
        {"embedding_provider": "openai", "embedding_model": "mine"},
    ],
)
def test_the_way_out_of_a_missing_key_is_one(rag: dict[str, str]) -> None:
    def of_keys(block: dict[str, str]) -> list[str]:
        said = warnings_of(load_text(yaml.safe_dump({"tool_rag": block}), environ={}).config)
        return [line for line in said if "needs an OpenAI key" in line]

    (said,) = of_keys(rag)
    way = said.rpartition("or say `")[2].partition("`")[0]
    assert of_keys({**rag, **yaml.safe_load(f"{{{way}}}")}) == []


@pytest.mark.parametrize(
    ("policies", "said"),
    [
        ("[{}]", "security.policies: what no rule allows is denied, and no rule allows anything"),
        ("[{deny: ['git__*']}]", "security.policies: what no rule allows is denied"),
        ("[{allow: ['*']}, {who: [ann]}]", "security.policies.1: it neither allows nor denies"),
        ("[{allow: ['*']}, {who: [ann], deny: ['git__*']}]", ""),
        ("[]", ""),
    ],
)
def test_rules_that_allow_nobody_anything_are_pointed_out(policies: str, said: str) -> None:
    config = load_text(f"security: {{policies: {policies}}}\n", environ={}).config
    found = [warning for warning in warnings_of(config) if "security.policies" in warning]
    assert len(found) == bool(said)
    assert all(warning.startswith(said) for warning in found)


def test_a_rule_for_a_token_that_names_it_as_the_audit_does_is_pointed_out() -> None:
    text = """
    security:
      tokens: {ci: {token: "a-token-of-at-least-thirty-two-characters"}}
      policies: [{who: ["token:ci", "ci", "token:gone"], allow: ["*"]}]
      quotas: [{who: ["token:c*"], calls_per_day: 1}]
    """
    said = [one for one in warnings_of(load_text(text, environ={}).config) if ".who" in one]
    assert [one.split("; ")[0] for one in said] == [
        "security.policies.0.who: 'token:ci' is no token",
        "security.quotas.0.who: 'token:c*' is no token",
    ]
    assert said[0].endswith("so say 'ci'")
