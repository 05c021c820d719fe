"""A chat model behind an OpenAI-compatible URL (Ollama, vLLM, llama.cpp, OpenAI ...).

Owns: the chat calls, their time limits, retries and errors. The only file beside
`retrieval.embedders.openai` that imports `openai`; never imports another room of Armory.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypedDict

from openai import (
    APIConnectionError,
    APIError,
    APIResponseValidationError,
    APIStatusError,
    APITimeoutError,
    AsyncOpenAI,
    OpenAIError,
)

from armory.llm.errors import (
    ChatError,
    ChatLimited,
    ChatMalformed,
    ChatRejected,
    ChatTimeout,
    ChatUnavailable,
)
from armory.llm.tokens import estimate_tokens
from armory.logger import Logger

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionMessageParam

_log = Logger(__name__)

Role = Literal["system", "user", "assistant"]


class Message(TypedDict):
    """One turn of a conversation."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Completion:
    """A model's whole answer.

    Attributes:
        text: what it wrote, "" when it wrote nothing.
        prompt_tokens, completion_tokens: as the endpoint counted; estimated when it did not.
        finish_reason: "stop", "length" ... as sent, or "".
    """

    text: str
    prompt_tokens: int
    completion_tokens: int
    finish_reason: str = ""


@dataclass(frozen=True, slots=True)
class FirstToken:
    """How long a prompt of a certain size takes until the model says something.

    Attributes:
        prompt_tokens: as the endpoint counted, else estimated.
        seconds: wall time from sending the request to the first piece of text.
    """

    prompt_tokens: int
    seconds: float


class ChatClient:
    """Talks to one model at one base URL. Open it as an async context, or call `close`.

    Args:
        base_url: up to and including `/v1`.
        model: the model's name at that URL.
        api_key: bearer key; None for endpoints that need none.
        timeout_s: limit for one attempt, and between two pieces of a stream.
        max_retries: further attempts after timeouts, 408, 409, 429, 5xx and lost connections;
            `Retry-After` is honoured.
        temperature: 0 makes the model as repeatable as it can be.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        timeout_s: float = 60.0,
        max_retries: int = 2,
        temperature: float = 0.0,
    ) -> None:
        self.base_url = base_url
        self.model = model
        self._temperature = temperature
        self._timeout_s = timeout_s
        self._client = AsyncOpenAI(
            base_url=base_url,
            # The library insists on a key; endpoints without keys ignore it.
            api_key=api_key or "none",
            timeout=timeout_s,
            max_retries=max_retries,
        )

    async def __aenter__(self) -> ChatClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of the connections; safe to call twice."""
        await self._client.close()

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
    ) -> Completion:
        """One whole answer to a conversation.

        Args:
            messages: the conversation so far, oldest first.
            max_tokens: cap on the answer; None: the endpoint's own.
            stop: texts before which the model is to stop.

        Raises:
            ChatError: one of its subclasses says what went wrong.
        """
        try:
            answer = await self._client.chat.completions.create(
                model=self.model,
                messages=_typed(messages),
                temperature=self._temperature,
                **_optional(max_tokens, stop),
            )
        except (OpenAIError, json.JSONDecodeError) as error:
            raise self._translate(error) from error
        # A server that is no chat server answers anything at all: the types promise too much.
        choices = getattr(answer, "choices", None)
        if not isinstance(choices, list) or not choices:
            raise ChatMalformed(
                f"{self.base_url} answered something that is no chat completion (no `choices`). "
                "Is the URL that of an OpenAI-compatible API, ending in /v1?"
            )
        message = getattr(choices[0], "message", None)
        content = getattr(message, "content", None)
        text = content if isinstance(content, str) else ""
        usage = answer.usage
        return Completion(
            text=text,
            prompt_tokens=(usage and usage.prompt_tokens) or _estimate(messages),
            completion_tokens=(usage and usage.completion_tokens) or estimate_tokens(text),
            finish_reason=str(getattr(choices[0], "finish_reason", None) or ""),
        )

    async def stream(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
    ) -> AsyncGenerator[str, None]:
        """The answer piece by piece; use it inside `contextlib.aclosing`.

        A stream that ends before the endpoint said why it stopped is an error, after the pieces
        that came.

        Raises:
            ChatError: one of its subclasses says what went wrong.
        """
        finished = False
        try:
            pieces = await self._client.chat.completions.create(
                model=self.model,
                messages=_typed(messages),
                temperature=self._temperature,
                stream=True,
                **_optional(max_tokens, stop),
            )
            async with pieces:
                # Looked at every piece: a server may trickle keep-alives for ever.
                iterator = aiter(pieces)
                while True:
                    async with asyncio.timeout(self._timeout_s):
                        chunk = await anext(iterator, None)
                    if chunk is None:
                        break
                    for choice in chunk.choices or ():
                        finished = finished or choice.finish_reason is not None
                        if choice.delta is not None and choice.delta.content:  # pyright: ignore[reportUnnecessaryComparison] # servers leave it out
                            yield choice.delta.content
        except TimeoutError as error:
            raise ChatTimeout(
                f"{self.base_url} sent nothing for {self._timeout_s:g} s in the middle of an "
                f"answer of {self.model!r}; raise the time limit or use a faster model."
            ) from error
        except (OpenAIError, json.JSONDecodeError) as error:
            raise self._translate(error) from error
        except Exception as error:
            # The HTTP library's own errors while a body is read are not wrapped by `openai`.
            if type(error).__module__.partition(".")[0] not in ("httpx", "httpx2", "httpcore"):
                raise
            raise ChatUnavailable(
                f"{self.base_url} broke off an answer of {self.model!r}: {type(error).__name__}."
            ) from error
        if not finished:
            raise ChatUnavailable(
                f"{self.base_url} ended an answer of {self.model!r} before it was complete."
            )

    async def time_to_first_token(self, messages: Sequence[Message]) -> FirstToken:
        """Send a conversation and stop at the first piece of the answer.

        Raises:
            ChatError: no answer began.
        """
        started = time.perf_counter()
        async with aclosing(self.stream(messages, max_tokens=8)) as pieces:
            async for _ in pieces:
                return FirstToken(_estimate(messages), time.perf_counter() - started)
        raise ChatMalformed(f"{self.base_url} answered with an empty text.")

    def _translate(self, error: Exception) -> ChatError:
        _log.warning("chat_failed", model=self.model, kind=type(error).__name__)
        where = f"The chat model {self.model!r} at {self.base_url}"
        if isinstance(error, APITimeoutError):
            return ChatTimeout(
                f"{where} gave no answer within {self._timeout_s:g} s. Raise the time limit, or "
                "use a smaller model."
            )
        if isinstance(error, APIResponseValidationError | json.JSONDecodeError):
            return ChatMalformed(f"{where} answered something that is no chat completion.")
        if isinstance(error, APIConnectionError):
            return ChatUnavailable(
                f"{where} cannot be reached. Is the server running (for Ollama: `ollama serve`)?"
            )
        if isinstance(error, APIStatusError):
            status = error.status_code
            if status == 429:
                wait = error.response.headers.get("retry-after", "")
                retry_after_s = float(wait) if wait.replace(".", "", 1).isdigit() else None
                return ChatLimited(
                    f"{where} refuses more requests for now.", retry_after_s=retry_after_s
                )
            if status >= 500:
                return ChatUnavailable(f"{where} failed with HTTP {status}.")
            hint = {401: " Check the key.", 403: " Check the key.", 404: " Check the model's name."}
            return ChatRejected(f"{where} refused with HTTP {status}.{hint.get(status, '')}")
        if isinstance(error, APIError):
            return ChatUnavailable(f"{where} reported an error in the middle of an answer.")
        return ChatError(f"{where} could not be used ({type(error).__name__}).")


class _Optional(TypedDict, total=False):
    max_tokens: int
    stop: list[str]


def _optional(max_tokens: int | None, stop: Sequence[str]) -> _Optional:
    given: _Optional = {}
    if max_tokens is not None:
        given["max_tokens"] = max_tokens
    if stop:
        given["stop"] = list(stop)
    return given


def _typed(messages: Sequence[Message]) -> list[ChatCompletionMessageParam]:
    return [_PARAM[m["role"]](m["content"]) for m in messages]


def _system(content: str) -> ChatCompletionMessageParam:
    return {"role": "system", "content": content}


def _user(content: str) -> ChatCompletionMessageParam:
    return {"role": "user", "content": content}


def _assistant(content: str) -> ChatCompletionMessageParam:
    return {"role": "assistant", "content": content}


_PARAM = {"system": _system, "user": _user, "assistant": _assistant}


def _estimate(messages: Sequence[Message]) -> int:
    return sum(estimate_tokens(m["content"]) + 4 for m in messages)
