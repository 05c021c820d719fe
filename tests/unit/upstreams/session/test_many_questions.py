"""Many calls of one session that ask at once: each question is its own call's, and no turn is left.

Owns: a loop whose time passes only when nothing else is to be done, so that hours of waiting people
cost nothing and each seed gives the same order of events.
"""

from __future__ import annotations

import asyncio
import json
import random
import selectors
from typing import Any

import pytest
from msgspec import Raw

from armory.errors import UpstreamOverloaded, UpstreamTimeout
from armory.protocol.link import Answer, Call, ClientGone, Params
from armory.testing.clients.recording import RecordingClient, RecordingObserver
from armory.upstreams.session.context import Identity, LinkContext
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.transports.stdio import StdioLink

SEEDS = range(150)
ANSWER_S = (0, 0.5, 1, 2.9, 3, 3.1, 5, 10)
CANCELLED_S = (None, None, None, 0.2, 2.9, 3, 3.05, 7)
TOOLS = {"echo": 0, "ask": 1, "chain": 3, "two": 2}
"""How many questions each asks: `two` at once, `chain` one after the other."""
UNFORESEEN = {"late": 1, "sometimes": 1}
"""What asks after seconds of work, or only some of its callers."""


class Skipping(selectors.DefaultSelector):
    """Instead of waiting, it moves the clock."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "everything waits, and nothing will ever come"
            self.now += max(timeout, 0) + 1e-9
        return ready


class Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.skipping = Skipping()
        super().__init__(self.skipping)

    def time(self) -> float:
        return self.skipping.now


class Asking(StdioLink):
    """A link whose upstream is in this process; it heeds cancellations."""

    takes_s = 0.0
    """How long it takes to confirm what it got; it acts at once."""

    def __init__(self, context: LinkContext) -> None:
        super().__init__(context)
        self.adopt(Identity("legacy", "2025-11-25"))
        self._jobs: dict[int, asyncio.Task[None]] = {}
        self._answers: list[asyncio.Future[Any]] = []

    async def _write(self, data: bytes) -> None:
        self._take_in(data)
        if self.takes_s:
            await asyncio.sleep(self.takes_s)

    def _take_in(self, data: bytes) -> None:
        said = json.loads(data)
        if said.get("method") == "tools/call":
            self._jobs[said["id"]] = asyncio.ensure_future(self._serve(said))
        elif "method" in said:
            self._jobs[said["params"]["requestId"]].cancel()
        elif not (answer := self._answers[said["id"]]).cancelled():
            answer.set_result(said.get("result"))

    def _say(self, **said: Any) -> None:
        self.received(json.dumps({"jsonrpc": "2.0", **said}).encode())

    async def _ask(self, whose: str) -> None:
        answer = asyncio.get_running_loop().create_future()
        self._answers.append(answer)
        about = {"method": "elicitation/create", "params": {"whose": whose}}
        self._say(id=len(self._answers) - 1, **about)
        assert await answer in ({"whose": whose}, None)

    async def _serve(self, said: Any) -> None:
        tool, whose = said["params"]["name"], said["params"]["whose"]
        if tool == "two":
            await asyncio.gather(self._ask(whose), self._ask(whose))
        elif tool == "chain":
            for _ in range(TOOLS[tool]):
                await self._ask(whose)
                await asyncio.sleep(0.1)
        elif tool == "late":
            await asyncio.sleep(2.5)
            await self._ask(whose)
        elif tool == "busy":
            await self._ask(whose)
            await asyncio.sleep(6)
        elif tool == "ask" or (tool == "sometimes" and not whose.endswith("0")):
            await self._ask(whose)
        self._say(id=said["id"], result={"whose": whose})


class Person(RecordingClient):
    """Answers after a while, or goes away."""

    def __init__(self, whose: str, chance: random.Random, *, stays: bool) -> None:
        super().__init__({"elicitation": {}})
        self.whose = whose
        self._stays = stays
        self._chance = chance
        self.waits_s: float | None = None

    async def ask(self, method: str, params: Params) -> Answer:
        self.asked.append((method, json.loads(bytes(params["whose"]))))
        waits_s = self._chance.choice(ANSWER_S) if self.waits_s is None else self.waits_s
        await asyncio.sleep(waits_s)
        if not self._stays and self._chance.random() < 0.1:
            raise ClientGone
        return Answer(Raw(json.dumps({"whose": self.whose}).encode()))


async def one_call(
    link: Asking, person: Person, who: str, chance: random.Random, *, calm: bool
) -> None:
    await asyncio.sleep(chance.choice((0, 0, 0.5, 2, 3, 6)))
    tools = TOOLS if calm else TOOLS | UNFORESEEN
    tool = chance.choice(tuple(tools))
    try:
        async with asyncio.timeout(None if calm else chance.choice(CANCELLED_S)):
            reply = await link.request(call_of(tool, person, who))
        assert json.loads(bytes(reply.result or b"")) == {"whose": person.whose}
        assert not calm or len(person.asked) == TOOLS[tool], "a question was refused"
    except (TimeoutError, UpstreamTimeout, UpstreamOverloaded):
        assert not calm
    assert {whose for _, whose in person.asked} <= {person.whose}
    assert len(person.asked) <= tools[tool]


def call_of(tool: str, person: Person, who: str = "ann") -> Call:
    names = {"name": tool, "whose": person.whose}
    params = {name: Raw(json.dumps(value).encode()) for name, value in names.items()}
    return Call("tools/call", params, person, caller=who)


def opened(isolation: str = "principal", owner: str = "ann", timeout_s: float = 600.0) -> Asking:
    spec = UpstreamSpec("up", command="none", isolation=isolation, call_timeout_s=timeout_s)  # pyright: ignore[reportArgumentType]
    return Asking(LinkContext(spec, {}, RecordingObserver(), owner=owner))


async def many_calls(isolation: str, chance: random.Random, *, calm: bool = False) -> None:
    timeout_s = 600.0 if calm else chance.choice((4.0, 8.0, 30.0))
    shared = isolation == "shared"
    link = opened(isolation, "" if shared else "ann", timeout_s)
    async with asyncio.timeout(3_600), asyncio.TaskGroup() as group:
        for number in range(12):
            who = chance.choice(("ann", "bob")) if shared else "ann"
            person = Person(f"call {number}", chance, stays=calm)
            group.create_task(one_call(link, person, who, chance, calm=calm))
    await asyncio.sleep(60)
    attribution, questions = link.requests.attribution, link.requests.questions
    turns = attribution._turns  # pyright: ignore[reportPrivateUsage]
    assert turns._lane.holder is None  # pyright: ignore[reportPrivateUsage]
    assert not turns._of_calls  # pyright: ignore[reportPrivateUsage]
    assert not turns._late  # pyright: ignore[reportPrivateUsage]
    assert not questions._open  # pyright: ignore[reportPrivateUsage]
    assert not link.requests.pending
    await link.close()


@pytest.mark.parametrize("isolation", ["principal", "shared"])
def test_each_is_asked_its_own_and_no_turn_is_left(isolation: str) -> None:
    for seed in SEEDS:
        with asyncio.Runner(loop_factory=Loop) as runner:
            runner.run(many_calls(isolation, random.Random(seed)))


@pytest.mark.parametrize("isolation", ["principal", "shared"])
def test_where_all_wait_no_question_is_refused(isolation: str) -> None:
    for seed in SEEDS:
        with asyncio.Runner(loop_factory=Loop) as runner:
            runner.run(many_calls(isolation, random.Random(seed), calm=True))


async def beside_an_unforeseen_form(tool: str, after_s: float) -> None:
    link, chance = opened(), random.Random(0)
    await link.request(call_of("sometimes", Person("call 0", chance, stays=True)))
    first, second = (Person(name, chance, stays=True) for name in ("first", "second"))
    first.waits_s, second.waits_s = 60.0, 1.0
    async with asyncio.timeout(3_600), asyncio.TaskGroup() as group:
        slow = group.create_task(link.request(call_of(tool, first)))
        await asyncio.sleep(after_s)
        await link.request(call_of("ask", second))
        assert not slow.done()
    assert [len(person.asked) for person in (first, second)] == [1, 1], "a question was refused"
    await link.close()


@pytest.mark.parametrize("after_s", [3.0, 10.0])
@pytest.mark.parametrize("tool", UNFORESEEN)
def test_others_may_ask_beside_a_form_that_nobody_expected(tool: str, after_s: float) -> None:
    """A tool that works for seconds before it asks, or that had never asked before."""
    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(beside_an_unforeseen_form(tool, after_s))


async def a_second_question_beside_work() -> None:
    link, chance = opened(), random.Random(0)
    link.takes_s = 0.2
    first, second = (Person(name, chance, stays=True) for name in ("first", "second"))
    first.waits_s, second.waits_s = 3.9, 2.0
    async with asyncio.timeout(3_600), asyncio.TaskGroup() as group:
        group.create_task(link.request(call_of("busy", first)))
        await asyncio.sleep(0.1)
        group.create_task(link.request(call_of("chain", second)))
    assert [whose for _, whose in first.asked] == ["first"]
    await link.close()


def test_who_asks_again_beside_anothers_turn_is_not_taken_for_that_one() -> None:
    """Its answer went up late, and the next question came before that was confirmed."""
    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(a_second_question_beside_work())
