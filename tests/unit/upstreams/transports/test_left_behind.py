"""What a server started and left behind is ended with it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from armory.testing.clients.recording import RecordingObserver
from armory.testing.processes import alive
from armory.testing.waiting import until
from armory.upstreams.session.context import LinkContext
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.transports.stdio import StdioLink

pytestmark = pytest.mark.anyio


async def test_a_process_that_ends_by_itself_leaves_none_of_its_own(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    program = (
        "import subprocess, sys\n"
        "nowhere = subprocess.DEVNULL\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'],\n"
        "    stdin=nowhere, stdout=nowhere, stderr=nowhere)\n"
        f"open({str(mark)!r}, 'w').write(str(child.pid))\n"
        "sys.exit(3)\n"
    )
    spec = UpstreamSpec("up", command=sys.executable, args=("-c", program))
    link = StdioLink(LinkContext(spec, {"name": "test", "version": "0"}, RecordingObserver()))
    await link.open()
    await until(lambda: link.closed)
    await until(lambda: not alive(int(mark.read_text())))
    await link.close()
