"""What can go wrong with a chat model, one class per way.

Owns: the errors of `armory.llm`. Never imports anything but `armory.errors`.
"""

from __future__ import annotations

from armory.errors import BackendError


class ChatError(BackendError):
    """The chat endpoint could not be used; subclasses say how."""


class ChatTimeout(ChatError):
    """No complete answer came within the time limit."""


class ChatLimited(ChatError):
    """The endpoint refused because of a rate limit or a used-up quota (HTTP 429)."""


class ChatUnavailable(ChatError):
    """The endpoint cannot be reached, broke off, or failed by itself (HTTP 5xx)."""


class ChatRejected(ChatError):
    """The endpoint refuses the request as it stands (HTTP 4xx): key, model name or content."""

    lasts = True


class ChatMalformed(ChatError):
    """The endpoint answered something that is not a chat completion."""
