"""What one embeddings API takes: texts a request, tokens a text, parameters.

Owns: what it has refused, which is not sent to it again. APIs that are called compatible differ in
it (100 texts a request, or 32; models that read 512 tokens; no `dimensions`), and say so only when
they are asked for more. Never imports `openai`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from armory.errors import BackendError
from armory.llm.tokens import estimate_tokens
from armory.logger import Logger

_log = Logger(__name__)

TOO_MUCH = (400, 413, 422)
"""HTTP statuses of requests that ask for too much, or are refused for another reason."""
_TEXT_TOKENS = 8_000
_FEWEST_TOKENS = 100
"""A text of at most this length is refused for another reason than its length."""


class RequestRefused(BackendError):
    """An API refuses a request, maybe for its size.

    Attributes:
        said: the body of its answer, as text in lower case.
    """

    def __init__(self, message: str, said: str) -> None:
        super().__init__(message)
        self.said = said


class Limits:
    """What is sent to one API.

    Args:
        texts: most texts a request.
        tokens: most estimated tokens a request.
        dimensions: to ask for; None: the model's own.
    """

    def __init__(self, texts: int, tokens: int, dimensions: int | None) -> None:
        self._texts = texts
        self._tokens = tokens
        self._text_tokens = _TEXT_TOKENS
        self._dimensions = dimensions
        self._encoding = "base64"

    @property
    def parameters(self) -> dict[str, Any]:
        """Those of the next request, beside the model and the texts."""
        own = {} if self._dimensions is None else {"dimensions": self._dimensions}
        return {"encoding_format": self._encoding, **own}

    def batches(self, texts: Sequence[str]) -> Iterable[list[str]]:
        """The texts of each request; what is learnt from one holds for the next."""
        batch: list[str] = []
        tokens = 0
        for text in texts:
            size = estimate_tokens(text)
            if batch and (len(batch) >= self._texts or tokens + size > self._tokens):
                yield batch
                batch, tokens = [], 0
            if size > self._text_tokens:
                text = text[: len(text) * self._text_tokens // size]
                size = self._text_tokens
            batch.append(text)
            tokens += size
        if batch:
            yield batch

    def without(self, error: RequestRefused) -> bool:
        """Whether a refusal is about a parameter, which is then not sent again."""
        if self._dimensions is not None and _names(error, "dimension", "matryoshka"):
            self._dimensions = None
        elif self._encoding == "base64" and _names(error, "encoding_format", "base64"):
            self._encoding = "float"
        else:
            return False
        _log.info("embedding_parameter_left_out", parameters=self.parameters)
        return True

    def parts(self, batch: Sequence[str]) -> list[list[str]]:
        """What to send in place of a refused batch; nothing if it was not refused for its size."""
        half = (len(batch) + 1) // 2
        if half < len(batch):
            return [list(batch[:half]), list(batch[half:])]
        text = batch[0]
        return [[text[: len(text) // 2]]] if estimate_tokens(text) > _FEWEST_TOKENS else []

    def learn(self, refused: Sequence[str], parts: Sequence[Sequence[str]]) -> None:
        """Send no more than that from now on.

        Args:
            refused: a batch.
            parts: what was answered in its place.
        """
        if len(refused) == 1:
            self._text_tokens = min(self._text_tokens, estimate_tokens(parts[0][0]))
        elif all(estimate_tokens(text) <= self._text_tokens for text in refused):
            self._texts = min(self._texts, len(parts[0]))
        _log.rate_limited("info", "embedding_limits", texts=self._texts, longest=self._text_tokens)


def _names(error: RequestRefused, *words: str) -> bool:
    return any(word in error.said for word in words)
