"""A start that takes longer than connecting may: waited for, told of, given up in the end."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog

from armory.domain.principal import ANONYMOUS
from armory.errors import UpstreamTimeout, UpstreamUnavailable
from armory.protocol.link import Call, Owner
from armory.testing.clients.recording import RecordingObserver
from armory.testing.clock import FakeClock
from armory.testing.waiting import until
from armory.upstreams.connecting.negotiate import Connector
from armory.upstreams.owner import LONGEST_PAUSE_S, STABLE_S
from armory.upstreams.pool import Pool
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.supervisor import Supervisor
from armory.upstreams.transports.process import ServerProcess

pytestmark = pytest.mark.anyio

PATHS = ":".join(path for path in sys.path if path)
SERVER = (sys.executable, "-m", "armory.testing.upstreams.stdio")


def patient(*command: str, **more: Any) -> UpstreamSpec:
    bounds: dict[str, Any] = {
        "connect_timeout_s": 0.01,
        "start_timeout_s": 60.0,
        "patient": True,
        **more,
    }
    env = {"PYTHONPATH": PATHS}
    return UpstreamSpec("up", command=command[0], args=command[1:], env=env, **bounds)


def launcher(folder: Path) -> str:
    """A program called npx that starts the server after a while."""
    path = folder / "npx"
    path.write_text(f'#!/bin/sh\necho installing >&2\nexec {SERVER[0]} "$@"\n')
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_launcher_may_take_longer_than_connecting(tmp_path: Path, era: str) -> None:
    spec = UpstreamSpec(
        "up",
        command=launcher(tmp_path),
        args=(*SERVER[1:], "--era", era),
        env={"PYTHONPATH": PATHS},
        connect_timeout_s=0.01,
    )
    connector = Connector(spec, {})
    link = await connector.connect(Owner(ANONYMOUS), {}, RecordingObserver())
    assert link.era == era
    await link.close()


async def test_what_does_nothing_is_given_up_with_the_key_that_would_help() -> None:
    connector = Connector(patient("sh", "-c", "exec cat >/dev/null", start_timeout_s=0.05), {})
    with pytest.raises(UpstreamTimeout, match=r"upstreams\.up\.start_timeout_s \(0\.05 s\)"):
        await connector.connect(Owner(ANONYMOUS), {}, RecordingObserver())


@pytest.mark.parametrize(
    "says",
    [
        "echo log in at https://login.example/x >&2",
        "echo hello >&2; printf 'log in at https://login.example/x: ' >&2",
        "echo hello >&2; printf 'log in at https://login.example/x: '",
    ],
)
async def test_what_waits_for_a_login_is_given_up_with_its_last_words(says: str) -> None:
    waits = f"{says}; exec cat >/dev/null"
    spec = UpstreamSpec("up", command="sh", args=("-c", waits), connect_timeout_s=0.3)
    with pytest.raises(UpstreamTimeout, match=r"0\.3 s; it last said: log in at https://login"):
        await Connector(spec, {}).connect(Owner(ANONYMOUS), {}, RecordingObserver())


async def test_a_process_that_works_is_told_from_one_that_does_not() -> None:
    def ignore(*_what: object) -> None:
        return None

    spec = UpstreamSpec("up", command="sh", args=("-c", "while :; do :; done"))
    process = await ServerProcess.start(spec, ignore, ignore, ignore)
    try:
        before = process.work_done()
        await until(lambda: process.work_done() > before)
    finally:
        await process.stop()


async def test_while_it_starts_the_status_says_so_and_a_call_does_not_wait_for_ever() -> None:
    pool = Pool([patient("sh", "-c", "echo fetching 12 packages >&2; exec cat >/dev/null")])
    supervisor = Supervisor(pool, lambda _server, _lists: None)
    await supervisor.start()
    try:
        await until(lambda: "fetching 12 packages" in supervisor.status()["up"].awaited)
        assert supervisor.status()["up"].state == "connecting"
        call = Call("tools/list", {}, timeout_s=0.01)
        with pytest.raises(UpstreamTimeout, match="has not answered yet"):
            await pool.request("up", Owner(ANONYMOUS), call)
    finally:
        await supervisor.stop()
        await pool.close()


async def test_one_line_says_which_upstreams_are_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("armory.upstreams.supervisor.TELL_S", 0.01)
    slow = [replace(patient("sh", "-c", "exec cat >/dev/null"), key=f"up-{n}") for n in range(3)]
    pool = Pool(slow)
    supervisor = Supervisor(pool, lambda _server, _lists: None)
    with structlog.testing.capture_logs() as log:
        await supervisor.start()
        try:
            await until(lambda: any(len(entry.get("upstreams", ())) == 3 for entry in log))
        finally:
            await supervisor.stop()
            await pool.close()
    said = [entry for entry in log if entry["log_level"] != "debug"]
    assert {entry["event"] for entry in said} == {"upstreams_starting"}
    assert len(said) <= 20, "each line is followed by a longer silence"
    assert said[-1]["upstreams"] == ["up-0", "up-1", "up-2"]
    assert re.match(r"'up-0' started \d+ s ago", said[-1]["first"])


async def test_each_failure_is_logged_once_and_a_retry_is_one_process(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    script = f"echo $$ >> {starts}; echo 'Error: no key given' >&2; echo later >&2; exit 3"
    clock = FakeClock()
    pool = Pool([UpstreamSpec("up", command="sh", args=("-c", script))])
    supervisor = Supervisor(pool, lambda _server, _lists: None, clock=clock)
    with structlog.testing.capture_logs() as log:
        await supervisor.start()
        try:
            for _ in range(4):
                await until(lambda: clock.sleeping > 0)
                await clock.advance(STABLE_S / 2)
            await until(lambda: clock.sleeping > 0)
        finally:
            await supervisor.stop()
            await pool.close()
    said = [entry for entry in log if entry["event"] == "upstream_down"]
    assert [entry["log_level"] for entry in said if entry["log_level"] != "debug"] == ["warning"]
    assert "it said: Error: no key given" in said[0]["error"]
    assert said[0]["stderr"] == ["Error: no key given", "later"] * 2
    assert len(said) >= 4
    assert len(starts.read_text().split()) == len(said) + 1, "the first attempt alone tries twice"
    assert "upstream_stderr" not in {e["event"] for e in log if e["log_level"] != "debug"}


async def test_a_start_that_fails_slowly_is_logged_once_too(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)

    def held() -> int | None:
        """The end of the gate that a starting process waits at; None while none does."""
        try:
            return os.open(gate, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return None

    clock = FakeClock()
    pool = Pool([patient("sh", "-c", f"cat {gate}; echo 'Error: no key given' >&2; exit 3")])
    supervisor = Supervisor(pool, lambda _server, _lists: None, clock=clock)
    with structlog.testing.capture_logs() as log:

        def levels() -> list[str]:
            return [entry["log_level"] for entry in log if entry["event"] == "upstream_down"]

        await supervisor.start()
        try:
            async with asyncio.timeout(60):
                while len(levels()) < 3:
                    if (end := held()) is not None:
                        await clock.advance(STABLE_S)
                        os.close(end)
                    elif clock.sleeping:
                        await clock.advance(LONGEST_PAUSE_S)
                    await asyncio.sleep(0.005)
        finally:
            await supervisor.stop()
            await pool.close()
    assert levels()[:3] == ["warning", "debug", "debug"], "a slow start is no time of working"


@pytest.mark.parametrize(
    "script",
    [
        "exec >&-; sleep 0.4; echo 'Error: no key' >&2; exit 3",
        "(sleep 0.4; echo 'Error: no key' >&2) & exit 3",
        "printf 'Error: no key' >&2; exit 3",
    ],
    ids=["output-first", "words-last", "no-line-feed"],
)
async def test_one_failure_has_one_wording(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    monkeypatch.setattr("armory.upstreams.transports.process.LAST_WORDS_S", 60.0)
    connector = Connector(UpstreamSpec("up", command="sh", args=("-c", script)), {})
    with pytest.raises(UpstreamUnavailable, match=r"with status 3; it said: Error: no key$"):
        await connector.connect(Owner(ANONYMOUS), {}, RecordingObserver())


async def test_a_server_that_lives_again_is_asked_everything(tmp_path: Path) -> None:
    gate = tmp_path / "works"
    script = f'[ -e {gate} ] || exit 3; exec {sys.executable} "$@"'
    spec = UpstreamSpec(
        "up",
        command="sh",
        args=("-c", script, "sh", *SERVER[1:], "--era", "modern"),
        env={"PYTHONPATH": PATHS},
    )
    connector = Connector(spec, {})
    for _ in range(2):
        with pytest.raises(UpstreamUnavailable, match="status 3"):
            await connector.connect(Owner(ANONYMOUS), {}, RecordingObserver())
    gate.touch()
    link = await connector.connect(Owner(ANONYMOUS), {}, RecordingObserver())
    assert link.era == "modern"
    await link.close()


async def test_half_a_message_is_no_question() -> None:
    waits = """echo hello >&2; printf '{"jsonrpc": "2.0", '; exec cat >/dev/null"""
    spec = UpstreamSpec("up", command="sh", args=("-c", waits), connect_timeout_s=0.3)
    with pytest.raises(UpstreamTimeout, match=r"0\.3 s; it last said: hello$"):
        await Connector(spec, {}).connect(Owner(ANONYMOUS), {}, RecordingObserver())
