"""Local models through fastembed (extra `local`): all-MiniLM-L6-v2, BGE-large, or a folder.

Owns: the only import of `fastembed`'s text models. Never imports an index.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from armory.errors import BackendError, ConfigError
from armory.retrieval.embedders.base import encodable, text_hash, unit_rows
from armory.retrieval.options import PartOptions
from armory.retrieval.ports import FloatArray

#: Short names that the configuration accepts.
ALIASES = {
    "all-MiniLM-L6-v2": "sentence-transformers/all-MiniLM-L6-v2",
    "BGE-large": "BAAI/bge-large-en-v1.5",
}
#: How fastembed's descriptions say that a model reads nothing else.
_ENGLISH = re.compile(r", English,|supports English only")
_BATCH = 1  # int8 models: a text's vector must not depend on its neighbours


class FastembedEmbedder:
    """A model that fastembed knows by name, downloaded on first use, or one in a folder.

    Args:
        model: a name, or the path of a folder with `config.json`, `tokenizer.json`,
            `tokenizer_config.json`, `special_tokens_map.json` and `model.onnx` (or
            `onnx/model.onnx`).
        cache_dir: where downloaded models are kept.

    Raises:
        ConfigError: the extra is not installed, the name is unknown, or the folder is no model.
    """

    def __init__(self, model: str, *, cache_dir: str | None = None) -> None:
        try:
            from fastembed import TextEmbedding
        except ImportError as error:
            raise ConfigError(
                f'{model} needs fastembed: pip install "armory-mcp-gateway[local]"',
                path="tool_rag.embedding_model",
            ) from error
        self._class: Any = TextEmbedding
        self._options: dict[str, Any] = {"cache_dir": cache_dir}
        folder = Path(os.path.expanduser(model))
        if folder.is_dir():
            self._name, self._dimension = _register(self._class, folder)
            self._english_only = False
            self._options["specific_model_path"] = str(folder)
        else:
            self._name = ALIASES.get(model, model)
            self._dimension, self._english_only = _known(self._class, self._name)
        self._model: Any = None
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(2, "armory-fastembed")

    @property
    def identity(self) -> str:
        """`fastembed:` and the model's name."""
        return f"fastembed:{self._name}"

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._dimension

    @property
    def english_only(self) -> bool:
        """Whether fastembed's description of the model names English alone."""
        return self._english_only

    async def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        """(n, d) float32 unit rows."""
        return await self._embed(texts, "passage_embed")

    async def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        """(n, d) float32 unit rows."""
        return await self._embed(texts, "query_embed")

    async def aclose(self) -> None:
        """Let the threads end."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _embed(self, texts: Sequence[str], method: str) -> FloatArray:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self._run, encodable(texts), method)

    def _run(self, texts: Sequence[str], method: str) -> FloatArray:
        try:
            with self._lock:
                if self._model is None:
                    place = located(self._class.EMBEDDINGS_REGISTRY, self._name, **self._options)
                    self._model = self._class(self._name, **self._options, **place)
            options = {"batch_size": _BATCH} if method == "passage_embed" else {}
            vectors = list(getattr(self._model, method)(texts, **options))
        except Exception as error:
            raise BackendError(
                f"fastembed model {self._name} failed: {str(error).rstrip('.')}; the first use "
                "downloads it, a folder that holds it may be named instead"
            ) from error
        return unit_rows(vectors, len(texts), self._dimension, self.identity)


def located(
    kinds: Iterable[Any],
    name: str,
    cache_dir: str | None = None,
    specific_model_path: str | None = None,
    **_options: Any,
) -> dict[str, str]:
    """The option that says where a model's files are, downloaded if need be; {}: it is given.

    In one attempt. The library itself makes three and sleeps for 39 seconds over them, in which
    nothing can end; who indexes tries again anyway.

    Args:
        kinds: the library's classes of models.
        name: of the model.
        cache_dir: where downloaded models are kept.
        specific_model_path: where the model is, if that is known.
    """
    from fastembed.common.utils import define_cache_dir

    if specific_model_path is not None:
        return {}
    folder = str(define_cache_dir(cache_dir))
    for kind in kinds:
        for model in kind._list_supported_models():
            if model.model.lower() == name.lower():
                return {"specific_model_path": str(kind.download_model(model, folder, retries=1))}
    return {}


def _known(library: Any, name: str) -> tuple[int, bool]:
    """The dimension of a model, and whether it reads English alone."""
    models: dict[str, Any] = {m["model"]: m for m in library.list_supported_models()}
    if name not in models:
        raise ConfigError(
            f"fastembed has no model {name!r}; one of its names "
            "(https://qdrant.github.io/fastembed) or a folder is expected",
            path="tool_rag.embedding_model",
        )
    return int(models[name]["dim"]), bool(_ENGLISH.search(str(models[name].get("description"))))


def _register(library: Any, folder: Path) -> tuple[str, int]:
    """Tell fastembed about a folder; its name is the folder's with a hash of the configuration."""
    from fastembed.common.model_description import ModelSource, PoolingType

    try:
        text = (folder / "config.json").read_text(encoding="utf-8")
        config: Any = json.loads(text)
        dimension = int(config.get("hidden_size") or config["dimension"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{folder} holds no model: config.json with hidden_size is expected ({error!r})",
            path="tool_rag.embedding_model",
        ) from error
    files = [f for f in ("onnx/model.onnx", "model.onnx") if (folder / f).is_file()]
    if not files:
        raise ConfigError(f"{folder} has no model.onnx", path="tool_rag.embedding_model")
    size = (folder / files[0]).stat().st_size
    name = f"local/{folder.resolve().name}-{text_hash(f'{text}{size}')[:8]}"
    if name not in {m["model"] for m in library.list_supported_models()}:
        pooled = bool(config.get("normalised"))  # the graph pools and normalises by itself
        library.add_custom_model(
            model=name,
            pooling=PoolingType.DISABLED if pooled else PoolingType.MEAN,
            normalization=not pooled,
            sources=ModelSource(hf=name),
            dim=dimension,
            model_file=files[0],
        )
    return name, dimension


def open_embedder(model: str, options: PartOptions) -> FastembedEmbedder:
    """A fastembed model by name, or a folder.

    Raises:
        ConfigError: the extra is not installed, or the model is unknown.
    """
    return FastembedEmbedder(model, cache_dir=options.models_dir)
