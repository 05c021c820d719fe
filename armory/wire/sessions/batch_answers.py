"""The answers to one batch, in order.

Owns: `BatchAnswers`. Never imports a transport.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from msgspec import Raw

from armory.protocol import codes
from armory.protocol.errors import Malformed
from armory.wire.messages import Data, refused, taken_apart_in_steps, whole
from armory.wire.methods import refuse_large
from armory.wire.sessions.batches import OneBatch
from armory.wire.sessions.session import Session
from armory.wire.sse import KEEPALIVE_S
from armory.wire.streams import EventStream


class BatchAnswers:
    """The answers to a batch, in the order of its messages.

    Args:
        held: the bytes that they may hold.
    """

    def __init__(self, held: OneBatch) -> None:
        self._held = held
        self._places: list[tuple[bytes | None, list[bytes]]] = []  # id of a request, its answers

    def __len__(self) -> int:
        """How many messages have a place."""
        return len(self._places)

    def whole(self) -> list[bytes]:
        """All answers."""
        return [answer for _, answers in self._places for answer in answers]

    def without(self) -> None:
        """The next message has no answer."""
        self._places.append((None, []))

    def refuse(self, bad: Malformed) -> None:
        """The next message is invalid."""
        self._places.append((None, [refused(bad.id, bad.code, bad.message)]))

    def place(self, id: bytes) -> list[bytes]:
        """Reserve the place of the answer to the next message, a request."""
        answers: list[bytes] = []
        self._places.append((id, answers))
        return answers

    def taking(self, id: bytes) -> Callable[[Data], Awaitable[None]]:
        """The function that takes the answer to the next message."""
        answers = self.place(id)

        async def take(answer: Data) -> None:
            self.add(id, answers, whole(answer))

        return take

    async def collect(
        self, session: Session, stream: EventStream, id: bytes, answers: list[bytes]
    ) -> None:
        """Add a request's answer from its stream, or an error where there is no room."""
        for answer in await _only_result(session, stream):
            self.add(id, answers, answer)

    def add(self, id: bytes, answers: list[bytes], answer: bytes) -> None:
        """Add a request's answer, or an error where there is no room."""
        full = self._held.take(len(answer))
        answers.append(refused(id, codes.LIMITED, full) if full else answer)

    async def give_up(self, rest: Iterable[Raw], why: str) -> None:
        """Answer the remaining requests with an error, including those of `rest`, which were not
        started.
        """
        for item in rest:
            try:
                message, _ = await taken_apart_in_steps(item, refuse_large)
            except Malformed as bad:
                self.refuse(bad)
                continue
            if message.is_request:
                self.place(message.key)
            else:
                self.without()
        for id, answers in self._places:
            if id is not None and not answers:
                answers.append(refused(id, codes.BACKEND, why))


async def _only_result(session: Session, stream: EventStream) -> list[bytes]:
    """The answer to a batch's request; empty where it was cancelled."""
    reader = stream.attach()
    answers: list[bytes] = []
    while True:
        try:
            event = await stream.next(reader, KEEPALIVE_S)
        except EOFError:
            break
        if event is not None:
            answers.append(whole(event[1]))
    session.drop_stream(stream)
    return answers
