"""Child processes of tests: a gateway with a configuration, servers, Node's tools.

Owns: starting them, waiting until they answer, ending them. Never imports the rest of Armory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml

_READY_S = 60.0
_END_S = 20.0


class Program:
    """A child process whose standard output is read line by line; standard error goes to a file.

    Args:
        command: program and arguments.
        env: added to this process's environment.
        cwd: where it runs.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 # closed in `close`
        self.process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "PYTHONUNBUFFERED": "", **(env or {})},  # as users run it
            cwd=cwd,
            text=True,
        )

    def __enter__(self) -> Program:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def line(self) -> str:
        """The next line of standard output.

        Raises:
            RuntimeError: it ended instead; says what it wrote to standard error.
        """
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        if not said:
            raise RuntimeError(f"{self.process.args!r} ended early:\n{self.errors()}")
        return said.rstrip("\n")

    def errors(self, limit_bytes: int = 20_000) -> str:
        """The end of its standard error."""
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - limit_bytes))
        return self._errors.read().decode("utf-8", "replace")

    def close(self) -> None:
        """Terminate it, and kill it if that takes too long."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(_END_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self._errors.close()


class GatewayProcess(Program):
    """`armory serve` on a free port, with its own configuration.

    Attributes:
        url: without a path, e.g. `http://127.0.0.1:43211`.

    Args:
        config: as in `armory.yaml`.
        folder: for the file and for `ARMORY_HOME`.
        env: added to the environment.
        wait: whether to wait until every upstream is there.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        folder: Path,
        *,
        env: Mapping[str, str] | None = None,
        wait: bool = True,
    ) -> None:
        path = folder / "armory.yaml"
        path.write_text(yaml.safe_dump(dict(config)), encoding="utf-8")
        command = [sys.executable, "-m", "armory.cli.main", "serve", "--port", "0", "--json"]
        super().__init__(
            [*command, "--config", str(path)],
            env={"ARMORY_HOME": str(folder / "home"), **(env or {})},
        )
        self._notes = Path((env or {}).get("ARMORY_HOME", folder / "home")) / "running"
        try:
            lines = [self.line()]
            while lines[-1] != "}":
                lines.append(self.line())
            self.url: str = json.loads("".join(lines))["url"].removesuffix("/mcp")
            if wait:
                self.wait_ready()
        except BaseException:
            self.close()
            raise

    def status(self) -> dict[str, Any]:
        """The answer of `/readyz` to an administrator, ready or not."""
        headers: dict[str, str] = {}
        for note in self._notes.glob("*.json"):
            token = json.loads(note.read_text(encoding="utf-8"))["token"]
            headers["Authorization"] = f"Bearer {token}"
        asked = urllib.request.Request(f"{self.url}/readyz", headers=headers)
        try:
            with urllib.request.urlopen(asked, timeout=_READY_S) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refused:
            with refused:
                return json.load(refused)

    def wait_ready(self, timeout_s: float = _READY_S) -> None:
        """Wait until every upstream is up.

        Raises:
            TimeoutError: one is not; says which.
        """
        until = time.monotonic() + timeout_s
        while (status := self.status()).get("not_ready") or status.get("status") != "ready":
            if time.monotonic() > until:
                raise TimeoutError(f"not ready: {status}\n{self.errors()}")
            time.sleep(0.05)


def alive(pid: int) -> bool:
    """Whether a process exists; zombies do."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
