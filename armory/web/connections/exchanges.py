"""The requests of one connection, served one after the other without a task for each.

Owns: `Exchanges`, aiohttp's connection with a request loop of its own. aiohttp starts a task for
each request, to give it a context of its own, which costs a small call a good part of its time;
here the context is entered and left by hand (`steps.InContext`). Never reads a request's content.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from functools import partial

import aiohttp
from aiohttp.compression_utils import HAS_BROTLI, HAS_ZSTD
from aiohttp.http import RawRequestMessage, StreamWriter
from aiohttp.http_exceptions import ContentEncodingError
from aiohttp.streams import StreamReader
from aiohttp.web_exceptions import HTTPBadRequest
from aiohttp.web_protocol import RequestHandler, RequestPayloadError
from aiohttp.web_request import BaseRequest
from aiohttp.web_response import StreamResponse

from armory.errors import ConfigError
from armory.logger import Logger
from armory.steps import Account, InContext

_log = Logger(__name__)
_OLDEST = "3.14.4"
_OF_THIS_SERIES = re.compile(r"3\.14\.(\d+)")


def is_known(version: str) -> bool:
    """Whether the internals of this aiohttp version are those that this file was
    checked against.
    """
    found = _OF_THIS_SERIES.match(version)
    return found is not None and int(found[1]) >= int(_OLDEST.rpartition(".")[2])


KNOWN = is_known(aiohttp.__version__)
"""Whether this is such an aiohttp; with any other, aiohttp's own loop serves. To support a newer
one, compare its `RequestHandler.start`."""
INTERNALS = (
    "_buffer_paused", "_close", "_current_request", "_drain_helper", "_drain_waiter",
    "_force_close", "_handle_request", "_handler_waiter", "_keepalive", "_keepalive_handle",
    "_keepalive_timeout", "_lingering_time", "_loop", "_manager", "_messages",
    "_msg_queue_resume_size", "_next_keepalive_close_time", "_parser",
    "_pause_reading_for_buffer", "_pause_transport_reading", "_paused", "_process_keepalive",
    "_reading_paused", "_request_count", "_request_factory", "_request_handler",
    "_request_in_progress", "_resume_reading_if_drained", "_resume_transport_reading",
    "_task_handler", "_upgraded", "_waiter",
)  # fmt: skip
"""What connections use of aiohttp's beside its public parts."""
AT_ONCE = 8
"""Requests of a connection that are answered in one turn of the event loop where nothing has to be
waited for."""
_UNPACKED_BYTES = 4 << 20
"""Most bytes that are unpacked of a compressed body that was answered early: it may unpack to a
thousand times its size. Beyond that the connection is closed."""
_CODINGS = ", ".join(("gzip", "deflate", *["br"] * HAS_BROTLI, *["zstd"] * HAS_ZSTD))
"""What is unpacked: the last two where their packages are installed."""
_READ_LATE = "the body of a request cannot be read once it has been answered"
_Handler = Callable[[BaseRequest], Awaitable[StreamResponse]]


class Exchanges(RequestHandler):
    """A connection whose requests are served in the connection's own task.

    Anything unusual (malformed bytes, an upgrade) is left to aiohttp's own loop, and so is
    everything that follows on that connection.
    """

    __slots__ = ("account",)

    account: Account | None

    async def start(self) -> None:
        """Serve requests until the connection ends."""
        at_once = 0
        while KNOWN and not self._force_close:
            if not self._messages:
                at_once = 0 if await self._next_request() else at_once
            if at_once == AT_ONCE:  # they may all have been there already
                at_once = 0
                await asyncio.sleep(0)
                continue
            at_once += 1
            message, payload = self._messages[0]
            if self._upgraded or not isinstance(message, RawRequestMessage):
                break
            if not await self._exchange(message, payload):
                self._end()
                return
        if not self._force_close:
            await super().start()

    async def _next_request(self) -> bool:
        """Wait for a request; returns whether it had to wait."""
        if self._buffer_paused:  # what was held back may be one
            self._resume_reading_if_drained()
            if self._messages:
                return False
        self._waiter = waiter = self._loop.create_future()
        try:
            await waiter
        finally:
            self._waiter = None
        return True

    async def _exchange(self, message: RawRequestMessage, payload: StreamReader) -> bool:
        """Serve one request; returns whether the connection can carry another."""
        self._taken()
        manager, handler = self._manager, self._request_handler
        make_request = self._request_factory
        assert manager is not None
        assert handler is not None
        assert make_request is not None
        manager.requests_count += 1
        writer = StreamWriter(self, self._loop)
        request: BaseRequest = make_request(message, payload, self, writer, self._own_task())
        try:
            response, gone = await InContext(self._answered(request, handler), self)
            if gone:
                return False
            self._keepalive = bool(response.keep_alive)
            if not payload.is_eof():
                await self._read_out(payload)
            payload.set_exception(RuntimeError(_READ_LATE))  # each keeps the trace of who reads it
        except ConnectionError:
            return False
        except Exception as failure:  # noqa: BLE001 a defect costs this connection alone
            self.log_exception("a request was not answered", exc_info=failure)
            self.force_close()
        except BaseException:
            self.force_close()
            raise
        finally:
            request._task = None  # type: ignore[assignment]  # ends a cycle
        if not self._keepalive or self._close or self._force_close:
            return False
        self._await_next()
        return True

    def handle_error(
        self,
        request: BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> StreamResponse:
        """As aiohttp's. A body in a coding that is not understood is refused as such (RFC 9110,
        15.5.16).
        """
        if not isinstance(exc, ContentEncodingError):
            return super().handle_error(request, status, exc, message)
        said = f"the Content-Encoding is not understood; expected one of {_CODINGS}, or none\n"
        response = super().handle_error(request, 415, exc, said)
        response.headers["Accept-Encoding"] = _CODINGS
        return response

    async def _answered(
        self, request: BaseRequest, handler: _Handler
    ) -> tuple[StreamResponse, bool]:
        """The response, already written, and whether the client has gone.

        A response with a method `write_at_once`, which returns whether it wrote itself, skips
        aiohttp's separate steps for headers, body and end.
        """
        self._request_in_progress, self._current_request = True, request
        try:
            response = await handler(request)
        except Exception as failure:  # noqa: BLE001 as aiohttp answers them
            answered = _refused(failure) if isinstance(failure, RequestPayloadError) else failure
            try:
                return await self._handle_request(request, None, partial(_raised, answered))
            finally:
                forget_trace(answered)  # and that of `failure`, which is its context
                del answered
        except BaseException:
            self._served()
            raise
        finally:
            self._current_request = None
        write_at_once = getattr(response, "write_at_once", None)
        try:
            written = write_at_once is not None and write_at_once(request)
            if written and self._paused:
                await self._drain_helper()
        except BaseException:
            self._served()
            raise
        if not written:
            return await self._handle_request(request, None, partial(_returned, response))
        self._served()
        return response, False

    async def _drain_helper(self) -> None:
        """Wait until the transport can take more. aiohttp's own keeps the waiter in a local
        variable: when the client goes away, the error's traceback keeps that frame, its callers and
        their answer alive until the garbage collector runs.
        """
        if not KNOWN or self.transport is None:
            await super()._drain_helper()
        elif self._paused:
            if self._drain_waiter is None:
                self._drain_waiter = self._loop.create_future()
            await self._drain_waiter

    def _served(self) -> None:
        """Aiohttp's own clean-up after a request."""
        self._request_in_progress = False
        if self._handler_waiter is not None:
            self._handler_waiter.set_result(None)

    def _own_task(self) -> asyncio.Task[None]:
        """The connection's task. A local variable of the caller would make a reference cycle: the
        cancelled task, its traceback, the frame, the task.
        """
        task = self._task_handler or asyncio.current_task(self._loop)
        assert task is not None
        return task

    def _taken(self) -> None:
        """Pop the first request off the queue, which makes room for another."""
        self._messages.popleft()
        if self._parser is not None:
            self._parser.message_consumed()
        if self._buffer_paused and len(self._messages) <= self._msg_queue_resume_size:
            self._resume_reading_if_drained()

    async def _read_out(self, payload: StreamReader) -> None:
        """Read the rest of a body that was answered early, for a while; else close."""
        wait = 0 if self._force_close else self._lingering_time
        left = _UNPACKED_BYTES
        packed = payload.total_compressed_bytes is not None
        try:
            async with asyncio.timeout(wait):
                while left >= 0 and self.transport is not None and not payload.is_eof():
                    size = len(await payload.readany())
                    left -= size if packed else 0
                    await asyncio.sleep(0)  # there may be more already
            if left < 0:
                self.close()
        except (TimeoutError, RequestPayloadError):
            self.close()

    def _await_next(self) -> None:
        """Arrange that the connection is closed if no request comes in time."""
        self._next_keepalive_close_time = due = self._loop.time() + self._keepalive_timeout
        if self._keepalive_handle is None:
            self._keepalive_handle = self._loop.call_at(due, self._process_keepalive)

    def _end(self) -> None:
        if not self._force_close:
            self._task_handler = None
            if self.transport is not None:
                self.transport.close()


def check_library(connection: object, version: str = aiohttp.__version__) -> None:
    """Check that connections of this aiohttp have the internals that are relied on: without them
    each would end at its first byte. An unknown version is logged.

    Args:
        connection: one of aiohttp's own, which serves nobody.
        version: aiohttp's.

    Raises:
        ConfigError: an internal is missing.
    """
    missing = [name for name in INTERNALS if not hasattr(connection, name)]
    if missing:
        raise ConfigError(
            f"aiohttp {version} is installed, whose connections have no {missing[0]}, so that "
            f'no request would be answered: pip install "aiohttp>={_OLDEST},<3.15"'
        )
    if not is_known(version):
        _log.warning("aiohttp_not_known", version=version, known=f">={_OLDEST},<3.15")


def forget_trace(failure: BaseException | None) -> None:
    """Drop the traceback of an exception, which keeps frames alive (one of which, or the route of a
    404, refers to the exception).
    """
    while failure is not None:
        failure.__traceback__ = None
        failure = failure.__context__


def _refused(failure: RequestPayloadError) -> HTTPBadRequest:
    """The answer to a body that cannot be read, such as one with a wrong `Content-Encoding`."""
    message = getattr(failure.__cause__, "message", "") or "it is malformed"
    refused = HTTPBadRequest(text=f"the body of the request cannot be read: {message}\n")
    refused.force_close()  # what comes behind it cannot be told from it
    return refused


async def _raised(failure: Exception, _request: BaseRequest) -> StreamResponse:
    raise failure


async def _returned(response: StreamResponse, _request: BaseRequest) -> StreamResponse:
    return response
