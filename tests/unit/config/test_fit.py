"""What could never have an effect where it stands is refused, and what works is taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from armory.config import ConfigProblems, load_text
from armory.domain.naming import expose_names
from armory.runtime.blocks.upstreams import upstream_specs
from armory.runtime.checking import checked
from tests.unit.config.refused import problems


@pytest.mark.parametrize(
    ("block", "key", "said"),
    [
        ("command: x, headers: {A: b}", "headers", "belongs to 'url' and 'openapi'"),
        ("command: x, proxy: 'http://p'", "proxy", "this upstream has 'command'"),
        ("command: x, tls: {verify: false}", "tls", "leave it out"),
        ("skills: s, headers: {A: b}", "headers", "this upstream has 'skills'"),
        ("url: 'http://x', env: {A: b}", "env", "belongs to 'command'"),
        ("url: 'http://x', args: [a]", "args", "this upstream has 'url'"),
        ("url: 'http://x', cwd: /", "cwd", "leave it out"),
        ("url: 'http://x', inherit_env: [A]", "inherit_env", "leave it out"),
        ("url: 'http://x', start_timeout_s: 5", "start_timeout_s", "leave it out"),
        ("openapi: a.yaml, env: {A: b}", "env", "this upstream has 'openapi'"),
        ("openapi: a.yaml, transport: sse", "transport", "needs a 'url', not 'openapi'"),
        ("skills: s, transport: streamable-http", "transport", "not 'skills'"),
        ("url: 'http://x/${principal}'", "url", "'args', 'env', 'headers' and 'cwd'"),
        ("command: '${principal}'", "command", "${principal}, the caller"),
        ("url: 'http://x', headers: {'a b': c}", "headers.a b", "'a b' is no name of a header"),
        ('url: "http://x", headers: {A: "b\\nc"}', "headers.A", "in one line"),
        ("command: x, env: {'A=B': c}", "env.A=B", "'A=B' is no name of a variable"),
        ('command: x, env: {A: "b\\0"}', "env.A", "a NUL character"),
        ('command: x, args: [a, "b\\0"]', "args[1]", "a NUL character"),
        ("openapi: a.yaml, headers: {'A:': b}", "headers.A:", "no name of a header"),
    ],
)
def test_what_an_upstream_cannot_use_is_refused(block: str, key: str, said: str) -> None:
    found = problems(f"upstreams: {{a: {{{block}}}}}")
    assert list(found) == [f"upstreams.a.{key}"]
    assert said in found[f"upstreams.a.{key}"]


@pytest.mark.parametrize(
    "block",
    [
        "url: 'http://x', env: {}, args: [], cwd: null, inherit_env: [], start_timeout_s: 300",
        "command: x, headers: {}, proxy: null, tls: {ca_file: null, verify: true}",
        "command: x, args: [a], env: {A: b}, cwd: /, inherit_env: [A], start_timeout_s: 5",
        "url: 'http://x', headers: {X-A_b.c: 'd e'}, proxy: 'http://p', tls: {verify: false}",
        "openapi: a.yaml, headers: {A: b}, proxy: 'http://p', tls: {verify: false}",
        "url: 'http://x', headers: {X-User: '${principal}'}",
    ],
)
def test_what_it_uses_and_what_says_nothing_is_taken(block: str) -> None:
    load_text(f"upstreams: {{a: {{{block}}}}}", environ={})


def test_a_map_of_another_client_loses_what_has_no_effect_and_says_so() -> None:
    text = """
mcpServers:
  far: {url: "http://x/mcp", env: {A: b}, args: [], startup_timeout_sec: 9}
  near: {command: x, headers: {A: b}}
"""
    loaded = load_text(text, environ={})
    far = loaded.config.upstreams["far"]
    assert (far.env, far.connect_timeout_s) == ({}, 9)  # nothing is started there
    said = "\n".join(loaded.notices)
    assert "'far': env left out" in said
    assert "'near': headers left out" in said
    assert "args" not in said


@pytest.mark.parametrize("kind", ["token_exchange", "jwt_bearer", "passthrough"])
def test_a_token_of_each_caller_s_own_is_none_of_the_gateway_s(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "armory.yaml"
    file.write_text(f"upstreams: {{a: {{url: 'http://x', auth: {{type: {kind}, per: gateway}}}}}}")
    with pytest.raises(ConfigProblems) as caught:
        checked(file)
    (found,) = caught.value.problems
    assert found.path == "upstreams.a.auth.per"
    assert "each caller's own token" in found.message


_CLIENT = "issuer: 'https://x', client_id: a, client_secret: b"
_THERE = "audience: 'https://y', audience_client_id: c"


@pytest.mark.parametrize(
    "auth",
    [
        f"type: token_exchange, {_CLIENT}",
        f"type: jwt_bearer, {_CLIENT}, {_THERE}",
        "type: passthrough",
    ],
)
def test_grants_that_are_each_caller_s_own_may_say_so(auth: str) -> None:
    text = f"upstreams: {{a: {{url: 'http://x', auth: {{{auth}, per: principal}}}}}}"
    (spec,) = upstream_specs(load_text(text, environ={}))
    assert spec.auth is not None


@pytest.mark.parametrize(
    ("text", "path", "said"),
    [
        ("server: {allowed_hosts: [a, 'https://a']}", "server.allowed_hosts[1]", "'https://a'"),
        ("server: {allowed_hosts: '*.a'}", "server.allowed_hosts[0]", "no Host header"),
        ("server: {allowed_hosts: a/path}", "server.allowed_hosts[0]", "no Host header"),
        ("server: {allowed_origins: 'https://a/b'}", "server.allowed_origins[0]", "'https://a/b'"),
        ("server: {allowed_origins: a word}", "server.allowed_origins[0]", "is no origin"),
        ("agent: {base_url: nope}", "agent.base_url", "it is 'nope'"),
        ("agent: {enabled: true, model: ' '}", "agent.model", "the name of a chat model"),
        ("agent: {enabled: true, base_url: ''}", "agent.base_url", "it is ''"),
        ("tool_rag: {openai: {base_url: nope}}", "tool_rag.openai.base_url", "it is 'nope'"),
        ("agent: {base_url: 'http://:80/v1'}", "agent.base_url", "with a host"),
        ("tool_rag: {openai: {base_url: 'http://x:0'}}", "tool_rag.openai.base_url", "with a host"),
        ("security: {jwt: {jwks_url: 'https://:80'}}", "security.jwt.jwks_url", "with a host"),
        ("upstreams: {a: {openapi: 'https:///x'}}", "upstreams.a.openapi", "with a host"),
        ("tool_rag: {qdrant: {url: 'ftp://x'}}", "tool_rag.qdrant.url", "HOST:PORT"),
        ("tool_rag: {qdrant: {url: 'http://x:port'}}", "tool_rag.qdrant.url", "HOST:PORT"),
    ],
)
def test_an_address_that_cannot_be_one_is_named(text: str, path: str, said: str) -> None:
    found = problems(text)
    assert list(found) == [path]
    assert said in found[path]


@pytest.mark.parametrize("host", ["localhost:9000", "http://localhost", "[::1]", "a word", "*"])
def test_a_port_or_scheme_at_the_address_to_bind_is_all_that_is_said(
    host: str, tmp_path: Path
) -> None:
    file = tmp_path / "armory.yaml"
    file.write_text(f"server: {{host: '{host}'}}")
    with pytest.raises(ConfigProblems) as caught:
        checked(file)
    (found,) = caught.value.problems
    assert (found.path, found.line) == ("server.host", 1)
    assert found.message.startswith("expected an address or a name alone")
    assert found.message.endswith(f"it is {host!r}")


@pytest.mark.parametrize("host", ["::", "::1", "fe80::1%eth0", "0.0.0.0", "a.example", "a_b"])
def test_addresses_and_names_to_bind_are_taken(host: str) -> None:
    token = "security: {tokens: {a: {token: 0123456789}}}"
    config = load_text(f"server: {{host: '{host}'}}\n{token}", environ={}).config
    assert config.server.host == host


@pytest.mark.parametrize(
    "text",
    [
        "server: {allowed_hosts: [a, 'a.example:80', a_b, '*', '::1', '[::1]:80', 127.0.0.1]}",
        "server: {allowed_origins: ['*', 'null', 'https://a', 'http://a:1/', 'http://[::1]:80']}",
        "server: {allowed_origins: ['vscode-webview://0a1b', 'tauri://localhost']}",
        "agent: {base_url: ''}",
        "tool_rag: {qdrant: {url: qdrant}}",
        "tool_rag: {qdrant: {url: 'qdrant:6333'}}",
        "tool_rag: {qdrant: {url: 'https://[::1]:6333/below'}}",
    ],
)
def test_an_address_that_works_is_taken(text: str) -> None:
    load_text(text, environ={})


def test_patterns_that_begin_with_a_key_that_names_have_no_room_for_are_refused() -> None:
    """What they deny would be allowed: the names of its tools are cut within the key."""
    fits, long = "a" * 42, "b" * 43
    deny = f'["*__x", "{long}__*", "{long}*", "{long}+*", "{long}__x"]'
    text = f"""
upstreams: {{{fits}: {{command: x}}, {long}: {{command: x}}}}
sets: {{s: {{servers: [{long}], tools: ["{fits}__*", "{long}__x*"]}}}}
tool_rag: {{pin: ["{long}__*"]}}
security: {{policies: [{{deny: {deny}, allow: ["{fits}__*"]}}]}}
"""
    found = problems(text)
    assert set(found) == {"sets.s.tools[1]", "tool_rag.pin[0]", "security.policies[0].deny[1]"}
    assert f"write '{long}*'" in found["security.policies[0].deny[1]"]
    for key, whole in ((fits, True), (long, False)):
        short, cut = expose_names(key, ["x", "x" * 9]).values()
        assert short == f"{key}__x"
        assert cut.startswith(f"{key}__") is whole
        assert cut.startswith(key)
