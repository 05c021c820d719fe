"""Embeddings from any API compatible with OpenAI's.

Owns: the client, retries, cost. One of the two files that import `openai`. Never imports an index.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from openai import (
    APIConnectionError,
    APIError,
    APIStatusError,
    APITimeoutError,
    AsyncOpenAI,
    AuthenticationError,
    PermissionDeniedError,
    RateLimitError,
)

from armory.errors import BackendError, ConfigError
from armory.llm.bounded import AnswerTooLarge, bounded_client
from armory.llm.parameters import error_text
from armory.llm.tokens import estimate_tokens
from armory.logger import Logger
from armory.protocol.headers import retry_after
from armory.retrieval.embedders.base import as_floats, encodable, unit_rows
from armory.retrieval.embedders.openai_limits import TOO_MUCH, Limits, RequestRefused
from armory.retrieval.embedders.openai_models import MODELS, dimension_of
from armory.retrieval.options import PartOptions
from armory.retrieval.ports import FloatArray

_log = Logger(__name__)

_MAX_TEXTS = 2_048
_MAX_TOKENS = 250_000
_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 20.0
_OTHER_BYTES, _NUMBER_BYTES = 1 << 20, 32
"""Most bytes of an answer beside its vectors, and of each number of a vector that is written
out."""
_TOLD = "the embeddings API failed; administrators see why in `armory status`"
_NOT_FOUND = "; check the model's name, and whether the URL is to end in /v1"
_OPENAI = "https://api.openai.com/v1"
"""Said to the client, which would else go by OPENAI_BASE_URL."""


@dataclass(slots=True)
class Cost:
    """The cost so far.

    Attributes:
        requests: answered requests.
        tokens: as the API counted, else as estimated.
        dollars: by OpenAI's list price; None for models without a known one.
    """

    requests: int = 0
    tokens: int = 0
    dollars: float | None = None


class OpenAIEmbedder:
    """Vectors over HTTP.

    Args:
        model: name at the API.
        api_key: None or empty: none is sent; OpenAI itself needs one.
        base_url: up to and including `/v1`; None: OpenAI's.
        dimensions: shorter vectors, where the model can; needed for models that are not OpenAI's.
        timeout_s: of one attempt.
        retries: further attempts after 429, 5xx, a lost connection or a timeout.
        max_texts: texts a request; fewer, once the API has refused so many.
        max_tokens: estimated tokens a request.
        wait_s: first wait before another attempt; doubles, with jitter.

    Raises:
        ConfigError: no key for OpenAI, or an unknown dimension.
    """

    def __init__(
        self,
        model: str = "text-embedding-3-small",
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        dimensions: int | None = None,
        timeout_s: float = 20.0,
        retries: int = 4,
        max_texts: int = _MAX_TEXTS,
        max_tokens: int = _MAX_TOKENS,
        wait_s: float = _FIRST_WAIT_S,
    ) -> None:
        if not api_key and base_url is None:
            raise ConfigError(
                f"{model} needs an OpenAI key: set OPENAI_API_KEY (or tool_rag.openai.api_key), "
                "or use embedding_model: embedded, which needs none",
                path="tool_rag.embedding_model",
            )
        known = MODELS.get(model)
        self._model = model
        self._dimension = dimension_of(model, dimensions)
        asked = dimensions is not None and (known is None or dimensions != known[0])
        self._price = known[1] if known and base_url is None else None
        self._retries = retries
        self._wait_s = wait_s
        self._limits = Limits(max_texts, max_tokens, dimensions if asked else None)
        self._answer_bytes = _OTHER_BYTES + max_texts * self._dimension * _NUMBER_BYTES
        self._where = base_url or _OPENAI
        self._key, self._timeout_s = api_key or "none", timeout_s
        self._opened: tuple[asyncio.AbstractEventLoop, AsyncOpenAI] | None = None
        self.cost = Cost(dollars=None if self._price is None else 0.0)

    @property
    def identity(self) -> str:
        """Model and dimension; the URL as well where it is not OpenAI's."""
        where = "" if self._price is not None else f"@{self._where}"
        return f"openai:{self._model}:{self._dimension}{where}"

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._dimension

    async def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        """(n, d) float32 unit rows, batch by batch."""
        return await self._embed(texts, self._retries)

    async def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        """(n, d) float32 unit rows; retried only once, because a caller waits."""
        return await self._embed(texts, min(self._retries, 1))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client().close()

    def _client(self) -> AsyncOpenAI:
        """The client of this event loop: connections end with the loop that they were opened by."""
        loop = asyncio.get_running_loop()
        if self._opened is None or self._opened[0] is not loop:
            made = AsyncOpenAI(
                api_key=self._key,
                base_url=self._where,
                timeout=self._timeout_s,
                max_retries=0,
                http_client=bounded_client(self._answer_bytes),
            )
            self._opened = loop, made
        return self._opened[1]

    async def _embed(self, texts: Sequence[str], retries: int) -> FloatArray:
        batches = self._limits.batches(encodable(texts))
        found = [await self._rows(batch, retries) for batch in batches]
        return np.concatenate([np.zeros((0, self._dimension), np.float32), *found])

    async def _rows(self, batch: list[str], retries: int) -> FloatArray:
        """(n, d) rows of a batch, asked for in parts where the API refuses it as a whole."""
        sent = self._limits.parameters
        try:
            return await self._with_retries(batch, retries)
        except RequestRefused as error:
            if self._limits.without(error) or self._limits.parameters != sent:
                return await self._rows(batch, retries)
            parts = self._limits.parts(batch)
            if not parts:
                raise
        smaller = (one for part in parts for one in self._limits.batches(part))
        found = [await self._rows(one, retries) for one in smaller]
        self._limits.learn(batch, parts)
        return np.concatenate(found)

    async def _with_retries(self, batch: list[str], retries: int) -> FloatArray:
        for attempt in range(retries + 1):
            try:
                return await self._request(batch)
            except (APIConnectionError, RateLimitError, APIStatusError) as error:
                if attempt == retries or not _worth_retrying(error):
                    raise self._failure(error) from error
                wait = self._pause(attempt, error)
                _log.info("embedding_retry", attempt=attempt + 1, wait_s=wait, why=_kind(error))
                await asyncio.sleep(wait)
            except (APIError, AnswerTooLarge, ValueError, OverflowError) as error:
                raise self._failure(error) from error
        raise AssertionError("every attempt returns or raises")

    def _pause(self, attempt: int, error: APIError) -> float:
        asked = _retry_after_s(error)
        wait = asked if asked is not None else self._wait_s * 2**attempt
        return min(wait, _LONGEST_WAIT_S) * random.uniform(1.0, 1.25)

    async def _request(self, batch: list[str]) -> FloatArray:
        answer = await self._client().embeddings.create(
            model=self._model, input=batch, **self._limits.parameters
        )
        rows: list[Any] = [None] * len(batch)
        data: Any = getattr(answer, "data", None)
        if not isinstance(data, list) or len(data) != len(batch):
            raise BackendError(
                f"{self._where} answered with {_size(data)} for {len(batch)} texts; "
                "is it an embeddings API?",
                told=_TOLD,
            )
        for place, item in enumerate(data):
            index = getattr(item, "index", None)
            rows[index if isinstance(index, int) and 0 <= index < len(rows) else place] = item
        vectors = [_vector(getattr(item, "embedding", None)) for item in rows]
        lengths = sorted({len(vector) for vector in vectors})
        if lengths != [self._dimension]:
            raise BackendError(
                f"{self._where}: vectors of length {lengths}, expected {self._dimension}; "
                "check tool_rag.openai.dimensions",
                told=_TOLD,
            )
        self._spend(batch, answer)
        try:
            return unit_rows(vectors, len(batch), self._dimension, self.identity)
        except BackendError as error:
            error.told = _TOLD  # the identity has the URL
            raise

    def _spend(self, batch: Sequence[str], answer: Any) -> None:
        counted = getattr(getattr(answer, "usage", None), "total_tokens", None)
        tokens = counted if isinstance(counted, int) else sum(map(estimate_tokens, batch))
        self.cost.requests += 1
        self.cost.tokens += tokens
        if self._price is not None and self.cost.dollars is not None:
            self.cost.dollars += tokens * self._price / 1e6

    def _failure(self, error: Exception) -> BackendError:
        found = self._failed(error)
        found.told = _TOLD
        return found

    def _failed(self, error: Exception) -> BackendError:
        where = f"the embeddings API at {self._where}"
        if isinstance(error, (AuthenticationError, PermissionDeniedError)):
            return BackendError(f"{where} refused the key (HTTP {error.status_code})")
        if isinstance(error, RateLimitError):
            return BackendError(
                f"{where} is over its rate limit or quota (HTTP 429){self._says(error)}",
                retry_after_s=_retry_after_s(error),
            )
        if isinstance(error, APITimeoutError):
            return BackendError(f"{where} did not answer in time")
        if isinstance(error, APIConnectionError):
            return BackendError(f"{where} cannot be reached: {error.__cause__ or error}")
        if isinstance(error, APIStatusError):
            return self._refusal(where, error)
        said = error if isinstance(error, AnswerTooLarge) else _kind(error)
        return BackendError(f"{where} sent something that is no answer: {said}")

    def _refusal(self, where: str, error: APIStatusError) -> BackendError:
        hint = _NOT_FOUND if error.status_code == 404 else ""
        message = f"{where} answered HTTP {error.status_code}{hint}{self._says(error)}"
        if error.status_code in TOO_MUCH:
            return RequestRefused(message, str(error.body).lower())
        return BackendError(message)

    def _says(self, error: APIStatusError) -> str:
        said = error_text(error.body, self._key)
        return f"; it says: {said}" if said else ""


def _worth_retrying(error: APIError) -> bool:
    if isinstance(error, APIStatusError):
        return error.status_code in (408, 409, 429) or error.status_code >= 500
    return isinstance(error, APIConnectionError)


def _retry_after_s(error: APIError) -> float | None:
    return retry_after(error.response.headers) if isinstance(error, APIStatusError) else None


def _kind(error: Exception) -> str:
    return type(error).__name__


def _size(data: object) -> str:
    return f"{len(data)} vectors" if isinstance(data, list) else "no vectors"


def _vector(value: Any) -> FloatArray:
    """A vector as base64 of little-endian float32, or as a list of numbers; empty for neither."""
    try:
        if isinstance(value, str):
            return np.frombuffer(base64.b64decode(value, validate=True), "<f4").astype(np.float32)
        found = as_floats(value)
    except (binascii.Error, ValueError, TypeError):
        return np.zeros(0, np.float32)
    return found if found.ndim == 1 else np.zeros(0, np.float32)


def open_embedder(model: str, options: PartOptions) -> OpenAIEmbedder:
    """A model of an OpenAI-compatible API.

    Raises:
        ConfigError: there is no key.
    """
    settings = options.openai
    return OpenAIEmbedder(
        model,
        api_key=settings.api_key,
        base_url=settings.base_url,
        dimensions=settings.dimensions,
    )
