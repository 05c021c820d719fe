"""Keeping a shared Qdrant server tidy: points and collections that nobody uses are deleted.

Owns: marking what is in use from time to time, the registry of Armory's collections, taking turns
at collecting, and collecting. Which points are in use, `qdrant` knows. Never imports an embedder or
a ranker.

The registry is a collection of its own, a point for each collection with the time of its last use.
Points and collections that no gateway has marked for the configured time are deleted, by whichever
gateway takes the turn: two at once would delete the same, so a turn need not be exclusive.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Collection

from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

from armory.errors import BackendError
from armory.logger import Logger
from armory.retrieval.indexes.qdrant_access import Access
from armory.retrieval.indexes.qdrant_points import LAYOUT, MARK_S, USED, Points
from armory.tasks import spawn, stop

_log = Logger(__name__)

#: Seconds until a gateway's first round, between rounds, and after a failed one; how long a turn to
#: collect lasts.
_FIRST_S = 60.0
ROUND_S = MARK_S / 2
_RETRY_S = 600.0
TURN_S = MARK_S
#: Seconds after which a claim of the turn is read again: another gateway may have claimed it too.
SETTLE_S = 2.0
_PAGE = 1_000
_TURN = "turn"


class Upkeep:
    """The maintenance rounds of one gateway on one server.

    Args:
        access: the client.
        points: of the model.
        prefix: first part of the collections' names.
        unused_days: after so many days without use something goes; None: never.
        ids: gives the points that this gateway uses.
        now: seconds since the epoch.
    """

    def __init__(
        self,
        access: Access,
        points: Points,
        prefix: str,
        unused_days: float | None,
        ids: Callable[[], Collection[str]],
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._access = access
        self._points = points
        self._prefix = prefix
        self._registry = f"{prefix}-registry-v{LAYOUT}"
        self._unused_s = None if unused_days is None else unused_days * 86_400
        self._ids = ids
        self._now = now
        self._name = uuid.uuid4().hex
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the rounds; does nothing if they run."""
        if self._task is None:
            self._task = spawn(self._run(), "Qdrant: upkeep")

    async def stop(self) -> None:
        """Stop the rounds."""
        await stop(self._task)

    async def round(self) -> None:
        """Mark what is in use; if it is this gateway's turn, delete what is unused.

        Raises:
            BackendError: the server failed.
        """
        await self.register()
        ids = list(self._ids())
        found = await self._access.run(lambda client: self._points.present(client, ids))
        if len(found) < len(set(ids)):
            self._access.doubted = True
        if self._unused_s is not None and await self._takes_turn():
            before = int(self._now() - self._unused_s)
            await self._access.run(lambda client: self._collect(client, before))

    async def register(self) -> None:
        """Mark the collection as used, before it holds anything.

        Raises:
            BackendError: the server failed.
        """
        await self._access.run(self._marked)

    async def _run(self) -> None:
        work, wait = self.register, _FIRST_S
        while True:
            try:
                await work()
            except BackendError as error:
                _log.info("qdrant_upkeep_failed", error=str(error))
                wait = _RETRY_S
            await asyncio.sleep(wait)
            work, wait = self.round, ROUND_S

    def _marked(self, client: QdrantClient) -> None:
        self._ensure(client)
        payload = {"collection": self._points.name, USED: int(self._now())}
        self._put(client, self._points.name, payload)

    def _ensure(self, client: QdrantClient) -> None:
        if client.collection_exists(self._registry):
            return
        try:
            client.create_collection(
                self._registry, models.VectorParams(size=1, distance=models.Distance.DOT)
            )
        except UnexpectedResponse:
            if not client.collection_exists(self._registry):
                raise

    def _put(self, client: QdrantClient, name: str, payload: dict[str, str | int]) -> None:
        point = models.PointStruct(id=_id(name), vector=[1.0], payload=payload)
        client.upsert(self._registry, [point], wait=True)

    async def _takes_turn(self) -> bool:
        """Whether nobody else has collected lately, nor is about to."""
        if not await self._access.run(self._asks_for_turn):
            return False
        await asyncio.sleep(SETTLE_S)
        return await self._access.run(lambda client: self._turn(client)[0] == self._name)

    def _asks_for_turn(self, client: QdrantClient) -> bool:
        now = int(self._now())
        if self._turn(client)[1] > now:
            return False
        self._put(client, _TURN, {"by": self._name, "until": now + int(TURN_S)})
        return True

    def _turn(self, client: QdrantClient) -> tuple[str, int]:
        """Who has it, and until when."""
        for point in client.retrieve(self._registry, [_id(_TURN)]):
            payload = point.payload or {}
            by, until = payload.get("by"), payload.get("until")
            if isinstance(by, str) and isinstance(until, int):
                return by, until
        return "", 0

    def _collect(self, client: QdrantClient, before: int) -> None:
        """Delete what was last used before then."""
        earlier = models.FieldCondition(key=USED, range=models.Range(lt=before))
        unused = models.Filter(must=[earlier])
        kept, removed = client.count(self._points.name).count, list[str]()
        client.delete(self._points.name, models.FilterSelector(filter=unused), wait=True)
        kept -= client.count(self._points.name).count
        points, _ = client.scroll(self._registry, scroll_filter=unused, limit=_PAGE)
        for point in points:
            name = str((point.payload or {}).get("collection", ""))
            if self._is_own(name) and self._unused(client, name, before):
                client.delete_collection(name)
                client.delete(self._registry, [point.id])
                removed.append(name)
        if kept or removed:
            _log.info("qdrant_collected", points=kept, collections=removed)

    def _is_own(self, name: str) -> bool:
        """Whether it is a collection of another model under the same prefix and layout."""
        ours = name.startswith(f"{self._prefix}-") and name.endswith(f"-v{LAYOUT}")
        return ours and name not in (self._registry, self._points.name)

    def _unused(self, client: QdrantClient, name: str, before: int) -> bool:
        """Whether no point of the collection was used since."""
        if not client.collection_exists(name):
            return True
        since = models.FieldCondition(key=USED, range=models.Range(gte=before))
        return client.count(name, models.Filter(must=[since])).count == 0


def _id(name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, name))
