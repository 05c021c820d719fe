"""What a gateway leans on: database, Redis, embedder, index.

Owns: those checks. Upgrades no database and writes no vector.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.engine import make_url

from armory.config import Loaded
from armory.config.embedding import lacks_openai_key
from armory.errors import ArmoryError, ConfigError
from armory.runtime.doctor.findings import Finding, bad, odd, well
from armory.runtime.retrieval import open_retriever
from armory.storage.database import Database
from armory.storage.schema import refuse_newer

WITHIN_S = 20.0
_SKEW_S = 30.0
_SERVER = "start it, or correct storage.url: host, port, database, user, password"
_FILE = "let this user write it and its folder; put a saved copy in the place of a damaged file"


async def services(loaded: Loaded) -> AsyncIterator[Finding]:
    """Everything that the configuration leans on."""
    yield await database(loaded.config.storage.url)
    if loaded.config.storage.redis is not None:
        yield await redis(loaded.config.storage.redis)
    if loaded.config.tool_rag.enabled:
        for finding in await retrieval(loaded):
            yield finding


async def database(url: str) -> Finding:
    """Whether it answers, and what its clock says."""
    if missing := _not_made_yet(url):
        return well("database", f"{missing} will be made")
    opened: Database | None = None
    try:
        opened = Database(url)
        async with asyncio.timeout(WITHIN_S), opened.read() as connection:
            theirs = (await connection.execute(select(opened.now_ms))).scalar_one() / 1_000
            await connection.run_sync(refuse_newer)
    except ConfigError as error:
        return bad("database", error.message, "use the Armory that wrote it, or a saved copy")
    except (ArmoryError, TimeoutError) as error:
        what = error.message if isinstance(error, ArmoryError) else "it does not answer"
        return bad("database", what, _FILE if url.startswith("sqlite") else _SERVER)
    finally:
        if opened is not None:
            await opened.close()
    apart = abs(theirs - time.time())
    if apart > _SKEW_S:
        fix = "set both clocks by NTP; keys and quotas go by them"
        return bad("clock", f"the database's differs by {apart:.0f} s", fix)
    return well("database", "it answers")


def _not_made_yet(url: str) -> str | None:
    """The file of a SQLite database that is not there; None: it is, or there is none."""
    file = make_url(url).database if url.startswith("sqlite") else None
    return file if file and not Path(file).exists() else None


async def redis(url: str) -> Finding:
    """Whether Redis answers."""
    from armory.storage.opening import make_cache

    fix = "start it, or correct storage.redis: host, port, password, `rediss://` for TLS"
    try:
        cache = make_cache(url, timeout_s=5.0)
    except ArmoryError as error:
        return bad("redis", error.message, fix)
    try:
        await cache.get("doctor")
    except ArmoryError as error:
        return bad("redis", error.message, fix)
    finally:
        await cache.aclose()
    return well("redis", "it answers")


async def retrieval(loaded: Loaded) -> list[Finding]:
    """Whether texts can be embedded, and where the vectors are."""
    rag = loaded.config.tool_rag
    if lacks_openai_key(loaded.config):
        fix = "set OPENAI_API_KEY (tool_rag.openai.api_key), or embedding_model: embedded"
        return [bad("embedder", f"{rag.embedding_model} needs a key, and there is none", fix)]
    try:
        retriever = open_retriever(loaded)
    except ArmoryError as error:
        return [bad("embedder", error.message, "correct the block tool_rag")]
    assert retriever is not None
    found: list[Finding] = []
    try:
        found.append(await _embedder(retriever.embedder, rag.embedding_model))
        problem = await retriever.check_store()
        fix = f"start what tool_rag.index: {rag.index} needs, or use `exact`, which needs nothing"
        found.append(
            bad("index", problem, fix) if problem else well("index", f"{rag.index} answers")
        )
    finally:
        await retriever.aclose()
    return found


async def _embedder(embedder: object, model: str) -> Finding:
    embed = getattr(embedder, "embed_queries", None)
    if embed is None:
        return odd("embedder", "there is none: tools are found by words alone", "name a model")
    began = time.perf_counter()
    try:
        async with asyncio.timeout(WITHIN_S):
            vectors = await embed(["what time is it"])
    except (ArmoryError, TimeoutError, OSError) as error:
        what = error.message if isinstance(error, ArmoryError) else "it does not answer"
        fix = "correct tool_rag.embedding_model, openai.base_url or the key; until then words count"
        return bad("embedder", f"{model}: {what}", fix)
    took_ms = (time.perf_counter() - began) * 1_000
    return well("embedder", f"{model}: {len(vectors[0])} dimensions, {took_ms:.0f} ms a query")
