"""Clients whose id is the URL of their metadata document (client id metadata documents).

Owns: fetching such documents within bounds, and what of them is believed. Never registers anybody.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from weakref import WeakValueDictionary

from cachetools import TLRUCache, TTLCache
from yarl import URL

from armory.authserver.client_keys import METHOD, keys_in
from armory.authserver.clients import Client, printable, usable_redirects
from armory.authserver.errors import OAuthError, UnusableClient
from armory.logger import Logger
from armory.oauth.exchange import Answer, NoAnswer, Route, exchange, json_object
from armory.oauth.metadata import text

_log = Logger(__name__)
BODY_BYTES = 65_536
ROUTE = Route(timeout_s=5.0, body_bytes=BODY_BYTES + 1, named=())
"""Public addresses only: anybody may name a document."""
_KEPT_BYTES, _MAX_URL = 8 << 20, 500
_CLIENT_BYTES = 2_000
"""What a client takes beside the keys and redirect URIs of its document."""
_AT_ONCE, _OF_ONE = 64, 8
"""Documents fetched at a time, in all and for one address, since anybody may name slow ones."""
_FRESH_S, _LEAST_S, _MOST_S, _REFUSED_S = 300.0, 60.0, 86_400.0, 30.0
_WRONG = "the client's document does not hold"
_MAX_AGE = re.compile(r"(?:^|[\s,])max-age=(\d{1,9})")


def is_document(client_id: str) -> bool:
    """Whether a client id is the URL of a document."""
    return client_id.startswith("https://")


class Documents:
    """Fetches and caches the metadata documents of clients.

    Args:
        patterns: of redirect URIs that are allowed.
        clock: seconds, monotonic.
    """

    def __init__(
        self, patterns: Sequence[str] = (), *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._patterns = patterns
        self._clock = clock
        self._kept: TLRUCache[str, tuple[Client | str, float]] = TLRUCache(
            _KEPT_BYTES,
            ttu=lambda _key, entry, _now: entry[1],
            timer=clock,
            getsizeof=lambda entry: _size(entry[0]),
        )
        self._latest: TTLCache[str, Client] = TTLCache(
            _KEPT_BYTES, _MOST_S, timer=clock, getsizeof=_size
        )
        self._turn = asyncio.Semaphore(_AT_ONCE)
        self._turns_of: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def client(self, url: str, asker: str) -> Client:
        """The client that the document at a URL describes.

        Args:
            url: its id.
            asker: the address of whoever named it.

        Raises:
            UnusableClient: there is no such document, or it does not hold.
        """
        kept = self._kept.get(url)
        if kept is None:
            try:
                place = _place(url)
            except UnusableClient as error:
                raise UnusableClient(f"{_WRONG}: {error.description}") from None
            turn = self._turns_of.setdefault(asker, asyncio.Semaphore(_OF_ONE))
            lock = self._locks.setdefault(url, asyncio.Lock())
            # who waits for somebody else's turn, or for the same document, takes none of its own
            async with turn, lock:
                kept = self._kept.get(url)
                if kept is None:
                    async with self._turn:
                        kept = self._kept[url] = await self._fetched(url, place)
        if isinstance(kept[0], str):
            raise UnusableClient(kept[0])
        return kept[0]

    async def _fetched(self, url: str, place: URL) -> tuple[Client | str, float]:
        """(the client, or the reason why there is none; how long that is cached)."""
        now = self._clock()
        try:
            answer = await exchange("GET", url, {"Accept": "application/json"}, route=ROUTE)
            if answer.status == 429 or answer.status >= 500:
                raise NoAnswer(f"{url} answered HTTP {answer.status}")
            client = self._latest[url] = self._read(url, place, answer)
        except NoAnswer as error:
            _log.rate_limited("info", "client_document_not_had", reason=error.why)
            latest = self._latest.get(url)
            if latest is not None:  # its host is down, which logs nobody out
                return latest, now + _REFUSED_S
            return f"the client's document cannot be had: {error}", now + _REFUSED_S
        except OAuthError as error:
            self._latest.pop(url, None)
            return f"{_WRONG}: {error.description}", now + _REFUSED_S
        return client, now + _fresh_for(answer.headers)

    def _read(self, url: str, place: URL, answer: Answer) -> Client:
        if answer.status != 200:
            raise UnusableClient(f"{url} answered HTTP {answer.status}, expected 200 itself")
        if len(answer.body) > BODY_BYTES:
            raise UnusableClient(f"{url} is over 64 KiB")
        found = json_object(answer.body)
        if found is None:
            raise UnusableClient(f"{url} is no JSON object")
        if found.get("client_id") != url:
            raise UnusableClient(f"its client_id is {text(found.get('client_id'))[:200]!r}")
        method = found.get("token_endpoint_auth_method", "none")
        if method not in ("none", METHOD) or "client_secret" in found:
            raise UnusableClient(
                f"its token_endpoint_auth_method is none or {METHOD}: a public document keeps no "
                "secret"
            )
        uris = usable_redirects(found, self._patterns)
        name = text(found.get("client_name"))
        if not name.strip():
            raise UnusableClient("it has no client_name")
        keys = keys_in(found) if method == METHOD else ""
        # as it is asked for: letters of other alphabets look like those of a name that is known
        return Client(url, printable(name), uris, method, host=place.raw_host or "", keys=keys)


def _size(found: Client | str) -> int:
    """Bytes of a cached client, or of a cached reason."""
    texts = (found,) if isinstance(found, str) else (found.keys, *found.redirects)
    return _CLIENT_BYTES + sum(map(sys.getsizeof, texts))


def _place(url: str) -> URL:
    """The parsed URL of a document.

    Raises:
        UnusableClient: it is not of the form that such have.
    """
    plain = url.isascii() and url.isprintable() and " " not in url and "\\" not in url
    try:  # what is long or has other letters takes long to read
        place = URL(url) if plain and len(url) <= _MAX_URL else None
    except ValueError:
        raise UnusableClient("its URL cannot be read") from None
    if place is None or str(place) != url:
        raise UnusableClient(f"its URL is not in plain form, at most {_MAX_URL} characters")
    if place.scheme != "https" or not place.raw_host or place.user is not None or "#" in url:
        raise UnusableClient("its URL is https, without user and fragment")
    if place.path in ("", "/"):
        raise UnusableClient("its URL has a path")
    return place


def _fresh_for(headers: Mapping[str, str]) -> float:
    """Seconds for which a document is cached, by its `Cache-Control`."""
    said = headers.get("Cache-Control", "").lower()
    if "no-store" in said or "no-cache" in said:
        return _LEAST_S
    age = _MAX_AGE.search(said)
    return min(max(float(age[1]), _LEAST_S), _MOST_S) if age else _FRESH_S
