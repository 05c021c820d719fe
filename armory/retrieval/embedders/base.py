"""What every embedder shares: checking vectors, hashing texts.

Owns: `unit_rows`, `as_floats`, `text_hash`, `vector_of`. The Protocol is
`armory.retrieval.ports.Embedder`. Never imports a model, a client or an index.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from armory.errors import BackendError
from armory.retrieval.ports import FloatArray

#: Characters that are kept of a text: no supported model reads more, and tokenizers stay quick.
MAX_TEXT_CHARS = 32_000


def text_hash(text: str) -> str:
    """SHA-256 (hex) of a text; lone surrogates allowed."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def encodable(texts: Sequence[str]) -> list[str]:
    """Texts that any model can read: cut, lone surrogates replaced, never empty."""
    return [t[:MAX_TEXT_CHARS].encode("utf-8", "replace").decode("utf-8") or " " for t in texts]


def unit_rows(vectors: ArrayLike, count: int, dimension: int, identity: str) -> FloatArray:
    """Validate and normalise the vectors of a model.

    Args:
        vectors: (n, d) numbers.
        count: expected n.
        dimension: expected d.
        identity: the embedder, for the message.

    Returns:
        (n, d) float32 unit rows.

    Raises:
        BackendError: wrong shape, NaN or infinity, a length beyond float32, or an all-zero row.
    """
    try:
        found: Any = as_floats(vectors)
    except (TypeError, ValueError) as error:
        raise BackendError(f"embedder {identity}: the vectors are not numbers: {error}") from error
    if count == 0:
        return np.zeros((0, dimension), np.float32)
    if found.shape != (count, dimension):
        raise BackendError(
            f"embedder {identity}: got vectors of shape {found.shape}, expected "
            f"{(count, dimension)}; check the model name and its dimensions"
        )
    with np.errstate(over="ignore"):
        norms = np.linalg.norm(found, axis=1, keepdims=True)
    if not np.isfinite(norms).all():
        raise BackendError(f"embedder {identity}: a vector has NaN, infinite or immense components")
    if not (norms > 1e-12).all():
        raise BackendError(f"embedder {identity}: a vector is zero and has no direction")
    return found / norms


def as_floats(numbers: ArrayLike) -> FloatArray:
    """Numbers as float32; one that is too large for it is infinite.

    Raises:
        TypeError, ValueError: they are no numbers, or of no shape.
    """
    with np.errstate(over="ignore"):
        return np.asarray(numbers, dtype=np.float32)


def vector_of(blob: bytes | str, dimension: int) -> FloatArray | None:
    """(d,) float32 from little-endian bytes; None if they are not a vector of this dimension."""
    if not isinstance(blob, bytes) or len(blob) != 4 * dimension:
        return None
    vector = np.frombuffer(blob, "<f4").astype(np.float32)
    return vector if np.isfinite(vector).all() else None
