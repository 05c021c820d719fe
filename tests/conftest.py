"""What every test shares."""

from __future__ import annotations

import os

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """Armory runs on asyncio."""
    return "asyncio"


_MAY_SKIP = (
    "there is no qdrant on the PATH",
    "ARMORY_TEST_KUBECONFIG is not set",
    "(network namespaces)",
    "(no container daemon)",
)
"""What CI cannot install: a Qdrant server, a cluster, root's rights."""


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
