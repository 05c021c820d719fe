"""Fetch the conformance servers of the official SDKs, and build the programs that need a toolchain:

    python tests/protocol/conformance/prepare.py FOLDER

then set `ARMORY_TEST_SDKS=FOLDER`. The Python SDK's server comes out of its source archive. Clients
in Go, Rust and Java (`tests/clients`), the Go SDK's server and a certified OpenID provider
(`tests/e2e/identity/go`) are built where their toolchain is at hand. Where it is not, is too old or
cannot fetch what it needs, `FOLDER/LANGUAGE/missing` says so, and the tests that need the program
are skipped with these words; what is fetched and does not build is an error.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

TESTS = Path(__file__).parents[2]
CLIENTS = TESTS / "clients"
GO_PROVIDER = TESTS / "e2e" / "identity" / "go"
GO_SERVER = "github.com/modelcontextprotocol/go-sdk/conformance/everything-server"
PYTHON_SERVER = "examples/servers/everything-server/mcp_everything_server"
FETCH_S = 600


@dataclass(frozen=True)
class Command:
    """A program's arguments, where it runs, and what is added to its environment."""

    arguments: list[str]
    cwd: Path
    env: dict[str, str] = field(default_factory=dict[str, str])

    def all_env(self) -> dict[str, str]:
        """Its whole environment."""
        return {**os.environ, **self.env}


@dataclass(frozen=True)
class Toolchain:
    """How one language's programs are made.

    `commands` gets the folder for what is built, and returns what fetches and what builds.
    """

    name: str
    needs: tuple[str, ...]
    version: list[str]
    oldest: tuple[int, int]
    commands: Callable[[Path], tuple[list[Command], list[Command]]]


def _go(out: Path) -> tuple[list[Command], list[Command]]:
    fetch, build = ["go", "mod", "download"], ["go", "build", "-o", f"{out}/"]
    offline = {"GOPROXY": "off"}
    return (
        [Command(fetch, CLIENTS / "go"), Command(fetch, GO_PROVIDER)],
        [
            Command([*build, ".", GO_SERVER], CLIENTS / "go", offline),
            Command([*build, "."], GO_PROVIDER, offline),
        ],
    )


def _rust(out: Path) -> tuple[list[Command], list[Command]]:
    cwd, env = CLIENTS / "rust", {"CARGO_TARGET_DIR": str(out / "target")}
    return (
        [Command(["cargo", "fetch", "--locked", "--quiet"], cwd, env)],
        [
            Command(["cargo", "build", "--locked", "--offline", "--quiet"], cwd, env),
            Command(["mv", "target/debug/client", "client"], out),
            Command(["rm", "-r", "target"], out),
        ],
    )


def _java(out: Path) -> tuple[list[Command], list[Command]]:
    maven = ["mvn", "--batch-mode", "--quiet", f"-Dout={out}", "compile"]
    cwd = CLIENTS / "java"
    return [Command([*maven, "-Dmaven.main.skip"], cwd)], [Command([*maven, "--offline"], cwd)]


TOOLCHAINS = {
    "go": Toolchain("Go", ("go",), ["go", "version"], (1, 21), _go),
    "rust": Toolchain("Rust", ("cargo", "rustc"), ["rustc", "--version"], (1, 88), _rust),
    "java": Toolchain("Java", ("mvn", "javac"), ["javac", "-version"], (17, 0), _java),
}


def python_server(folder: Path) -> None:
    """Unpack the server of the SDK that is installed here."""
    wanted = f"mcp=={version('mcp')}"
    with tempfile.TemporaryDirectory() as place:
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", "mcp"]
        subprocess.run([*pip, "-d", place, wanted], check=True)
        (archive,) = Path(place).glob("mcp-*.tar.gz")
        with tarfile.open(archive) as opened:
            opened.extractall(place, filter="data")
        unpacked = Path(place) / archive.name.removesuffix(".tar.gz") / PYTHON_SERVER
        shutil.copytree(unpacked, folder / unpacked.name, dirs_exist_ok=True)


def build(toolchain: Toolchain, out: Path) -> str:
    """Fetch and build one language's programs into `out`.

    Returns:
        Why they are not there, or "".

    Raises:
        subprocess.CalledProcessError: what was fetched does not build.
    """
    if not all(shutil.which(program) for program in toolchain.needs):
        return f"no {toolchain.name} toolchain"
    if old := _too_old(toolchain):
        return old
    fetch, make = toolchain.commands(out)
    for command in fetch:
        if wrong := _fetch(command):
            return f"{toolchain.name}: {command.arguments[0]} cannot fetch: {wrong}"
    for command in make:
        subprocess.run(command.arguments, cwd=command.cwd, env=command.all_env(), check=True)
    return ""


def _fetch(command: Command) -> str:
    try:
        done = subprocess.run(
            command.arguments, cwd=command.cwd, env=command.all_env(), check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=FETCH_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"not done after {FETCH_S} s"
    if not done.returncode:
        return ""
    lines = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout).split("\n")
    told = [line for line in lines if "error" in line.lower()] or lines
    return told[0].strip()[:200] or f"exit status {done.returncode}"


def _too_old(toolchain: Toolchain) -> str:
    told = subprocess.run(toolchain.version, capture_output=True, text=True, check=False)
    found = re.search(r"(\d+)(?:\.(\d+))?", told.stdout + told.stderr)
    have = (int(found[1]), int(found[2] or 0)) if found else (0, 0)
    if have >= toolchain.oldest:
        return ""
    needed = ".".join(map(str, toolchain.oldest))
    return f"the {toolchain.name} toolchain is older than {needed}"


def main() -> None:
    """Make everything that is not there yet."""
    folder = Path(sys.argv[1]).resolve()
    if not (folder / "python").exists():
        python_server(folder / "python")
    for language, toolchain in TOOLCHAINS.items():
        out = folder / language
        if (out / "built").exists():
            continue
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        if missing := build(toolchain, out):
            (out / "missing").write_text(missing, encoding="utf-8")
            sys.stderr.write(f"not built: {missing}\n")
        else:
            (out / "built").touch()


if __name__ == "__main__":
    main()
