"""A call that can be parked while its client is asked.

Owns: `ParkedCall`, a running call whose upstream asks the client something while no request of
the client is open. Never imports a transport.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

from msgspec import Raw

from armory.protocol.link import Answer, CancelReason, ClientChannel, ClientGone, Params, Reply
from armory.protocol.rawjson import members_or_none, pack
from armory.tasks import start, stop
from armory.wire.eras.client_meta import passed_meta
from armory.wire.eras.questions import may_ask, refusal
from armory.wire.interaction.state import Binding

BATCH_S = 0.03
"""How long a question waits for others of the same call, to be sent with them."""


class ParkedCall:
    """A call that can be parked: its task, its open questions, and its current client channel."""

    def __init__(self, client: ClientChannel, version: str, binding: Binding) -> None:
        self.client = client
        self.version = version
        self.binding = binding
        self.task: asyncio.Task[Reply] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self._questions: dict[str, tuple[dict[str, Any], asyncio.Future[Answer]]] = {}
        self._count = 0
        self._over = False
        self._wake = asyncio.Event()

    def start(self, work: Coroutine[Any, Any, Reply]) -> None:
        """Start the call in a task that may outlive the request."""
        self.task = start(work, "call that may be parked")
        self.task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Future[Reply]) -> None:
        self._wake.set()
        if not task.cancelled():
            task.exception()  # retrieved: of a parked call nobody else would
        if self._over:  # nobody asks what it came to
            self.task = None

    @property
    def answered(self) -> bool:
        """Whether the call has ended."""
        return self.task is None or self.task.done()

    @property
    def over(self) -> bool:
        """Whether it has ended and no question is open: a question may outlive the answer."""
        task = self.task
        if task is None:
            return True
        if not task.done():
            return False
        failed = task.cancelled() or task.exception() is not None
        return failed or not self._questions

    def outcome(self) -> Reply:
        """The result of the call; read once.

        Raises:
            asyncio.CancelledError: the call was cancelled.
        """
        task, self.task = self.task, None  # whose error would hold, by its trace, this call
        try:
            if task is None:
                raise asyncio.CancelledError
            return task.result()
        finally:
            task = None

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """What the client declared."""
        return self.client.capabilities

    @property
    def log_level(self) -> str | None:
        """The log level that it wants."""
        return self.client.log_level

    @property
    def progress_token(self) -> Raw | None:
        """Its progress token."""
        return self.client.progress_token

    async def notify(self, method: str, params: Params) -> None:
        """Deliver to the open request; dropped while parked."""
        if self.timer is None:
            await self.client.notify(method, params)

    async def ask(self, method: str, params: Params) -> Answer:
        """Park the question and wait for its answer.

        Raises:
            ClientGone: the call ended first.
        """
        if not may_ask(method, params, self.capabilities, "modern", self.version):
            return Answer(error=refusal(method, self.capabilities))
        if self._over:
            raise ClientGone("the call was answered")
        self._count += 1
        key = f"input-{self._count}"
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._questions[key] = ({"method": method, "params": _modern_form(params)}, future)
        self._wake.set()
        try:
            return await future
        finally:
            self._questions.pop(key, None)
            del future  # whose error would hold, by its trace, this frame

    async def pause(self) -> None:
        """Wait until the task is done or asks something."""
        while not self.answered and not self._questions:
            self._wake.clear()
            await self._wake.wait()
        # A server that asks several things at once sends them one after the other.
        known = 0
        while self.task is not None and not self.answered and len(self._questions) > known:
            known = len(self._questions)
            await asyncio.wait((self.task,), timeout=BATCH_S)

    def requests(self) -> dict[str, Any]:
        """The open questions, as `inputRequests`."""
        return {key: question for key, (question, _) in self._questions.items()}

    def deliver(self, answers: Mapping[str, Raw]) -> None:
        """Answer open questions; the others stay open."""
        for key, raw in answers.items():
            _, future = self._questions.pop(key, (None, None))
            if future is not None and not future.done():
                future.set_result(Answer(result=raw))

    def timer_off(self) -> None:
        """Cancel the timer that ends the call if the client stays away."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def leave(self) -> None:
        """Detach the client: the call does not reach it any more."""
        self.timer_off()
        self._over = True
        for _, future in list(self._questions.values()):
            if not future.done():
                future.set_exception(ClientGone("the client did not come back"))
                future.exception()

    def stop(self, reason: CancelReason | None = None) -> None:
        """Cancel the call, without waiting (see `end`)."""
        self.leave()
        if self.task is not None:
            self.task.cancel(reason)

    async def end(self, reason: CancelReason | None = None) -> None:
        """Cancel the call and wait for it."""
        task = self.task
        self.stop(reason)
        await stop(task, timeout_s=5)


def _modern_form(params: Params) -> Params:
    """A legacy upstream's question in modern form."""
    changed = {k: v for k, v in params.items() if k not in ("elicitationId", "task", "_meta")}
    meta = members_or_none(params.get("_meta"))
    if meta is not None:
        passed = passed_meta(meta, transparent=True)
        if passed:
            changed["_meta"] = pack(passed)
    return changed
