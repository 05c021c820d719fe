"""A gateway whose configuration changes at odd moments, or that is to end at once."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from armory.testing.waiting import wait_until
from tests.e2e.conftest import ARMORY, ROOT

pytestmark = pytest.mark.timeout(180)


def test_a_change_while_it_starts_is_put_in_force(
    serve: Callable[..., Any], demo_upstreams: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "early.yaml"
    file.write_text(yaml.safe_dump({"upstreams": {"time": demo_upstreams["time"]}}))
    served = serve(file)  # it listens; most of it is still to be loaded
    file.write_text(yaml.safe_dump({"upstreams": demo_upstreams}))
    assert "upstreams" in served.wait_for(r'reloaded \S+: ([^"]*)')[1]


def test_a_change_that_meets_what_nobody_foresaw_does_not_keep_the_next_one(
    environ: dict[str, str], demo_upstreams: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "armory.yaml"
    file.write_text(yaml.safe_dump({"upstreams": {"time": demo_upstreams["time"]}}))
    log = tmp_path / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*ARMORY, "serve", "--config", str(file), "--port", "0"],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=out,
        )

    def said(what: str) -> None:
        wait_until(lambda: what in log.read_text() or process.poll() is not None, log)
        assert what in log.read_text(), log.read_text()

    with process:
        try:
            said('"event": "ready"')
            (pins,) = Path(environ["ARMORY_HOME"]).glob("pins/*.json")
            pins.unlink()
            pins.mkdir()  # what is read anew with each configuration
            process.send_signal(signal.SIGHUP)
            said('"event": "reload_failed"')
            pins.rmdir()
            file.write_text(yaml.safe_dump({"upstreams": demo_upstreams}))
            said('"event": "reloaded"')
        finally:
            process.terminate()
        assert process.wait(30) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="finds children in /proc")
def test_who_interrupts_it_twice_is_left_no_processes(
    environ: dict[str, str], tmp_path: Path
) -> None:
    stubborn = ["--era", "legacy", "--ignore-sigterm", "--ignore-eof"]
    server = {
        "command": sys.executable,
        "args": ["-m", "armory.testing.upstreams.stdio", *stubborn],
        "env": {"PYTHONPATH": str(ROOT)},
    }
    file = tmp_path / "armory.yaml"
    file.write_text(yaml.safe_dump({"upstreams": {"stubborn": server}}))
    with subprocess.Popen(
        [*ARMORY, "serve", "--config", str(file), "--port", "0"],
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        log = iter(process.stderr)
        assert any('"event": "ready"' in line for line in log)
        threads = Path(f"/proc/{process.pid}/task").glob("*/children")
        children = [int(child) for each in threads for child in each.read_text().split()]
        assert len(children) == 1
        process.send_signal(signal.SIGINT)
        assert any('"event": "shutting_down"' in line for line in log)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    wait_until(lambda: not lives(children[0]))


def lives(pid: int) -> bool:
    """Whether a process runs; one that nobody has waited for yet does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z" and os.path.exists(f"/proc/{pid}")


def test_what_is_to_end_while_it_starts_does_not_finish_starting(serve: Callable[..., Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # a database that never answers
        silent.settimeout(60)
        url = f"postgresql://armory@127.0.0.1:{silent.getsockname()[1]}/armory"
        served = serve({"storage": {"url": url}})
        connection, _ = silent.accept()
        with connection:
            assert served.stop() == 0
    said = "".join(served.log)
    assert "shutting down before it was ready" in said
    assert '"database_away"' not in said


def test_a_reload_that_is_asked_for_while_the_file_is_read_is_done(
    environ: dict[str, str], demo_upstreams: dict[str, Any], tmp_path: Path
) -> None:
    file, variables = tmp_path / "armory.yaml", tmp_path / ".env"
    file.write_text(
        yaml.safe_dump(
            {"upstreams": {"time": demo_upstreams["time"]}, "tool_rag": {"max_tools": "${MOST}"}}
        )
    )
    os.mkfifo(variables)
    with subprocess.Popen(
        [*ARMORY, "serve", "--config", str(file), "--port", "0"],
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            with variables.open("w") as read_first:  # open as soon as it is being read
                variables.unlink()
                variables.write_text("MOST=4\n")
                process.send_signal(signal.SIGHUP)
                read_first.write("MOST=5\n")
            assert process.stderr is not None
            log = iter(process.stderr)
            assert any('"reloaded"' in line and "tool_rag" in line for line in log)
        finally:
            process.terminate()
        assert process.wait(30) == 0
