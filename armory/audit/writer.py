"""The audit's writer: accepts records without blocking and writes them in batches a moment later.

Owns: the queue, masking secrets, retries, and counting dropped records. Never does I/O itself.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import asynccontextmanager

from armory.audit.record import (
    CLOSED,
    DROPPED,
    LARGE_BYTES,
    OPENED,
    UNCLEAN,
    Entry,
    arguments_of,
    result_of,
)
from armory.audit.settings import Arguments, AuditSettings, Results
from armory.audit.sinks import Sink, own_entry
from armory.ending import at_most
from armory.errors import ArmoryError, BackendError
from armory.logger import Logger
from armory.observability.redaction import redacted_json
from armory.tasks import shielded, spawn, start, stop

_log = Logger(__name__)
_EVERY_S = 0.25
"""Seconds between two writes: a killed process loses the records of no more."""
_AT_ONCE = 2_000
"""Records in one write: with fewer each is safe sooner, with more each costs less."""
_RETRY_S = 1.0
_END_S = 4.0
"""How long the end waits for a sink that does not answer: what else ends needs its time, too, and
whoever supervises the process kills it after a while."""

_SILENT = "the audit cannot be written: no answer in time"


class AuditLog:
    """The queue of one gateway's records in front of a sink.

    Args:
        sink: takes it.
        settings: see `AuditSettings`.

    Attributes:
        arguments: what is kept of a call's arguments.
        results: what is kept of what it was answered.
        written: records that are safe.
        dropped: records that were dropped because too many waited.
        failing: why nothing can be written now; None: it can.
    """

    def __init__(self, sink: Sink, settings: AuditSettings) -> None:
        self._sink = sink
        self._limit = settings.waiting
        self._chars_limit = settings.waiting_chars
        self._chars = 0
        self.arguments: Arguments = settings.arguments
        self.results: Results = settings.results
        self._waiting: deque[Entry] = deque()
        self._hidden = 0  # so many of them, the first, are without secrets
        self._news = asyncio.Event()
        self._untold = 0
        self._instance = secrets.token_hex(4)
        self._ending = False
        self.written = 0
        self.dropped = 0
        self.failing: str | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """Whether the queue is full, so that records are dropped."""
        return len(self._waiting) >= self._limit or self._chars >= self._chars_limit

    @property
    def state(self) -> str | None:
        """The present problem, as a message; None: there is none."""
        if self.failing is None:
            return None
        text = f"{self.failing}; {len(self._waiting):,} records wait"
        return f"{text}, {self.dropped:,} were dropped" if self.dropped else text

    def note(self, entry: Entry) -> None:
        """Queue one record. Never blocks, never raises."""
        if len(self._waiting) >= self._limit or self._chars >= self._chars_limit:
            self.dropped += 1
            self._untold += 1
            return
        if entry.arguments is not None:
            self._chars += len(entry.arguments)
        self._waiting.append(entry)
        if not self._news.is_set():
            self._news.set()

    def note_with(
        self, entry: Entry, arguments: bytes | None, result: Sequence[bytes | memoryview]
    ) -> Awaitable[None] | None:
        """Queue one record with its arguments and result. Large ones are processed in a thread,
        which may be awaited; a caller that is cancelled meanwhile is recorded all the same.

        Args:
            entry: the record.
            arguments: as of `arguments_of`.
            result: as of `result_of`.
        """
        if len(arguments or b"") + sum(map(len, result)) > LARGE_BYTES:
            work = self._looked_at(entry, arguments, result)
            return shielded(start(work, "look at what the audit keeps"))
        self._keep(entry, arguments, result)
        self.note(entry)
        return None

    def _keep(
        self, entry: Entry, arguments: bytes | None, result: Sequence[bytes | memoryview]
    ) -> None:
        entry.arguments = arguments_of(arguments, self.arguments)
        entry.result = result_of(result, self.results)

    async def _looked_at(
        self, entry: Entry, arguments: bytes | None, result: Sequence[bytes | memoryview]
    ) -> None:
        try:
            await asyncio.to_thread(self._keep, entry, arguments, result)
        finally:
            self.note(entry)

    async def open(self) -> None:
        """Find the end of the chain, and record that a process continues it.

        Raises:
            ConfigError: it cannot be written here.
            BackendError: it cannot be reached now.
        """
        clean = await self._sink.open()
        how = "ok" if clean else UNCLEAN
        try:
            await self._sink.write([own_entry(OPENED, self._instance, outcome=how)])
        except BaseException:
            await self._sink.close()
            raise

    async def run(self) -> None:
        """Write queued records, until the end. Never cancelled: the outcome of a running write must
        be known.
        """
        while not self._ending:
            await self._news.wait()
            self._news.clear()
            if not self._ending:
                await asyncio.sleep(_EVERY_S)
            await self._flush()
            if self.failing is not None and not self._ending:
                await asyncio.sleep(_RETRY_S)
                self._news.set()

    async def _flush(self) -> None:
        """Write the whole queue, a batch at a time; stops if a write fails."""
        while self._waiting or self._untold:
            untold = self._untold
            batch = [self._waiting[at] for at in range(min(_AT_ONCE, len(self._waiting)))]
            await self._hide_secrets(batch[self._hidden :])
            self._hidden = max(self._hidden, len(batch))
            extra = [own_entry(DROPPED, self._instance, code=str(untold))] if untold else []
            try:
                await self._write([*batch, *extra])
            except Exception as error:  # noqa: BLE001 whatever it is, the next try may go well
                known = isinstance(error, ArmoryError)
                why = error.message if known else f"{type(error).__name__}: {error}"
                if self.failing is None:
                    _log.error("audit_failed", error=why, exc_info=None if known else error)
                self.failing = why
                return
            if self.failing is not None:
                _log.info("audit_written_again", dropped=untold)
                self.failing = None
            for _ in batch:
                self._chars -= len(self._waiting.popleft().arguments or "")
            self._hidden -= len(batch)
            self._untold -= untold
            self.written += len(batch)

    async def _write(self, entries: Sequence[Entry]) -> None:
        """Have the sink write; during shutdown it has only a short time to answer.

        Raises:
            BackendError: the sink failed, or did not answer in time.
        """
        try:
            async with asyncio.timeout(at_most(_END_S) if self._ending else None):
                await self._sink.write(entries)
        except TimeoutError:
            raise BackendError(_SILENT) from None

    async def _hide_secrets(self, entries: Sequence[Entry]) -> None:
        """Mask secrets in the arguments, in a thread: a megabyte takes half a second."""
        with_arguments = [entry for entry in entries if entry.arguments]
        if self.arguments != "full" or not with_arguments:
            return
        texts = [entry.arguments or "" for entry in with_arguments]
        shown = await asyncio.to_thread(lambda: [redacted_json(text) for text in texts])
        for entry, before, after in zip(with_arguments, texts, shown, strict=True):
            entry.arguments = after
            self._chars += len(after) - len(before)

    async def close(self, *, silent: bool = False) -> None:
        """Write the rest of the queue and a closing record, after `run` has ended.

        Args:
            silent: whether the sink was waited for already, and is not asked any more.
        """
        if silent:
            self.failing = _SILENT
        else:
            await self._flush()
        try:
            if self.failing is None:
                await self._write([own_entry(CLOSED, self._instance)])
        except ArmoryError as error:
            self.failing = error.message
        if self.failing is not None:
            _log.error("audit_not_closed", error=self.failing, lost=len(self._waiting))
        await self._sink.close()

    def end(self) -> None:
        """Make `run` end soon."""
        self._ending = True
        self._news.set()


@asynccontextmanager
async def opened_audit(sink: Sink, settings: AuditSettings) -> AsyncGenerator[AuditLog]:
    """An open audit that is written for as long as the context lasts.

    Raises:
        ConfigError: it cannot be written here.
        BackendError: it cannot be reached now.
    """
    audit = AuditLog(sink, settings)
    await audit.open()
    writing = spawn(audit.run(), "write the audit")
    try:
        yield audit
    finally:
        audit.end()
        written = audit.written
        _, late = await asyncio.wait((writing,), timeout=at_most(_END_S))
        silent = bool(late) and audit.written == written
        await stop(writing)
        await audit.close(silent=silent)
