"""The embedder that ships: a small transformer as int8 ONNX; no download, no torch, no key.

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
from armory.retrieval.embedders.base import encodable, unit_rows
from armory.retrieval.ports import FloatArray

SHIPPED = Path(__file__).resolve().parent.parent / "models" / "embedded"
_BATCH = 16
_CHARS_A_TOKEN = 12


class EmbeddedEmbedder:
    """A folder with `model.onnx`, `tokenizer.json` and `config.json`, loaded on first use.

    The graph takes `input_ids` and `attention_mask` and gives `embedding`, pooled. Queries and
    documents have a thread each, so that a query never waits for more than one batch of documents.

    Args:
        folder: the model; default: the one that ships.
        threads: onnxruntime threads a run; default: up to 4 of the machine's cores.
        batch: texts a run, cut from texts sorted by length.

    Raises:
        ConfigError: the folder is not a model.
    """

    def __init__(
        self, folder: Path | str = SHIPPED, *, threads: int | None = None, batch: int = _BATCH
    ) -> None:
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
        self._threads = threads or min(4, os.cpu_count() or 1)
        self._batch = batch
        self._lock = threading.Lock()
        self._loaded: tuple[Any, Any] | None = None
        self._document_pool = ThreadPoolExecutor(1, "armory-embed-documents")
        self._query_pool = ThreadPoolExecutor(1, "armory-embed-queries")

    @property
    def identity(self) -> str:
        """As in the model's `config.json`."""
        return self._identity

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._dimension

    async def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        """(n, d) float32 unit rows; one thread hop a batch, so other work gets its turn."""
        prepared = [self._prefixes[0] + text for text in self._cut(texts)]
        order = sorted(range(len(prepared)), key=lambda i: len(prepared[i]))
        found = np.zeros((len(prepared), self._dimension), np.float32)
        loop = asyncio.get_running_loop()
        for start in range(0, len(order), self._batch):
            chosen = order[start : start + self._batch]
            batch = [prepared[i] for i in chosen]
            found[chosen] = await loop.run_in_executor(self._document_pool, self._run, batch)
        return found

    async def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        """(n, d) float32 unit rows."""
        prepared = [self._prefixes[1] + text for text in self._cut(texts)]
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._query_pool, self._run, prepared)

    async def aclose(self) -> None:
        """Let the threads end after their current batch."""
        self._document_pool.shutdown(wait=False, cancel_futures=True)
        self._query_pool.shutdown(wait=False, cancel_futures=True)

    def _cut(self, texts: Sequence[str]) -> list[str]:
        return encodable([text[: self._max_tokens * _CHARS_A_TOKEN] for text in texts])

    def _load(self) -> tuple[Any, Any]:
        with self._lock:
            if self._loaded is None:
                self._loaded = self._open()
            return self._loaded

    def _open(self) -> tuple[Any, Any]:
        import onnxruntime  # heavy: only when the first text comes
        from tokenizers import Tokenizer

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            tokenizer: Any = Tokenizer.from_file(str(self._folder / "tokenizer.json"))
            session: Any = onnxruntime.InferenceSession(
                str(self._folder / "model.onnx"), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            raise BackendError(
                f"the embedding model in {self._folder} cannot be loaded: {error}; "
                "reinstall the package"
            ) from error
        tokenizer.enable_truncation(self._max_tokens)
        tokenizer.enable_padding()
        return tokenizer, session

    def _run(self, texts: Sequence[str]) -> FloatArray:
        if not texts:
            return np.zeros((0, self._dimension), np.float32)
        tokenizer, session = self._load()
        encoded = tokenizer.encode_batch_fast(list(texts))
        inputs = {
            "input_ids": np.array([e.ids for e in encoded], np.int64),
            "attention_mask": np.array([e.attention_mask for e in encoded], np.int64),
        }
        try:
            (vectors,) = session.run(["embedding"], inputs)
        except Exception as error:
            raise BackendError(f"embedder {self._identity} failed: {error}") from error
        return unit_rows(vectors, len(texts), self._dimension, self._identity)
