"""A stand-in for a Qdrant server: the part of its REST interface that the client library uses.

Owns: routes, JSON and faults. Points live in the client library's own local mode; Armory talks to
it through the real client over real HTTP. What only a server has (approximate search, payload
indexes that speed anything up) is accepted and has no effect, which is why the suites also run
against a real one where `QDRANT_URL` names it.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import urlsplit

from pydantic import TypeAdapter
from qdrant_client import QdrantClient, models

Body = dict[str, Any]


def _json(value: Any) -> Any:
    return TypeAdapter[Any](Any).dump_python(value, mode="json")


class QdrantServer:
    """Listens on a port of the system's choice until `stop`; `start` again takes the same port.

    Attributes:
        fault: what happens to the next requests: None, an HTTP status, `garbage` or `hang`.
        api_key: what requests must carry; None: nothing.
        sizes: (method, path, bytes of the body) of every request.
        indexed: payload fields with an index, by collection.
        filters: filters of searches, as they came.
        vectors_sent: points whose vectors were read.
    """

    def __init__(self) -> None:
        self.fault: int | str | None = None
        self.api_key: str | None = None
        self.sizes: list[tuple[str, str, int]] = []
        self.indexed: dict[str, set[str]] = {}
        self.filters: list[Any] = []
        self.vectors_sent = 0
        self.released = threading.Event()
        self._store = QdrantClient(location=":memory:")
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._server: ThreadingHTTPServer | None = None
        self._port = 0

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Listen."""
        handler = type("Handler", (_Handler,), {"owner": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), handler)
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """Refuse new connections and cut those that are open."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        for connection in tuple(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def forget(self) -> None:
        """Lose everything that was stored."""
        with self._lock:
            self._store.close()
            self._store = QdrantClient(location=":memory:")

    def collections(self) -> list[str]:
        """Names of all there are."""
        with self._lock:
            return [found.name for found in self._store.get_collections().collections]

    def lose(self, count: int) -> None:
        """Lose some points of every collection."""
        for name in self.collections():
            with self._lock:
                points, _ = self._store.scroll(name, limit=count)
                self._store.delete(name, [point.id for point in points])

    def close(self) -> None:
        """Stop for good."""
        self.released.set()
        self.stop()
        self._store.close()

    def opened(self, connection: socket.socket) -> None:
        """Note a connection."""
        self._open.add(connection)

    def closed(self, connection: socket.socket) -> None:
        """Forget a connection."""
        self._open.discard(connection)

    def answer(self, method: str, path: str, body: Body) -> Any:
        """The result of a request.

        Raises:
            LookupError: no such route.
        """
        for verb, pattern, work in self._routes:
            match = re.fullmatch(pattern, path)
            if verb == method and match:
                with self._lock:
                    return _json(work(self, *match.groups(), body))
        raise LookupError(path)

    def _exists(self, name: str, body: Body) -> Any:
        return {"exists": self._store.collection_exists(name)}

    def _count(self, name: str, body: Body) -> Any:
        wanted = models.CountRequest.model_validate(body)
        return self._store.count(name, wanted.filter)

    def _payload(self, name: str, body: Body) -> Any:
        wanted = models.SetPayload.model_validate(body)
        chosen = models.PointIdsList(points=wanted.points or [])
        return self._store.set_payload(name, wanted.payload, points=chosen)

    def _create(self, name: str, body: Body) -> Any:
        wanted = models.CreateCollection.model_validate(body)
        return self._store.create_collection(name, vectors_config=wanted.vectors)

    def _delete(self, name: str, body: Body) -> Any:
        return self._store.delete_collection(name)

    def _index(self, name: str, body: Body) -> Any:
        self.indexed.setdefault(name, set()).add(body["field_name"])
        return {"operation_id": 0, "status": "completed"}

    def _upsert(self, name: str, body: Body) -> Any:
        points = models.PointsList.model_validate(body).points
        return self._store.upsert(name, points)

    def _remove(self, name: str, body: Body) -> Any:
        kind = models.FilterSelector if "filter" in body else models.PointIdsList
        return self._store.delete(name, kind.model_validate(body))

    def _scroll(self, name: str, body: Body) -> Any:
        wanted = models.ScrollRequest.model_validate(body)
        points, offset = self._store.scroll(
            name,
            scroll_filter=wanted.filter,
            limit=wanted.limit or 10,
            offset=wanted.offset,
            with_payload=wanted.with_payload,  # pyright: ignore[reportArgumentType]
            with_vectors=wanted.with_vector or False,
        )
        return {"points": points, "next_page_offset": offset}

    def _retrieve(self, name: str, body: Body) -> Any:
        wanted = models.PointRequest.model_validate(body)
        found = self._store.retrieve(
            name,
            wanted.ids,
            with_payload=wanted.with_payload,  # pyright: ignore[reportArgumentType]
            with_vectors=wanted.with_vector or False,
        )
        self.vectors_sent += len(found) if wanted.with_vector else 0
        return found

    def _query(self, name: str, body: Body) -> Any:
        wanted = models.QueryRequestBatch.model_validate(body).searches
        self.filters += [request.filter for request in wanted]
        plain = [request.model_copy(update={"params": None}) for request in wanted]
        return self._store.query_batch_points(name, plain)

    _routes: ClassVar[list[tuple[str, str, Callable[..., Any]]]] = [
        ("GET", "/collections/([^/]+)/exists", _exists),
        ("PUT", "/collections/([^/]+)", _create),
        ("DELETE", "/collections/([^/]+)", _delete),
        ("PUT", "/collections/([^/]+)/index", _index),
        ("PUT", "/collections/([^/]+)/points", _upsert),
        ("POST", "/collections/([^/]+)/points/delete", _remove),
        ("POST", "/collections/([^/]+)/points/payload", _payload),
        ("POST", "/collections/([^/]+)/points/count", _count),
        ("POST", "/collections/([^/]+)/points/scroll", _scroll),
        ("POST", "/collections/([^/]+)/points/query/batch", _query),
        ("POST", "/collections/([^/]+)/points", _retrieve),
    ]


class _Handler(BaseHTTPRequestHandler):
    owner: ClassVar[QdrantServer]
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.owner.opened(self.connection)

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):  # a client that does not say goodbye
            super().handle()

    def finish(self) -> None:
        self.owner.closed(self.connection)
        with contextlib.suppress(OSError):
            super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def _serve(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        owner, path = self.owner, urlsplit(self.path).path
        owner.sizes.append((self.command, path, len(raw)))
        fault = owner.fault
        if fault == "hang":
            owner.released.wait(30)
        if owner.api_key is not None and self.headers.get("api-key") != owner.api_key:
            fault = 401
        if isinstance(fault, int):
            self._send(fault, {"status": {"error": f"made to fail with {fault}"}, "time": 0})
        elif fault == "garbage":
            self._send(200, {"what": "no Qdrant"})
        else:
            self._work(path, json.loads(raw) if raw else {})

    do_GET = do_POST = do_PUT = do_DELETE = _serve

    def _work(self, path: str, body: Body) -> None:
        try:
            result = self.owner.answer(self.command, path, body)
        except LookupError:
            self._send(404, {"status": {"error": f"no route {self.command} {path}"}, "time": 0})
        except (ValueError, TypeError, KeyError) as error:
            status = 404 if "not found" in str(error) else 400
            self._send(status, {"status": {"error": str(error)}, "time": 0})
        else:
            self._send(200, {"result": result, "status": "ok", "time": 0.0})

    def _send(self, status: int, answer: Body) -> None:
        data = json.dumps(answer).encode()
        with contextlib.suppress(OSError):
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
