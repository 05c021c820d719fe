"""What every test shares."""

from __future__ import annotations

import io
import logging
import os
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
import structlog

from armory.logger import before_first
from armory.observability import redaction
from tests.sockets import remember_makers

if TYPE_CHECKING:
    from armory.testing.servers import PostgresServer, RedisServer

# As `armory` does, before NumPy loads. A fork, which is how uvloop starts a process, while OpenBLAS
# multiplies with threads of its own leaves its locks taken: the next product, or the next fork with
# the interpreter's lock held, waits for ever.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
remember_makers()
# Nothing here is timed, and what must hold before a change lands does not hang on chance.
hypothesis.settings.register_profile(
    "any machine",
    deadline=None,
    derandomize="ARMORY_CI" in os.environ,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("any machine")


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    """Whatever sets up logging in this process (a command, say) leaves it as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()
    before_first(None)


@pytest.fixture(autouse=True)
def own_secrets() -> Iterator[None]:
    """What a configuration in this process has hidden is hidden in its own test alone."""
    kept: list[list[Any]] = [
        redaction._told,  # pyright: ignore[reportPrivateUsage]
        redaction._known,  # pyright: ignore[reportPrivateUsage]
        redaction._told_parameters,  # pyright: ignore[reportPrivateUsage]
        redaction._parameters,  # pyright: ignore[reportPrivateUsage]
    ]
    before = [each[:] for each in kept]
    yield
    for each, was in zip(kept, before, strict=True):
        each[:] = was


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    """A Redis of the test's own."""
    from armory.testing.servers import RedisServer, redis_binary

    if redis_binary() is None:
        pytest.skip("redis-server is not installed")
    server = RedisServer()
    yield server
    server.kill()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL server for all tests, each of which makes its own databases there."""
    from armory.testing.servers import PostgresServer, postgres_folder

    if postgres_folder() is None:
        pytest.skip("PostgreSQL is not installed")
    server = PostgresServer()
    yield server
    server.remove()


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """What Armory runs on by default; ARMORY_TEST_EVENT_LOOP=asyncio: Python's own event loop."""
    wanted = os.environ.get("ARMORY_TEST_EVENT_LOOP", "uvloop")
    return "asyncio", {"use_uvloop": wanted == "uvloop"}


class _Stacks(io.StringIO):
    """What a worker prints goes nowhere, but for the stacks of a test that takes too long."""

    def write(self, text: str) -> int:
        if threading.current_thread().name.startswith("pytest_timeout") and sys.__stderr__:
            sys.__stderr__.write(text)
        return len(text)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Have those stacks seen."""
    if os.environ.get("PYTEST_XDIST_WORKER"):
        session.config.get_terminal_writer()._file = _Stacks()  # pyright: ignore[reportPrivateUsage]


_running: dict[str, None] = {}
"""Tests that have begun and not ended, here or in a worker."""


def pytest_runtest_logstart(nodeid: str) -> None:
    """A test begins."""
    _running[nodeid] = None


def pytest_runtest_logfinish(nodeid: str) -> None:
    """A test has ended."""
    _running.pop(nodeid, None)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Where the run was cut short, name what it was waiting for."""
    for nodeid in _running:
        terminalreporter.write_line(f"NEVER ENDED {nodeid}", red=True)


_MAY_SKIP = (
    "there is no qdrant on the PATH",
    "ARMORY_TEST_KUBECONFIG is not set",
    "(network namespaces)",
    "(no container daemon)",
    "(toolchain)",
)
"""What CI cannot install: a Qdrant server, a cluster, root's rights, toolchains beside Python's."""


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI nothing may be skipped: what a test needs is installed by `.ci/run`."""
    if not os.environ.get("ARMORY_CI"):
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return
    reasons = {report.nodeid: report.longrepr[2] for report in reporter.stats.get("skipped", [])}
    wrong = [name for name, why in reasons.items() if not why.endswith(_MAY_SKIP)]
    if wrong:
        reporter.write_line(f"skipped, which CI does not allow: {', '.join(wrong)}", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
