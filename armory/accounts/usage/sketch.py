"""Latencies as a DDSketch: percentiles within one percent, mergeable, a few hundred bytes.

Owns: the sketch's parameters and its stored form. Never imports storage.
"""

from __future__ import annotations

import msgspec
from ddsketch.ddsketch import BaseDDSketch
from ddsketch.mapping import LogarithmicMapping
from ddsketch.store import CollapsingLowestDenseStore

RELATIVE_ACCURACY = 0.01
_BINS = 1024
_WAITING = 1_024
"""Latencies that are collected before they are sorted into bins, since one by one costs more."""


class _Stored(msgspec.Struct, array_like=True):
    bins: list[tuple[int, float]]
    zeros: float = 0.0


class LatencySketch:
    """Latencies in milliseconds."""

    def __init__(self) -> None:
        self._mapping = LogarithmicMapping(RELATIVE_ACCURACY)
        self._store = CollapsingLowestDenseStore(_BINS)
        negative = CollapsingLowestDenseStore(_BINS)
        self._sketch = BaseDDSketch(self._mapping, self._store, negative, 0.0)
        self._waiting: list[float] = []

    def __len__(self) -> int:
        return round(self._sketch.count) + len(self._waiting)

    def add(self, *latencies_ms: float) -> None:
        """Add latencies; a negative one counts as 0."""
        self._waiting += latencies_ms
        if len(self._waiting) >= _WAITING:
            self._settle()

    def _settle(self) -> None:
        """Sort the pending latencies into bins, equal bins together."""
        waiting, self._waiting = self._waiting, []
        key_of, least = self._mapping.key, self._mapping.min_possible
        bins: dict[int, tuple[float, float]] = {}
        zeros = 0.0
        for latency in waiting:
            if latency <= least:
                zeros += 1
                continue
            key = key_of(latency)
            found = bins.get(key)
            bins[key] = (latency, 1.0) if found is None else (found[0], found[1] + 1)
        for latency, count in bins.values():
            self._sketch.add(latency, count)
        if zeros:
            self._sketch.add(0.0, zeros)

    def merge(self, other: LatencySketch) -> None:
        """Add what `other` has recorded."""
        self._settle()
        other._settle()
        self._sketch.merge(other._sketch)

    def quantile(self, q: float) -> float | None:
        """The latency below which a share `q` in [0, 1] lies; None without any."""
        self._settle()
        value = self._sketch.get_quantile_value(q)
        return None if value is None else float(value)

    def to_bytes(self) -> bytes:
        """The stored form: the bins that are not empty."""
        self._settle()
        store = self._store
        bins = [(i + store.offset, count) for i, count in enumerate(store.bins) if count]
        zeros = self._sketch.count - store.count
        return msgspec.msgpack.encode(_Stored(bins, zeros))

    @classmethod
    def from_bytes(cls, data: bytes) -> LatencySketch:
        """The reverse of `to_bytes`; an unreadable or empty form is an empty sketch."""
        made = cls()
        if not data:
            return made
        try:
            stored = msgspec.msgpack.decode(data, type=_Stored)
        except msgspec.DecodeError:
            return made
        value_of = made._mapping.value
        for key, count in stored.bins:
            made._sketch.add(value_of(key), count)
        if stored.zeros > 0:
            made._sketch.add(0.0, stored.zeros)
        return made
