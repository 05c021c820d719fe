"""Embedders and indexes that a caller of `ToolMemory` names.

Owns: making them, an unknown name told as the argument's. Never imports the memory.
"""

from __future__ import annotations

import os

from armory.retrieval.library.arguments import naming_argument
from armory.retrieval.options import OpenAISettings, PartOptions
from armory.retrieval.ports import Embedder, VectorIndex
from armory.retrieval.registry import make_embedder, make_index


def embedder_named(model: str) -> Embedder | None:
    """The embedder of a name; one of OpenAI's with the key and the URL that its own libraries go
    by.
    """
    where = os.environ.get("OPENAI_BASE_URL") or None
    openai = OpenAISettings(base_url=where, api_key=os.environ.get("OPENAI_API_KEY"))
    with naming_argument("embedder"):
        return make_embedder(model, options=PartOptions(openai=openai))


def index_named(index: VectorIndex | str, model: Embedder | None) -> VectorIndex | None:
    """The index of a name; one of the caller's own as it is."""
    if not isinstance(index, str):
        return index
    with naming_argument("index"):
        return make_index(index, model)
