"""The options of retrieval, as plain values.

Owns: the options of parts that live outside the process or on disk, the limits of an answer, and
every default that `armory.yaml` and the library share. Never imports a part, nor numpy: the
configuration is read without them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from armory.domain.query import Query

CALIBRATION = "calibration.json"
"""The file in the user data folder that `armory tune` writes."""
Strategy = Literal["description", "description_params", "synthetic_queries"]
ThresholdOn = Literal["calibrated", "raw"]
Quantization = Literal["int8"]

AUTO = "auto"
"""Lets the model's name decide on the provider."""
EMBEDDED = "embedded"
"""The model in the package, which needs no key and no download."""
NO_EMBEDDER = "none"
"""In place of a model: words only."""
STRATEGY: Strategy = "description_params"
RANKER = "relevance"
INDEX = "exact"
UNUSED_DAYS = 30.0
"""Days without use after which a Qdrant server loses a point, or a model's collection."""
SEARCHES = 512
"""Searches that run or wait at once, in all."""
SEARCHES_PER_CALLER = 256


@dataclass(frozen=True, slots=True)
class OpenAISettings:
    """`tool_rag.openai`."""

    base_url: str | None = None
    api_key: str | None = None
    dimensions: int | None = None


@dataclass(frozen=True, slots=True)
class QdrantSettings:
    """`tool_rag.qdrant`."""

    url: str | None = None
    path: str | None = None
    api_key: str | None = None
    collection: str = "armory"
    unused_days: float | None = UNUSED_DAYS
    quantization: Quantization | None = None


@dataclass(frozen=True, slots=True)
class PartOptions:
    """Options of embedders and indexes beyond the name; each uses its own.

    Attributes:
        openai: for models over HTTP.
        qdrant: for the index `qdrant`.
        models_dir: folder of downloaded models; None: the library's own.
    """

    openai: OpenAISettings = field(default_factory=OpenAISettings)
    qdrant: QdrantSettings = field(default_factory=QdrantSettings)
    models_dir: str | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """How many tools are shown, and from which score on.

    Attributes:
        threshold: least score (or raw score) of a shown tool; 0 is a threshold too. None: the best
            are shown whatever their score, and of a refused query as well.
        threshold_on: which of the two it is compared with.
        exact: nothing below the threshold is shown. Otherwise, where words are all there is, what
            the words name plainly is.
        min_tools: so many best tools are shown whatever their score, a refusal included.
        max_tools: no more than so many.
        token_budget: no more estimated tokens of definitions than this; None: no budget. Wins
            over `min_tools`. A tool that does not fit is left out, smaller ones after it may fit.
        min_raw: least raw score beside the threshold; None: any.
        min_cosine: least cosine beside the threshold, 0 where there are no vectors; None: any.
    """

    threshold: float | None = 0.5
    threshold_on: ThresholdOn = "calibrated"
    exact: bool = False
    min_tools: int = 0
    max_tools: int = 20
    token_budget: int | None = None
    min_raw: float | None = None
    min_cosine: float | None = None

    def of(self, query: Query) -> Limits:
        """These limits with the query's own; the query's threshold is exact."""
        limits = self
        if query.threshold is not None:
            limits = replace(limits, threshold=query.threshold, exact=True)
        if query.top_k is not None:
            limits = replace(limits, max_tools=query.top_k)
        return limits
