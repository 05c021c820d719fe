"""What a gateway leans on besides its upstreams: each is tried, and what to correct is named."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import ssl
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from redis import Redis

from armory.config import load_text
from armory.runtime.doctor.findings import Finding
from armory.runtime.doctor.services import database, services
from armory.storage.database import Database
from armory.testing.certificates import certificate
from armory.testing.listening import listening
from armory.testing.servers import RedisServer

pytestmark = pytest.mark.anyio
AWAY = "http://127.0.0.1:9"


async def found(home: Path, **blocks: Any) -> dict[str, Finding]:
    config = {"tool_rag": {"enabled": False}, **blocks}
    loaded = load_text(json.dumps(config), environ={"ARMORY_HOME": str(home)})
    return {finding.check: finding for finding in await services(loaded)}


@asynccontextmanager
async def answering(
    answers: dict[str, Any], tls: ssl.SSLContext | None = None
) -> AsyncGenerator[str]:
    """A server that has these JSON documents, by path."""

    async def answer(request: web.Request) -> web.Response:
        known = answers.get(request.path)
        return web.Response(status=404) if known is None else web.json_response(known)

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner, url = await listening(app, tls)
    try:
        yield url
    finally:
        await runner.cleanup()


def agent(url: str, model: str = "small") -> dict[str, Any]:
    return {"enabled": True, "base_url": f"{url}/v1", "model": model}


async def test_what_is_away_is_named_with_its_key(tmp_path: Path) -> None:
    jwt = {"jwks_url": f"{AWAY}/keys", "audience": "armory"}
    checked = await found(tmp_path, agent=agent(AWAY), security={"jwt": jwt})
    for check, key in (("agent", "agent.base_url"), ("identity provider", "security.jwt.jwks_url")):
        assert checked[check].state == "failed"
        assert key in checked[check].fix
    oauth = {"issuer": AWAY, "audience": ["armory"]}
    checked = await found(tmp_path, security={"oauth": oauth})
    assert "security.oauth.issuer" in checked["identity provider"].fix


@pytest.mark.redis
async def test_a_redis_that_forgets_when_it_is_full_is_told(
    tmp_path: Path, redis: RedisServer
) -> None:
    storage = {"redis": redis.url}
    with Redis.from_url(redis.url) as told:
        told.config_set("maxmemory-policy", "allkeys-lru")  # without a limit nothing is forgotten
        assert (await found(tmp_path, storage=storage))["redis"].state == "ok"
        told.config_set("maxmemory", "64mb")
        evicting = (await found(tmp_path, storage=storage))["redis"]
        assert evicting.state == "warning"
        assert "allkeys-lru" in evicting.detail
        assert "noeviction" in evicting.fix
        told.config_set("maxmemory-policy", "noeviction")
        assert (await found(tmp_path, storage=storage))["redis"].state == "ok"
        told.config_set("maxmemory-policy", "volatile-lru")
        told.acl_setuser("some", enabled=True, nopass=True, keys=["*"], commands=["+get", "+set"])
        some = redis.url.replace("//", "//some:any@")  # may not ask for that
        assert (await found(tmp_path, storage={"redis": some}))["redis"].state == "ok"


async def test_a_model_that_is_not_there_is_told(tmp_path: Path) -> None:
    models = {"/v1/models": {"object": "list", "data": [{"id": "small:latest"}, {"id": "big"}]}}
    async with answering(models) as url:
        assert (await found(tmp_path, agent=agent(url)))["agent"].state == "ok"
        missing = (await found(tmp_path, agent=agent(url, "other")))["agent"]
        assert missing.state == "warning"
        assert "'other'; it has big, small:latest" in missing.detail
    async with answering({"/v1/models": {"object": "list", "data": []}}) as url:
        assert "it has none" in (await found(tmp_path, agent=agent(url)))["agent"].detail
        bare = (await found(tmp_path, agent={**agent(url), "base_url": f"{url}/"}))["agent"]
        assert bare.state == "warning"
        assert bare.detail.endswith(f"the URL is most likely {url}/v1")
    async with answering({}) as url:  # endpoints need not tell which models they have
        assert (await found(tmp_path, agent=agent(url, "other")))["agent"].state == "ok"


async def test_an_identity_provider_that_answers_is_well(tmp_path: Path) -> None:
    documents: dict[str, Any] = {"/keys": {"keys": []}}
    async with answering(documents) as url:
        documents["/.well-known/openid-configuration"] = {"issuer": url, "jwks_uri": f"{url}/keys"}
        security: dict[str, Any] = {"jwt": {"jwks_url": f"{url}/keys", "audience": "armory"}}
        assert (await found(tmp_path, security=security))["identity provider"].state == "ok"
        security = {"oauth": {"issuer": url, "audience": ["armory"]}}
        assert (await found(tmp_path, security=security))["identity provider"].state == "ok"


async def test_a_certificate_of_an_authority_of_ones_own_is_told_and_its_fix_is_one(
    tmp_path: Path,
) -> None:
    cert, key = certificate(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(cert, key)
    async with answering({"/keys": {"keys": []}}, tls) as url:
        jwt = {"jwks_url": f"{url}/keys", "audience": "armory"}
        told = (await found(tmp_path, security={"jwt": jwt}))["identity provider"]
        assert told.state == "failed"
        assert f"the certificate of {url}/keys is not trusted (self-signed" in told.detail
        assert "$SSL_CERT_FILE" in told.fix
        rag = {"embedding_provider": "openai", "embedding_model": "small"}
        rag = {**rag, "openai": {"base_url": f"{url}/v1", "api_key": "none", "dimensions": 4}}
        checked = await found(tmp_path, agent=agent(url), tool_rag=rag)
        for check in ("agent", "embedder"):
            assert "$SSL_CERT_FILE" in checked[check].fix, checked[check]
            assert "self-signed certificate" in checked[check].detail
        config = {"tool_rag": {"enabled": False}, "security": {"jwt": jwt}}
        (tmp_path / "armory.yaml").write_text(json.dumps(config))
        done = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "armory.cli.main", "doctor", "--json"),
            *("--config", str(tmp_path / "armory.yaml")),
            env={**os.environ, "ARMORY_HOME": str(tmp_path), "SSL_CERT_FILE": str(cert)},
            stdout=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(60):
            findings = json.loads((await done.communicate())[0])["findings"]
        (told,) = (one for one in findings if one["check"] == "identity provider")
        assert told["state"] == "ok", told


@pytest.mark.skipif(sys.platform != "linux", reason="macOS ends what writes too large a file")
async def test_a_disk_that_takes_nothing_is_no_damaged_database(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'armory.db'}"
    made = Database(url)
    await made.open()
    await made.close()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        finding = await database(url)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (finding.state, finding.detail.endswith("failed (disk I/O error)")) == ("failed", True)
    assert "a quota is used up" in finding.fix
    assert "copy" not in finding.fix
    assert (await database(url)).state == "ok"
