"""An index's vectors quantized to int8, one scale a vector: quicker to multiply than floats.

Owns: `QuantizedVectors`. Never imports an index, an embedder or a ranker.

Multiplying a query with a large matrix takes as long as reading the matrix. Int8 is a quarter of
float32, and products of bytes are cheap. NumPy has no fast int8 product; onnxruntime has, as the
operator `MatMulInteger`, so the product is a model of that one operator. Queries are quantized to
two bytes: with one, the error of the query would shift the cosines of all similar tools alike, and
so their mean. Sums of integers are exact, so a cosine depends neither on the tools beside it nor,
among x86-64 machines, on the processor.
"""

from __future__ import annotations

import itertools
import platform
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armory.errors import BackendError
from armory.retrieval.indexes.base import Segments
from armory.retrieval.ports import FloatArray, IntArray

#: Bytes of vectors are within 127, those of queries within 64 +- 63, so that processors which add
#: pairs of products in 16 bits do not overflow: 2 x 127 x 127 < 2**15.
TOP = 127
_QUERY_TOP = 63
QUERY_ZERO = 64
#: How much finer the second byte of a query's component is than the first.
QUERY_FINER = 2 * _QUERY_TOP
#: Vectors quantized at a time.
_BLOCK = 1_024
#: Cosines worked out at a time: each takes some 16 bytes for a while.
_AT_ONCE = 6_000_000
#: Fewer vectors are multiplied as quickly as floats.
_FROM = 8_000
#: Elements; a model's tensor is smaller than 2 GB. And sums of products stay within 32 bits.
_UNTIL = 2_000_000_000
_DIMENSIONS = 2**31 // (TOP * TOP * (QUERY_FINER + 1))
#: Deviations of a quantized cosine within which all but one in some ten thousand are.
_SURE = 4.0
#: The scale of a vector of zeros, which has no cosine with anything.
_LEAST = np.float32(1e-9)


def is_quicker(segments: Segments, vectors: int | None = None) -> bool:
    """Whether `QuantizedVectors` is quicker than the floats; measured on x86-64 alone.

    Args:
        segments: the vectors.
        vectors: how many to assume; None: as many as there are.
    """
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    count, dimension = segments.matrix.shape
    count = count if vectors is None else vectors
    return x86 and count >= _FROM and dimension <= _DIMENSIONS and count * dimension < _UNTIL


class QuantizedVectors:
    """The vectors of `segments` (one or more) and their products; immutable.

    Attributes:
        error_bound: the most by which a cosine is off, but for one in some ten thousand: four
            standard deviations, where each component is off evenly by up to half a scale.
    """

    def __init__(self, segments: Segments) -> None:
        starts = segments.starts
        sizes = np.diff(starts)
        # the first vectors of all tools, then the second ones, ...
        self._owners = [np.flatnonzero(sizes > slot) for slot in range(int(sizes.max()))]
        places = np.concatenate([starts[of] + slot for slot, of in enumerate(self._owners)])
        count = len(places)
        self._scale = np.empty(count, np.float32)
        matrix = np.empty((segments.dimension, count), np.int8)
        for start in range(0, count, _BLOCK):
            part = slice(start, start + _BLOCK)
            vectors = segments.matrix.take(places[part], 0)
            self._scale[part] = scale = scales(vectors, TOP)
            vectors /= scale[:, None]
            matrix[:, part] = np.rint(vectors, out=vectors).T
        self.error_bound = _SURE / 12**0.5 * float(self._scale.max())
        self._session, self._held = packed_matmul(matrix)

    def best(self, queries: FloatArray) -> FloatArray:
        """(m, n) float32: best cosine of each query with each tool, to within `error_bound`."""
        return best_of_slots(self._products(queries), self._owners)

    def _products(self, queries: FloatArray) -> FloatArray:
        """(m, N) cosines."""
        few = max(1, _AT_ONCE // len(self._scale))
        if len(queries) > few:
            parts = range(0, len(queries), few)
            return np.concatenate([self._products(queries[i : i + few]) for i in parts])
        rows, step = two_byte_queries(queries)
        first, second = multiplied(self._session, {"queries": rows}).reshape(2, len(queries), -1)
        first *= np.int32(QUERY_FINER)
        first += second
        found = first.astype(np.float32)
        found *= self._scale
        found *= (step / QUERY_FINER)[:, None]
        return found


def scales(vectors: FloatArray, top: int) -> FloatArray:
    """(v,) float32: the scale of each of (v, d) vectors whose bytes go up to `top`."""
    return np.maximum(np.abs(vectors).max(1) / np.float32(top), _LEAST)


def two_byte_queries(queries: FloatArray) -> tuple[NDArray[np.uint8], FloatArray]:
    """Queries quantized to two bytes, and their scales.

    Returns:
        (2 m, d) the first bytes of all queries, then the second ones, which are `QUERY_FINER` times
        as fine, both with the zero point `QUERY_ZERO`; (m,) the scales of the first ones.
    """
    step = scales(queries, _QUERY_TOP)
    given = queries / step[:, None]
    first = np.rint(given)
    second = np.rint((given - first) * QUERY_FINER)
    return (np.concatenate([first, second]) + QUERY_ZERO).astype(np.uint8), step


def best_of_slots(cosine: FloatArray, owners: Sequence[IntArray]) -> FloatArray:
    """(m, n) the best cosine of each tool, in [-1, 1].

    Args:
        cosine: (m, N) of the first vectors of all tools, then of the second ones, ...; it is
            overwritten, and what is found stands in it.
        owners: for each slot the tools that have so many.
    """
    found = cosine[:, : len(owners[0])]
    ends = np.cumsum([len(some) for some in owners]).tolist()
    for some, (start, end) in zip(owners[1:], itertools.pairwise(ends), strict=True):
        others = cosine[:, start:end]
        if others.shape == found.shape:
            np.maximum(found, others, out=found)
        else:  # row by row: NumPy is slow at both axes together
            for row, other in zip(found, others, strict=True):
                row[some] = np.maximum(row.take(some), other)
    return np.clip(found, -1.0, 1.0, out=found)


def multiplied(session: Any, given: Mapping[str, NDArray[Any]]) -> NDArray[np.int32]:
    """The products.

    Raises:
        BackendError: onnxruntime fails, for want of memory say.
    """
    try:
        return session.run(None, given)[0]
    except Exception as error:
        raise BackendError(f"the vectors cannot be searched: {error}") from error


@cache
def matmul() -> Any:
    """A session that multiplies uint8 rows, `queries`, with any (d, N) int8 `matrix`."""
    return _opened(_model("d", "n"), _options())


def packed_matmul(matrix: NDArray[np.int8]) -> tuple[Any, Any]:
    """A session that multiplies uint8 rows, less `QUERY_ZERO`, with one (d, N) matrix; and what has
    to live as long as it.

    On most processors onnxruntime packs a copy of the matrix; elsewhere it reads the matrix itself.

    Raises:
        BackendError: onnxruntime refuses it, for want of memory say.
    """
    import onnxruntime  # heavy: only where a catalog is large

    options = _options()
    given = onnxruntime.OrtValue.ortvalue_from_numpy(matrix)
    options.add_external_initializers(["matrix"], [given])
    return _opened(_model(*matrix.shape), options), given


def _options() -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False
    return options


def _opened(model: bytes, options: Any) -> Any:
    import onnxruntime

    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise BackendError(f"the vectors cannot be made searchable: {error}") from error


def _model(dimension: int | str, count: int | str) -> bytes:
    """`products = MatMulInteger(queries, matrix)` as ONNX, a protocol buffer.

    (m, d) uint8 times (d, N) int8 is (m, N) int32. The matrix is not in it: of a known size, it is
    given with the options, which copies it once less, and `QUERY_ZERO` is taken off the queries;
    else it comes with the queries.
    """
    uint8, int8, int32, external = 2, 3, 6, 1
    fixed = isinstance(dimension, int) and isinstance(count, int)
    node = _field(1, b"queries") + _field(1, b"matrix") + (_field(1, b"zero") if fixed else b"")
    node += _field(2, b"products") + _field(4, b"MatMulInteger")
    graph = _field(1, node) + _field(2, b"quantized")
    if isinstance(dimension, int) and isinstance(count, int):
        zero = _field(2, uint8) + _field(8, b"zero") + _field(9, bytes([QUERY_ZERO]))
        graph += _field(5, zero)
        matrix = _field(1, dimension) + _field(1, count) + _field(2, int8) + _field(8, b"matrix")
        place = _field(1, b"location") + _field(2, b"given with the options")
        graph += _field(5, matrix + _field(13, place) + _field(14, external))
    else:
        graph += _field(11, _values(b"matrix", int8, dimension, count))
    graph += _field(11, _values(b"queries", uint8, "m", dimension))
    graph += _field(12, _values(b"products", int32, "m", count))
    ir_version, opset = 8, 13
    return _field(1, ir_version) + _field(7, graph) + _field(8, _field(2, opset))


def _values(name: bytes, kind: int, rows: int | str, columns: int | str) -> bytes:
    shape = b"".join(
        _field(1, _field(1, size) if isinstance(size, int) else _field(2, size.encode()))
        for size in (rows, columns)
    )
    return _field(1, name) + _field(2, _field(1, _field(1, kind) + _field(2, shape)))


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])
