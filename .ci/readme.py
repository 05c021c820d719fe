"""Runs the README's shell blocks as a reader would, in a clean copy of the tree.

A block is run if an HTML comment stands before it: `<!-- ci: serve -->` runs in the background and
is waited for until the gateway is ready, `<!-- ci: run -->` runs to its end. A block after
`<!-- ci: shows -->` has lines that the run before it must have printed ("..." stands for anything).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BLOCK = re.compile(r"<!-- ci: (\w+) -->\n+```\w*\n(.*?)```", re.DOTALL)
PORT = 8080  # of the README's gateway, which takes the default
READY_S = 600
RUN_S = 300


def clean_copy(target: Path) -> None:
    """What a clone of this tree would hold: tracked files as they are now."""
    names = subprocess.run(
        ["git", "ls-files", "-z"], check=True, capture_output=True, text=True
    ).stdout.split("\0")
    for name in filter(None, names):
        source = Path(name)
        if source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)


def main(readme: str) -> None:
    """Run every block in order."""
    with tempfile.TemporaryDirectory(prefix="armory-readme-") as folder:
        copy = Path(folder) / "armory"
        clean_copy(copy)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("ARMORY_", "VIRTUAL_"))}
        own = str(Path(sys.executable).parent)
        kept["PATH"] = os.pathsep.join(p for p in kept["PATH"].split(os.pathsep) if p != own)
        kept["ARMORY_HOME"] = str(Path(folder) / "home")
        kept.pop("PYTHONPATH", None)
        log = Path(folder) / "serve.log"
        server: subprocess.Popen[bytes] | None = None
        output = ""
        try:
            for kind, text in BLOCK.findall(Path(readme).read_text(encoding="utf-8")):
                print(f"--- {kind}\n{text.rstrip()}", flush=True)
                if kind == "serve":
                    server = serve(text, copy, kept, log)
                elif kind == "run":
                    output = run(text, copy, kept)
                elif kind == "shows":
                    check(text, output)
        finally:
            if server is not None:
                os.killpg(server.pid, signal.SIGTERM)
                server.wait(60)
        if server is None:
            sys.exit("the README has no block to serve")
        if "Traceback" in (text := log.read_text()):
            sys.exit(f"the gateway logged a traceback:\n{text}")
    print("every block of the README works")


def serve(text: str, copy: Path, env: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    """Start a block that does not end, and wait until the gateway is ready."""
    wait_for_port()
    with log.open("wb") as sink:
        server = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=copy,
            env=env,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    end = time.monotonic() + READY_S
    while "armory: ready" not in log.read_text(errors="replace"):
        if server.poll() is not None or time.monotonic() > end:
            sys.exit(f"the gateway did not get ready:\n{log.read_text(errors='replace')}")
        time.sleep(0.5)
    return server


def wait_for_port() -> None:
    """Wait until nobody else listens where the gateway will, such as another run of this."""
    end = time.monotonic() + READY_S
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", PORT)):
                return
        if time.monotonic() > end:
            sys.exit(f"somebody else listens on port {PORT}, where the README's gateway would")
        time.sleep(0.5)


def run(text: str, copy: Path, env: dict[str, str]) -> str:
    """Run a block to its end; its output."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=copy,
        env=env,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    print(done.stdout, done.stderr, sep="", flush=True)
    if done.returncode:
        sys.exit(f"the block failed with {done.returncode}")
    return done.stdout


def check(text: str, output: str) -> None:
    """Every line of `text` must be in `output`."""
    for line in filter(str.strip, text.splitlines()):
        pattern = r"\s+".join(re.escape(word) for word in line.split()).replace(r"\.\.\.", ".*")
        if not re.search(pattern, output):
            sys.exit(f"the README shows a line that was not printed: {line!r}")


if __name__ == "__main__":
    main(sys.argv[1])
