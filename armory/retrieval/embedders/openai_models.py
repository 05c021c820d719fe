"""Facts about OpenAI's embedding models.

Owns: their dimensions and prices. Never imports the client: a configuration is checked without it.
"""

from __future__ import annotations

from armory.errors import ConfigError

MODELS = {
    "text-embedding-3-small": (1536, 0.02),
    "text-embedding-3-large": (3072, 0.13),
    "text-embedding-ada-002": (1536, 0.10),
}
"""Dimension and price (US dollars a million tokens)."""


def dimension_of(model: str, wanted: int | None) -> int:
    """Length of a model's vectors.

    Args:
        model: name at the API.
        wanted: as configured; None: the model's own.

    Raises:
        ConfigError: the length is neither known nor configured.
    """
    if wanted is not None:
        return wanted
    if model not in MODELS:
        raise ConfigError(
            f"the dimension of {model!r} is not known; set it",
            path="tool_rag.openai.dimensions",
        )
    return MODELS[model][0]
