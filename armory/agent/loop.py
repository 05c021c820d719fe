"""The ReAct loop: ask the model, run the search that it names, show it the results.

Owns: the loop, its limits and its trace. Never imports a retrieval engine or a chat library: both
come in as Protocols.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, cast

from armory.agent.arguments import check_run, digests_of
from armory.agent.chunks import Ask, ChunkSource, Hit, Tracker
from armory.agent.findings import AgentResult, Event, Kind, Stop, tools_of
from armory.agent.labels import SEARCHES, Search
from armory.agent.parse import Step, parse_step
from armory.agent.prompt import LAST_TURN, ask_again, observation, system_prompt
from armory.agent.runs import Runs
from armory.agent.settings import AgentLimits
from armory.domain.query import VisibleSet
from armory.errors import BackendError, RateLimited
from armory.llm.client import Completion, Message
from armory.llm.errors import ChatError, ChatTimeout
from armory.logger import Logger

_log = Logger(__name__)

_MAX_TOP_K = 50
_WRITTEN_NUMBER = re.compile(r"\s*\d{1,9}\s*")
_ENDED = {
    "length": "it was cut off at {} tokens, thinking included; think and write less",
    "content_filter": "a content filter withheld it",
}
"""Why an answer cannot be read, by what the endpoint says of its end; with the limit of tokens."""
_STOP_WORDS = ("\nObservation:",)


class _OutOfTime(ChatTimeout):
    """The run's own limit, which the clock need not show yet: uvloop's timers count in whole
    milliseconds, and go off up to half of one early.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message, told=message)


class Chat(Protocol):
    """A chat model (`armory.llm.client.ChatClient`)."""

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
    ) -> Completion:
        """One answer to a conversation; raises `ChatError`."""
        ...


@dataclass(slots=True)
class _Run:
    question: str
    visible: VisibleSet | None
    user: str | None
    top_k: int
    limits: AgentLimits
    tracker: Tracker
    messages: list[Message]
    started: float = field(default_factory=lambda: asyncio.get_running_loop().time())
    prompt_tokens: int = 0
    completion_tokens: int = 0
    iterations: int = 0
    observations: int = 0
    trace: list[Event] = field(default_factory=list[Event])

    @property
    def elapsed_s(self) -> float:
        return asyncio.get_running_loop().time() - self.started

    @property
    def left_s(self) -> float:
        return self.limits.time_s - self.elapsed_s

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    def event(self, kind: Kind, text: str, **data: Any) -> Event:
        event = Event(kind, text, self.iterations, round(self.elapsed_s * 1000, 3), data)
        self.trace.append(event)
        return event


class RetrievalAgent:
    """Finds tools and documents by letting a language model search.

    Args:
        chat: the model.
        sources: what is searched: the catalog, and documents where configured.
        limits: what one run may cost.
        runs: limits concurrent runs; None: no limit.
    """

    def __init__(
        self,
        chat: Chat,
        sources: Sequence[ChunkSource],
        limits: AgentLimits | None = None,
        runs: Runs | None = None,
    ) -> None:
        self._chat = chat
        self._sources = tuple(sources)
        self._limits = limits or AgentLimits()
        self._runs = runs

    async def run(
        self,
        question: str,
        *,
        visible: VisibleSet | None = None,
        user: str | None = None,
        rejected: Collection[str] = (),
        top_k: int = 10,
    ) -> AgentResult:
        """Run to the end; parameters as of `stream`.

        Raises:
            ChatError: the model failed before anything was found.
            InvalidRequest, RateLimited: as `stream`.
        """
        result: AgentResult | None = None
        events = self.stream(question, visible=visible, user=user, rejected=rejected, top_k=top_k)
        async with aclosing(events):
            async for event in events:
                result = event.result or result
        assert result is not None  # a stream ends with its result, or raises
        return result

    async def stream(
        self,
        question: str,
        *,
        visible: VisibleSet | None = None,
        user: str | None = None,
        rejected: Collection[str] = (),
        top_k: int = 10,
    ) -> AsyncGenerator[Event, None]:
        """The run, event by event; the last one has kind `result`. Use inside `aclosing`.

        Args:
            question: what is wanted.
            visible: tools that the caller may see; None: all.
            user: whose history ranks, and whose run it is.
            rejected: MD5 digests (`Chunk.digest`) of chunks that the caller has graded out; they
                do not come back.
            top_k: at most so many tools in the result.

        Raises:
            ChatError: the model failed before anything was found; later the run ends with what
                there is, `stopped="model"`.
            InvalidRequest: an empty question, `top_k` below 1, `rejected` is no collection of
                digests, or `visible` no set of tools.
            RateLimited: too many runs are under way.
        """
        most, out = check_run(question, top_k, visible), digests_of(rejected)
        prompt = system_prompt(self._limits.max_iterations)
        run = _Run(question, visible, user, most, self._limits, Tracker(out), [
            {"role": "system", "content": prompt},
            {"role": "user", "content": f"Request: {question}"},
        ])  # fmt: skip
        held = nullcontext() if self._runs is None else self._runs.run(user or "")
        with held:
            async with aclosing(self._cycle(run)) as events:
                async for event in events:
                    yield event

    async def _cycle(self, run: _Run) -> AsyncGenerator[Event, None]:
        asked_again = False
        while True:
            last = run.iterations >= run.limits.max_iterations
            try:
                step, text = await self._turn(run)
            except ChatError as error:
                if not run.observations:
                    raise
                stop: Stop = "time" if isinstance(error, _OutOfTime) else "model"
                yield run.event("error", error.told, code=error.code)
                yield self._end(run, stop, error=error.told)
                return
            if step is None:
                yield self._end(run, "tokens")
                return
            if step.thought:
                yield run.event("thought", step.thought, repairs=list(step.repairs))
            if step.final_answer is not None:
                yield run.event("final_answer", step.final_answer)
                yield self._end(run, "final_answer", answer=step.final_answer)
                return
            if step.action is None:
                yield run.event("malformed", step.problem, written=text[:2_000])
                if asked_again:
                    yield self._end(run, "malformed")
                    return
                asked_again = True
                self._say(run, text, ask_again(step.problem))
                continue
            asked_again = False
            if last:
                yield self._end(run, "iterations")
                return
            run.iterations += 1
            yield run.event("action", step.action, arguments=step.arguments, raw=step.raw_input)
            seen, data = await self._act(run, step)
            yield run.event("observation", seen, **data)
            self._say(run, _canonical(step), f"Observation: {seen}{self._hint(run)}")

    async def _turn(self, run: _Run) -> tuple[Step | None, str]:
        """One parsed answer of the model; None if the token limit leaves no room for it."""
        if run.tokens >= run.limits.tokens:
            return None, ""
        left_s = run.left_s
        if left_s <= 0:
            raise _OutOfTime(f"the time limit of {run.limits.time_s:g} s is used up")
        try:
            async with asyncio.timeout(left_s):
                answer = await self._chat.complete(
                    run.messages, max_tokens=run.limits.answer_tokens, stop=_STOP_WORDS
                )
        except TimeoutError as error:
            raise _OutOfTime(
                f"the time limit of {run.limits.time_s:g} s ran out while the model was answering"
            ) from error
        run.prompt_tokens += answer.prompt_tokens
        run.completion_tokens += answer.completion_tokens
        step = parse_step(answer.text)
        ended = _ENDED.get(answer.finish_reason)
        if step.problem and ended is not None:
            step = replace(step, problem=ended.format(run.limits.answer_tokens))
        return step, answer.text

    async def _act(self, run: _Run, step: Step) -> tuple[str, dict[str, Any]]:
        """Run one action; an error in it becomes the observation."""
        name = _search_name(step.action or "")
        if name is None:
            known = ", ".join(SEARCHES)
            return f"There is no tool {step.action!r}. Use one of: {known}.", {"failed": True}
        if step.arguments is None:
            shown = step.raw_input[:200] or "nothing"
            return (
                f"The Action Input is not a JSON object: {shown}. Write for example "
                '{"query": "...", "top_k": 5}.'
            ), {"failed": True}
        query, top_k, problem = _arguments(step.arguments, run.limits.top_k)
        if problem:
            return problem, {"failed": True}
        rejected = len(run.tracker.rejected)
        ask = Ask(query, min(top_k + rejected, _MAX_TOP_K + rejected), run.visible, run.user)
        found: list[Hit] = []
        failures: list[str] = []
        for source in self._sources:
            try:
                async with asyncio.timeout(max(run.left_s, 0.001)):
                    found.extend(await source.search(name, ask))
            except (BackendError, RateLimited) as error:
                failures.append(error.message)
            except TimeoutError:
                failures.append("the search took longer than the run may")
        if failures and not found:
            _log.rate_limited("warning", "agent_search_failed", search=name, failures=failures)
            other = next(search for search in SEARCHES if search != name)
            return f"{name} failed: {'; '.join(failures)}. Try {other}.", {"failed": True}
        run.observations += 1
        left_out = sum(1 for hit in found if hit.chunk.digest in run.tracker.rejected)
        hits, new = run.tracker.admit(found, top_k)
        data = {
            "search": name,
            "query": query,
            "chunks": [
                {"id": h.chunk.id, "score": round(h.score, 4), "label": h.label} for h in hits
            ],
            "new": new,
            "rejected": left_out,
        }
        return observation(name, hits, new=new, rejected=left_out), data

    def _say(self, run: _Run, model: str, user: str) -> None:
        # Some endpoints refuse a message without a text, others two of a user in a row.
        run.messages.append({"role": "assistant", "content": model if model.strip() else "..."})
        run.messages.append({"role": "user", "content": user})

    def _hint(self, run: _Run) -> str:
        return f"\n\n{LAST_TURN}" if run.iterations >= run.limits.max_iterations else ""

    def _end(self, run: _Run, stop: Stop, answer: str = "", error: str | None = None) -> Event:
        hits = run.tracker.hits
        result = AgentResult(
            question=run.question,
            answer=answer,
            tools=tools_of(hits, answer, run.top_k),
            chunks=tuple(hits),
            trace=tuple(run.trace),
            iterations=run.iterations,
            stopped=stop,
            error=error,
            prompt_tokens=run.prompt_tokens,
            completion_tokens=run.completion_tokens,
            took_ms=round(run.elapsed_s * 1000, 3),
        )
        _log.rate_limited(
            "info",
            "agent_finished",
            stopped=stop,
            iterations=run.iterations,
            tools=len(result.tools),
            tokens_used=run.tokens,  # `tokens` alone would be hidden as a secret
        )
        return Event("result", stop, run.iterations, result.took_ms, {}, result)


def _search_name(written: str) -> Search | None:
    plain = written.strip().lower().replace("-", "_").replace(" ", "_").rpartition(".")[2]
    return next((name for name in SEARCHES if plain in (name, name.partition("_")[0])), None)


def _arguments(arguments: dict[str, Any], default_k: int) -> tuple[str, int, str]:
    """(query, top_k, what is wrong or "")."""
    query = arguments.get("query")
    if isinstance(query, list):
        query = " ".join(str(part) for part in cast("list[object]", query))
    if not isinstance(query, str) or not query.strip():
        return "", 0, 'The Action Input needs a text under "query".'
    given = arguments.get("top_k", default_k)
    if isinstance(given, str) and _WRITTEN_NUMBER.fullmatch(given):
        given = int(given)
    if isinstance(given, bool) or not isinstance(given, int | float) or not 1 <= given <= 1e6:
        return "", 0, f'"top_k" is {given!r}; it must be a number from 1 to {_MAX_TOP_K}.'
    return query.strip(), min(int(given), _MAX_TOP_K), ""


def _canonical(step: Step) -> str:
    """The turn in its correct form, as the model sees it in its history."""
    lines = [f"Thought: {step.thought}"] if step.thought else []
    return "\n".join([*lines, f"Action: {step.action}", f"Action Input: {step.raw_input}"])
