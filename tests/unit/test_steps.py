"""A coroutine in a context of its own, and what its steps take, told whoever counts."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

import pytest

from armory.steps import Flooding, InContext

pytestmark = pytest.mark.anyio
WHOSE: ContextVar[str] = ContextVar("whose", default="nobody's")


class Nobody:
    """A connection on which nobody counts."""

    account = None


class Counted:
    """A connection, and what it is told of steps."""

    beside_others = False
    key = "whoever"

    def __init__(self, step_s: float) -> None:
        self.account: Counted | None = self
        self.steps: list[float] = []
        self._step_s = step_s
        self._now = 0.0

    def clock(self) -> float:
        self._now += self._step_s
        return self._now

    def spend(self, took: float) -> None:
        self.steps.append(took)


async def test_errors_and_cancellation_pass_through_a_context() -> None:
    seen: list[str] = []

    async def inner() -> str:
        WHOSE.set("inner's")
        try:
            await asyncio.sleep(0)
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            seen.append(WHOSE.get())
            raise
        return "never"

    async def failing() -> None:
        await asyncio.sleep(0)
        raise KeyError("as raised")

    with pytest.raises(KeyError, match="as raised"):
        await InContext(failing(), Nobody())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await InContext(inner(), Nobody())
    assert seen == ["inner's"]
    assert WHOSE.get() == "nobody's"


@pytest.mark.parametrize(("step_s", "told"), [(0.001, 3), (0.0001, 1)])
async def test_steps_are_counted_for_whoever_asks(step_s: float, told: int) -> None:
    on = Counted(step_s)

    async def work() -> str:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return "done"

    assert await InContext(work(), on) == "done"
    assert len(on.steps) == told, "short ones at the end"
    assert sum(on.steps) == pytest.approx(3 * step_s)


async def test_who_is_known_from_the_middle_of_the_first_step_on_is_charged_for_it() -> None:
    on = Counted(0.001)
    on.account = None

    async def work() -> None:
        on.account = on
        await asyncio.sleep(0)

    await InContext(work(), on)
    assert sum(on.steps) > 0


def test_those_who_say_very_much_take_half_of_the_loop_together() -> None:
    now = 10.0
    flooding = Flooding(0.5, lambda: now)
    now += 0.001
    assert flooding.wait_s(0.001) == pytest.approx(0.001)  # alone: as long as it took
    waits = [flooding.wait_s(0.001) for _ in range(5)]
    assert waits == pytest.approx([0.003, 0.005, 0.007, 0.009, 0.011])  # one after another
    now += 1.0
    assert flooding.wait_s(0.001) == pytest.approx(0.001)
