"""The unit for systemd in docs/operating.md."""

from __future__ import annotations

import re
import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path

import pytest

from armory.cli.main import cli
from armory.config import load_text

DOCUMENT = Path(__file__).parents[2] / "docs" / "operating.md"
UNIT = re.compile(r"<!-- file: armory\.service -->\n\n```ini\n(.*?)```", re.DOTALL)


def unit() -> str:
    found = UNIT.search(DOCUMENT.read_text(encoding="utf-8"))
    assert found is not None
    return found[1]


def test_it_leaves_calls_in_flight_their_time() -> None:
    parser = ConfigParser(strict=False, interpolation=None)
    parser.read_string(unit())
    service = parser["Service"]
    assert service["KillMode"] == "mixed"  # SIGTERM would end the stdio servers, and their calls
    assert int(service["TimeoutStopSec"]) == load_text("{}").config.server.drain_timeout_s + 15
    _, command, *options = service["ExecStart"].split()
    named = cli.get_command(None, command)  # pyright: ignore[reportArgumentType]
    assert named is not None
    assert options[0] in {name for one in named.params for name in one.opts}


def test_a_reload_tells_whether_it_was_refused_and_a_start_is_tried_again_for_good() -> None:
    parser = ConfigParser(strict=False, interpolation=None)
    parser.read_string(unit())
    service = parser["Service"]
    reload = service["ExecReload"].split()
    assert reload[0] == service["ExecStart"].split()[0]
    assert cli.get_command(None, reload[1]) is not None  # pyright: ignore[reportArgumentType]
    limit_s, burst = 10, 5  # systemd's: DefaultStartLimitIntervalSec, DefaultStartLimitBurst
    assert int(service["RestartSec"]) * burst > limit_s


def test_systemd_finds_nothing_wrong_with_it(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed")
    file = tmp_path / "armory.service"
    file.write_text(unit().replace("/srv/armory/bin/armory", shutil.which("true") or "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--recursive-errors=no", str(file)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert str(file) not in done.stderr
