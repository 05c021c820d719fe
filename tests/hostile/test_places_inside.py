"""What fails behind the gateway: callers are told what it is, administrators also where it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from yarl import URL

from armory.config import load_file
from armory.errors import UpstreamUnavailable
from armory.llm.client import ChatClient
from armory.llm.errors import ChatError
from armory.runtime import open_runtime
from armory.storage.database import Database, DatabaseFailed
from armory.testing.clients.raw import messages, modern_body, modern_headers
from armory.testing.upstreams.http import HttpUpstream
from armory.upstreams.oauth.client import NoToken, TokenClient
from armory.upstreams.oauth.discovery import AuthServerMetadata
from armory.upstreams.oauth.grants import TokenExchange
from armory.upstreams.oauth.subjects import ExchangedTokens
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.transports.tls import tls_of
from armory.web.rest.problems import problem_of
from armory.wire.errors import error_object
from tests.threaded import Answering, served

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


class Refusing(Answering):
    """Refuses every key."""

    def do_POST(self) -> None:
        self.say(b"{}", status=401)


class Bare(Answering):
    """Publishes nothing."""

    def do_GET(self) -> None:
        self.say(status=404)


class Away(Answering):
    """Is there, and cannot answer now."""

    def do_GET(self) -> None:
        self.say(b"{}", status=503)


async def test_callers_are_not_told_where_the_services_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARMORY_HOME", str(tmp_path / "home"))
    file = tmp_path / "armory.yaml"
    async with HttpUpstream() as upstream, aiohttp.ClientSession() as http:
        with served(Refusing) as api:
            config: dict[str, Any] = {
                "upstreams": {"web": {"url": upstream.url}},
                "storage": {"url": f"sqlite:///{tmp_path / 'armory.db'}"},
                "tool_rag": {
                    "embedding_model": "text-embedding-3-small",
                    "openai": {"api_key": "k", "base_url": f"{api}/v1"},
                },
            }
            file.write_text(yaml.safe_dump(config))
            async with open_runtime(load_file(file), address=("127.0.0.1", 0)) as runtime:
                await runtime.searchable()
                assert runtime.listening is not None
                assert runtime.retriever is not None
                base = runtime.listening.url

                async def told(method: str, **params: Any) -> str:
                    body = modern_body(1, method, params)
                    asked = http.post(f"{base}/mcp", json=body, headers=modern_headers(body))
                    async with asked as got:
                        return str((await messages(got))[-1])

                listed = await told("tools/list", query="the time")
                searched = await told(
                    "tools/call", name="search_tools", arguments={"query": "the time"}
                )
                async with http.get(f"{base}/retrieve_tools", params={"query": "time"}) as got:
                    retrieved = await got.text()
                for text in (listed, searched, retrieved):
                    assert "lexical only: the embeddings API failed" in text
                    assert "127.0.0.1" not in text
                assert f"the embeddings API at {api}/v1 refused the key" in (
                    runtime.retriever.degraded or ""
                )
                await upstream.stop()
                called = await told("tools/call", name="web__who", arguments={})
                assert "upstream 'web': no connection (Connection refused)" in called
                assert "127.0.0.1" not in called


async def test_callers_are_not_told_where_tokens_come_from() -> None:
    with served(Refusing) as inside:
        place = AuthServerMetadata(f"{inside}/token", "")
        with pytest.raises(NoToken, match=f"{inside}/token gave no token") as refused:
            await TokenClient("web", named=(inside,)).request_token(place, {}, {})
    with pytest.raises(NoToken, match=f"{inside}/token did not answer") as silent:
        await TokenClient("web", named=(inside,)).request_token(place, {}, {})
    for failed in (refused, silent):
        for told in (
            problem_of(failed.value).detail,
            bytes(error_object(failed.value)).decode(),
        ):
            assert "upstream 'web': no access token: its authorization server" in told
            assert inside not in told


async def test_callers_are_not_told_which_certificates_are_missing(tmp_path: Path) -> None:
    spec = UpstreamSpec("web", url="https://web.example/mcp", ca_file=str(tmp_path / "ca.pem"))
    with pytest.raises(UpstreamUnavailable, match=str(tmp_path)) as failed:
        tls_of(spec)
    for told in (problem_of(failed.value).detail, bytes(error_object(failed.value)).decode()):
        assert "upstream 'web': tls.ca_file cannot be read" in told
        assert str(tmp_path) not in told


async def test_callers_are_not_told_where_an_identity_provider_is() -> None:
    for kind, what in ((Bare, "could not be discovered"), (Away, "cannot answer now")):
        with served(kind) as inside:
            tokens = ExchangedTokens(
                "web", TokenExchange("armory", "secret", issuer=inside), named=(inside,)
            )
            with pytest.raises(NoToken, match=inside) as failed:
                await tokens.exchanged("token", URL("https://docs.example/mcp"))
        told = f"upstream 'web': no access token: the identity provider {what}"
        assert problem_of(failed.value).detail == told


async def test_nobody_is_told_which_database_fails(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'there' / 'armory.db'}")
    (tmp_path / "there").write_text("in the way")
    with pytest.raises(DatabaseFailed) as failed:
        await database.open()
    assert str(tmp_path) in str(failed.value)
    for told in (problem_of(failed.value).detail, bytes(error_object(failed.value)).decode()):
        assert "the database failed" in told
        assert str(tmp_path) not in told


async def test_nobody_is_told_where_the_chat_model_is() -> None:
    with served(Refusing) as api:
        async with ChatClient(f"{api}/v1", "small", max_retries=0) as client:
            with pytest.raises(ChatError, match=api) as failed:
                await client.complete([{"role": "user", "content": "hello"}])
    assert api not in problem_of(failed.value).detail
