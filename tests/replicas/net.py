"""Replicas in network namespaces of their own, on one Redis and one Postgres.

Owns: the namespaces and the processes in them. Needs root and `ip` (iproute2).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml

from armory.testing.servers import PostgresServer, RedisServer, postgres_folder, redis_binary

PORT = 8080


def cannot() -> str | None:
    """Why there can be no namespaces here; None where there can."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return "root and iproute2 are needed (network namespaces)"
    tried = subprocess.run(["ip", "netns", "list"], capture_output=True, check=False)
    probe = f"armory-probe-{os.getpid()}"
    if (
        tried.returncode
        or subprocess.run(
            ["ip", "netns", "add", probe], capture_output=True, check=False
        ).returncode
    ):
        return "none can be made here (network namespaces)"
    _ip("netns", "del", probe)
    if redis_binary() is None or postgres_folder() is None:
        return "Redis and PostgreSQL are not installed"
    return None


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


class Replica:
    """One gateway in a namespace of its own, reached at `address`.

    Attributes:
        address: of the namespace.
        starts: how often it was started.
    """

    def __init__(self, number: int, net: Net) -> None:
        self.address = f"{net.prefix}.{number + 10}"
        self.starts = 0
        self._name = f"{net.name}-{number}"
        self._cable = f"{net.name}v{number}"
        self._folder = net.folder / f"replica-{number}"
        self._net = net
        self._process: subprocess.Popen[bytes] | None = None
        self._folder.mkdir()
        _ip("netns", "add", self._name)
        _ip("link", "add", self._cable, "type", "veth", "peer", "name", "eth0", "netns", self._name)
        _ip("link", "set", self._cable, "master", net.name, "up")
        _ip("-n", self._name, "addr", "add", f"{self.address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            _ip("-n", self._name, "link", "set", device, "up")

    def start(self, config: Mapping[str, Any]) -> None:
        """Start the gateway; returns at once."""
        self.starts += 1
        server = {"host": "0.0.0.0", "port": PORT, **config.get("server", {})}
        file = self._folder / "armory.yaml"
        file.write_text(yaml.safe_dump({**config, "server": server}), encoding="utf-8")
        env = {
            **{key: value for key, value in os.environ.items() if not key.startswith("ARMORY_")},
            "ARMORY_HOME": str(self._folder / "home"),
            "ARMORY_REPLICA_URL": f"http://{self.address}:{PORT}",
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        command = [sys.executable, "-m", "armory.cli.main", "serve", "--config", str(file)]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                ["ip", "netns", "exec", self._name, *command],
                env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def stop(self, within_s: float = 60.0) -> int:
        """Ask it to end, as a kubelet does; the exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it does not end; it said {self.log()[-2000:]}") from None

    def kill(self) -> None:
        """End it as a crash does."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def cut_off(self, away: bool) -> None:
        """Pull its cable, or plug it in again."""
        _ip("link", "set", self._cable, "down" if away else "up")

    def log(self) -> str:
        """What it has said so far."""
        return (self._folder / "log").read_text(encoding="utf-8", errors="replace")

    def remove(self) -> None:
        """End it and forget its namespace."""
        if self._process is not None and self._process.poll() is None:
            self.kill()
        subprocess.run(["ip", "netns", "del", self._name], capture_output=True, check=False)


class Net:
    """A bridge with replicas and databases on it.

    Args:
        folder: for files and logs.
        replicas: how many.
    """

    def __init__(self, folder: Path, replicas: int) -> None:
        own = os.getpid() % 250
        self.folder = folder
        self.name = f"arm{own}"
        self.prefix = f"10.99.{own}"
        self.replicas: list[Replica] = []
        self.redis: RedisServer | None = None
        self.postgres: PostgresServer | None = None
        self._number = replicas

    def __enter__(self) -> Net:
        try:
            _ip("link", "add", self.name, "type", "bridge")
            _ip("addr", "add", f"{self.prefix}.1/24", "dev", self.name)
            _ip("link", "set", self.name, "up")
            self.redis = RedisServer(f"{self.prefix}.1")
            self.postgres = PostgresServer(f"{self.prefix}.1")
            for number in range(self._number):
                self.replicas.append(Replica(number, self))
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for replica in self.replicas:
            replica.remove()
        if self.redis is not None:
            self.redis.kill()
        if self.postgres is not None:
            self.postgres.remove()
        subprocess.run(["ip", "link", "del", self.name], capture_output=True, check=False)

    @property
    def targets(self) -> list[tuple[str, int]]:
        """Where the replicas answer."""
        return [(replica.address, PORT) for replica in self.replicas]

    def config(self) -> dict[str, Any]:
        """The configuration of every replica."""
        assert self.redis is not None
        assert self.postgres is not None
        # costs next to nothing a call, so that a small machine's processors are the gateways'
        plain = {"command": sys.executable, "args": ["-m", "armory.testing.upstreams.stdio"]}
        plain["env"] = {"PYTHONPATH": os.pathsep.join(sys.path)}  # type: ignore[assignment]
        return {
            "server": {"drain_delay_s": 5},
            "accounts": {"enabled": True},
            "security": {"allow_anonymous": True},
            "storage": {"url": self.postgres.url(), "redis": self.redis.url},
            "upstreams": {"plain": plain},
        }
