"""How much of an answer is read: an API that does not end fills no memory.

Owns: the HTTP client that the library `openai` sends with, and the end of each answer. Never reads
what an answer says.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from typing import Any

from openai import DefaultAsyncHttpxClient, OpenAIError

ANSWER_BYTES = 8 << 20
"""Largest answer of a chat model, unpacked: the longest ones, thinking included, are below 1
MiB."""
_MIB = 1 << 20


class AnswerTooLarge(OpenAIError):
    """An answer goes on beyond what is read of one."""


def bounded_client(most: int) -> DefaultAsyncHttpxClient:
    """A client that reads so many bytes of each answer, unpacked, and then breaks it off."""

    async def bound(response: Any) -> None:
        # both a whole answer and a stream are read by this; so is an answer that tells an error
        response.aiter_bytes = partial(_at_most, response.aiter_bytes, most)

    return DefaultAsyncHttpxClient(event_hooks={"response": [bound]})


async def _at_most(
    read: Callable[..., AsyncGenerator[bytes]], most: int, chunk_size: int | None = None
) -> AsyncGenerator[bytes]:
    left = most
    async with aclosing(read(chunk_size)) as pieces:
        async for piece in pieces:
            left -= len(piece)
            if left < 0:
                raise AnswerTooLarge(f"the answer is over {most / _MIB:.0f} MiB")
            yield piece
