"""`tool_rag.learn_from_use`: queries that led to a successful call become evidence for the tool.

Owns: what of the events of calls is learned, and moving it between memory and database. Never in a
call's path: a bounded queue, and one task behind it.

What does not count: failed calls, calls that no query led to (`feedback.attribution`), queries that
name the tool (whoever names it needs no help), callers with the scope `no-learning`. What a single
user can do to a tool is bounded in `feedback.vectors`.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Protocol

import numpy as np

from armory.domain.principal import Principal
from armory.domain.results import CallOutcome, Listing
from armory.ending import at_most
from armory.errors import ArmoryError
from armory.feedback.attribution import NO_LEARNING
from armory.feedback.store import StoredUse, StoredUses
from armory.feedback.vectors import FeedbackVectors, UseEntry
from armory.logger import Logger
from armory.retrieval.embedders.base import text_hash
from armory.retrieval.ports import Embedder, FloatArray
from armory.storage.changes import LEARNED_USES, ChangeFeed
from armory.tasks import spawn, stop

_log = Logger(__name__)
BATCH_S = 1.0
REFRESH_S = 60.0
PRUNE_S = 3_600.0
_PRUNE_AFTER = 5_000
"""Stored uses after which old ones are deleted, at the latest."""
KEEP_DAYS = 400
_EMBED_S = 30.0
_LAST_S = 5.0
_WAITING = 1_000
_BATCH = 64
_TEXT_CHARS = 2_000


class Embedding(Protocol):
    """The part of the retriever that learning needs."""

    @property
    def embedder(self) -> Embedder | None:
        """The embedder; None: retrieval is lexical only."""
        ...

    async def embed(self, texts: Sequence[str]) -> FloatArray:
        """(n, d) float32 unit vectors of queries.

        Raises:
            BackendError: the embedder failed.
        """
        ...


@dataclass(frozen=True, slots=True)
class _Use:
    text: str
    tool: str
    user: str
    at_ms: int


class Learning:
    """The sink of `gateway.ports.ToolEvents` behind `learn_from_use`.

    Args:
        uses: what is remembered; read by the retriever.
        engine: gives the embedder, None while there is none.
        stored: where it is kept.
        feed: says when some of it was forgotten, here or elsewhere.
        redacted: a query without what must not be stored.
        batch_s: so long uses are collected before they are embedded and stored together.
    """

    def __init__(
        self,
        uses: FeedbackVectors,
        engine: Callable[[], Embedding | None],
        stored: StoredUses,
        feed: ChangeFeed,
        redacted: Callable[[str], str],
        *,
        batch_s: float = BATCH_S,
    ) -> None:
        self.uses = uses
        self._engine = engine
        self._stored = stored
        self._feed = feed
        self._redacted = redacted
        self._batch_s = batch_s
        self._waiting: deque[_Use] = deque()
        self._work = asyncio.Event()
        self._reload = True
        self._seen_ms = 0
        self._pruned = float("-inf")
        self._since_pruned = 0
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start learning; stored uses are loaded in the background."""
        self._feed.subscribe(LEARNED_USES, self._forgotten)
        self._task = spawn(self._run(), "learning")

    async def close(self) -> None:
        """Learn from the queued uses, within seconds, and stop."""
        await stop(self._task, timeout_s=at_most(_LAST_S))
        with suppress(TimeoutError):
            async with asyncio.timeout(at_most(_LAST_S)):
                await self._try(self._learn_waiting)

    def listed(self, principal: Principal, listing: Listing) -> None:
        """Nothing: queries are matched with calls elsewhere (`QueryAttribution`)."""

    def called(self, principal: Principal, call: CallOutcome) -> None:
        """Learn from a successful call that a query led to."""
        tool, query = call.tool, call.query
        if not call.ok or query is None or NO_LEARNING in principal.scopes:
            return
        if tool.casefold() in query.casefold() or len(self._waiting) == _WAITING:
            return
        self._waiting.append(_Use(query, tool, principal.owner, time.time_ns() // 1_000_000))
        self._work.set()

    async def _forgotten(self, _: str) -> None:
        self._waiting.clear()
        self._reload = True
        self._work.set()

    async def _run(self) -> None:
        while True:
            if self._reload:
                await self._try(self._load_all)
            with suppress(TimeoutError):
                async with asyncio.timeout(REFRESH_S):
                    await self._work.wait()
                    if not self._reload:
                        await asyncio.sleep(self._batch_s)
            self._work.clear()
            if self._reload:
                continue
            await self._try(self._learn_waiting)
            await self._try(self._load_new)
            late = time.monotonic() - self._pruned > PRUNE_S
            if late or self._since_pruned >= _PRUNE_AFTER:
                self._pruned = time.monotonic()
                self._since_pruned = 0
                await self._try(self._prune)

    async def _try(self, work: Callable[[], Any]) -> None:
        try:
            await work()
        except (ArmoryError, TimeoutError) as error:
            _log.warning("use_not_learned", step=work.__name__.strip("_"), error=str(error))

    async def _load_all(self) -> None:
        self._reload = False
        try:
            found, self._seen_ms = await self._stored.since()
        except ArmoryError:
            self._reload = True
            raise
        self.uses.forget()
        await self._take_over(found)
        _log.info("uses_loaded", uses=len(found))

    async def _load_new(self) -> None:
        found, self._seen_ms = await self._stored.since(self._seen_ms)
        await self._take_over(found)

    async def _take_over(self, found: Sequence[StoredUse]) -> None:
        """Add stored uses; those with vectors of another embedder are embedded again first."""
        engine = self._engine()
        if engine is None or engine.embedder is None:
            return
        identity = engine.embedder.identity
        ours = [use for use in found if use.embedder == identity]
        await asyncio.to_thread(self.uses.restore, [_entry(use) for use in ours])
        others = [use for use in found if use.embedder != identity]
        for first in range(0, len(others), _BATCH):
            if self._reload:
                return
            some = others[first : first + _BATCH]
            vectors = await self._embed(engine, [use.query for use in some])
            renewed = [
                replace(use, embedder=identity, vector=vector)
                for use, vector in zip(some, vectors, strict=True)
            ]
            await self._stored.add(renewed)
            self.uses.restore(_entry(use) for use in renewed)

    async def _learn_waiting(self) -> None:
        engine = self._engine()
        if engine is None or engine.embedder is None:
            self._waiting.clear()
            return
        identity = engine.embedder.identity
        while self._waiting and not self._reload:
            some = list(islice(self._waiting, _BATCH))
            uses = await self._embedded(engine, identity, some)
            await self._feed.poll()  # nothing of a user whom another process has just deleted
            if self._reload:
                return
            await asyncio.to_thread(self.uses.restore, [_entry(use) for use in uses])
            await self._stored.add(uses)
            self._since_pruned += len(uses)
            for _ in range(min(len(some), len(self._waiting))):
                self._waiting.popleft()

    async def _embedded(
        self, engine: Embedding, identity: str, some: Sequence[_Use]
    ) -> list[StoredUse]:
        texts = [self._redacted(use.text)[:_TEXT_CHARS] for use in some]
        vectors = await self._embed(engine, texts)
        return [
            StoredUse(use.tool, use.user, text_hash(text), text, identity, vector, use.at_ms)
            for use, text, vector in zip(some, texts, vectors, strict=True)
        ]

    async def _embed(self, engine: Embedding, texts: Sequence[str]) -> FloatArray:
        async with asyncio.timeout(_EMBED_S):
            return await engine.embed(texts)

    async def _prune(self) -> None:
        await self._stored.prune(KEEP_DAYS)


def _entry(use: StoredUse) -> UseEntry:
    norm = float(np.linalg.norm(use.vector)) or 1.0
    vector = (use.vector / norm).astype(np.float32)
    return UseEntry(use.tool, use.user, use.key, vector, use.at_ms / 1_000)
