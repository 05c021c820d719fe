"""What servers and callers write does nothing to the terminal of whoever runs a command."""

from __future__ import annotations

import re
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import ROOT, Command, Serve
from tests.e2e.steering_server import SAID, STEERING

pytestmark = pytest.mark.timeout(400)
OWN = re.compile(r"\x1b\[(?:[0-79;]*m|2K|1A|\?25[hl])|[\r\n\t]")
"""Styles, and what shows how far a command is."""
TERMINAL = {"FORCE_COLOR": "1", "TERM": "xterm"}


def harmless(text: str) -> None:
    left = OWN.sub("", text)
    assert left.isprintable(), ascii(text)


def test_no_command_passes_on_what_steers_a_terminal(
    armory: Command, serve: Serve, tmp_path: Path
) -> None:
    evil = ["-m", "tests.e2e.steering_server"]
    upstreams: dict[str, Any] = {
        "evil": {"command": sys.executable, "args": evil, "env": {"PYTHONPATH": str(ROOT)}},
        "dead": {"command": sys.executable, "args": ["-c", f"raise SystemExit({STEERING!r})"]},
    }
    config = {
        "upstreams": upstreams,
        "tool_rag": {"embedding_model": "none"},
        "observability": {"audit": {"to": "audit.jsonl"}},
    }
    served = serve(config).ready()
    with pytest.raises(urllib.error.HTTPError) as refused:  # to be in the audit needs no credential
        urllib.request.urlopen(f"{served.base}/mcp/%1b%5d0;named%07%1b%5b2J", timeout=30)
    refused.value.close()
    file = ("--config", str(tmp_path / "armory-0.yaml"))
    for arguments in (
        ("tools", *file),
        ("search", "talk", *file),
        ("call", "evil__talk", *file),
        ("status",),
        ("logs", "evil"),
        ("logs", "dead"),
        ("audit", *file),
        ("doctor", *file),
    ):
        for env in (None, TERMINAL):
            done = armory(*arguments, env=env)
            assert "Traceback" not in done.stderr, done.stderr
            harmless(done.stderr)
            if arguments[0] != "call" or env:
                harmless(done.stdout)
    # a program reads what a tool said as it said it
    assert armory("call", "evil__talk", *file).stdout == f"{SAID}\n"
    assert "\x9b" not in armory("tools", "--json", *file).stdout
    assert "/mcp/" in armory("audit", *file).stdout
