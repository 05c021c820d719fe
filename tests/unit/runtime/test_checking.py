"""What building would refuse shows beside what the file itself has wrong."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from armory.config import ConfigProblems
from armory.errors import ConfigError
from armory.runtime.checking import check_address, checked

SECRET = "0123456789abcdef0123456789abcdef"


def problems(tmp_path: Path, text: str) -> dict[str, int | None]:
    file = tmp_path / "armory.yaml"
    file.write_text(text)
    with pytest.raises(ConfigProblems) as caught:
        checked(file)
    return {problem.path: problem.line for problem in caught.value.problems}


def test_a_wrong_type_hides_no_upstream_that_cannot_be_built(tmp_path: Path) -> None:
    text = """
server: {port: x}
upstreams:
  both: {command: x, url: "https://h.example/mcp"}
  neither: {cwd: /}
sets: {a: {servers: [noone]}}
mcpServers:
  My Files: {}
"""
    assert problems(tmp_path, text) == {
        "server.port": 2,
        "upstreams.both": 4,
        "upstreams.neither": 5,
        "sets.a.servers[0]": 6,
        "mcpServers.My Files": 8,
    }


def test_what_was_taken_out_is_not_missed(tmp_path: Path) -> None:
    text = """
server: {host: 0.0.0.0}
upstreams:
  docs: {url: 3}
security: {tokens: 3}
"""
    assert problems(tmp_path, text) == {"upstreams.docs.url": 4, "security.tokens": 5}


def test_a_short_token_is_named_with_its_line(tmp_path: Path) -> None:
    text = "security:\n  tokens:\n    ann: {token: short}\n"
    assert problems(tmp_path, text) == {"security.tokens.ann.token": 3}


@pytest.mark.parametrize(
    ("text", "module", "path", "line"),
    [
        ("tool_rag:\n  index: faiss\n", "faiss", "tool_rag.index", 2),
        ("tool_rag: {embedding_model: all-MiniLM-L6-v2}\n", "fastembed",
         "tool_rag.embedding_model", 1),
        ("tool_rag: {rerank: Xenova/ms-marco-MiniLM-L-6-v2}\n", "fastembed", "tool_rag.rerank", 1),
        ("storage: {redis: redis://127.0.0.1}\n", "redis", "storage.redis", 1),
        ("storage: {url: postgresql://127.0.0.1/a}\n", "asyncpg", "storage.url", 1),
    ],
)  # fmt: skip
def test_an_extra_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, module: str, path: str, line: int
) -> None:
    file = tmp_path / "armory.yaml"
    file.write_text(text)
    checked(file)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigProblems, match="pip install"):
        checked(file)
    assert problems(tmp_path, text) == {path: line}


def test_an_extra_is_not_missed_where_retrieval_is_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    file = tmp_path / "armory.yaml"
    file.write_text("tool_rag: {enabled: false, index: faiss}\n")
    checked(file)


def test_weights_that_do_not_add_up_show_without_serving(tmp_path: Path) -> None:
    text = "tool_rag:\n  multi_factor:\n    weights: {similarity: 0.9}\n"
    assert problems(tmp_path, text) == {"tool_rag.multi_factor.weights": 3}


@pytest.mark.parametrize(
    ("text", "path", "said"),
    [
        ("security: {jwt: {secret: short}}", "security.jwt.secret", "at least 32"),
        (f"security: {{jwt: {{secret: {SECRET}, algorithms: [none]}}}}",
         "security.jwt.algorithms", "expected some of"),
        (f"security: {{jwt: {{secret: {SECRET}, algorithms: [RS256]}}}}",
         "security.jwt.algorithms", "HS256"),
        ("security: {jwt: {jwks_url: nope}}", "security.jwt.jwks_url", "http:// or https:// URL"),
        ("security: {encryption_key: short}", "security.encryption_key", "at least 16"),
        ("agent: {enabled: true, documents: nowhere}", "agent.documents", "is not a folder"),
        ("tool_rag: {embedding_model: no-such-model}", "tool_rag.embedding_model",
         "fastembed has no model 'no-such-model'"),
        ("security: {allow_anonymous: false}", "security.allow_anonymous",
         "nobody could connect: who has no token is refused"),
        ("tool_rag: {embedding_provider: fastembed}", "tool_rag.embedding_model",
         "fastembed has no model 'embedded'"),
        ("tool_rag: {embedding_provider: embedded, embedding_model: all-MiniLM-L6-v2}",
         "tool_rag.embedding_model", "the package has no model 'all-MiniLM-L6-v2'"),
        ("tool_rag: {embedding_model: ''}", "tool_rag.embedding_model", "at least 1 character"),
        ("tool_rag: {rerank: nope}", "tool_rag.rerank", "no cross-encoder 'nope'; expected one of"),
        ("tool_rag: {embedding_provider: openai, embedding_model: own, "
         "openai: {base_url: 'http://127.0.0.1/v1'}}",
         "tool_rag.openai.dimensions", "the dimension of 'own' is not known"),
        ("storage: {url: 'sqlite:///'}", "storage.url", "names no file"),
        ("storage: {url: 'sqlite://'}", "storage.url", "names no file"),
        ("storage: {url: 'sqlite://armory.db'}", "storage.url", "sqlite:///FILE"),
        ("storage: {url: 'sqlite:///:memory:'}", "storage.url", "names no file"),
        ("storage: {url: 'sqlite:///a?mode=memory'}", "storage.url", "names no file"),
        ("storage: {url: 'postgresql://h:port/a'}", "storage.url", "not a database URL"),
        ("storage: {redis: 'redis://h:port'}", "storage.redis", "not a Redis URL"),
        ("storage: {redis: 'redis://h?ssl_ca_certs=x'}", "storage.redis", "'ssl_ca_certs'"),
    ],
)  # fmt: skip
def test_what_a_start_would_refuse_is_named_with_its_place(
    tmp_path: Path, text: str, path: str, said: str
) -> None:
    file = tmp_path / "armory.yaml"
    file.write_text(text)
    with pytest.raises(ConfigProblems) as caught:
        checked(file)
    (found,) = caught.value.problems
    assert (found.path, found.line) == (path, 1)
    assert said in found.message
    assert not found.message.startswith(path)  # the place stands before the message already


def test_problems_of_several_parts_show_together(tmp_path: Path) -> None:
    text = """
security: {jwt: {secret: short}}
server: {port: x}
tool_rag: {embedding_model: no-such-model, rerank: nope, max_tools: many}
agent: {enabled: true, documents: nowhere}
storage: {url: "sqlite://"}
"""
    assert problems(tmp_path, text) == {
        "security.jwt.secret": 2,
        "server.port": 3,
        "tool_rag.max_tools": 4,
        "tool_rag.embedding_model": 4,
        "tool_rag.rerank": 4,
        "agent.documents": 5,
        "storage.url": 6,
    }


def test_what_goes_by_a_wrong_value_is_not_judged(tmp_path: Path) -> None:
    text = "tool_rag: {embedding_provider: opnai, embedding_model: own}\n"
    assert problems(tmp_path, text) == {"tool_rag.embedding_provider": 1}
    text = f"security: {{jwt: {{secret: {SECRET}, jwks_url: 'https://a.example/keys'}}}}\n"
    assert problems(tmp_path, text) == {"security.jwt": 1}


@pytest.mark.parametrize(
    "text",
    [
        "agent: {enabled: false, documents: nowhere}",
        "{agent: {enabled: true, documents: nowhere}, tool_rag: {enabled: false}}",
        "tool_rag: {enabled: false, rerank: nope, embedding_model: no-such-model}",
        "storage: {url: 'sqlite:///a.db'}",
        "storage: {url: 'sqlite+aiosqlite:////tmp/a.db?timeout=3'}",
        "tool_rag: {rerank: xenova/ms-marco-minilm-l-6-v2}",
        "tool_rag: {embedding_model: text-embedding-3-small}",
        f"security: {{jwt: {{secret: {SECRET}}}}}",
    ],
)
def test_what_a_start_would_take_is_taken(tmp_path: Path, text: str) -> None:
    file = tmp_path / "armory.yaml"
    file.write_text(text)
    checked(file)


def test_what_goes_by_the_address_is_asked_again_at_another_one(tmp_path: Path) -> None:
    file = tmp_path / "armory.yaml"
    file.write_text("security: {oauth: {issuer: 'https://login.example'}}")
    loaded = checked(file)
    check_address(loaded)
    server = loaded.config.server.model_copy(update={"host": "0.0.0.0"})
    elsewhere = replace(loaded, config=loaded.config.model_copy(update={"server": server}))
    with pytest.raises(ConfigError, match="does not know its own name") as refused:
        check_address(elsewhere)
    assert refused.value.path == "security.oauth"


def test_documents_without_their_parser_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.md").write_text("# A")
    monkeypatch.setitem(sys.modules, "pypdf", None)
    file = tmp_path / "armory.yaml"
    text = "agent: {enabled: true, documents: texts}"
    file.write_text(text)
    checked(file)
    (tmp_path / "texts" / "b.pdf").write_bytes(b"")
    assert problems(tmp_path, text) == {"agent.documents": 1}
