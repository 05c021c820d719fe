"""Ends with 0 when the gateway of this container answers `/healthz`, with 1 when it does not.

Owns: finding the port and the base path: from the note that the gateway leaves in `ARMORY_HOME`,
since a file that was changed may say otherwise by now, or not hold; else from the first process's
arguments and the configuration. Loads nothing of Armory, since it runs every few seconds.
"""

from __future__ import annotations

import json
import os
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^{}]*))?\}")
TIMEOUT_S = 4.0
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Proxies of the environment are for upstreams."""


def option(arguments: Sequence[str], name: str) -> str | None:
    """The value of `--name value` or `--name=value`; None without it."""
    for place, argument in enumerate(arguments):
        if argument == f"--{name}":
            return arguments[place + 1] if place + 1 < len(arguments) else None
        if argument.startswith(f"--{name}="):
            return argument.partition("=")[2]
    return None


def url(arguments: Sequence[str], environ: Mapping[str, str]) -> str:
    """Where to ask.

    Args:
        arguments: of the gateway.
        environ: its environment.
    """
    file = Path(option(arguments, "config") or environ.get("ARMORY_CONFIG") or "armory.yaml")
    read: Any = yaml.safe_load(file.read_text(encoding="utf-8")) if file.is_file() else None
    server: Any = (read.get("server") if isinstance(read, dict) else None) or {}

    def filled(key: str, default: str) -> str:
        text = str(server.get(key, default))
        return _VARIABLE.sub(lambda match: environ.get(match[1]) or match[2] or "", text)

    port = option(arguments, "port") or filled("port", "8080")
    host = option(arguments, "host") or filled("host", "127.0.0.1")
    if host in ("0.0.0.0", "::", "localhost"):
        host = "127.0.0.1"
    host = f"[{host}]" if ":" in host else host
    return f"http://{host}:{port}{filled('base_path', '').rstrip('/')}/healthz"


def noted(environ: Mapping[str, str]) -> str | None:
    """Where the gateway that began last says that it listens; None: nowhere."""
    folder = Path(environ.get("ARMORY_HOME") or "/var/lib/armory") / "running"
    try:
        last = max(folder.glob("*.json"), key=lambda note: note.stat().st_mtime_ns, default=None)
        return f"{json.loads(last.read_text(encoding='utf-8'))['url']}/healthz" if last else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def main() -> int:
    """Ask once."""
    try:
        arguments = Path("/proc/1/cmdline").read_text(encoding="utf-8").split("\0")
    except OSError:
        arguments = []
    asked = noted(os.environ) or url(arguments, os.environ)
    try:
        with _direct.open(asked, timeout=TIMEOUT_S):
            return 0
    except (OSError, urllib.error.URLError) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        sys.stderr.write(f"{asked}: {error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
