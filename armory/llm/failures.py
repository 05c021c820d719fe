"""Converts the errors of `openai` to those of `armory.llm.errors`.

Owns: that table. Sends nothing.
"""

from __future__ import annotations

import json
from ssl import SSLCertVerificationError
from typing import NamedTuple, TypeVar

from openai import (
    APIConnectionError,
    APIError,
    APIResponseValidationError,
    APIStatusError,
    APITimeoutError,
)

from armory.llm.bounded import AnswerTooLarge
from armory.llm.errors import (
    ChatError,
    ChatLimited,
    ChatMalformed,
    ChatRejected,
    ChatTimeout,
    ChatUnavailable,
)
from armory.llm.parameters import error_text
from armory.protocol.headers import retry_after

_Cause = TypeVar("_Cause", bound=BaseException)
_KEY_REFUSED = (401, 403)
_HINTS = {
    401: "; check the key",
    403: "; check the key",
    404: "; check the model's name, and whether the URL is to end in /v1",
}
_BROKEN_OFF = ("ReadError", "RemoteProtocolError")
"""The HTTP library's errors of a server that was reached; `openai` chooses that library."""


class Endpoint(NamedTuple):
    """The endpoint that was called: one model at one base URL, with a key ("" for none) and a
    time-out.
    """

    base_url: str
    model: str
    key: str
    timeout_s: float


def chat_error(error: Exception, asked: Endpoint) -> ChatError:
    """The Armory error for an error of the library, or of parsing the answer; without the key.

    Args:
        error: an `openai.OpenAIError` or a `json.JSONDecodeError`.
        asked: what was asked.
    """
    where = f"the chat model {asked.model!r} at {asked.base_url}"
    if isinstance(error, APITimeoutError):
        return ChatTimeout(
            f"{where} gave no answer within {asked.timeout_s:g} s; raise the time limit, or "
            "use a smaller model"
        )
    if isinstance(error, APIResponseValidationError | json.JSONDecodeError):
        return ChatMalformed(f"{where} answered something that is no chat completion")
    if (endless := _caused_by(error, AnswerTooLarge)) is not None:
        return ChatMalformed(f"{where} answered something that is no chat completion: {endless}")
    if isinstance(error, APIConnectionError):
        return ChatUnavailable(f"{where} {_no_answer(error)}")
    if isinstance(error, APIStatusError):
        return _refusal(error, where, asked.key)
    if isinstance(error, APIError):
        says = _says(error, asked.key)
        return ChatUnavailable(f"{where} reported an error in the middle of an answer{says}")
    return ChatError(f"{where} could not be used ({type(error).__name__})")


def no_completion(answer: object, asked: Endpoint) -> ChatError:
    """The error for an answer with a good status that is not a completion.

    Args:
        answer: as the library read it; routers such as OpenRouter put an error into it.
        asked: what was asked.
    """
    error = getattr(answer, "error", None)
    if not error:
        return ChatMalformed(
            f"{asked.base_url} answered something that is no chat completion (no `choices`); "
            "is the URL that of an OpenAI-compatible API, ending in /v1?"
        )
    said = error_text(error, asked.key)
    says = f"; it says: {said}" if said else ""
    where = f"the chat model {asked.model!r} at {asked.base_url}"
    return ChatUnavailable(f"{where} reported an error{says}")


def _no_answer(error: BaseException) -> str:
    """Why the connection brought no whole answer."""
    if (refused := _caused_by(error, SSLCertVerificationError)) is not None:
        return f"cannot be reached: its certificate is not trusted ({refused.verify_message})"
    if type(error.__cause__).__name__ in _BROKEN_OFF:
        return (
            "broke off before its answer was complete; look for the reason in the log of its server"
        )
    return "cannot be reached; is the server running (for Ollama: `ollama serve`)?"


def _caused_by(error: BaseException, kind: type[_Cause]) -> _Cause | None:
    """The error of a kind that is another's cause, or that other itself; None: it has another."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, kind):
        cause = cause.__cause__ or cause.__context__
    return cause


def _refusal(error: APIStatusError, where: str, key: str) -> ChatError:
    """The error for an HTTP status."""
    status = error.status_code
    # What comes with a refused key may quote it.
    says = "" if status in _KEY_REFUSED else _says(error, key)
    if status == 429:
        return ChatLimited(
            f"{where} refuses more requests for now{says}",
            retry_after_s=retry_after(error.response.headers),
        )
    if status >= 500:
        return ChatUnavailable(f"{where} failed with HTTP {status}{says}")
    return ChatRejected(f"{where} refused with HTTP {status}{_HINTS.get(status, '')}{says}")


def _says(error: APIError, key: str) -> str:
    """What the endpoint itself says of an error, to be put behind ours."""
    said = error_text(error.body, key)
    return f"; it says: {said}" if said else ""
