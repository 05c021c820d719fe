"""The register of tasks: how long one is remembered, and what happens to an id that comes twice."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest

from armory.domain.principal import Principal
from armory.errors import BackendError, RateLimited
from armory.gateway.endpoint import ALL, Endpoint
from armory.gateway.tasks.ownership import TaskOwnership
from armory.gateway.tasks.register import KEPT, LEAST_S, MOST_S, Place, TaskRegister
from armory.protocol.link import Reply
from armory.security.policy import Policy, Rule
from armory.storage.cache import MemoryCache
from armory.testing.front import result

if TYPE_CHECKING:
    from tests.unit.gateway.conftest import Bench

pytestmark = pytest.mark.anyio
PLACE = Place("up", "", "1")


class Now:
    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


@pytest.mark.parametrize(
    ("ttl_s", "kept_s"), [(1.0, LEAST_S), (2 * LEAST_S, 2 * LEAST_S), (None, MOST_S), (1e9, MOST_S)]
)
@pytest.mark.parametrize("shared", [False, True])
async def test_a_task_is_remembered_for_its_time(
    ttl_s: float | None, kept_s: float, shared: bool
) -> None:
    now = Now()
    store = MemoryCache(clock=now) if shared else None
    register = TaskRegister(store, clock=now)
    await register.enter(PLACE, "a", ttl_s)
    other = TaskRegister(store, clock=now)
    assert other.near(PLACE) is None
    assert (await other.maker(PLACE) == "a") is shared
    now.at = kept_s - 1
    assert register.near(PLACE) == "a"
    now.at = kept_s + 1
    assert await register.maker(PLACE) is None
    assert await other.maker(PLACE) is None


async def test_asking_renews() -> None:
    now = Now()
    store = MemoryCache(clock=now)
    register = TaskRegister(store, clock=now)
    await register.enter(PLACE, "a", None)
    for _ in range(5):
        now.at += MOST_S / 2
        assert await register.maker(PLACE) == "a"
        assert await TaskRegister(store, clock=now).maker(PLACE) == "a"


async def test_asking_one_replica_late_renews_it_for_all() -> None:
    now = Now()
    store = MemoryCache(clock=now)
    maker, asked = TaskRegister(store, clock=now), TaskRegister(store, clock=now)
    await maker.enter(PLACE, "a", LEAST_S)
    now.at = LEAST_S - 60
    assert await asked.maker(PLACE) == "a"
    now.at = LEAST_S + 60
    assert await maker.maker(PLACE) == "a"
    assert await TaskRegister(store, clock=now).maker(PLACE) == "a"


class Meanwhile(MemoryCache):
    """A store in which something happens once something was read."""

    def __init__(self, clock: Now) -> None:
        super().__init__(clock=clock)
        self.happens: Callable[[], Awaitable[None]] | None = None

    async def get(self, key: str) -> bytes | None:
        found = await super().get(key)
        happens, self.happens = self.happens, None
        if happens is not None:
            await happens()
        return found


async def test_renewing_leaves_an_id_nobodys_that_has_just_come_twice() -> None:
    now = Now()
    store = Meanwhile(now)
    one, two = TaskRegister(store, clock=now), TaskRegister(store, clock=now)
    await one.enter(PLACE, "a", None)
    assert await two.maker(PLACE) == "a"
    now.at = MOST_S / 2
    store.happens = lambda: one.enter(PLACE, "b", None)
    await two.maker(PLACE)
    assert await two.maker(PLACE) not in ("a", "b")
    assert await TaskRegister(store).maker(PLACE) not in ("a", "b")


async def test_a_store_that_was_emptied_is_told_again() -> None:
    store = MemoryCache()
    one, two, three = TaskRegister(store), TaskRegister(store), TaskRegister(store)
    twice = Place("up", "", "2")
    await one.enter(PLACE, "a", None)
    await one.enter(twice, "a", None)
    assert await two.maker(twice) == "a"
    await one.enter(twice, "b", None)
    await store.aclose()
    assert await three.maker(PLACE) is None
    assert await one.maker(PLACE) == "a", "it knows it by itself"
    await two.tell()
    await one.tell()
    assert await three.maker(PLACE) == "a"
    assert await three.maker(twice) not in ("a", "b")
    await TaskRegister().tell()  # without a store nobody is told


@pytest.mark.parametrize("shared", [False, True])
async def test_an_id_that_two_were_given_is_nobodys(shared: bool) -> None:
    store = MemoryCache() if shared else None
    one = TaskRegister(store)
    two = TaskRegister(store) if shared else one
    await one.enter(PLACE, "a", None)
    await one.enter(PLACE, "a", None)
    assert await two.maker(PLACE) == "a"
    await two.enter(PLACE, "b", None)
    assert {await one.maker(PLACE), await two.maker(PLACE)}.isdisjoint({"a", "b"})
    await one.enter(Place("up", "other session", "1"), "b", None)
    assert await one.maker(Place("up", "other session", "1")) == "b"


async def test_what_others_told_a_store_meanwhile_stays() -> None:
    store = MemoryCache()
    one = TaskRegister(store)
    await one.enter(PLACE, "a", None)
    await store.aclose()
    await TaskRegister(store).enter(PLACE, "b", None)
    await one.tell()
    for register in (one, TaskRegister(store)):
        assert await register.maker(PLACE) == "b"


class Away(MemoryCache):
    """A store that cannot tell."""

    async def get(self, key: str) -> bytes | None:
        raise BackendError("away")


async def test_what_only_the_store_could_tell_is_not_called_unknown() -> None:
    register = TaskRegister(Away())
    await register.enter(PLACE, "a", None)
    assert await register.maker(PLACE) == "a"
    with pytest.raises(BackendError):
        await register.maker(Place("up", "", "of another replica"))


async def test_an_id_that_another_replica_gave_to_somebody_else_is_nobodys() -> None:
    store = MemoryCache()
    one, two = TaskRegister(store), TaskRegister(store)
    await one.enter(PLACE, "a", None)
    await two.enter(PLACE, "b", None)  # it was never asked about it
    for register in (two, one, TaskRegister(store)):
        assert await register.maker(PLACE) not in ("a", "b")
    assert one.near(PLACE) != "a", "it has heard of that"


async def test_who_asks_for_a_task_that_is_only_being_made_waits_for_it() -> None:
    register = TaskRegister()
    await register.enter(Place("up", "", "before"), "a", None)
    async with asyncio.timeout(20):
        asking = asyncio.create_task(register.maker(PLACE, within_s=600))
        await asyncio.sleep(0)
        await register.enter(Place("up", "", "another"), "a", None)
        await asyncio.sleep(0)
        assert not asking.done()
        await register.enter(PLACE, "a", None)
        assert await asking == "a"
        assert await register.maker(Place("up", "", "never"), within_s=0.01) is None


async def test_memory_is_bounded() -> None:
    register = TaskRegister(kept=10)
    assert KEPT >= 10
    for number in range(50):
        await register.enter(Place("up", "", str(number)), "a", None)
    known = [n for n in range(50) if register.near(Place("up", "", str(n)))]
    assert known == list(range(40, 50))


async def test_those_who_make_many_push_out_their_own() -> None:
    register = TaskRegister(kept=20, per_principal=12)
    await register.enter(Place("up", "", "mine"), "ann", None, person="user:ann")
    for number in range(36):
        place = Place("up", "", str(number))
        await register.enter(place, f"mallory {number % 3}", None)
    assert register.near(Place("up", "", "mine")) == "ann"
    assert sum(register.near(Place("up", "", str(n))) is not None for n in range(36)) == 19


async def test_tasks_of_one_principal_are_bounded_while_their_time_lasts() -> None:
    now = Now()
    register = TaskRegister(per_principal=3, clock=now)
    for number, ttl_s in enumerate((None, 0.0, 0.0)):
        await register.enter(Place("up", "", str(number)), "a", ttl_s)
    with pytest.raises(RateLimited, match="tasks_per_principal"), register.room("a"):
        pass
    with pytest.raises(RateLimited, match="tasks_per_principal"):
        await register.enter(Place("up", "", "3"), "a", None)
    await register.enter(Place("up", "", "1"), "a", None)  # known already
    now.at = LEAST_S - 1
    assert await register.maker(Place("up", "", "2")) == "a"  # renewed
    now.at = LEAST_S + 1  # the second is forgotten
    with register.room("a"), pytest.raises(RateLimited), register.room("a"):
        pass
    with register.room("a"):
        pass


async def test_the_count_of_each_principal_is_that_of_its_entries() -> None:
    now = Now()
    register = TaskRegister(kept=5, per_principal=4, clock=now)
    for number in range(12):  # most are pushed out by later ones
        await register.enter(Place("up", "", str(number)), "ab"[number % 2], None)
    await register.enter(Place("up", "", "11"), "a", None)  # b's, now nobody's
    counts = [register._near.count(maker) for maker in "ab"]  # pyright: ignore[reportPrivateUsage]
    assert counts == [2, 2]
    now.at = MOST_S + 1
    counts = [register._near.count(maker) for maker in "ab"]  # pyright: ignore[reportPrivateUsage]
    assert counts == [0, 0]


class Text(str):
    """A text of which can be told whether anybody still holds it."""

    __slots__ = ("__weakref__",)


async def test_who_has_no_task_any_more_is_not_held() -> None:
    now, held = Now(), list[weakref.ref[Text]]()
    register = TaskRegister(clock=now)
    for number in range(9):
        maker = Text(f"maker {number}")
        held.append(weakref.ref(maker))
        with register.room(maker):
            await register.enter(Place("up", "", str(number)), maker, None)
        del maker
    now.at = MOST_S + 1
    with register.room("another"):
        pass
    assert [one() for one in held if one() is not None] == []


async def entered(bench: Bench, task: dict[str, Any], era: str = "legacy") -> tuple[Now, Reply]:
    """A task that an upstream tells of, entered as ann's."""
    now = Now()
    made = result({"task": task} if era == "legacy" else {"resultType": "task", **task})
    bench.register = TaskRegister(clock=now)
    bench.client.capabilities = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    owned = TaskOwnership(bench.pool, bench.register)
    await owned.note_made(bench.context(principal=Principal("ann")), "up", made)
    return now, made


@pytest.mark.parametrize(
    ("said", "kept_s"),
    [
        ({"ttl": 2 * LEAST_S * 1_000}, 2 * LEAST_S),
        ({"ttlMs": 2 * LEAST_S * 1_000, "ttl": 1}, 2 * LEAST_S),
        ({"ttl": -5}, LEAST_S),
        ({"ttl": 10**30}, MOST_S),
        ({"ttl": None}, MOST_S),
        ({"ttl": True}, MOST_S),
        ({"ttl": "7200000"}, MOST_S),
        ({}, MOST_S),
    ],
)
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_time_to_live_is_in_milliseconds(
    bench: Bench, era: str, said: dict[str, Any], kept_s: float
) -> None:
    now, _ = await entered(bench, {"taskId": "1", **said}, era)
    register = bench.register
    place = Place("up", bench.pool.key("up", bench.context(principal=Principal("ann")).owner), "1")
    now.at = kept_s - 1
    assert register.near(place) == Principal("ann").key
    now.at = kept_s + 1
    assert register.near(place) is None


async def test_a_task_is_its_makers_alone_and_only_while_it_may_use_the_server(
    bench: Bench,
) -> None:
    await entered(bench, {"taskId": "1"})
    owned = TaskOwnership(bench.pool, bench.register)
    direct = Endpoint("server", "up")

    async def found(who: str, task: str, endpoint: Endpoint = ALL) -> tuple[str, str] | None:
        return await owned.located(bench.context(endpoint=endpoint, principal=Principal(who)), task)

    assert await found("ann", "up:1") == await found("ann", "1", direct) == ("up", "1")
    for who, task, endpoint in (
        ("bob", "up:1", ALL), ("bob", "1", direct), ("ann", "1", ALL), ("ann", "up:1", direct),
        ("ann", "up:2", ALL), ("ann", "else:1", ALL),
    ):  # fmt: skip
        assert await found(who, task, endpoint) is None, (who, task)
    bench.gateway.reconfigure(policy=Policy([Rule(who=("ann",), allow=("else__*",))]))
    assert await found("ann", "up:1") is None
