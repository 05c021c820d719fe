"""Vectors in a FAISS index that only grows.

Owns: the only import of `faiss`: adding, reading, searching under a lock. Never imports an embedder
or a ranker.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armory.errors import ConfigError
from armory.retrieval.ports import FloatArray, IntArray

BoolArray = NDArray[np.bool_]

_LINKS = 32
_EF = 256
_CHUNK = 512
#: Share of allowed vectors below which scanning them beats walking the graph.
_SCAN = 0.1


def require_faiss() -> Any:
    """The library.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        import faiss
    except ImportError as error:
        raise ConfigError(
            'index: faiss needs faiss-cpu: pip install "armory-mcp-gateway[faiss]"',
            path="tool_rag.index",
        ) from error
    return faiss


class Store:
    """A FAISS index that only grows; ids count from 0. Thread-safe."""

    def __init__(self, dimension: int, graph: bool) -> None:
        self._faiss = require_faiss()
        self.graph = graph
        self.dimension = dimension
        self._lock = threading.Lock()
        inner = self._faiss.METRIC_INNER_PRODUCT
        if graph:
            self._index: Any = self._faiss.IndexHNSWFlat(dimension, _LINKS, inner)
            self._index.hnsw.efConstruction = 100
            self._flat: Any = self._faiss.downcast_index(self._index.storage)
        else:
            self._index = self._flat = self._faiss.IndexFlatIP(dimension)

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def add(self, vectors: FloatArray, given_up: Callable[[], bool] = lambda: False) -> None:
        """Append, a chunk at a time, so that searches get their turn; on one core."""
        self._faiss.omp_set_num_threads(1)  # of the calling thread
        for start in range(0, len(vectors), _CHUNK):
            if given_up():
                return
            with self._lock:
                self._index.add(np.ascontiguousarray(vectors[start : start + _CHUNK]))

    def vectors(self, ids: IntArray) -> FloatArray:
        """(i, d) stored vectors."""
        if not len(ids):
            return np.zeros((0, self.dimension), np.float32)
        with self._lock:
            return self._flat.reconstruct_batch(ids)

    def search(self, queries: FloatArray, k: int, mask: BoolArray | None) -> IntArray:
        """(m, k) ids of the nearest vectors, -1 where there are none; `mask` says which may be."""
        faiss = self._faiss
        with self._lock:
            bits = None
            if mask is not None:
                later = np.zeros(len(self) - len(mask), np.bool_)  # added since the view was made
                bits = np.packbits(np.concatenate([mask, later]), bitorder="little")
            selector = None if bits is None else faiss.IDSelectorBitmap(bits)
            few = mask is not None and mask.sum() < _SCAN * len(self)
            if self.graph and not few:
                params = faiss.SearchParametersHNSW(efSearch=max(_EF, k), sel=selector)
                found = self._index.search(queries, k, params=params)
            else:
                params = faiss.SearchParameters(sel=selector)
                found = self._flat.search(queries, k, params=params)
        return found[1]
