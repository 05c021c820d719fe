"""What seals is loaded late, and off the event loop: from a slow disk it takes most of a second.

Each case is a process of its own, since a library is loaded once in each.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import asyncio, json, sys, threading

loading = []
sys.addaudithook(
    lambda event, given: event == "import"
    and given[0].startswith("cryptography.hazmat")
    and loading.append(threading.current_thread())
)

from armory.domain.catalog import ServerLists
from armory.domain.principal import ANONYMOUS
from armory.gateway.gateway import Gateway
from armory.protocol.meta import CLIENT_CAPABILITIES
from armory.testing.front import FORM, ScriptedPool, ScriptedUpstream, asking, raws, result, tool
from armory.wire.caller import Caller
from armory.wire.dispatch import Dispatcher
from armory.wire.interaction.interactions import Interactions
from armory.wire.requests import modern_request

question = {"method": "elicitation/create", "params": FORM}
state = {"resultType": "input_required", "inputRequests": {"a": question}, "requestState": "mine"}


async def stateful(call, owner):
    return result(state, "modern")


async def main(case):
    upstream = ScriptedUpstream(
        ServerLists(tools=[tool("a", "")]),
        asking if case == "parked" else stateful,
        "legacy" if case == "parked" else "modern",
    )
    pool = ScriptedPool({"up": upstream})
    gateway = Gateway(pool)
    gateway.publish(pool.catalog())
    interactions = Interactions()
    dispatcher = Dispatcher(gateway, interactions)
    meta = raws({CLIENT_CAPABILITIES: {"elicitation": {"form": {}}}})
    request = modern_request(Caller(ANONYMOUS), "2026-07-28", meta, None)
    params = {"name": "up__a"} | ({"requestState": "v1.broken"} if case == "foreign" else {})
    assert not loading, "before anything was sealed"
    reply = await dispatcher.answer(request, "tools/call", raws(params))
    assert (reply.error is not None) == (case == "foreign"), reply
    assert case == "foreign" or b"v1." in bytes(reply.result), reply
    await interactions.close()


asyncio.run(main(sys.argv[1]))
print("in the loop" if threading.main_thread() in loading else len(set(loading)))
"""


@pytest.mark.parametrize("case", ["parked", "upstream", "foreign"])
def test_the_first_seal_does_not_hold_up_the_event_loop(case: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, case], capture_output=True, text=True, timeout=60
    )
    assert not done.stderr
    assert done.stdout == "1\n"
