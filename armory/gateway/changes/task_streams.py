"""Status notifications of modern upstreams about the tasks that clients follow.

Owns: `TaskStreams`: a `subscriptions/listen` at an upstream for each client that follows tasks of
its own there, opened anew where it ends. Never imports a transport.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from armory.domain.limits import Holdings
from armory.errors import ArmoryError
from armory.gateway.ports import Pool
from armory.gateway.results.uri_rewriting import expose_params
from armory.gateway.subscription import Subscription
from armory.logger import Logger
from armory.protocol.link import FOREVER_S, Answer, Call, ClientGone, Params
from armory.protocol.methods import ACKNOWLEDGED, LISTEN, TASK
from armory.protocol.rawjson import encode, few_items, members_or_none, pack, text_of, text_or_none
from armory.tasks import Tasks, spawn, stop

_log = Logger(__name__)
MOST, MOST_OF_ONE = 1_000, 64
"""Streams at upstreams in all, and those of one person."""
_ACK_S = 5.0
"""How long a client waits, for what it listens to besides as well: its own acknowledgement says
which tasks it will hear of. Upstreams have to send theirs before anything else."""
_RETRY_S = (1.0, 2.0, 5.0, 10.0, 30.0)
_LASTING_S = 60.0
"""A stream that was open this long did not fail."""
_OVER = frozenset(("completed", "failed", "cancelled"))
MayUse = Callable[[Subscription, str], bool]


class TaskStreams:
    """All task streams of the gateway.

    Args:
        pool: the upstream sessions.
        may_use: whether a client sees anything of a server where it listens.
    """

    def __init__(self, pool: Pool, may_use: MayUse) -> None:
        self._pool = pool
        self._may_use = may_use
        self._open: dict[TaskStream, str] = {}
        self._by_person: Holdings[str] = Holdings()

    def __len__(self) -> int:
        return len(self._open)

    async def follow(
        self,
        subscription: Subscription,
        server: str,
        ids: Iterable[str],
        capabilities: Mapping[str, Any],
    ) -> frozenset[str]:
        """Follow a client's tasks at an upstream; returns those that the upstream agreed to report.

        Args:
            subscription: the client.
            server: the upstream.
            ids: the tasks, as the upstream names them.
            capabilities: what the client declared.
        """
        asked = frozenset(ids)
        if self._pool.era(server) != "modern":
            return asked  # it reports all tasks of a session to whoever has that
        person = subscription.principal.person
        if len(self._open) >= MOST or self._by_person[person] >= MOST_OF_ONE:
            return frozenset()
        stream = TaskStream(self._pool, self._may_use, subscription, server, asked, capabilities)
        self._open[stream] = person
        self._by_person.take(person)
        honoured: frozenset[str] = frozenset()
        try:
            honoured = await stream.open(self._forget)
        finally:
            if not honoured:
                await stream.close()
        return honoured

    async def leave(self, subscription: Subscription) -> None:
        """A client stopped listening."""
        for stream in [one for one in self._open if one.subscription is subscription]:
            await stream.close()

    async def close(self) -> None:
        """End all streams."""
        for stream in list(self._open):
            await stream.close()

    def _forget(self, stream: TaskStream) -> None:
        self._by_person.give_back(self._open.pop(stream))


class TaskStream:
    """A stream with the tasks of one client at one upstream; it is its own `ClientChannel`.

    Attributes:
        subscription: the client.
        capabilities: what it declared.
    """

    log_level: str | None = None
    progress_token: Raw | None = None

    def __init__(
        self,
        pool: Pool,
        may_use: MayUse,
        subscription: Subscription,
        server: str,
        ids: frozenset[str],
        capabilities: Mapping[str, Any],
    ) -> None:
        self.subscription = subscription
        self.capabilities = capabilities
        self._pool = pool
        self._may_use = may_use
        self._server = server
        self._left = set(ids)
        self._honoured: frozenset[str] | None = None
        self._answered = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._tasks = Tasks()

    async def open(self, on_end: Callable[[TaskStream], None]) -> frozenset[str]:
        """Start listening; returns the tasks that the upstream agreed to report.

        Args:
            on_end: told when it has ended: all are over, nothing is reported, or it was closed.
        """
        self._keeper = spawn(self._keep(), f"tasks of a client at {self._server}")
        self._keeper.add_done_callback(lambda _: on_end(self))
        try:
            async with asyncio.timeout(_ACK_S):
                await self._answered.wait()
        except TimeoutError:
            _log.info("task_stream_unacknowledged", upstream=self._server)
        return self._honoured or frozenset()

    async def close(self) -> None:
        """Stop listening."""
        await stop(self._keeper, *self._tasks)

    # -- as a `ClientChannel` ------------------------------------------------------------------

    async def notify(self, method: str, params: Params) -> None:
        """Handle the acknowledgement, and status notifications of tasks."""
        if method == TASK:
            self._tell(params)
        elif method == ACKNOWLEDGED and self._honoured is None:
            self._honoured = frozenset(_acknowledged(params) & self._left)
            self._left &= self._honoured
            self._answered.set()
        elif method == ACKNOWLEDGED:  # what happened meanwhile was not heard
            self._tasks.spawn(self._catch_up(), f"tasks at {self._server}")

    async def ask(self, method: str, params: Params) -> Answer:
        """Never answered: no client can be asked on such a stream."""
        raise ClientGone

    # -- the stream ----------------------------------------------------------------------------

    async def _keep(self) -> None:
        """Listen until all tasks are over."""
        loop, failures = asyncio.get_running_loop(), 0
        try:
            while self._left:
                began = loop.time()
                await self._listen(sorted(self._left))
                if self._honoured is None:
                    return
                failures = 0 if loop.time() - began > _LASTING_S else failures
                if self._left:
                    await asyncio.sleep(_RETRY_S[min(failures, len(_RETRY_S) - 1)])
                failures += 1
        finally:
            self._answered.set()

    async def _listen(self, ids: list[str]) -> None:
        wanted = {"notifications": Raw(encode({"taskIds": ids}))}
        call = Call(LISTEN, wanted, client=self, timeout_s=FOREVER_S)
        try:
            await self._pool.listen(self._server, self.subscription.owner, call)
        except ArmoryError as error:
            _log.debug("task_stream_lost", upstream=self._server, error=error.message)

    async def _catch_up(self) -> None:
        for id in sorted(self._left):
            named = {"taskId": pack(id)}
            call = Call("tasks/get", named, client=self, name_header=id, safe_to_retry=True)
            try:
                reply = await self._pool.request(self._server, self.subscription.owner, call)
            except ArmoryError as error:
                _log.debug("task_unknown_by_now", upstream=self._server, error=error.message)
                continue
            state = members_or_none(reply.result)
            if state is None:  # it is there no more
                self._left.discard(id)
            else:
                self._tell({k: v for k, v in state.items() if k not in ("resultType", "_meta")})
        self._end_if_over()

    def _tell(self, params: Params) -> None:
        """Notify the client of tasks that it asked for."""
        id, subscription = text_of(params, "taskId"), self.subscription
        if id is None or id not in self._left:
            return
        if text_of(params, "status") in _OVER:
            self._left.discard(id)
        if self._may_use(subscription, self._server):
            transparent = subscription.endpoint.transparent
            shown = params if transparent else expose_params(params, self._server)
            subscription.deliver(TASK, shown)
        self._end_if_over()

    def _end_if_over(self) -> None:
        if not self._left and self._keeper is not None:
            self._keeper.cancel()


def _acknowledged(params: Params) -> set[str]:
    """The tasks that an acknowledgement names."""
    said = members_or_none(params.get("notifications")) or {}
    try:
        named = few_items(said.get("taskIds", Raw(b"[]")), 1_000)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return set()
    return {id for raw in named if (id := text_or_none(raw)) is not None}
