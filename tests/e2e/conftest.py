"""Real processes: `armory serve` on a free port, and the npm packages that CI installs."""

from __future__ import annotations

import io
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from armory.cli.main import main

ROOT = Path(__file__).parents[2]
START_S = 60.0
ARMORY = (sys.executable, "-m", "armory.cli.main")
Serve = Callable[..., "Served"]


class Done(NamedTuple):
    """One command that has ended."""

    returncode: int
    stdout: str
    stderr: str


Command = Callable[..., Done]


class Served:
    """One `armory serve` process.

    Attributes:
        url: of `/mcp`.
        base: the same without `/mcp`.
        log: every line of standard error so far.
    """

    def __init__(self, process: subprocess.Popen[str], home: Path) -> None:
        self.process = process
        self.home = home
        self.log: list[str] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.url = self.base = ""
        self.killed = False

    def kill(self) -> None:
        """End it as a crash does."""
        self.killed = True
        self.process.kill()
        self.process.wait()

    def listening(self) -> Served:
        """Wait until it listens."""
        self.url = self.wait_for(r'listening on ([^\s"]+)')[1]
        self.base = self.url.removesuffix("/mcp")
        return self

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line)
            self._lines.put(line)
        self._lines.put(None)

    def wait_for(self, pattern: str, timeout_s: float = START_S) -> re.Match[str]:
        """The first line of standard error, not yet waited for, that matches."""
        end = time.monotonic() + timeout_s
        while True:
            try:
                line = self._lines.get(timeout=max(0.01, end - time.monotonic()))
            except queue.Empty:
                line = None
            if line is None:
                raise AssertionError(f"no line {pattern!r} in:\n{''.join(self.log)}")
            if found := re.search(pattern, line):
                return found

    def ready(self) -> Served:
        """Wait for the first snapshot."""
        self.wait_for(r"armory: ready")
        return self

    def searchable(self) -> Served:
        """Wait until it is ready and every tool that has come is found by searches."""
        self.ready()
        end = time.monotonic() + START_S
        while awaited := [
            missing
            for missing in self.readiness()[1]["not_ready"]
            if "being indexed" in missing or "not served yet" in missing
        ]:
            assert time.monotonic() < end, awaited
            time.sleep(0.05)
        return self

    def readiness(self) -> tuple[int, dict[str, Any]]:
        """(status, body) of `/readyz` as the user of this machine may read it."""
        note = json.loads(next(self.home.glob(f"running/{self.process.pid}-*")).read_text())
        headers = {"Authorization": f"Bearer {note['token']}"}
        asked = urllib.request.Request(f"{self.base}/readyz", headers=headers)
        try:
            with urllib.request.urlopen(asked, timeout=20) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, json.load(refused)

    def stop(self, number: int = signal.SIGTERM, timeout_s: float = 30.0) -> int:
        """Send a signal and wait for the end; the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(timeout_s)
        finally:
            self.process.kill()
            self.process.wait()
            self._reader.join(5)
            assert self.process.stderr is not None
            self.process.stderr.close()


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """The environment of every process of a test: its own ARMORY_HOME, and this tree's code."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("ARMORY_")}
    kept.pop("OPENAI_API_KEY", None)
    kept["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), kept.get("PYTHONPATH"))))
    return {**kept, "ARMORY_HOME": str(tmp_path / "home"), "NO_COLOR": "1", "COLUMNS": "200"}


@pytest.fixture
def armory(
    environ: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Command:
    """Run one `armory` command to its end, in the test's folder: (exit code, stdout, stderr).

    In this process, since loading the code takes longer than most commands.
    """
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, env: Mapping[str, str] | None = None, input: str = "") -> Done:
        with monkeypatch.context() as patched:
            for name in set(os.environ) - set(environ):
                patched.delenv(name)
            for name, value in {**environ, **(env or {})}.items():
                patched.setenv(name, value)
            patched.setattr(sys, "stdin", io.StringIO(input))
            capfd.readouterr()
            with pytest.raises(SystemExit) as ended:
                main(arguments)
        out, err = capfd.readouterr()
        return Done(int(ended.value.code or 0), out, err)

    return run


@pytest.fixture
def serve(environ: dict[str, str], tmp_path: Path) -> Generator[Serve]:
    """Start `armory serve` on a free port; ended, and looked at for tracebacks, with the test."""
    started: list[Served] = []

    def start(
        config: dict[str, Any] | Path, *arguments: str, env: Mapping[str, str] | None = None
    ) -> Served:
        if isinstance(config, Path):
            file = config
        else:
            file = tmp_path / f"armory-{len(started)}.yaml"
            file.write_text(yaml.safe_dump(config))
        environment = {**environ, **(env or {})}
        process = subprocess.Popen(
            [*ARMORY, "serve", "--config", str(file), "--port", "0", *arguments],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        served = Served(process, Path(environment["ARMORY_HOME"]))
        started.append(served)
        return served.listening()

    yield start
    for served in started:
        code = served.stop()
        text = "".join(served.log)
        assert "Traceback" not in text, text
        assert code == (-signal.SIGKILL if served.killed else 0), text


@pytest.fixture
def demo_upstreams() -> dict[str, Any]:
    """The two upstreams of the shipped configuration."""
    return {
        "time": {"command": sys.executable, "args": ["-m", "mcp_server_time"]},
        "notes": {
            "command": sys.executable,
            "args": ["-m", "armory.demo"],
            "env": {"PYTHONPATH": str(ROOT)},
        },
    }


@pytest.fixture(scope="session")
def node_dir() -> Path:
    """Where the npm packages of tests/node/package.json are installed."""
    found = os.environ.get("ARMORY_TEST_NODE_DIR")
    if not found:
        pytest.skip("ARMORY_TEST_NODE_DIR names no folder with the npm packages of tests/node")
    return Path(found) / "node_modules"


@pytest.fixture(scope="session")
def node(node_dir: Path) -> str:
    """The Node.js 22 of that folder."""
    return str(node_dir / "node" / "bin" / "node")


@pytest.fixture(scope="module")
def issuer(node: str, node_dir: Path) -> Generator[str]:
    """A certified provider that registers clients."""
    from tests.e2e.person import provider

    with provider(node, node_dir) as found:
        yield found


@pytest.fixture(scope="module")
def closed(node: str, node_dir: Path) -> Generator[str]:
    """One that registers none; the gateway is registered by hand."""
    from tests.e2e.person import provider

    with provider(node, node_dir, "closed") as found:
        yield found
