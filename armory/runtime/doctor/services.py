"""Checks of external services: database, Redis, embedder, index, chat model, identity providers.

Owns: those checks. Upgrades no database and writes no vector.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Iterator

from sqlalchemy import select
from sqlalchemy.engine import make_url

from armory.config import Loaded
from armory.config.embedding import lacks_openai_key, without_a_key
from armory.errors import ArmoryError, ConfigError
from armory.retrieval.retriever import Retriever
from armory.runtime.doctor.findings import Finding, failed, ok, warning
from armory.runtime.doctor.machine import unwritable
from armory.runtime.doctor.sealed import sealed
from armory.runtime.entry.local_access import running_at
from armory.runtime.retrieval import open_retriever
from armory.storage.database import Database, DatabaseFailed
from armory.storage.engine import sqlite_file
from armory.storage.schema import refuse_newer

WITHIN_S = 20.0
_STORE = "tool_rag.qdrant"
_SKEW_S = 30.0
_NAMED = 5
_SERVER = "start it, or correct storage.url: host, port, database, user, password"
_FOLDER = (
    "let this user write there, or name another file as storage.url, or folder as $ARMORY_HOME"
)
_AUTHORITY = (
    "name a file with the authority that signed the certificate, and those that are trusted "
    "already, in $SSL_CERT_FILE of the gateway; or mend the certificate"
)
_VERSIONED = re.compile(r"/v[0-9]")
_UNTRUSTED = ("is not trusted", "CERTIFICATE_VERIFY_FAILED")
"""What messages say of a certificate, ours and those of OpenSSL."""
_FILE = "let this user write it and its folder"


async def services(loaded: Loaded, retriever: Retriever | None = None) -> list[Finding]:
    """All checks of external services, concurrently.

    Args:
        loaded: the configuration.
        retriever: of a gateway that is open already; None: one is opened for this.
    """
    config = loaded.config
    asked: list[Awaitable[list[Finding]]] = [_one(database(config.storage.url)), sealed(loaded)]
    if config.storage.redis is not None:
        asked.append(_one(redis(config.storage.redis, config.storage.redis_prefix)))
    if config.tool_rag.enabled:
        asked.append(retrieval(loaded, retriever))
    if config.agent.enabled:
        asked.append(_one(agent(loaded)))
    asked += [_one(provider(url, where)) for url, where in _providers(loaded)]
    return [finding for found in await asyncio.gather(*asked) for finding in found]


async def _one(asked: Awaitable[Finding]) -> list[Finding]:
    return [await asked]


async def database(url: str) -> Finding:
    """Whether the database answers, and whether its clock agrees."""
    file = sqlite_file(make_url(url)) if url.startswith("sqlite") else None
    if file is not None and not file.exists():
        if why := unwritable(file.parent):
            return failed("database", f"{file} cannot be made: {why}", _FOLDER)
        return ok("database", "its file will be made")
    opened: Database | None = None
    try:
        opened = Database(url)
        async with asyncio.timeout(WITHIN_S), opened.read() as connection:
            theirs = (await connection.execute(select(opened.now_ms))).scalar_one() / 1_000
            await connection.run_sync(refuse_newer)
    except ConfigError as error:
        return failed("database", error.message, "use the Armory that wrote it, or a saved copy")
    except DatabaseFailed as error:
        if file is not None:
            return failed("database", error.what, error.fix)
        return failed("database", error.message, _SERVER)
    except (ArmoryError, TimeoutError) as error:
        what = error.message if isinstance(error, ArmoryError) else "it does not answer"
        return failed("database", what, _SERVER if file is None else _FILE)
    finally:
        if opened is not None:
            await opened.close()
    apart = abs(theirs - time.time())
    if apart > _SKEW_S:
        fix = "set both clocks by NTP; keys and quotas go by them"
        return failed("clock", f"the database's differs by {apart:.0f} s", fix)
    return ok("database", "it answers")


async def redis(url: str, prefix: str) -> Finding:
    """Whether Redis answers, and keeps what it is given."""
    fix = "start it, or correct storage.redis: host, port, password, `rediss://` for TLS"
    try:
        from armory.storage.redis_cache import RedisCache

        cache = RedisCache(url, prefix=prefix, timeout_s=5.0)
    except ArmoryError as error:
        return failed("redis", error.message, fix)
    try:
        await cache.get("doctor")
        forgets = await cache.forgets()
    except ArmoryError as error:
        return failed("redis", error.message, fix)
    finally:
        await cache.aclose()
    if forgets:
        return warning(
            "redis",
            f"it forgets keys when its memory is full (maxmemory-policy {forgets}): sessions that "
            "other replicas then do not find, and the key that they seal requests with",
            "set maxmemory-policy noeviction, or give Armory a Redis of its own",
        )
    return ok("redis", "it answers")


async def retrieval(loaded: Loaded, opened: Retriever | None = None) -> list[Finding]:
    """Whether texts can be embedded, and where the vectors are stored."""
    rag = loaded.config.tool_rag
    try:
        retriever = opened or open_retriever(loaded)
    except ConfigError as error:
        if error.path == _STORE:
            return [_not_opened(loaded, error)]
        return [failed("embedder", error.message, "correct the block tool_rag")]
    assert retriever is not None
    found: list[Finding] = []
    try:
        if lacks_openai_key(loaded.config):
            free = without_a_key(loaded.config)
            fix = f"set OPENAI_API_KEY (tool_rag.openai.api_key), or {free}"
            what = f"{rag.embedding_model} needs a key, and there is none"
            found.append(failed("embedder", what, fix))
        else:
            found.append(await _embedder(retriever.embedder, rag.embedding_model))
        problem = await retriever.check_store()
        fix = f"start what tool_rag.index: {rag.index} needs, or use `exact`, which needs nothing"
        found.append(
            failed("index", problem, fix) if problem else ok("index", f"{rag.index} answers")
        )
    finally:
        if opened is None:
            await retriever.aclose()
    return found


def _not_opened(loaded: Loaded, error: ConfigError) -> Finding:
    """Of vectors that cannot be opened, perhaps because the gateway that runs has them open."""
    path = loaded.config.tool_rag.qdrant.path
    own = running_at(loaded.home, loaded.config.server.port) if path else None
    if own is None:
        return failed("index", error.message, "stop the other process, or correct tool_rag.qdrant")
    what = f"{path} is open in a gateway of yours (pid {own.pid}), as it may be in one process"
    fix = "`armory status` asks that gateway; to examine embedder and index here, end it first"
    return warning("index", what, fix)


async def _embedder(embedder: object, model: str) -> Finding:
    embed = getattr(embedder, "embed_queries", None)
    if embed is None:
        return warning("embedder", "there is none: tools are found by words alone", "name a model")
    began = time.perf_counter()
    try:
        async with asyncio.timeout(WITHIN_S):
            vectors = await embed(["what time is it"])
    except (ArmoryError, TimeoutError, OSError) as error:
        what = error.message if isinstance(error, ArmoryError) else "it does not answer"
        fix = (
            "correct tool_rag.embedding_model, tool_rag.openai.base_url or its api_key; until then "
            "words count"
        )
        return failed("embedder", f"{model}: {what}", _unless_untrusted(fix, what))
    took_ms = (time.perf_counter() - began) * 1_000
    return ok("embedder", f"{model}: {len(vectors[0])} dimensions, {took_ms:.0f} ms a query")


def _unless_untrusted(fix: str, what: str) -> str:
    """The fix, or that the certificate of the service is not trusted."""
    return _AUTHORITY if any(word in what for word in _UNTRUSTED) else fix


async def agent(loaded: Loaded) -> Finding:
    """Whether the agent's model exists; it is not called."""
    from armory.runtime.blocks.agents import chat_client  # its library takes a second

    model = loaded.config.agent.model
    fix = "start it, or correct agent.base_url, agent.api_key"
    try:
        async with asyncio.timeout(WITHIN_S), chat_client(loaded) as chat:
            models = await chat.models()
    except (ArmoryError, TimeoutError) as error:
        what = error.message if isinstance(error, ArmoryError) else "it does not answer"
        return failed("agent", what, _unless_untrusted(fix, what))
    base = loaded.config.agent.base_url.rstrip("/")
    if models is None and _VERSIONED.search(base) is None:  # some say of no model that they have it
        what = f"nothing is at {base}/models; the URL is most likely {base}/v1"
        return warning(
            "agent", what, "correct agent.base_url, unless `armory search --agent` works"
        )
    if models is not None and not {model, f"{model}:latest"} & set(models):
        more = ", ..." if len(models) > _NAMED else ""
        has = (", ".join(sorted(models)[:_NAMED]) or "none") + more
        return warning("agent", f"it has no model {model!r}; it has {has}", "correct agent.model")
    return ok("agent", "it answers")


def _providers(loaded: Loaded) -> Iterator[tuple[str, str]]:
    """(URL, configuration key) of all identity providers."""
    security = loaded.config.security
    if security.oauth is not None:
        yield from ((issuer, "security.oauth.issuer") for issuer in security.oauth.issuer)
        if security.oauth.proxy is not None and security.oauth.proxy.issuer is not None:
            yield security.oauth.proxy.issuer, "security.oauth.proxy.issuer"
    if security.jwt is not None and security.jwt.jwks_url is not None:
        yield security.jwt.jwks_url, "security.jwt.jwks_url"


async def provider(url: str, where: str) -> Finding:
    """Whether an identity provider publishes the keys for tokens."""
    from armory.security.issuer import Issuer  # cryptography: only where tokens are checked
    from armory.security.keys import KeySet

    try:
        async with asyncio.timeout(WITHIN_S):
            if where.endswith("jwks_url"):
                await KeySet(url, ("RS256", "ES256", "EdDSA")).key(None, "RS256")
            else:
                await Issuer(url).keys.key(None, "RS256")
    except (ArmoryError, TimeoutError) as error:
        what = error.message if isinstance(error, ArmoryError) else "it does not answer"
        fix = f"start it, or correct {where}"
        fix = f"{_unless_untrusted(fix, what)}; until then nobody's token can be checked"
        return failed("identity provider", f"{url}: {what}", fix)
    return ok("identity provider", f"{url} answers")
