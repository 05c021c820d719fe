"""Background tasks: started, watched and stopped in one way.

Owns: starting a task, telling the log when one fails that nobody waits for, cancelling tasks
until they have ended, and work that several wait for. Structured work (`asyncio.TaskGroup`,
`gather`) needs none of this. Never imports a room: every one starts tasks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import suppress
from typing import Any, Generic, TypeVar

from armory.logger import Logger

_log = Logger(__name__)
_T = TypeVar("_T")
_USED_S = 0.0002
"""A round of the event loop that takes longer is one in which others did something."""
_LATE_S = 10.0
"""Tasks that take longer to end are logged: none does by design."""


def start(work: Coroutine[Any, Any, _T], name: str) -> asyncio.Task[_T]:
    """Start `work`, whose result or error the caller will fetch from the task.

    Args:
        work: what to run.
        name: what it is, for debuggers and the log.
    """
    return asyncio.get_running_loop().create_task(work, name=name)


def spawn(work: Coroutine[Any, Any, _T], name: str) -> asyncio.Task[_T]:
    """Start `work` that nobody waits for: a failure goes to the log when it happens.

    The caller keeps the task and stops it; see `Tasks` for many of them.

    Args:
        work: what to run.
        name: what it is, for debuggers and the log.
    """
    task = asyncio.get_running_loop().create_task(work, name=name)
    task.add_done_callback(_tell_failure)
    return task


async def step_by_step(steps: Generator[None, None, _T]) -> _T:
    """Run a generator to its end, giving way to the event loop between steps; returns
    its result.
    """
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value
        await asyncio.sleep(0)


async def stop(*tasks: asyncio.Task[Any] | None, timeout_s: float | None = None) -> None:
    """Cancel tasks and wait until they have ended; raises none of their errors.

    Args:
        tasks: None, and the task that calls this, are passed over.
        timeout_s: so long the wait is at most; None: until they have ended.
    """
    current = asyncio.current_task()
    given = [task for task in tasks if task is not None and task is not current]
    # what has ended is of a loop, perhaps, that has ended too
    running = [task for task in given if not task.done()]
    for task in running:
        task.cancel()
    if running:
        limit_s = _LATE_S if timeout_s is None else timeout_s
        _, late = await asyncio.wait(running, timeout=limit_s)
        if late:
            _log.warning("tasks_still_running", tasks=sorted(task.get_name() for task in late))
            if timeout_s is None:
                await asyncio.wait(late)
    for task in given:
        if task.done():
            retrieve_failure(task)


async def cancellable(work: Awaitable[_T]) -> _T:
    """Await a library's `work`, and raise CancelledError if this task was cancelled meanwhile.

    `asyncio.wait_for` of Python 3.11 returns or raises what it waited for when it is cancelled in
    the turn in which that ended (cpython gh-86296, fixed in 3.12): a loop that only a cancellation
    ends would go on for ever, and so would who stops it.

    Raises:
        asyncio.CancelledError: this task was cancelled, whatever became of `work`.
    """
    task = asyncio.current_task()
    asked = task.cancelling() if task is not None else 0
    try:
        result = await work
    except Exception:
        if task is not None and task.cancelling() > asked:
            raise asyncio.CancelledError from None
        raise
    if task is not None and task.cancelling() > asked:
        raise asyncio.CancelledError
    return result


async def give_way(took_s: float) -> None:
    """Yield to the event loop after work that took so many seconds: for one turn, and if other
    tasks used that turn, for twice as long as the work took.
    """
    loop = asyncio.get_running_loop()
    begun = loop.time()
    await asyncio.sleep(0)
    if loop.time() - begun > _USED_S:
        await asyncio.sleep(2 * took_s)


class Tasks:
    """The background tasks of one object; they end with the object at the latest."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def __iter__(self) -> Iterator[asyncio.Task[Any]]:
        return iter(tuple(self._tasks))

    def start(self, work: Coroutine[Any, Any, _T], name: str) -> asyncio.Task[_T]:
        """As the function `start`."""
        return self._kept(start(work, name))

    def spawn(self, work: Coroutine[Any, Any, _T], name: str) -> asyncio.Task[_T]:
        """As the function `spawn`."""
        return self._kept(spawn(work, name))

    def cancel(self) -> None:
        """Cancel all of them, without waiting."""
        for task in self:
            task.cancel()

    async def stop(self, timeout_s: float | None = None) -> None:
        """As the function `stop`, for all of them."""
        await stop(*self._tasks, timeout_s=timeout_s)

    async def ended(self) -> None:
        """Wait until all of them have ended by themselves, those that they start included."""
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))

    def _kept(self, task: asyncio.Task[_T]) -> asyncio.Task[_T]:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class Flight(Generic[_T]):
    """Work that runs at most once at a time: callers that come meanwhile wait for the same run.

    It goes on when the one who began it is cancelled: the others still wait for it.

    Args:
        name: what it is, for debuggers.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._task: asyncio.Task[_T] | None = None

    @property
    def under_way(self) -> bool:
        """Whether the work is running."""
        return self._task is not None

    async def join(self, work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """The result of the work that is running, or else of `work`, which is started."""
        if self._task is None:
            self._task = start(work(), self._name)
            self._task.add_done_callback(self._landed)
        return await shielded(self._task)

    async def landed(self) -> None:
        """Wait until nothing is running, however it ended."""
        if self._task is not None:
            await asyncio.wait((self._task,))

    async def stop(self) -> None:
        """Cancel the work that is running, and wait until it has ended."""
        await stop(self._task)

    def _landed(self, task: asyncio.Task[_T]) -> None:
        self._task = None
        retrieve_failure(task)


class InTurn:
    """Runs pieces of work one after the other, in the order in which they were requested.

    Each goes on to its end when whoever waits for it is cancelled: nothing is left half done.

    Args:
        name: what they are, for debuggers.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = asyncio.Lock()
        self._tasks = Tasks()

    async def do(self, work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Wait for the pieces before this one, run `work`, and return its result."""
        task = self._tasks.start(self._next(work), self._name)
        task.add_done_callback(retrieve_failure)
        try:
            return await shielded(task)
        finally:
            del task  # whose error holds this frame by its trace

    async def stop(self) -> None:
        """Cancel all of them, including the one that runs."""
        await self._tasks.stop()

    async def _next(self, work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        async with self._lock:
            return await work()


class Flights(Generic[_T]):
    """Like `Flight`, with one run at a time for each key."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[_T]] = {}

    async def join(self, key: str, work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """The result of the work that is running for `key`, or else of `work`, which is started."""
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = start(work(), f"flight {key[:40]}")
            task.add_done_callback(lambda done: self._landed(key, done))
        try:
            return await shielded(task)
        finally:
            del task  # whose error holds this frame by its trace

    def under_way(self, key: str) -> bool:
        """Whether work for `key` is running."""
        return key in self._tasks

    def forget(self, key: str) -> None:
        """Make later callers start a new run: the present one may have read stale data."""
        self._tasks.pop(key, None)

    def _landed(self, key: str, task: asyncio.Task[_T]) -> None:
        if self._tasks.get(key) is task:
            del self._tasks[key]
        retrieve_failure(task)


async def shielded(work: asyncio.Future[_T]) -> _T:
    """The result of `work`, which continues if the waiting task is cancelled.

    As `asyncio.shield`, but what fails after that is told to nobody: since Python 3.14 a shield
    hands it to the event loop, which logs it with its traceback.
    """
    if not work.done():
        try:
            await asyncio.wait((work,))
        except asyncio.CancelledError:
            work.add_done_callback(retrieve_failure)
            raise
    try:
        return work.result()
    finally:
        del work  # whose error holds this frame by its trace


def retrieve_failure(task: asyncio.Future[Any]) -> None:
    """Fetch the task's exception, so that asyncio does not log it when all who waited were
    cancelled. Of a cancelled task, too: it holds its frames, one of which may hold the task.
    """
    with suppress(asyncio.CancelledError):
        task.exception()


def _tell_failure(task: asyncio.Task[Any]) -> None:
    if task.cancelled():
        retrieve_failure(task)
    elif (error := task.exception()) is not None:
        _log.rate_limited("error", "task_failed", task=task.get_name(), exc_info=error)


def being_cancelled() -> bool:
    """Whether the current task itself is being cancelled, rather than only what it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class Pauses:
    """Exponential backoff for repeated requests: each pause is twice as long as the one before.
    After a quiet period it starts again with the shortest.

    Args:
        shortest_s: the first one.
        longest_s: the last one, and how long a lull is.
        news_s: the last one while it is worth it.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        shortest_s: float,
        longest_s: float,
        news_s: float,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._shortest_s, self._longest_s, self._news_s = shortest_s, longest_s, news_s
        self._clock = clock
        self._next_s = shortest_s
        self._done_at = clock()

    def next_s(self) -> float:
        """The pause that is due, now that it is asked for."""
        if self._clock() - self._done_at > self._longest_s:
            self._next_s = self._shortest_s
        pause_s = self._next_s
        self._next_s = min(2 * pause_s, self._longest_s)
        return pause_s

    def done(self, *, news: bool) -> None:
        """Record that the repeated work was done, from which the next pause counts.

        Args:
            news: whether it was worth it.
        """
        self._done_at = self._clock()
        if news:
            self._next_s = min(self._next_s, self._news_s)
