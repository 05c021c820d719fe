"""Serialises calls of a shared session, so that each question has only one possible cause.

Owns: turns, and what is known of tools and resources that never ask. Never imports a transport.

Where several clients share a session over stdio or HTTP+SSE, nothing says because of which call the
upstream asks. So the first call of each tool runs alone for a moment: either it asks, and from then
on such calls run one at a time; or it ends without a question, and the next calls of that tool wait
for nobody. While a call waits for a person, others have their turn: it asks nothing else meanwhile.
A call that was given up may still make its upstream ask for a moment: until then no other call that
could be asked is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    contextmanager,
    suppress,
)

from cachetools import LRUCache

from armory.protocol.capabilities import may_be_asked
from armory.protocol.link import Call
from armory.upstreams.session.lane import Lane, Turn

_ASKING_METHODS = frozenset(("tools/call", "prompts/get", "resources/read"))
_ABANDONED_S = 2.0
"""How long the upstream may still ask because of a call that was given up."""
_STEP_S = 0.1
_KNOWN = 5_000
"""Tools of one upstream that are remembered as never asking; of all else, as many more."""
_KNOWN_BYTES = 256
"""Longest name or URI that is remembered as never asking: a client may use one of millions of
bytes."""


class Silent:
    """The tools and methods of one upstream that have finished a call without a question. Tools are
    bounded apart from the rest, since clients invent resource URIs and methods.
    """

    def __init__(self) -> None:
        self._tools: LRUCache[tuple[str, bytes], None] = LRUCache(_KNOWN)
        self._others: LRUCache[tuple[str, bytes], None] = LRUCache(_KNOWN)
        self._asking: LRUCache[tuple[str, bytes], None] = LRUCache(_KNOWN)

    def add(self, method: str, name: bytes) -> None:
        """A call ended without a question; counts unless one of the same has asked before."""
        what = method, name
        if len(method) + len(name) <= _KNOWN_BYTES and what not in self._asking:
            self._room(method)[what] = None

    def asked(self, method: str, name: bytes) -> None:
        """A call of it has asked something after all."""
        what = method, name
        self._room(method).pop(what, None)
        if len(method) + len(name) <= _KNOWN_BYTES:
            self._asking[what] = None

    def has(self, method: str, name: bytes) -> bool:
        """Whether a call of it has ended without a question before."""
        return self._room(method).get((method, name), self) is None  # which counts as a use

    def _room(self, method: str) -> LRUCache[tuple[str, bytes], None]:
        return self._tools if method == "tools/call" else self._others


class Turns:
    """The turns of one session's calls.

    Args:
        silent: of the whole upstream.
        busy: how many calls that could be asked are under way.
        alone_s: so long the first call of a tool keeps others waiting, and waits for those that
            are under way.
        shared: whether different people share the session.

    Attributes:
        questions: how many the upstream has asked on this session.
    """

    def __init__(
        self,
        silent: Silent,
        busy: Callable[[], int],
        *,
        alone_s: float = 2.0,
        shared: bool = False,
    ) -> None:
        self.questions = 0
        self._alone_s = alone_s
        self._silent = silent
        self._busy = busy
        self._abandoned: dict[int, float] = {}
        self._lane = Lane(shared=shared)
        self._of_calls: dict[int, Turn] = {}  # by the identity of the call
        self._late: dict[int, Turn] = {}  # of them, those of calls that had none until they asked
        self._ended = asyncio.Event()

    @property
    def interactive(self) -> bool:
        """Whether the upstream has asked, so that calls that could be asked run one at a time."""
        return self.questions > 0

    def of(self, call: Call) -> Turn | None:
        """The turn of a call; None: it has none, since it need not wait for others."""
        return self._of_calls.get(id(call))

    def of_asked(self, call: Call) -> Turn:
        """The turn of a call in flight whose client is asked. One of a tool that had never asked
        has none yet; it gets one until it ends.
        """
        turn = self._of_calls.get(id(call))
        if turn is None:
            self._silent.asked(*_what(call))
            turn = self._late[id(call)] = self._of_calls[id(call)] = Turn(self._lane)
        return turn

    @contextmanager
    def _turn(self, call: Call) -> Generator[Turn]:
        what, before = _what(call), self.questions
        turn = self._of_calls[id(call)] = Turn(self._lane, quiet=self._silent.has(*what))
        try:
            yield turn
            if self.questions == before:
                self._silent.add(*what)
        finally:
            if turn.ever_asked:
                self._silent.asked(*what)
            del self._of_calls[id(call)]
            turn.end()

    @asynccontextmanager
    async def one_at_a_time(self, call: Call) -> AsyncGenerator[None]:
        """One turn; it begins when no abandoned call can cause a question any more."""
        with self._turn(call) as turn:
            await turn.take()
            async with self._after_abandoned():
                yield

    async def go_on(self, turn: Turn) -> None:
        """Take the turn of a call again whose client was asked, before the upstream is answered; a
        slow call of another turn holds up no answer for more than a moment.
        """
        if turn.passed:
            turn.passed = False
            await self._quiet(asyncio.get_running_loop().time() + self._alone_s, besides=1)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._alone_s):
                await turn.go_on()
                async with self._after_abandoned():
                    return
        turn.go_beside()

    def alone_at_first(
        self, call: Call, *, patient: bool
    ) -> AbstractAsyncContextManager[None] | None:
        """The lock that a call must hold while the upstream has not asked anything yet; None: none.

        Args:
            call: that is to be sent.
            patient: whether one of a tool that does not ask waits for what was given up, too.
        """
        if not self._silent.has(*_what(call)):
            return self._tried(call)
        if self._lane.holder is not None:
            return self._after_trial(call)
        return self._after_abandoned() if patient and self._abandoned else None

    def given_up(self, request_id: int) -> None:
        """A call was abandoned; for a moment the upstream may still ask because of it."""
        self.abandoned()  # drops expired ones: without waiting calls nobody else does
        self._abandoned[request_id] = asyncio.get_running_loop().time() + _ABANDONED_S

    def answered_late(self, request_id: object) -> bool:
        """Whether a response that nobody waits for belongs to an abandoned call."""
        return self._abandoned.pop(request_id, None) is not None  # pyright: ignore[reportArgumentType, reportCallIssue]

    def abandoned(self) -> bool:
        """Whether an abandoned call may still cause a question."""
        now = asyncio.get_running_loop().time()
        self._abandoned = {id: until for id, until in self._abandoned.items() if until > now}
        return bool(self._abandoned)

    @asynccontextmanager
    async def _after_abandoned(self) -> AsyncGenerator[None]:
        loop = asyncio.get_running_loop()
        while (until := max(self._abandoned.values(), default=0.0)) > loop.time():  # noqa: ASYNC110 # it waits for time
            await asyncio.sleep(min(until - loop.time(), _STEP_S))
        self._abandoned.clear()
        yield

    @asynccontextmanager
    async def _after_trial(self, call: Call) -> AsyncGenerator[None]:
        """Let the call that is on trial ask first, if it does."""
        await self._taken(first := Turn(self._lane))
        first.end()
        if self.interactive:
            async with self.one_at_a_time(call):
                yield
        else:
            yield

    @asynccontextmanager
    async def _tried(self, call: Call) -> AsyncGenerator[None]:
        """Run alone for a moment, and until the end if the upstream asks."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._alone_s
        with self._turn(call) as turn:
            await self._taken(turn)
            if self.interactive and not turn.held:
                await turn.take()
                async with self._after_abandoned():
                    yield
                return

            def let_go() -> None:
                if not self.interactive:
                    turn.give()

            await self._quiet(until)
            timer = loop.call_later(self._alone_s, let_go)
            try:
                yield
            finally:
                timer.cancel()

    async def _taken(self, turn: Turn) -> None:
        """Take a turn, or go on without after a moment."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._alone_s):
                await turn.take()

    async def _quiet(self, until: float, besides: int = 0) -> None:
        """Wait until no other call that may cause questions is in flight, or until that moment."""
        try:
            async with asyncio.timeout_at(until):
                while self._busy() > besides or self.abandoned():
                    self._ended.clear()
                    await self._ended.wait()
        except TimeoutError:
            return

    def ended(self, call: Call) -> None:
        """A call has ended: wake one that waits for that."""
        self._ended.set()
        if self._late and (turn := self._late.pop(id(call), None)) is not None:
            del self._of_calls[id(call)]
            turn.end()


def asks_possible(call: Call) -> bool:
    """Whether the upstream may ask the client something because of this call."""
    if call.client is None or call.method not in _ASKING_METHODS:
        return False
    return may_be_asked(call.client.capabilities)


def _what(call: Call) -> tuple[str, bytes]:
    """What is called: the method, and the name or URI as JSON."""
    return call.method, bytes(call.params.get("name") or call.params.get("uri") or b"")
