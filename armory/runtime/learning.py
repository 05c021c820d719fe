"""`tool_rag.learn_from_use`: queries that led to a successful call become evidence for the tool.

Owns: matching calls with the queries before them, what is learned and what is not, and keeping it
over restarts. Never in a call's path: a queue, and one task behind it.

What does not count: failed calls, calls without a query of the same caller shortly before, queries
that name the tool (whoever names it needs no help), callers with the scope `no-learning`. What a
single caller can do to a tool is bounded in `retrieval.uses`.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import structlog
from cachetools import TTLCache

from armory.domain.principal import Principal
from armory.domain.query import Query
from armory.errors import ArmoryError
from armory.retrieval.ports import FloatArray
from armory.retrieval.uses import UseEntry, UseVectors

_log = structlog.get_logger(__name__)
USES = "uses.npz"
OPT_OUT = "no-learning"
FOLLOWS_S = 600.0
SAVE_S = 60.0
_CALLERS = 10_000
_WAITING = 1_000


class Embedding(Protocol):
    """The part of the retriever that is needed here."""

    async def embedding(self, text: str) -> FloatArray | None:
        """(d,) float32 unit vector of a query; None where only words are searched."""
        ...


class Learning:
    """The sink of `gateway.ports.ToolEvents` behind `learn_from_use`.

    Args:
        uses: what is remembered; read by the retriever.
        engine: gives the embedder, None while there is none.
        folder: where it is kept.
        model: name of the embedder; what another one wrote is not read.
    """

    def __init__(
        self, uses: UseVectors, engine: Callable[[], Embedding | None], folder: Path, model: str
    ) -> None:
        self.uses = uses
        self._engine = engine
        self._path = folder / USES
        self._model = model
        self._asked: TTLCache[str, tuple[str, ...]] = TTLCache(_CALLERS, FOLLOWS_S, time.monotonic)
        self._queue: asyncio.Queue[tuple[str, str, str | None]] = asyncio.Queue(_WAITING)
        self._task: asyncio.Task[None] | None = None
        self._dirty = False

    async def start(self) -> None:
        """Read what is kept and begin to learn."""
        self.uses.restore(await asyncio.to_thread(read_uses, self._path, self._model))
        self._task = asyncio.get_running_loop().create_task(self._run(), name="learning")

    async def close(self) -> None:
        """Keep what was learned."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await self._save()

    def listed(
        self, principal: Principal, query: Query | None, *, selected: tuple[str, ...] = (), **_: Any
    ) -> None:
        """Remember what this caller looks for."""
        if query is not None and OPT_OUT not in principal.scopes:
            self._asked[principal.key] = query.texts

    def called(
        self,
        principal: Principal,
        tool: str,
        *,
        ok: bool,
        latency_ms: float,
        query: str | None = None,
    ) -> None:
        """A success after a query is evidence."""
        texts = (query,) if query else self._asked.get(principal.key, ())
        if not ok or OPT_OUT in principal.scopes:
            return
        for text in texts:
            if tool.casefold() in text.casefold() or self._queue.full():
                continue
            self._queue.put_nowait((text, tool, principal.user))

    async def _run(self) -> None:
        saved = time.monotonic()
        while True:
            try:
                async with asyncio.timeout(SAVE_S):
                    await self._learn(*await self._queue.get())
            except TimeoutError:
                pass
            except ArmoryError as error:
                _log.info("use_not_learned", error=error.message)
            if self._dirty and time.monotonic() - saved > SAVE_S:
                saved = time.monotonic()
                await self._save()

    async def _learn(self, text: str, tool: str, user: str | None) -> None:
        engine = self._engine()
        vector = None if engine is None else await engine.embedding(text)
        if vector is not None:
            self.uses.learn(text, vector, tool, user)
            self._dirty = True

    async def _save(self) -> None:
        if not self._dirty:
            return
        self._dirty = False
        try:
            await asyncio.to_thread(write_uses, self._path, self._model, self.uses.entries())
        except OSError as error:
            _log.error("uses_not_stored", error=str(error))


def write_uses(path: Path, model: str, entries: list[UseEntry]) -> None:
    """Replace the file. Raises `OSError` when it cannot be written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    heads = [[e.tool, e.user, e.key, e.at] for e in entries]
    vectors = np.stack([e.vector for e in entries]) if entries else np.zeros((0, 0), np.float32)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    with os.fdopen(handle, "wb") as file:
        np.savez(file, head=np.array(json.dumps({"model": model, "uses": heads})), vectors=vectors)
    Path(name).replace(path)


def read_uses(path: Path, model: str) -> list[UseEntry]:
    """What `write_uses` wrote for the same model; nothing from a file that is not its own."""
    try:
        with np.load(path, allow_pickle=False) as found:
            head, vectors = json.loads(str(found["head"])), found["vectors"]
        if head["model"] != model or len(vectors) != len(head["uses"]):
            return []
        return [
            UseEntry(tool, user, key, vectors[i].astype(np.float32), at)
            for i, (tool, user, key, at) in enumerate(head["uses"])
        ]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError) as error:
        _log.warning("uses_not_read", path=str(path), error=str(error))
        return []
