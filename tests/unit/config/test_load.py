from __future__ import annotations

import pytest

from armory.config import ConfigProblems, load_text, warnings_of
from armory.config.source import Source
from tests.unit.config.refused import problems

A7 = """
tool_rag:
  enabled: true
  embedding_model: "text-embedding-3-small"
  similarity_threshold: 0.5
  cache_embeddings: true
"""


def lines(text: str, **environ: str) -> dict[str, int | None]:
    with pytest.raises(ConfigProblems) as caught:
        load_text(text, environ=environ)
    return {problem.path: problem.line for problem in caught.value.problems}


def test_an_empty_file_is_every_default() -> None:
    config = load_text("", environ={"ARMORY_HOME": "/home/a"}).config
    assert config.server.port == 8080
    assert config.tool_rag.ranker == "relevance"
    assert config.storage.url == "sqlite:////home/a/armory.db"
    assert config.storage.cache_dir == "/home/a/cache"


def test_the_block_of_the_documentation_is_valid_and_the_missing_key_is_said() -> None:
    loaded = load_text(A7, environ={})
    (warning,) = [text for text in warnings_of(loaded.config) if "OpenAI" in text]
    assert "OPENAI_API_KEY" in warning
    assert "embedding_model: embedded" in warning


def test_with_a_key_nothing_is_said_about_it() -> None:
    loaded = load_text(A7, environ={"OPENAI_API_KEY": "sk-1"})
    assert loaded.config.tool_rag.openai.api_key is not None
    assert not [text for text in warnings_of(loaded.config) if "OpenAI" in text]


def test_unknown_keys_are_refused_with_path_and_nearest_key() -> None:
    found = problems("tool_rga: {}\nserver: {prot: 1}\nupstreams: {a: {command: x, evn: {}}}")
    assert "did you mean 'tool_rag'?" in found["tool_rga"]
    assert "did you mean 'port'?" in found["server.prot"]
    assert "did you mean 'env'?" in found["upstreams.a.evn"]
    assert found["server.prot"].startswith("unknown key; did you mean 'port'? Known here: host, ")
    assert problems("server: {xyzzy: 1}")["server.xyzzy"].startswith("unknown key; known here: ")
    assert "`a: &base {...}`" in problems("x-base: &base {}")["x-base"]


def test_an_anchor_stands_where_it_is_used_first() -> None:
    text = """
        upstreams:
          a: &base {url: "http://a.example/mcp", headers: {A: b}}
          b: {<<: *base, url: "http://b.example/mcp"}
    """
    upstreams = load_text(text).config.upstreams
    assert upstreams["b"] == upstreams["a"].model_copy(update={"url": upstreams["b"].url})
    assert upstreams["b"].url != upstreams["a"].url


def test_every_problem_comes_at_once_with_its_line() -> None:
    text = "server: {port: x}\ntool_rag:\n  ranker: semantik\n  miss_cost: much\nnope: 1\n"
    assert lines(text) == {
        "server.port": 1,
        "tool_rag.ranker": 3,
        "tool_rag.miss_cost": 4,
        "nope": 5,
    }
    assert "did you mean 'semantic'?" in problems(text)["tool_rag.ranker"]


def test_broken_yaml_names_the_place() -> None:
    found = problems("server:\n  port: [1\n")
    assert "broken YAML" in found[""]


def test_repeated_keys_are_refused() -> None:
    found = problems("server: {port: 1}\nserver: {port: 2}\n")
    assert "first on line 1" in found["server"]


def test_a_list_is_no_configuration() -> None:
    assert "a mapping of blocks" in problems("[1, 2]")[""]


def test_words_that_old_yaml_takes_for_booleans_and_dates_stay_words() -> None:
    text = """
security: {pinning: off}
upstreams: {a: {command: x, protocol: 2025-06-18, env: {PORT: 8080, SWITCH: on}}}
"""
    config = load_text(text, environ={}).config
    assert config.security.pinning == "off"
    assert config.upstreams["a"].protocol == "2025-06-18"
    assert config.upstreams["a"].env == {"PORT": "8080", "SWITCH": "on"}


def test_other_clients_maps_join_the_upstreams() -> None:
    text = """
upstreams: {own: {command: x}}
mcpServers:
  My Files: {command: npx, args: [-y, files], type: stdio, autoApprove: [read]}
  off: {command: y, disabled: true}
servers:
  remote: {type: http, url: "https://h.example/mcp"}
inputs: []
"""
    loaded = load_text(text, environ={})
    assert list(loaded.config.upstreams) == ["own", "my-files", "remote"]
    assert loaded.config.upstreams["remote"].transport == "streamable-http"
    said = "\n".join(loaded.notices)
    assert "'My Files' is called 'my-files'" in said
    assert "autoApprove" in said
    assert "'off' is disabled" in said


def test_a_name_that_is_taken_is_a_problem_named_where_it_is_written() -> None:
    found = problems("upstreams: {time: {command: x}}\nmcpServers: {time: {command: y}}")
    assert "'time' exists already" in found["mcpServers.time"]


def test_problems_of_imported_servers_are_named_where_they_are_written() -> None:
    found = problems('mcpServers: {"My App": {command: [1]}}')
    assert list(found) == ["mcpServers.My App.command"]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("upstreams: {Bad_Key: {command: x}}", "upstreams.Bad_Key"),
        ("sets: {a: {servers: [nobody]}}", "sets.a.servers[0]"),
        ("sets: {a: {}}", "sets.a"),
        ("server: {trusted_proxies: [nowhere]}", "server.trusted_proxies[0]"),
        ("accounts: {default_plan: gold}", "accounts.default_plan"),
        ("security: {api_keys: true}", "security.api_keys"),
        ("security: {jwt: {issuer: x}}", "security.jwt"),
        ("security: {oauth: {issuer: 'http://id.example'}}", "security.oauth.issuer"),
        ("security: {oauth: {issuer: []}}", "security.oauth"),
        (
            "security: {oauth: {issuer: https://a.example, proxy: {issuer: https://a.example, "
            "client_id: x}}}",
            "security.oauth",
        ),
        ("security: {oauth: {proxy: {client_id: x}}}", "security.oauth.proxy"),
        (
            "security: {oauth: {proxy: {client_id: x, authorize_url: https://a.example/a, "
            "token_url: https://a.example/t}}}",
            "security.oauth.proxy",
        ),
        (
            "security: {oauth: {proxy: {client_id: x, issuer: http://a.example}}}",
            "security.oauth.proxy.issuer",
        ),
        (
            "security: {oauth: {proxy: {client_id: x, issuer: https://a.example, consent: false}}}",
            "security.oauth.proxy.consent",
        ),
        (
            "security: {oauth: {proxy: {client_id: x, issuer: https://a.example, "
            "id_jag_issuers: http://b.example}}}",
            "security.oauth.proxy.id_jag_issuers",
        ),
        (
            "security: {oauth: {proxy: {client_id: x, issuer: https://a.example, "
            "clients: {desk: {client_secret: y}}}}}",
            "security.oauth.proxy.clients.desk.redirects",
        ),
        (
            "security: {oauth: {proxy: {client_id: x, issuer: https://a.example, "
            "clients: {armory_client_x: {redirects: 'https://c.example/'}}}}}",
            "security.oauth.proxy.clients.armory_client_x",
        ),
        (
            "security: {oauth: {proxy: {client_id: x, issuer: https://a.example, "
            "clients: {desk: {redirects: ['http://127.0.0.1/cb', 'http://localhost:*/*']}}}}}",
            "security.oauth.proxy.clients.desk.redirects[1]",
        ),
        (
            "server: {host: 0.0.0.0}\nsecurity: {oauth: {issuer: 'https://id.example'}}",
            "security.oauth",
        ),
        ("tool_rag: {min_tools: 30}", "tool_rag.min_tools"),
        ("tool_rag: {index: qdrant}", "tool_rag.qdrant"),
        ("tool_rag: {qdrant: {collection: 'with/slash'}}", "tool_rag.qdrant.collection"),
        ("observability: {query_log: {redact: ['(']}}", "observability.query_log.redact[0]"),
        ("storage: {url: 'mysql://x'}", "storage.url"),
        ("storage: {redis: 'http://x'}", "storage.redis"),
        ("tool_rag: {similarity_threshold: 1.5}", "tool_rag.similarity_threshold"),
        ("tool_rag: {similarity_threshold: .nan}", "tool_rag.similarity_threshold"),
        ("server: {base_path: 'no slash'}", "server.base_path"),
    ],
)
def test_what_does_not_fit_is_named(text: str, path: str) -> None:
    assert list(problems(text)) == [path]


def test_an_issuer_is_enough() -> None:
    config = load_text("security: {oauth: {issuer: 'https://id.example'}}", environ={}).config
    assert config.security.oauth is not None
    assert config.security.oauth.issuer == ["https://id.example"]


def test_zero_is_a_threshold() -> None:
    loaded = load_text("tool_rag: {similarity_threshold: 0}", environ={})
    assert loaded.config.tool_rag.similarity_threshold == 0


def test_an_alias_within_what_it_stands_for_is_told_with_its_line() -> None:
    found = Source("version: 1\nupstreams: &all\n  one: *all\n")
    (problem,) = found.problems
    assert problem.line == 2
    assert "an alias (*name) stands for the block that it is in" in problem.message
    twice = Source("a: &it {x: 1}\nb: *it\nc: [*it, *it]\n")
    assert not twice.problems
    assert twice.data["c"] == [{"x": 1}, {"x": 1}]


def test_a_file_that_aliases_itself_huge_is_refused() -> None:
    bomb = "a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
        f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 8)
    )
    assert "more than" in problems(bomb)[""]


@pytest.mark.parametrize(
    ("more", "host", "said"),
    [
        ("", "127.0.0.1", True),
        ("", "localhost", True),
        ("", "0.0.0.0", False),
        (", allow_anonymous: false", "127.0.0.1", False),
        (", allow_anonymous: true", "127.0.0.1", False),
        (", oauth: {issuer: 'https://login.example'}", "127.0.0.1", False),
    ],
)
def test_a_token_that_nobody_needs_is_pointed_out(more: str, host: str, said: bool) -> None:
    text = f"server: {{host: {host}}}\nsecurity: {{tokens: {{ann: {{token: {'x' * 24}}}}}{more}}}\n"
    config = load_text(text, environ={}).config
    assert any("allow_anonymous: false" in line for line in warnings_of(config)) is said


def test_values_that_do_not_fit_each_other_show_beside_wrong_types() -> None:
    text = """
server: {port: eighty, trusted_proxies: [nowhere]}
upstreams: {docs: {url: "ftp://h"}, more: 3}
sets:
  a: {servers: [dosc, more]}
  b: {servers: 3}
tool_rag: {min_tools: 30, index: qdrant}
security: {tokens: {ann: {scopes: [x]}}, rate_limit: {burst: 2}, api_keys: true}
storage: {redis: "http://r", url: "${NOT_SET}"}
"""
    assert set(problems(text)) == {
        "server.port",
        "server.trusted_proxies[0]",
        "upstreams.docs.url",
        "upstreams.more",
        "sets.a.servers[0]",  # and not [1]: that upstream is there, wrong as it is
        "sets.b.servers",
        "tool_rag.min_tools",
        "tool_rag.qdrant",
        "security.tokens.ann.token",
        "security.rate_limit.per_s",
        "security.api_keys",
        "storage.redis",
        "storage.url",
    }


def test_nothing_is_blamed_on_a_value_that_is_wrong_itself() -> None:
    text = """
tool_rag: {min_tools: 30, max_tools: many, index: qdrant, qdrant: {url: [1]}}
security: {jwt: {secret: [1]}}
accounts: {default_plan: pro, plans: 3}
"""
    assert set(problems(text)) == {
        "tool_rag.max_tools",
        "tool_rag.qdrant.url",
        "security.jwt.secret",
        "accounts.plans",
    }


@pytest.mark.parametrize(
    "url", ["postgresql:///d?host=/run/pg", "postgresql://h/d?user=a@b", "postgres://u:p@h:5432/d"]
)
def test_urls_that_hold_are_taken(url: str) -> None:
    assert load_text(f"storage: {{url: '{url}'}}").config.storage.url == url


def test_metrics_want_a_port_that_is_not_the_main_one() -> None:
    found = problems("server: {port: 9090, metrics: {port: 9090}}")
    assert "9090 is the main port" in found["server.metrics.port"]
    assert load_text("server: {port: 0, metrics: {port: 0}}").config.server.metrics.port == 0
