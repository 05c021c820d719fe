"""Several replicas behind one address: whose session it is, and passing a request on to its owner.

Owns: the map from session to replica in a shared store, signs of life, and the one hop between
replicas. The store is seen as a small Protocol; nothing here is the truth about a session: only
its owner knows whether it is still there.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeVar

import aiohttp
from aiohttp import web
from cachetools import LRUCache, TTLCache

from armory.errors import ArmoryError, BackendError
from armory.logger import Logger
from armory.protocol import codes
from armory.tasks import spawn, start, stop
from armory.wire.http.admitted import AdmittedRequest, refusal
from armory.wire.http.host_checks import FORWARDED, PASSED, HostChecks

_T = TypeVar("_T")
_log = Logger(__name__)
ALIVE_S = 15.0
REMEMBERED_S = 86_400.0
"""So long a claim is kept that is not made again, and a quarter of that before it is."""
CONNECT_S = 5.0
ATTEMPTS = 3
_BEATS = 15
"""Signs of life while one lasts."""
_LOST = "replicas-lost"
"""Is in the store for a while after it was found to have lost what replicas had told it."""
_OWNERS_KEPT = 10_000
_REPLICAS_KEPT = 1_000
_TOLD = frozenset(name.lower() for name in FORWARDED)
_HOP_BY_HOP = frozenset(
    (
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "content-length",
        "content-encoding",
        "accept-encoding",
    )
)


class Store(Protocol):
    """Small values with a time to live, seen by every replica."""

    async def get(self, key: str) -> bytes | None:
        """The value, or None."""
        ...

    async def set(self, key: str, value: bytes, ttl_s: float) -> None:
        """Write whatever was there."""
        ...

    async def add(self, key: str, value: bytes, ttl_s: float) -> bool:
        """Write only where nothing is; whether it was written."""
        ...

    async def delete(self, *keys: str) -> None:
        """Forget keys."""
        ...


class Replicas:
    """This replica among the others. Satisfies `wire.sessions.SessionDirectory`.

    Args:
        store: shared by all replicas.
        own_url: where the others reach this one, before every path: `http://10.0.0.3:8080`.
        alive_s: how long a replica counts as alive after its last sign of life, in seconds.

    Attributes:
        tells: what else tells the store something that it may have lost, or not taken.
    """

    def __init__(self, store: Store, own_url: str, *, alive_s: float = ALIVE_S) -> None:
        self.store = store
        self.tells: list[Callable[[], Awaitable[None]]] = []
        self.own_url = own_url.rstrip("/")
        self._alive_s = alive_s
        self._owners = LRUCache[str, str](_OWNERS_KEPT)
        self._secret = secrets.token_hex(16)
        self._secrets = LRUCache[str, str](_REPLICAS_KEPT)
        self._hosts: HostChecks | None = None
        self._seen_alive = TTLCache[str, bool](_REPLICAS_KEPT, alive_s / 3)
        self._claimed: set[str] = set()
        self._untold = True
        self._shown = False
        self._failing = False
        self._failed_at = float("-inf")
        self._beating: asyncio.Task[None] | None = None
        self._claiming: asyncio.Task[None] | None = None
        self._http: aiohttp.ClientSession | None = None

    def seen_through(self, hosts: HostChecks) -> None:
        """Tell other replicas how requests are seen here, and be told by them.

        The secret of a replica is its sign of life, which those alone can read who share the store.
        """
        self._hosts = hosts
        hosts.hop = self._secret

    async def start(self) -> None:
        """Show signs of life from now on."""
        if self._beating is None:
            await self._beat()
            self._beating = spawn(self._beat_on(), "signs of life")
            self._claiming = spawn(self._claim_on(), "claims of sessions")

    async def close(self) -> None:
        """Be gone."""
        beating, self._beating = self._beating, None
        if beating is not None:
            await stop(beating, self._claiming)
            try:
                await self.store.delete(self._life(self.own_url))
            except ArmoryError as error:
                _log.info("replica_not_signed_off", error=error.message)
        http, self._http = self._http, None
        if http is not None:
            await http.close()

    async def _beat(self) -> None:
        try:
            await self._show_life()
        except ArmoryError as error:
            if not self._failing:
                _log.warning("replica_sign_of_life_failed", error=error.message)
            self._failing = self._untold = True
        else:
            self._failing = False

    async def _show_life(self) -> None:
        """A sign of life, once the store has the sessions of this replica.

        Where the last sign is gone, the store was emptied, or it took nothing for long.
        """
        life = self._life(self.own_url)
        if self._shown and await self._tried(lambda: self.store.get(life)) is None:
            _log.warning("shared_store_told_again", sessions=len(self._claimed))
            await self.store.set(_LOST, b"1", self._alive_s)
            self._untold = True
        untold, self._untold = self._untold, False  # what fails has all of it told again
        if untold:
            await self._claim_again()
        await self._tried(lambda: self.store.set(life, self._secret.encode(), self._alive_s))
        self._shown = True
        for tell in self.tells if untold else ():
            await tell()

    async def _beat_on(self) -> None:
        while True:
            await asyncio.sleep(self._alive_s / _BEATS)
            await self._beat()

    async def _complete(self) -> bool:
        """Whether what the store does not have is nowhere: what it lost, or could not be told while
        it was away, replicas tell it again within moments.
        """
        if time.monotonic() - self._failed_at < self._alive_s / 3:
            return False
        own = self._life(self.own_url)
        return await self.store.get(own) is not None and await self.store.get(_LOST) is None

    @staticmethod
    def _life(url: str) -> str:
        return f"replica:{url}"

    # -- sessions ----------------------------------------------------------------------------

    async def claim(self, session_id: str) -> None:
        """This replica owns the session; a store that fails is told with a later sign of life."""
        self._claimed.add(session_id)
        if self._failing:
            self._untold = True
            return
        try:
            await self._tried(lambda: self._claim(session_id))
        except ArmoryError as error:
            self._untold = True
            _log.warning("session_not_claimed", error=error.message)

    async def _claim(self, session_id: str) -> None:
        await self.store.set(f"session:{session_id}", self.own_url.encode(), REMEMBERED_S)

    async def _claim_on(self) -> None:
        """Claim the sessions again that last: a store must forget those of replicas that died."""
        while True:
            await asyncio.sleep(REMEMBERED_S / 4)
            try:
                await self._claim_again()
            except ArmoryError as error:
                _log.warning("sessions_not_claimed_again", error=error.message)

    async def _claim_again(self) -> None:
        for session_id in tuple(self._claimed):
            if session_id in self._claimed:
                await self._claim(session_id)

    async def release(self, session_id: str) -> None:
        """The session ended."""
        self._claimed.discard(session_id)
        try:
            await self.store.delete(f"session:{session_id}")
        except ArmoryError as error:
            _log.info("session_not_released", error=error.message)

    async def owner(self, session_id: str) -> str | None:
        """Base URL of the other replica that owns the session and is alive; else None.

        Raises:
            ArmoryError: the store cannot be asked, or may not know of all sessions, and this one
                may well be there. To call it gone would have the client begin anew again and again.
        """
        url = self._owners.get(session_id)
        if url is None:
            found = await self._tried(lambda: self.store.get(f"session:{session_id}"))
            if found is None:
                if not await self._tried(self._complete):
                    raise BackendError(
                        "the replicas tell each other of their sessions again, since Redis was "
                        "away; try again in some seconds"
                    )
                return None
            url = found.decode()
            if url == self.own_url:
                return None
            self._owners[session_id] = url  # a session never moves
        return None if await self._is_lost(url) else url

    async def alive(self, url: str) -> bool:
        """Whether it is another replica that may be alive, as far as the store can tell."""
        return url != self.own_url and not await self._is_lost(url)

    # -- the hop -----------------------------------------------------------------------------

    async def pass_on(self, admitted: AdmittedRequest, url: str) -> web.StreamResponse:
        """Have another replica answer a request, and hand its answer through as it comes.

        Raises:
            OwnerGone: it did not begin to answer. Dies it later, the connection is cut.
        """
        if self._http is None:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
            self._http = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),  # streams of clients stay open
                cookie_jar=aiohttp.DummyCookieJar(),  # requests of all clients go through it
                timeout=timeout,
                auto_decompress=False,
            )
        passed = _Passed(admitted.request)
        exchange = start(self._exchange(self._http, admitted, url, passed), "request passed on")
        try:
            while not (await asyncio.wait((exchange,), timeout=self._alive_s / 3))[0]:
                if await self._is_lost(url):
                    return passed.broken_off(url, "no sign of life")
            return exchange.result()
        except OwnerGone:
            _log.info("replica_ends", replica=url)
            raise
        except (aiohttp.ClientError, TimeoutError) as error:
            return passed.broken_off(url, repr(error))
        finally:
            if not exchange.done():
                exchange.cancel()
                await asyncio.wait((exchange,))
            if not exchange.cancelled():
                exchange.exception()  # a client that leaves meanwhile is told nothing of it

    async def _exchange(
        self, http: aiohttp.ClientSession, admitted: AdmittedRequest, url: str, passed: _Passed
    ) -> web.StreamResponse:
        request = admitted.request
        headers = _forwarded(request.headers) | {PASSED: self._secrets.get(url, "1")}
        if self._hosts is not None and url in self._secrets:
            for name in [name for name in headers if name.lower() in _TOLD]:
                del headers[name]
            headers |= self._hosts.passed_on(request.remote, request.scheme, request.headers)
        target = url + request.rel_url.raw_path_qs
        async with http.request(
            request.method, target, headers=headers, data=admitted.body
        ) as answer:
            if answer.status == 503 and answer.content_length == 0:
                raise OwnerGone(url)  # it ends, and has read nothing: refusals carry a body
            response = web.StreamResponse(status=answer.status, headers=_forwarded(answer.headers))
            passed.response = response
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
        await response.write_eof()
        return response

    async def _tried(self, ask: Callable[[], Awaitable[_T]]) -> _T:
        """What the store says, asked several times.

        A process that gets no processor time for a while misses deadlines though the store is well,
        and nothing else knows where a session is.

        Raises:
            ArmoryError: it failed each time.
        """
        left = ATTEMPTS
        while True:
            try:
                return await ask()
            except ArmoryError:
                self._failed_at = time.monotonic()
                left -= 1
                if not left:
                    raise

    async def _is_lost(self, url: str) -> bool:
        """Whether a replica shows no sign of life; a store that fails, or has lost the signs, says
        nothing about that.
        """
        if url in self._seen_alive:
            return False
        try:
            secret = await self.store.get(self._life(url))
            if secret is None:
                return await self._complete()
        except ArmoryError:
            return False
        self._secrets[url] = secret.decode()
        self._seen_alive[url] = True
        return False


class _Passed:
    """A request that was passed on, and what has come back of its answer."""

    def __init__(self, request: web.Request) -> None:
        self.response: web.StreamResponse | None = None
        self._request = request

    def broken_off(self, url: str, why: str) -> web.StreamResponse:
        """End it: nobody will answer any more.

        Raises:
            OwnerGone: nothing of the answer has been sent yet.
        """
        _log.info("replica_lost", replica=url, error=why)
        if self.response is None:
            raise OwnerGone(url)
        if self._request.transport is not None:
            self._request.transport.abort()
        return self.response


class OwnerGone(Exception):
    """The replica that alone could answer does not."""


def was_passed(admitted: AdmittedRequest) -> bool:
    """Whether the request came from another replica: it is passed on once, not twice."""
    return PASSED in admitted.request.headers


def gone(admitted: AdmittedRequest) -> web.StreamResponse:
    """The session's replica is gone, and the session with it."""
    message = "no such session; it may have expired: send initialize again"
    return refusal(404, codes.INVALID_REQUEST, message, headers=admitted.extra)


def _forwarded(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _HOP_BY_HOP}
