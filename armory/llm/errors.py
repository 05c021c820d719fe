"""The errors of chat models.

Owns: the errors of `armory.llm`. Never imports anything but `armory.errors`.
"""

from __future__ import annotations

from armory.errors import BackendError

_TOLD = "the chat model could not be used; administrators see why in the gateway's log"


class ChatError(BackendError):
    """The chat endpoint could not be used; subclasses say how. Callers are told no more."""

    def __init__(
        self, message: str, *, retry_after_s: float | None = None, told: str = _TOLD
    ) -> None:
        super().__init__(message, retry_after_s=retry_after_s, told=told)


class ChatTimeout(ChatError):
    """No complete answer came within the time limit."""


class ChatLimited(ChatError):
    """The endpoint refused because of a rate limit or a used-up quota (HTTP 429)."""


class ChatUnavailable(ChatError):
    """The endpoint is unreachable, closed the connection, or failed (HTTP 5xx)."""


class ChatRejected(ChatError):
    """The endpoint rejects the request (HTTP 4xx): key, model name or content."""

    lasts = True


class ChatMalformed(ChatError):
    """The answer is not a chat completion."""
