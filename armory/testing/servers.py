"""Real Redis, Qdrant and PostgreSQL servers for tests: on free ports, killed and restarted at will.

Owns: the processes and their temporary folders. Never imports the rest of Armory.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import urllib.request
from pathlib import Path

from armory.testing.waiting import wait_until

_READY_S = 30.0
_FIRST_PORT, _TRIES = 15_000, 20
_POSTGRES_FOLDERS = ("/usr/lib/postgresql", "/usr/local/pgsql", "/opt/homebrew/opt/postgresql")


def free_port() -> int:
    """A port that nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def lasting_port() -> int:
    """A free port that stays free while a server restarts: below the range of ports for outgoing
    connections, which could take it otherwise.
    """
    try:
        lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        lowest = 0
    below = range(_FIRST_PORT, lowest)
    for port in random.sample(below, min(_TRIES, len(below))):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    return free_port()


def redis_binary() -> str | None:
    """Path of `redis-server` (or `valkey-server`); None when there is none."""
    return shutil.which("redis-server") or shutil.which("valkey-server")


def postgres_folder() -> Path | None:
    """The folder of PostgreSQL's programs (`postgres`, `initdb`, `psql`); None: not installed."""
    found = shutil.which("postgres")
    places = [Path(found).resolve()] if found else []
    for folder in _POSTGRES_FOLDERS:
        places += sorted(Path(folder).glob("*/bin/postgres"), reverse=True)
        places += Path(folder).glob("bin/postgres")
    programs = ("initdb", "psql", "pg_isready")
    for place in places:
        if all((place.parent / program).exists() for program in programs):
            return place.parent
    return None


class _Server:
    """One process, which may be started again once it was killed."""

    _process: subprocess.Popen[bytes] | None = None

    def kill(self) -> None:
        """Kill it at once, like a crash."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class RedisServer(_Server):
    """A `redis-server` without persistence.

    Args:
        host: the address that it listens on.

    Raises:
        RuntimeError: there is no binary.
        TimeoutError: it does not start.
    """

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.host = host
        binary = redis_binary()
        if binary is None:
            raise RuntimeError("no redis-server; install it, e.g. apt-get install redis-server")
        self._binary = binary
        self.port = lasting_port()
        self.start()

    @property
    def url(self) -> str:
        """As `storage.redis`."""
        return f"redis://{self.host}:{self.port}/0"

    def start(self) -> None:
        """Start it and wait until it answers."""
        command = [self._binary, "--port", str(self.port), "--bind", self.host, "--save", ""]
        command += ["--appendonly", "no", "--dir", tempfile.gettempdir(), "--protected-mode", "no"]
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wait_until(self._answers, "redis-server does not answer", _READY_S)

    def pause(self) -> None:
        """Stop it from answering without closing connections, like a hung machine."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Answer again."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def _answers(self) -> bool:
        try:
            with socket.create_connection((self.host, self.port), timeout=0.5) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False


class QdrantProcess(_Server):
    """A `qdrant` that keeps its points over a restart, on ports that the system chooses.

    Args:
        folder: for its points and its log.
        binary: the program; default: `qdrant` of the PATH.

    Raises:
        RuntimeError: there is no binary.
        TimeoutError: it does not start.
    """

    def __init__(self, folder: Path, binary: str | None = None) -> None:
        found = binary or shutil.which("qdrant")
        if found is None:
            raise RuntimeError("there is no qdrant on the PATH")
        self._binary, self._folder = found, folder
        self._ports = (lasting_port(), lasting_port())
        self.start()

    @property
    def url(self) -> str:
        """As `tool_rag.qdrant.url`."""
        return f"http://127.0.0.1:{self._ports[0]}"

    def start(self) -> None:
        """Start it and wait until it answers."""
        given = {
            "SERVICE__HOST": "127.0.0.1",
            "SERVICE__HTTP_PORT": str(self._ports[0]),
            "SERVICE__GRPC_PORT": str(self._ports[1]),
            "STORAGE__STORAGE_PATH": str(self._folder / "storage"),
            "STORAGE__SNAPSHOTS_PATH": str(self._folder / "snapshots"),
            "TELEMETRY_DISABLED": "true",
        }
        environment = {**os.environ, **{f"QDRANT__{key}": value for key, value in given.items()}}
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._binary], cwd=self._folder, env=environment, stdout=log, stderr=log
            )
        try:
            wait_until(self._answers, "qdrant does not answer", _READY_S)
        except BaseException:
            self.kill()
            raise

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=2) as answer:
                return answer.status == 200
        except OSError:
            return False


class PostgresServer:
    """A PostgreSQL cluster in a temporary folder; if started by root, it runs as the user
    `postgres`.

    Args:
        host: the address that it listens on; whoever reaches it needs no password.

    Raises:
        RuntimeError: there are no binaries.
        TimeoutError: it does not start.
    """

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.host = host
        programs = postgres_folder()
        if programs is None:
            raise RuntimeError("no PostgreSQL; install it, e.g. apt-get install postgresql")
        self._programs = programs
        self._as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        if os.getuid() != 0:
            self._as_user = []
        self._folder = Path(tempfile.mkdtemp(prefix="armory-postgres-"))
        if self._as_user:
            shutil.chown(self._folder, "postgres", "postgres")
        self.port = lasting_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._paused: list[int] = []
        self._databases = 0
        done = subprocess.run(
            [
                *(*self._as_user, str(programs / "initdb"), "-D", str(self._folder / "data")),
                *("-U", "armory", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C"),
            ],
            capture_output=True,
            check=False,
            cwd=self._folder,
        )
        if done.returncode != 0:
            raise RuntimeError(f"initdb failed: {done.stderr.decode(errors='replace')[-500:]}")
        with (self._folder / "data" / "pg_hba.conf").open("a", encoding="utf-8") as rules:
            rules.write("host all all 0.0.0.0/0 trust\n")
        self.start()

    def url(self, database: str = "postgres") -> str:
        """As `storage.url`."""
        return f"postgresql://armory@{self.host}:{self.port}/{database}"

    def create_database(self) -> str:
        """URL of a new, empty database."""
        psql = str(self._programs / "psql")
        self._databases += 1
        name = f"armory_{self._databases}"
        address = ["-h", self.host, "-p", str(self.port), "-U", "armory", "-d", "postgres"]
        subprocess.run(
            [psql, *address, "-qc", f"CREATE DATABASE {name}"], check=True, capture_output=True
        )
        return self.url(name)

    def start(self) -> None:
        """Start it and wait until it answers."""
        command = [
            *self._as_user,
            str(self._programs / "postgres"),
            "-D",
            str(self._folder / "data"),
        ]
        command += ["-p", str(self.port), "-c", f"listen_addresses={self.host}", "-c", "fsync=off"]
        command += ["-c", f"unix_socket_directories={self._folder}", "-c", "shared_buffers=32MB"]
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self._folder
        )
        try:
            wait_until(self._answers, "PostgreSQL does not answer", _READY_S)
        except TimeoutError:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop it at once: every connection breaks."""
        self._end(signal.SIGINT)  # fast shutdown

    def pause(self) -> None:
        """Stop it from answering without closing connections, like a hung machine."""
        if self._process is not None:
            postmaster = str(self._process.pid)
            found = subprocess.run(["pgrep", "-P", postmaster], capture_output=True, check=False)
            self._paused = [int(pid) for pid in (postmaster, *found.stdout.split())]
            self._signal_paused(signal.SIGSTOP)

    def resume(self) -> None:
        """Answer again."""
        self._signal_paused(signal.SIGCONT)
        self._paused = []

    def _signal_paused(self, number: signal.Signals) -> None:
        for pid in self._paused:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def remove(self) -> None:
        """Stop it and delete its folder, without flushing to disk first."""
        self._end(signal.SIGQUIT)  # immediate shutdown
        shutil.rmtree(self._folder, ignore_errors=True)

    def _end(self, how: signal.Signals) -> None:
        self.resume()
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        ready = str(self._programs / "pg_isready")
        command = [ready, "-q", "-h", self.host, "-p", str(self.port)]
        return subprocess.run(command, check=False).returncode == 0
