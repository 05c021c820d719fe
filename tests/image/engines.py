"""Containers of the image as the chart runs them: by a daemon, else by the kernel's own means.

Owns: making the image and starting it, by Docker or Podman where one answers, otherwise out of root
folders (`tests.image.rootfs`) in namespaces. A container here has an unprivileged user, a read-only
root, no capabilities, and a loopback of its own.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from tests.image.rootfs import ROOT, Images, cannot

USER = 10_001
IMAGE = "armory-under-test"


class Container(Protocol):
    """One that runs."""

    def exec(self, *command: str) -> tuple[int, str]:
        """Run a command in it: (exit code, what it printed)."""
        ...

    def stop(self) -> int:
        """Send SIGTERM and wait; the exit code."""
        ...

    def log(self) -> str:
        """What it has printed."""
        ...

    def remove(self) -> None:
        """End it at once."""
        ...


class Engine(Protocol):
    """Starts containers."""

    def start(self, config: Path, home: Path, args: Sequence[str], env: Sequence[str]) -> Container:
        """One container of the image.

        Args:
            config: the folder with armory.yaml.
            home: what survives it.
            args: instead of the image's CMD.
            env: NAME=value.
        """
        ...

    def size_mib(self) -> int:
        """Of the image, unpacked."""
        ...


def engine(target: str) -> Engine | str:
    """What can run the image of a target here; else why nothing can."""
    for program in ("docker", "podman"):
        if shutil.which(program):
            asked = subprocess.run([program, "info"], capture_output=True, check=False)
            if asked.returncode == 0:
                return Daemon(program, target)
    if (why := cannot()) is not None:
        return f"{why} (no container daemon)"
    return Kernel(target)


def _ran(command: Sequence[str], timeout_s: float = 60.0) -> tuple[int, str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout_s)
    return done.returncode, done.stdout + done.stderr


class Daemon:
    """Docker or Podman."""

    def __init__(self, program: str, target: str) -> None:
        self._program = program
        self._image = f"{IMAGE}:{target}"
        command = [program, "build", "-q", "-f", "deploy/Dockerfile", "--target", target]
        done = subprocess.run(
            [*command, "-t", self._image, "."],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(done.stderr[-4_000:])

    def size_mib(self) -> int:
        command = [self._program, "image", "inspect", "-f", "{{.Size}}", self._image]
        return int(_ran(command)[1]) >> 20

    def start(self, config: Path, home: Path, args: Sequence[str], env: Sequence[str]) -> Container:
        home.chmod(0o777)
        command = [self._program, "run", "-d", "--read-only", "--cap-drop", "ALL"]
        command += ["--security-opt", "no-new-privileges", "--user", f"{USER}:{USER}"]
        command += ["--tmpfs", "/tmp", "-v", f"{config}:/etc/armory:ro"]
        command += ["-v", f"{home}:/var/lib/armory"]
        for one in env:
            command += ["-e", one]
        code, said = _ran([*command, self._image, *args])
        if code != 0:
            raise RuntimeError(said)
        return _OfDaemon(self._program, said.split()[-1])


class _OfDaemon:
    def __init__(self, program: str, name: str) -> None:
        self._program, self._name = program, name

    def exec(self, *command: str) -> tuple[int, str]:
        return _ran([self._program, "exec", self._name, *command])

    def stop(self) -> int:
        _ran([self._program, "stop", "-t", "50", self._name])
        state = [self._program, "inspect", "-f", "{{.State.ExitCode}}", self._name]
        return int(_ran(state)[1])

    def log(self) -> str:
        return _ran([self._program, "logs", self._name])[1]

    def remove(self) -> None:
        _ran([self._program, "rm", "-f", self._name])


class Kernel:
    """Namespaces, mounts and `setpriv`: what a container daemon uses, too."""

    def __init__(self, target: str) -> None:
        cache = os.environ.get("ARMORY_TEST_IMAGES") or Path.home() / ".cache" / "armory-images"
        images = Images(Path(cache))
        self._root = images.make(target)
        self._config = images.config(target)

    def size_mib(self) -> int:
        return int(_ran(["du", "-sm", str(self._root)])[1].split()[0])

    def start(self, config: Path, home: Path, args: Sequence[str], env: Sequence[str]) -> Container:
        home.chmod(0o777)
        root = self._root
        mounts = [
            f"mount --bind {root} {root}",
            f"mount -o remount,bind,ro {root}",
            f"mount -t proc proc {root}/proc",
            f"mount --rbind /dev {root}/dev",
            f"mount -t tmpfs tmpfs {root}/tmp",
            f"mount --bind {home} {root}/var/lib/armory",
            f"mount --bind {config} {root}/etc/armory",
            f"mount -o remount,bind,ro {root}/etc/armory",
            "ip link set lo up",
        ]
        user, _, group = self._config["User"].partition(":")
        drop = ["setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups"]
        drop += ["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
        entry = [*self._config["Entrypoint"], *(args or self._config["Cmd"])]
        command = ["chroot", str(root), "env", "-i", *self._config["Env"], *env, *drop, *entry]
        script = "set -e; " + "; ".join(mounts) + '; exec "$@"'
        log = home.with_suffix(".log")
        with log.open("ab") as opened:
            process = subprocess.Popen(
                [
                    *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--net", "--ipc"),
                    *("sh", "-c", script, "sh", *command),
                ],
                stdin=subprocess.DEVNULL, stdout=opened, stderr=opened,
            )  # fmt: skip
        return _OfKernel(process, log, [*self._config["Env"], *env])


class _OfKernel:
    def __init__(self, process: subprocess.Popen[bytes], log: Path, env: list[str]) -> None:
        self._process, self._log, self._env = process, log, env

    def _first(self) -> int:
        """The process that is 1 inside."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        until = time.monotonic() + 10
        while not (found := children.read_text().split()):
            if time.monotonic() > until:
                raise RuntimeError(f"nothing runs:\n{self.log()}")
            time.sleep(0.01)
        return int(found[0])

    def exec(self, *command: str) -> tuple[int, str]:
        first = str(self._first())
        inside = ["nsenter", "-t", first, "-m", "-p", "-n", "-i", "-r", "-w"]
        user = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
        user += ["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
        return _ran([*inside, "env", "-i", *self._env, *user, *command])

    def stop(self) -> int:
        os.kill(self._first(), signal.SIGTERM)
        return self._process.wait(60)

    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def remove(self) -> None:
        if self._process.poll() is None:
            os.kill(self._first(), signal.SIGKILL)  # and with it all the others inside
        self._process.wait()
