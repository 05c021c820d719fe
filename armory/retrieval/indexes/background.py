"""Statistics over all tools for an index that does not score every tool: from a sample.

Owns: `Background`. Never imports a store, an embedder or a ranker.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

from armory.retrieval.indexes.base import statistics
from armory.retrieval.indexes.compact import Compact
from armory.retrieval.ports import FloatArray, IntArray, Sample, VectorHits

#: Tools in the sample; catalogs up to this size are sampled whole.
SAMPLE = 16_384
_FLOOR = 64


class Background:
    """A sample of tools whose cosines give the mean and deviation of all.

    It is chosen by a hash of the key, so replicas and restarts choose the same tools.

    Args:
        rows: (s,) ascending rows of the sampled tools.
        vectors: theirs.
        total: how many tools there are.
    """

    def __init__(self, rows: IntArray, vectors: Compact, total: int) -> None:
        self.rows = rows
        self.vectors = vectors
        self._complete = len(rows) == total

    @staticmethod
    def choose(keys: Sequence[str]) -> IntArray:
        """The ascending rows of the sample, of tools that have these keys."""
        if len(keys) <= SAMPLE:
            return np.arange(len(keys))
        codes = np.fromiter((zlib.crc32(k.encode("utf-8", "replace")) for k in keys), np.uint32)
        return np.sort(np.argsort(codes, kind="stable")[:SAMPLE])

    @staticmethod
    def around(sample: Sample, rows: IntArray, cosine: FloatArray) -> VectorHits:
        """Hits of some tools, with the sample that stands for the others.

        Args:
            sample: of the same queries and allowed rows.
            rows: (c,) ascending, of the allowed ones.
            cosine: (m, c) theirs; NaN where it is unknown, for which what is known here stands.
        """
        if sample.complete:
            places = np.searchsorted(sample.rows, rows)
            cosine = np.where(np.isnan(cosine), sample.cosine[:, places], cosine)
            sample.cosine[:, places] = cosine
        mean, std = statistics(sample.cosine)
        cosine = np.where(np.isnan(cosine), mean[:, None], cosine)
        return VectorHits(rows, cosine, mean, std, sample=sample)

    def sample(self, queries: FloatArray, allowed: IntArray | None) -> Sample:
        """The best cosine of each sampled tool that is allowed; of all sampled ones if few are.

        Args:
            queries: (m, d).
            allowed: ascending rows that are searched; None: all.
        """
        cosine = self.vectors.best(queries)
        if self._complete:
            if allowed is None:
                return Sample(self.rows, cosine, complete=True)
            return Sample(allowed, cosine[:, allowed], complete=True)
        if allowed is not None:
            inside = np.flatnonzero(np.isin(self.rows, allowed, assume_unique=True))
            if len(inside) >= _FLOOR:
                return Sample(self.rows[inside], cosine[:, inside])
        return Sample(self.rows, cosine)
