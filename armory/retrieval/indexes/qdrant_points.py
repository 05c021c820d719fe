"""A Qdrant collection that any number of gateways share: points by content, nothing owned by one.

Owns: a point's id and payload, creating the collection, writing, reading and marking points. What
a catalog holds is `qdrant`'s knowledge, searching is `qdrant_view`'s. Never imports an embedder
or a ranker.

A point is named by what was embedded (the row's digest: model and texts) and by the server that
filters look at, so equal tools of any gateways are one point, other tools are another, and writing
a point twice changes nothing. A gateway therefore never deletes what it does not know: it marks
what it uses with the time.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

from armory.retrieval.options import Quantization
from armory.retrieval.ports import FloatArray, Row

T = TypeVar("T")

#: Layout of points, part of the collection's name: gateways of another layout use another.
LAYOUT = 2
#: Points a request.
BATCH = 256
#: Components a request. One takes up to 20 bytes of JSON, and a server takes 32 MB by default.
COMPONENTS = 400_000
#: Seconds after which a point in use is marked again.
MARK_S = 6 * 3600
_PAGE = 1_000
_INT8 = models.ScalarQuantization(
    scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, always_ram=True)
)
USED = "used"
"""The payload field with the time of a point's last use, in seconds."""


def point_id(row: Row) -> str:
    """The id of a row's point: the same for equal content, whatever the tool is called."""
    named = f"{row.server}\0{row.digest}".encode("utf-8", "surrogatepass")
    code = hashlib.blake2b(named, digest_size=16).hexdigest()
    return f"{code[:8]}-{code[8:12]}-{code[12:16]}-{code[16:20]}-{code[20:]}"


def as_lists(vectors: FloatArray) -> list[list[float]]:
    """Vectors as the client takes them."""
    return vectors.astype(np.float64).tolist()


class Points:
    """Blocking work on the points of one model.

    Args:
        name: of the collection.
        dimension: of its vectors.
        local: the client library's local mode, which has no payload indexes.
        quantization: of a collection that is created; one that is there stays as it is.
        now: seconds since the epoch.
    """

    def __init__(
        self,
        name: str,
        dimension: int,
        *,
        local: bool,
        quantization: Quantization | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.name = name
        self._dimension = dimension
        self._local = local
        self._small = _INT8 if quantization == "int8" else None
        self._now = now
        self._indexed = False

    def ensure(self, client: QdrantClient) -> None:
        """Create the collection where it is missing; several gateways at once make one."""
        if not client.collection_exists(self.name):
            try:
                client.create_collection(
                    self.name,
                    vectors_config=models.VectorParams(
                        size=self._dimension,
                        distance=models.Distance.DOT,
                        multivector_config=models.MultiVectorConfig(
                            comparator=models.MultiVectorComparator.MAX_SIM
                        ),
                        on_disk=self._small is not None,
                        quantization_config=self._small,
                    ),
                )
            except UnexpectedResponse:
                if not client.collection_exists(self.name):
                    raise
            self._indexed = False
        if not self._local and not self._indexed:
            for field, kind in (
                ("server", models.PayloadSchemaType.KEYWORD),
                (USED, models.PayloadSchemaType.INTEGER),
            ):
                client.create_payload_index(self.name, field, kind)
            self._indexed = True

    def present(self, client: QdrantClient, ids: Iterable[str]) -> set[str]:
        """Which of these points there are. They are marked as used, and so stay."""
        found: set[str] = set()
        due: list[str] = []
        for page in chunks(ids, _PAGE):
            for point in client.retrieve(self.name, page, with_payload=[USED]):
                used = (point.payload or {}).get(USED)
                recent = isinstance(used, int) and self._now() - used < MARK_S
                if recent or self._local:
                    found.add(str(point.id))
                else:
                    due.append(str(point.id))
        for page in chunks(due, _PAGE):
            client.set_payload(self.name, {USED: int(self._now())}, points=list(page), wait=True)
            # only what is there after it was marked is safe from being collected
            found.update(str(p.id) for p in client.retrieve(self.name, page, with_payload=False))
        return found

    def put(self, client: QdrantClient, given: Iterable[tuple[str, Row, FloatArray]]) -> None:
        """Write points, by requests that a server takes whatever the dimension."""
        used = int(self._now())
        for page in _fitting(given):
            client.upsert(
                self.name,
                [
                    models.PointStruct(
                        id=identifier,
                        vector=as_lists(vectors),
                        payload={"server": row.server, USED: used},
                    )
                    for identifier, row, vectors in page
                ],
                wait=True,
            )

    def vectors(self, client: QdrantClient, ids: Iterable[str]) -> dict[str, FloatArray]:
        """Vectors of those points that are there, by id."""
        found: dict[str, FloatArray] = {}
        for page in chunks(ids, BATCH):
            for point in client.retrieve(self.name, page, with_payload=False, with_vectors=True):
                found[str(point.id)] = np.array(point.vector, np.float32)
        return found

    def count(self, client: QdrantClient) -> int:
        """How many points there are, those of others included."""
        return client.count(self.name, exact=True).count


def chunks(items: Iterable[T], size: int) -> Iterable[list[T]]:
    """The items in lists of at most `size`."""
    page: list[T] = []
    for item in items:
        page.append(item)
        if len(page) == size:
            yield page
            page = []
    if page:
        yield page


def _fitting(
    given: Iterable[tuple[str, Row, FloatArray]],
) -> Iterable[Sequence[tuple[str, Row, FloatArray]]]:
    """Lists of at most `BATCH` points and `COMPONENTS` components, but one point at least."""
    page: list[tuple[str, Row, FloatArray]] = []
    size = 0
    for entry in given:
        if page and (len(page) == BATCH or size + entry[2].size > COMPONENTS):
            yield page
            page, size = [], 0
        page.append(entry)
        size += entry[2].size
    if page:
        yield page
