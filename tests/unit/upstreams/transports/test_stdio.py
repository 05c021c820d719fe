"""Processes: started in their own group, fed and read by lines, and gone without a trace."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from msgspec import Raw

from armory.errors import UpstreamUnavailable
from armory.protocol.link import Call
from armory.protocol.session_events import Lost
from armory.testing.clients.recording import RecordingObserver
from armory.testing.processes import alive
from armory.testing.waiting import until
from armory.upstreams.session.context import LinkContext
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.transports.stdio import StdioLink
from tests.unit.upstreams.transports.stdio_links import Start, call, inline, scripted

pytestmark = pytest.mark.anyio


async def test_the_environment_is_minimal(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hush")
    link = await start(scripted(env={"OWN": "1"}))
    env = (await call(link, "who"))["structuredContent"]["env"]
    assert "SECRET_TOKEN" not in env
    assert env["OWN"] == "1"
    assert env["PATH"] == os.environ["PATH"]


async def test_the_working_directory(start: Start, tmp_path: Path) -> None:
    marker = tmp_path / "here.py"
    marker.write_text("")
    link = await start(
        inline("import os,sys; print(os.listdir('.'), file=sys.stderr)", cwd=str(tmp_path)),
        hello=False,
    )
    with pytest.raises(UpstreamUnavailable, match=r"here\.py"):
        await call(link, "x", timeout_s=30)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (UpstreamSpec("up", command="no-such-command"), "'no-such-command' was not found"),
        (UpstreamSpec("up", command="python -m x"), "behind the program belongs into 'args'"),
        (UpstreamSpec("up", command="/no/such/file"), "cannot be started"),
        (UpstreamSpec("up", command="sh", cwd="/no/such/folder"), "'/no/such/folder' does not"),
    ],
)
async def test_what_cannot_start_says_why(spec: UpstreamSpec, message: str) -> None:
    link = StdioLink(LinkContext(spec, {}, RecordingObserver()))
    with pytest.raises(UpstreamUnavailable, match=message):
        await link.open()
    await link.close()


async def test_an_exit_at_the_start_shows_its_last_words(
    start: Start, observer: RecordingObserver
) -> None:
    with pytest.raises(UpstreamUnavailable, match=r"exited with status 3.*no licence"):
        await start(scripted("--exit-at-start", "--stderr", "no licence"))
    (event,) = observer.events
    assert isinstance(event, Lost)
    assert event.reason.startswith("its process exited with status 3")


async def test_words_on_standard_output_are_last_words_too(start: Start) -> None:
    program = "import sys; print('Please set SOME_API_KEY first'); sys.exit(3)"
    with pytest.raises(UpstreamUnavailable, match=r"exited with status 3; it said: Please set"):
        await start(inline(program))


async def test_a_container_that_gets_no_input_says_what_it_lacks(
    start: Start, tmp_path: Path
) -> None:
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\necho ready >&2\n")  # as of a server whose input is empty
    docker.chmod(0o755)
    spec = UpstreamSpec("up", command=str(docker), args=("run", "--rm", "mcp/time"))
    with pytest.raises(UpstreamUnavailable, match=r"status 0, as .* no input: add -i .*: ready"):
        await start(spec)


async def test_an_exit_without_a_word_says_what_to_do(start: Start) -> None:
    with pytest.raises(UpstreamUnavailable, match=r"status 3 and said nothing; run its command"):
        await start(inline("import sys; sys.exit(3)"))


async def test_kill_9_in_mid_call(start: Start, observer: RecordingObserver) -> None:
    link = await start(scripted())
    calls = [asyncio.create_task(call(link, "hang")) for _ in range(3)]
    await call(link, "report")
    os.kill(link.pid, signal.SIGKILL)
    for one in calls:
        with pytest.raises(UpstreamUnavailable, match=r"upstream 'up'.*killed by SIGKILL"):
            await asyncio.wait_for(one, 30)
    assert link.closed
    assert len(observer.events) == 1
    with pytest.raises(UpstreamUnavailable, match="SIGKILL"):
        await call(link, "echo")


async def test_close_ends_even_what_ignores_it(start: Start) -> None:
    link = await start(scripted("--ignore-sigterm", "--ignore-eof"))
    assert alive(link.pid)
    await asyncio.wait_for(link.close(), 30)
    assert not alive(link.pid)
    await link.close()


async def test_close_ends_the_children_too(start: Start) -> None:
    link = await start(scripted("--with-child"))
    child = int((await call(link, "who"))["structuredContent"]["env"]["CHILD_PID"])
    assert alive(child)
    await link.close()
    await until(lambda: not alive(child))


async def test_a_closed_link_fails_what_is_in_flight(start: Start) -> None:
    link = await start(scripted())
    hanging = asyncio.create_task(call(link, "hang"))
    await call(link, "report")
    await link.close()
    with pytest.raises(UpstreamUnavailable, match="closed"):
        await hanging


async def test_a_line_that_is_too_long_costs_its_own_call(start: Start) -> None:
    link = await start(scripted(message_bytes=50_000))
    slow = asyncio.create_task(call(link, "wait"))
    params = {"name": Raw(b'"big"'), "arguments": Raw(b'{"bytes":200000}')}
    with pytest.raises(UpstreamUnavailable, match="longer than 50000 bytes"):
        await link.request(Call("tools/call", params, timeout_s=30))
    assert not slow.done()
    await call(link, "free")
    assert (await slow)["content"][0]["text"] == "released"


ODD = r"""
import sys, json
def out(text): sys.stdout.write(text); sys.stdout.flush()
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message: continue
    name = message["params"].get("name")
    id = message["id"]
    if name == "tail":
        out('{"result":{"x":"' + "y" * 5000 + '"},"jsonrpc":"2.0","id":%d}\n' % id)
    elif name == "middle": out('{"a":"%s","id":%d,"b":1}\n' % ("y" * 5000, id))
    elif name == "blank": out('\n\n  \n{"jsonrpc":"2.0","id":%d,"result":{}}\r\n' % id)
    elif name == "late":
        out('{"jsonrpc":"2.0","id":%d,"result":{"late":true}}\n' % (id - 1))
        out('{"jsonrpc":"2.0","id":%d,"result":{"late":false}}\n' % id)
    elif name == "empty":
        out('{"jsonrpc":"2.0","id":%d}\n' % id)
    elif name == "nan":
        out('{"level": "info", "id": %d, "n": NaN}\n' % id)
        out('{"jsonrpc": "2.0", "id": %d, "result": {"n": NaN}}\n' % id)
    elif name == "closes":
        import os; os.close(1); import time; time.sleep(60)
    elif name == "ping":
        out('{"jsonrpc":"2.0","id":"p","method":"ping"}\n')
        answer = json.loads(sys.stdin.readline())
        out(json.dumps({"jsonrpc": "2.0", "id": id, "result": {"pong": answer}}) + "\n")
"""


async def test_the_id_of_a_long_line_is_found_at_its_end(start: Start) -> None:
    link = await start(inline(ODD, message_bytes=1_000), hello=False)
    other = asyncio.create_task(call(link, "silent", timeout_s=30))
    await asyncio.sleep(0)
    with pytest.raises(UpstreamUnavailable, match="longer than 1000 bytes"):
        await call(link, "tail", timeout_s=30)
    assert not other.done()
    other.cancel()


async def test_a_long_line_without_an_id_answers_the_only_call(start: Start) -> None:
    link = await start(inline(ODD, message_bytes=1_000), hello=False)
    listening = asyncio.create_task(link.request(Call("subscriptions/listen", {}, timeout_s=30)))
    await asyncio.sleep(0)
    with pytest.raises(UpstreamUnavailable, match="longer than 1000 bytes"):
        await call(link, "middle", timeout_s=5)
    listening.cancel()


async def test_lines_that_answer_nothing_fail_their_call_or_are_passed_over(start: Start) -> None:
    link = await start(inline(ODD), hello=False)
    assert await call(link, "blank", timeout_s=30) == {}
    assert await call(link, "late", timeout_s=30) == {"late": False}
    with pytest.raises(UpstreamUnavailable, match="neither 'result' nor 'error'"):
        await call(link, "empty", timeout_s=30)
    with pytest.raises(UpstreamUnavailable, match="no NaN"):
        await call(link, "nan", timeout_s=30)
    assert (await call(link, "ping", timeout_s=30))["pong"] == {
        "jsonrpc": "2.0",
        "id": "p",
        "result": {},
    }


async def test_a_closed_standard_output_is_death(start: Start, observer: RecordingObserver) -> None:
    link = await start(inline(ODD), hello=False)
    with pytest.raises(UpstreamUnavailable, match="closed its standard output"):
        await call(link, "closes", timeout_s=30)
    assert observer.events == [Lost("up", "", "it closed its standard output")]


async def test_a_process_that_does_not_read_is_not_waited_for_longer(start: Start) -> None:
    link = await start(inline("import time; time.sleep(60)"), hello=False)
    big = Call("tools/call", {"arguments": Raw(b'"%s"' % (b"x" * 2_000_000))}, timeout_s=0.3)
    with pytest.raises(UpstreamUnavailable, match=r"within 0\.3 s"):
        await link.request(big)
    with pytest.raises(UpstreamUnavailable, match=r"within 0\.3 s"):
        await link.request(big)


# --- whose question is it?


async def test_a_broken_pipe_says_why_the_process_ended(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("armory.upstreams.transports.stdio._DEATH_S", 30.0)
    link = await start(inline(LEAVER), hello=False)
    await call(link, "x", timeout_s=30)
    # Its standard input is closed by now, its exit status comes later.
    for _ in range(2):
        with pytest.raises(UpstreamUnavailable, match=r"exited with status 3.*no licence"):
            await call(link, "x", timeout_s=30)


LEAVER = r"""
import json, os, sys, time
request = json.loads(sys.stdin.readline())
os.close(0)
print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": {}}), flush=True)
print("no licence", file=sys.stderr, flush=True)
time.sleep(0.3)
os._exit(3)
"""
