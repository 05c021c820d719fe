"""A chat model behind an OpenAI-compatible URL (Ollama, vLLM, llama.cpp, OpenAI ...).

Owns: the chat calls, their time limits and retries. Never imports a room above `armory.llm`.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypedDict, TypeVar

from openai import AsyncOpenAI, BadRequestError, NotFoundError, OpenAIError

from armory.llm.bounded import ANSWER_BYTES, bounded_client
from armory.llm.errors import ChatError, ChatMalformed, ChatTimeout, ChatUnavailable
from armory.llm.failures import Endpoint, chat_error, no_completion
from armory.llm.parameters import Parameters, RequestParameters
from armory.llm.tokens import estimate_tokens
from armory.llm.written import content_of, text_of
from armory.logger import Logger

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionMessageParam

_log = Logger(__name__)
_T = TypeVar("_T")
_ESTIMATED_CHARS = 20_000
_TEXTS = ("reasoning_content", "reasoning", "content")
"""Members of a piece of an answer that hold text, thinking first; servers differ in its name."""

Role = Literal["system", "user", "assistant"]


class Message(TypedDict):
    """One turn of a conversation."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Completion:
    """A model's complete answer.

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
    """The time to the first token for a prompt of a certain size.

    Attributes:
        prompt_tokens: as the endpoint counted, else estimated.
        seconds: wall time from sending the request to the first piece of text, thinking
            included.
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

    A parameter that the endpoint refuses as unsupported is left out of all further requests.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        timeout_s: float = 60.0,
        max_retries: int = 2,
    ) -> None:
        self.base_url = base_url
        self.model = model
        self._parameters = Parameters()
        self._endpoint = Endpoint(base_url, model, api_key or "", timeout_s)
        self._timeout_s = timeout_s
        self._client = AsyncOpenAI(
            base_url=base_url,
            # The library insists on a key; endpoints without keys ignore it.
            api_key=api_key or "none",
            timeout=timeout_s,
            max_retries=max_retries,
            http_client=bounded_client(ANSWER_BYTES),
        )

    async def __aenter__(self) -> ChatClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; safe to call twice."""
        await self._client.close()

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
    ) -> Completion:
        """Answer a conversation, in one piece.

        Args:
            messages: the conversation so far, oldest first.
            max_tokens: cap on the answer; None: the endpoint's own.
            stop: texts before which the model is to stop.

        Raises:
            ChatError: one of its subclasses says what went wrong.
        """
        try:
            answer = await self._sent(
                lambda given: self._client.chat.completions.create(
                    model=self.model, messages=_typed(messages), **given
                ),
                max_tokens,
                stop,
            )
        except (OpenAIError, json.JSONDecodeError) as error:
            raise self._failure(error) from error
        # A server that is no chat server answers anything at all: the types promise too much.
        choices = getattr(answer, "choices", None)
        if not isinstance(choices, list) or not choices:
            raise no_completion(answer, self._endpoint)
        text = text_of(getattr(choices[0], "message", None))
        usage = getattr(answer, "usage", None)
        return Completion(
            text=text,
            prompt_tokens=_count(usage, "prompt_tokens") or _estimate(messages),
            completion_tokens=_count(usage, "completion_tokens") or _tokens(text),
            finish_reason=str(getattr(choices[0], "finish_reason", None) or ""),
        )

    async def stream(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
    ) -> AsyncGenerator[str, None]:
        """Answer a conversation, as a stream of pieces; use it inside `contextlib.aclosing`.

        A stream that ends before the endpoint said why it stopped is an error, after the pieces
        that came.

        Raises:
            ChatError: one of its subclasses says what went wrong.
        """
        async with aclosing(self._pieces(messages, max_tokens, stop)) as pieces:
            async for kind, text in pieces:
                if kind == "content":
                    yield text

    async def _sent(
        self,
        ask: Callable[[RequestParameters], Awaitable[_T]],
        max_tokens: int | None,
        stop: Sequence[str],
    ) -> _T:
        """Send the request, and again without each parameter that the endpoint refuses and that is
        optional.
        """
        while True:
            given = self._parameters.of(max_tokens, stop)
            try:
                return await ask(given)
            except BadRequestError as error:
                if not self._parameters.refused(error.body, given):
                    raise

    async def _pieces(
        self, messages: Sequence[Message], max_tokens: int | None, stop: Sequence[str]
    ) -> AsyncGenerator[tuple[str, str], None]:
        """The pieces of an answer as they arrive, thinking included: (field, text)."""
        finished = False
        try:
            pieces = await self._sent(
                lambda given: self._client.chat.completions.create(
                    model=self.model, messages=_typed(messages), stream=True, **given
                ),
                max_tokens,
                stop,
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
                        for piece in _texts(choice.delta):
                            yield piece
        except TimeoutError as error:
            raise ChatTimeout(
                f"{self.base_url} sent nothing for {self._timeout_s:g} s in the middle of an "
                f"answer of {self.model!r}; raise the time limit or use a faster model"
            ) from error
        except (OpenAIError, json.JSONDecodeError) as error:
            raise self._failure(error) from error
        except Exception as error:
            # The HTTP library's own errors while a body is read are not wrapped by `openai`.
            if type(error).__module__.partition(".")[0] not in ("httpx", "httpx2", "httpcore"):
                raise
            raise ChatUnavailable(
                f"{self.base_url} broke off an answer of {self.model!r}: {type(error).__name__}"
            ) from error
        if not finished:
            raise ChatUnavailable(
                f"{self.base_url} ended an answer of {self.model!r} before it was complete"
            )

    async def models(self) -> list[str] | None:
        """The names of the available models; None: the endpoint does not list them.

        Raises:
            ChatError: it cannot be asked.
        """
        try:
            page = await self._client.with_options(max_retries=0).models.list()
        except NotFoundError:
            return None
        except (OpenAIError, json.JSONDecodeError) as error:
            raise self._failure(error) from error
        listed = getattr(page, "data", None)
        return [str(getattr(one, "id", "")) for one in listed or ()]

    async def time_to_first_token(self, messages: Sequence[Message]) -> FirstToken:
        """Send a conversation, and measure the time to the first piece of the answer or of the
        thinking.

        Raises:
            ChatError: no answer came.
        """
        started = time.perf_counter()
        async with aclosing(self._pieces(messages, 8, ())) as pieces:
            async for _ in pieces:
                return FirstToken(_estimate(messages), time.perf_counter() - started)
        raise ChatMalformed(f"{self.base_url} answered with an empty text")

    def _failure(self, error: Exception) -> ChatError:
        found = chat_error(error, self._endpoint)
        kind = type(error).__name__
        _log.rate_limited("warning", "chat_failed", model=self.model, kind=kind, error=str(found))
        return found


def _texts(delta: object) -> list[tuple[str, str]]:
    """(field, text) of each text in a piece; servers may leave out any of them."""
    found = ((kind, content_of(getattr(delta, kind, None))) for kind in _TEXTS)
    return [(kind, text) for kind, text in found if text]


def _count(usage: object, name: str) -> int:
    """Tokens as the endpoint counted them; 0 where it did not."""
    found = getattr(usage, name, None)
    return found if isinstance(found, int) else 0


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
    return sum(_tokens(m["content"]) + 4 for m in messages)


def _tokens(text: str) -> int:
    """An estimate; of a long text by its beginning, since a million characters take a second."""
    begun = text[:_ESTIMATED_CHARS]
    return estimate_tokens(begun) * len(text) // max(len(begun), 1)
