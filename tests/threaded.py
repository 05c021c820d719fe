"""HTTP servers of the standard library, in a thread beside the test.

Owns: an answer in one line, and that the thread ends with the test: one that is left would keep the
whole run from ending.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeVar

_Server = TypeVar("_Server", bound=ThreadingHTTPServer)


class Answering(BaseHTTPRequestHandler):
    """Answers whole, and writes no log."""

    def say(
        self, body: bytes = b"", kind: str = "text/plain", status: int = 200, **headers: str
    ) -> None:
        """Answer the request."""
        self.send_response(status)
        for name, value in {**headers, "Content-Type": kind}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        del format, args


@contextmanager
def in_thread(server: _Server) -> Generator[_Server]:
    """A server that serves until the block ends, however it does."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    with server:
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def served(handler: type[BaseHTTPRequestHandler]) -> Generator[str]:
    """The URL at which a handler answers, without a path."""
    with in_thread(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as server:
        yield f"http://127.0.0.1:{server.server_port}"
