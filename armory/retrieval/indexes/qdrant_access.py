"""Access to Qdrant: the client library on threads, and searches directly over HTTP.

Owns: both ways, their time limits, every failure as a `BackendError`. What is asked is `qdrant`'s,
`qdrant_points`' and `qdrant_view`'s knowledge. Never imports an embedder or a ranker.

A search goes over the event loop's own connections, kept open, and its answer is read as plain
JSON: the client library opens a connection a request toward the same machine, and makes a checked
model of every point, which costs more than the search.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from qdrant_client import QdrantClient
from qdrant_client.http.exceptions import (
    ApiException,
    ResponseHandlingException,
    UnexpectedResponse,
)

from armory.errors import BackendError

T = TypeVar("T")
_PORT = 6333
_MISSING = 404
_ANSWER_BYTES = 128 << 20
"""Longest answer to a search, unpacked: vectors of some hundred tools, as text."""
_TOLD = "the vector store failed; administrators see why in `armory status`"


class StoreFailed(BackendError):
    """Qdrant failed; callers are told no more than that."""

    def __init__(self, message: str) -> None:
        super().__init__(message, told=_TOLD)


class Missing(StoreFailed):
    """The collection does not exist."""


class Access:
    """The client, used from its own threads.

    Args:
        client: for everything but searches.
        where: what messages call it.
        local: the client library's local mode, which is not thread-safe: one thread for it.
    """

    def __init__(self, client: QdrantClient, where: str, *, local: bool) -> None:
        self.client = client
        self.local = local
        self.where = where
        self.doubted = True
        """Whether points may be gone that were there: nothing was seen yet, or something failed."""
        self._closed = False
        self._pool = ThreadPoolExecutor(1 if local else 4, "armory-qdrant")

    async def run(self, work: Callable[[QdrantClient], T]) -> T:
        """Run blocking work on the client."""
        if self._closed:
            raise StoreFailed(f"Qdrant at {self.where}: the connection is closed")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self._guarded, work)

    def _guarded(self, work: Callable[[QdrantClient], T]) -> T:
        try:
            return self._translated(work)
        except BackendError:
            self.doubted = True
            raise

    def _translated(self, work: Callable[[QdrantClient], T]) -> T:
        try:
            return work(self.client)
        except ResponseHandlingException as error:
            raise silent(self.where, error) from error
        except UnexpectedResponse as error:
            raise answered(self.where, error.status_code or 0, error.content) from error
        except AssertionError as error:  # the client's way to say that an answer has no result
            raise no_answer(self.where) from error
        except (ApiException, ValueError, RuntimeError, OSError) as error:
            raise StoreFailed(f"Qdrant at {self.where} failed: {str(error)[:500]}") from error

    async def aclose(self) -> None:
        """Close client and threads; once is enough."""
        if self._closed:
            return
        await self.run(lambda client: client.close())
        self._closed = True
        self._pool.shutdown(wait=False)


class Searches:
    """The search requests to one collection, on the event loop.

    Args:
        url: of the server, as the client library takes it.
        api_key: for it.
        collection: the name.
        timeout_s: of one request.
    """

    def __init__(self, url: str, api_key: str | None, collection: str, timeout_s: float) -> None:
        self.where = url
        self.collection = collection
        named = quote(collection, safe="")
        self._base = f"{_base(url, secure=api_key is not None)}/collections/{named}/points"
        self._headers = {
            "Content-Type": "application/json",
            "Accept-Encoding": "identity",  # a list of points is packed longer than it is sent
        }
        if api_key is not None:
            self._headers["api-key"] = api_key
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    async def query(self, requests: Iterable[str]) -> list[list[dict[str, Any]]]:
        """For each request (JSON) its points: `id` and `score`, best first.

        Raises:
            Missing: there is no such collection.
            BackendError: no answer, or none that can be used.
        """
        body = f'{{"searches":[{",".join(requests)}]}}'
        found = await self._ask("/query/batch", body)
        try:
            return [entry["points"] for entry in found]
        except (TypeError, KeyError) as error:
            raise no_answer(self.where) from error

    async def points(self, ids: Iterable[str], *, vectors: bool) -> list[dict[str, Any]]:
        """Those of the points that are there; with their vectors where they are wanted.

        Raises:
            Missing: there is no such collection.
            BackendError: no answer, or none that can be used.
        """
        body = {"ids": list(ids), "with_payload": False, "with_vector": vectors}
        found = await self._ask("", json.dumps(body))
        if not isinstance(found, list):
            raise no_answer(self.where)
        return found  # pyright: ignore[reportUnknownVariableType]

    async def aclose(self) -> None:
        """Close the connections; once is enough."""
        self._closed = True
        if self._session is not None:
            await self._session.close()

    async def _ask(self, path: str, body: str) -> Any:
        try:
            try:
                status, raw = await self._post(path, body)
            except aiohttp.ServerDisconnectedError:  # an idle connection that was let go
                status, raw = await self._post(path, body)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise silent(self.where, error) from error
        if status != 200:
            raise answered(self.where, status, raw)
        try:
            return json.loads(raw)["result"]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise no_answer(self.where) from error

    async def _post(self, path: str, body: str) -> tuple[int, bytearray]:
        if self._closed:
            raise StoreFailed(f"Qdrant at {self.where}: the connection is closed")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=self._headers,
                timeout=self._timeout,
                trust_env=proxied(self._base),
            )
        async with self._session.post(
            self._base + path, data=body.encode(), allow_redirects=False
        ) as answer:
            content = bytearray()
            async for piece in answer.content.iter_any():
                content += piece
                if len(content) > _ANSWER_BYTES:
                    raise StoreFailed(
                        f"Qdrant at {self.where} sent an answer of over {_ANSWER_BYTES >> 20} MiB"
                    )
            return answer.status, content


def proxied(url: str) -> bool:
    """Whether the environment names a proxy for a URL. aiohttp would look for one in a thread for
    every request, which takes longer than the request.
    """
    parts = urlsplit(url)
    return parts.scheme in getproxies() and not proxy_bypass(parts.netloc)


def silent(where: str, error: Exception) -> BackendError:
    """The message for a server that does not answer."""
    why = str(error) or "no answer in time"
    return StoreFailed(f"Qdrant at {where} does not answer: {why}")


def answered(where: str, status: int, content: bytes | bytearray) -> BackendError:
    """The message for an error response."""
    hint = "; check tool_rag.qdrant.api_key" if status in (401, 403) else ""
    text = f"HTTP {status}: {content.decode('utf-8', 'replace')[:300]}"
    kind = Missing if status == _MISSING else StoreFailed
    return kind(f"Qdrant at {where} answered {text}{hint}")


def no_answer(where: str) -> BackendError:
    """The message for a response that is not Qdrant's."""
    return StoreFailed(
        f"Qdrant at {where} sent something that is no answer; is it a Qdrant server?"
    )


def _base(url: str, *, secure: bool) -> str:
    """The address that the client library makes of a URL."""
    if "://" not in url:
        url = f"{'https' if secure else 'http'}://{url}"
    parts = urlsplit(url)
    host = parts.hostname or "localhost"
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}:{parts.port or _PORT}{parts.path.rstrip('/')}"
