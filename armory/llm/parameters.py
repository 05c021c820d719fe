"""The optional parameters of a chat request, and which of them an endpoint rejects.

Owns: those parameters, and reading rejections. Never imports `openai`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, TypedDict, cast

from armory.logger import Logger
from armory.observability.redaction import HIDDEN, redacted

_log = Logger(__name__)
_UNSUPPORTED = frozenset({"unsupported_parameter", "unsupported_value"})
_WORD = re.compile(r"[a-z_]+")
_SHORTEST = 6
"""Shorter keys are not looked for: they would be found in any text."""
_MESSAGE_CHARS = 300
"""Characters of an endpoint's own message that are shown."""


class RequestParameters(TypedDict, total=False):
    """The parameters of one request."""

    temperature: float
    max_tokens: int
    max_completion_tokens: int
    stop: list[str]


class Parameters:
    """The parameters for one endpoint, without those that it has rejected.

    Reasoning models of some providers take `max_completion_tokens` for `max_tokens`, no `stop`, and
    no `temperature` but their own.
    """

    def __init__(self) -> None:
        self._refused: set[str] = set()

    def of(self, max_tokens: int | None, stop: Sequence[str]) -> RequestParameters:
        """The parameters of the next request.

        Args:
            max_tokens: cap on the answer; None: the endpoint's own.
            stop: texts before which the model is to stop.
        """
        given: RequestParameters = {}
        if "temperature" not in self._refused:
            given["temperature"] = 0.0  # as repeatable as the model can be
        if max_tokens is not None and "max_tokens" not in self._refused:
            given["max_tokens"] = max_tokens
        elif max_tokens is not None and "max_completion_tokens" not in self._refused:
            given["max_completion_tokens"] = max_tokens
        if stop and "stop" not in self._refused:
            given["stop"] = list(stop)
        return given

    def refused(self, body: object, given: RequestParameters) -> bool:
        """Whether an error is about one of the parameters, which is then not sent again.

        Args:
            body: the `error` of the answer, as parsed.
            given: what was asked.
        """
        name = _named(body, given)
        if name is None:
            return False
        if name not in self._refused:
            _log.info("chat_parameter_left_out", parameter=name)
        self._refused.add(name)
        return True


def _named(body: object, given: Iterable[str]) -> str | None:
    """The parameter that an endpoint reports as unsupported."""
    said = _message(body)
    members = cast("dict[str, Any]", body) if isinstance(body, dict) else {}
    if members.get("code") not in _UNSUPPORTED and "support" not in said.lower():
        return None
    parameter = members.get("param")
    if isinstance(parameter, str) and parameter:
        return parameter if parameter in given else None
    # Some name it in their message alone: "Argument not supported on this model: stop".
    return next((word for word in _WORD.findall(said) if word in given), None)


def error_text(body: object, secret: str) -> str:
    """One line from the `error` of an answer, without secrets; "" if it has no message.

    Args:
        body: as parsed.
        secret: the key that was sent, "" for none.
    """
    said = " ".join(_message(body).split())
    if len(secret) >= _SHORTEST:
        said = said.replace(secret, HIDDEN)
    said = redacted(said)
    return said if len(said) <= _MESSAGE_CHARS else f"{said[:_MESSAGE_CHARS]}..."


def _message(body: object) -> str:
    if isinstance(body, str):
        return "" if body.lstrip().startswith("<") else body
    if not isinstance(body, dict):
        return ""
    members = cast("dict[str, Any]", body)
    return next(
        (said for key in ("message", "detail") if isinstance(said := members.get(key), str)), ""
    )
