"""Vectors for tests of indexes: the same ones for the same seed."""

from __future__ import annotations

import numpy as np

from armory.retrieval.ports import FloatArray


def unit(shape: tuple[int, int], seed: int = 0) -> FloatArray:
    """(n, d) float32 unit rows."""
    found = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)
