"""The built-in embedder: a small transformer as int8 ONNX; no download, no torch, no key.

Owns: onnxruntime and `tokenizers`, threads and batches. Never imports an index or anything above
retrieval.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from armory.errors import BackendError, ConfigError
from armory.libraries import read_ahead
from armory.retrieval.embedders.base import encodable, unit_rows
from armory.retrieval.options import EMBEDDED, PartOptions
from armory.retrieval.ports import FloatArray
from armory.threads import lower_priority

SHIPPED = Path(__file__).resolve().parent.parent / "models" / "embedded"
_CHUNK = 16
_CHARS_A_TOKEN = 12
#: Share of the whole text's vector that is subtracted from a clause's: its tokens, read in context,
#: also carry the other clauses (docs/relevance.md).
AROUND = 0.4
#: Nice values. The model computes without the interpreter's lock, so its threads come behind those
#: that may hold it: taking a core from one of these for 3 ms makes the event loop wait for the
#: lock. On a busy core documents get a thirtieth of it and long texts half of that; on an idle one,
#: all.
_QUERY_NICE, _LONG_NICE, _NICE = 6, 19, 15
#: Longer queries are embedded one at a time, behind usual ones.
_LONG_CHARS = 500


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class EmbeddedEmbedder:
    """A folder with `model.onnx`, `tokenizer.json` and `config.json`, loaded on first use.

    Where it has a `graph.onnx`, that is opened: the model for one text at a time, its weights left
    in `model.onnx`, from where they are mapped and not copied (`training.graph`).

    The graph takes `input_ids` and `attention_mask` and gives `embedding`, pooled, and
    `last_hidden_state`, the tokens in their context: a query is read once for all of its clauses.
    Every text runs by itself: int8 activations are scaled over a whole batch, so a text's vector
    would depend on its neighbours (cosine 0.97 to 0.99 between the two), and padding costs more
    than batches save.
    Queries, long ones and documents have threads of their own, so that a usual query never waits
    for the others, whose threads go behind.

    Args:
        folder: the model; default: the one that ships.
        threads: documents at a time, and queries; default: one a core, at most 4.

    Raises:
        ConfigError: the folder is not a model.
    """

    def __init__(self, folder: Path | str = SHIPPED, *, threads: int | None = None) -> None:
        self._folder = Path(folder)
        try:
            config: Any = json.loads((self._folder / "config.json").read_text(encoding="utf-8"))
            self._identity = str(config["identity"])
            self._dimension = int(config["dimension"])
            self._max_tokens = int(config["max_tokens"])
            self._prefixes = (str(config["doc_prefix"]), str(config["query_prefix"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"{self._folder} is not an embedding model ({error!r}); expected model.onnx, "
                "tokenizer.json and config.json; reinstall the package"
            ) from error
        workers = threads or min(4, _cores())
        self._lock = threading.Lock()
        self._loaded: tuple[Any, Any] | None = None
        self._document_pool = ThreadPoolExecutor(
            workers, "armory-embed-documents", lower_priority, (_NICE,)
        )
        self._query_pool = ThreadPoolExecutor(
            workers, "armory-embed-queries", lower_priority, (_QUERY_NICE,)
        )
        self._long_pool = ThreadPoolExecutor(1, "armory-embed-long", lower_priority, (_LONG_NICE,))

    @property
    def identity(self) -> str:
        """As in the model's `config.json`."""
        return self._identity

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._dimension

    @property
    def english_only(self) -> bool:
        """The model that ships was trained on English."""
        return True

    async def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        """(n, d) float32 unit rows."""
        return await self._embed(self._document_pool, self._prefixes[0], texts, _CHUNK)

    async def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        """(n, d) float32 unit rows."""
        return await self._embed(self._pool_for(texts), self._prefixes[1], texts, 1)

    async def embed_clauses(self, text: str, spans: Sequence[tuple[int, int]]) -> FloatArray:
        """(1 + s, d) float32 unit rows: the query, then each span of it, read in its context.

        A span of which the model sees nothing (beyond its longest text) is read by itself.
        """
        prefix = self._prefixes[1]
        (cut,) = self._cut([text])
        moved = [(start + len(prefix), end + len(prefix)) for start, end in spans]
        loop = asyncio.get_running_loop()
        vectors, unseen = await loop.run_in_executor(
            self._pool_for([text]), self._run_parts, prefix + cut, moved
        )
        if unseen:
            alone = [text[slice(*spans[i])] for i in unseen]
            vectors[[1 + i for i in unseen]] = await self.embed_queries(alone)
        return vectors

    async def _embed(
        self, pool: ThreadPoolExecutor, prefix: str, texts: Sequence[str], chunk: int
    ) -> FloatArray:
        prepared = [prefix + text for text in self._cut(texts)]
        parts = [prepared[start : start + chunk] for start in range(0, len(prepared), chunk)]
        loop = asyncio.get_running_loop()
        found = await asyncio.gather(*(loop.run_in_executor(pool, self._run, p) for p in parts))
        return np.concatenate([np.zeros((0, self._dimension), np.float32), *found])

    async def aclose(self) -> None:
        """Let the threads end after their current batch."""
        self._document_pool.shutdown(wait=False, cancel_futures=True)
        self._query_pool.shutdown(wait=False, cancel_futures=True)
        self._long_pool.shutdown(wait=False, cancel_futures=True)

    def _pool_for(self, texts: Sequence[str]) -> ThreadPoolExecutor:
        return self._query_pool if sum(map(len, texts)) <= _LONG_CHARS else self._long_pool

    def _cut(self, texts: Sequence[str]) -> list[str]:
        return encodable([text[: self._max_tokens * _CHARS_A_TOKEN] for text in texts])

    def _load(self) -> tuple[Any, Any]:
        with self._lock:
            if self._loaded is None:
                self._loaded = self._open()
            return self._loaded

    def _open(self) -> tuple[Any, Any]:
        for package in ("onnxruntime", "tokenizers"):
            read_ahead(package)
        import onnxruntime  # heavy: only when the first text comes
        from tokenizers import Tokenizer

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.add_free_dimension_override_by_name("batch", 1)  # folds shapes: a bit faster
        graph = self._folder / "graph.onnx"
        try:
            tokenizer: Any = Tokenizer.from_file(str(self._folder / "tokenizer.json"))
            session: Any = onnxruntime.InferenceSession(
                str(graph if graph.exists() else self._folder / "model.onnx"),
                options,
                providers=["CPUExecutionProvider"],
                # The fused sum and norm takes several times as long as the two by themselves.
                disabled_optimizers=["SkipLayerNormFusion"],
            )
        except Exception as error:
            raise BackendError(
                f"the embedding model in {self._folder} cannot be loaded: {error}; "
                "reinstall the package"
            ) from error
        tokenizer.enable_truncation(self._max_tokens)
        tokenizer.no_padding()
        return tokenizer, session

    def _run(self, texts: Sequence[str]) -> FloatArray:
        return np.concatenate([self._run_parts(text, ())[0] for text in texts])

    def _run_parts(
        self, text: str, spans: Sequence[tuple[int, int]]
    ) -> tuple[FloatArray, list[int]]:
        """(1 + s, d) vectors of the text and its spans, and which spans have no token.

        Those have the text's own vector.
        """
        tokenizer, session = self._load()
        encoded = tokenizer.encode(text)
        ids = np.array([encoded.ids], np.int64)
        names = ["embedding", "last_hidden_state"][: 2 if spans else 1]
        try:
            found = session.run(names, {"input_ids": ids, "attention_mask": np.ones_like(ids)})
        except Exception as error:
            raise BackendError(f"embedder {self._identity} failed: {error}") from error
        vectors, unseen = [found[0][0]], list[int]()
        for i, span in enumerate(spans):
            inside = tokens_within(encoded.offsets, span)
            vectors.append(clause_of(found[1][0], inside, found[0][0]) if inside else found[0][0])
            if not inside:
                unseen.append(i)
        return unit_rows(vectors, len(vectors), self._dimension, self._identity), unseen


def clause_of(tokens: FloatArray, inside: Sequence[int], whole: FloatArray) -> FloatArray:
    """(d,) vector of a clause: the mean of its tokens, less a share of the text around it.

    Args:
        tokens: (t, d) of the text, in context.
        inside: which of them are the clause's.
        whole: (d,) unit vector of the text.
    """
    mean = tokens[inside].mean(0)
    return mean / np.linalg.norm(mean) - AROUND * whole


def tokens_within(offsets: Sequence[tuple[int, int]], span: tuple[int, int]) -> list[int]:
    """The tokens whose characters lie within a span; special tokens have no characters."""
    return [i for i, (a, b) in enumerate(offsets) if span[0] <= a < b <= span[1]]


def open_embedder(model: str, options: PartOptions) -> EmbeddedEmbedder:
    """The embedder that ships with the package.

    Raises:
        ConfigError: another model is asked for, or its files are missing.
    """
    if model != EMBEDDED:
        raise ConfigError(
            f"the package has no model {model!r}; say `embedding_model: {EMBEDDED}`, or leave "
            "embedding_provider out, which then goes by the model's name",
            path="tool_rag.embedding_model",
        )
    return EmbeddedEmbedder()
