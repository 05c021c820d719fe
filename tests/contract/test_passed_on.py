"""What reaches an upstream as its client said it, beside requests that it answers."""

from __future__ import annotations

import pytest

from armory.errors import UpstreamUnavailable
from armory.protocol.link import RESOURCE_META, Owner
from armory.upstreams.spec import UpstreamSpec
from tests.contract.links import Rig, raw

pytestmark = pytest.mark.anyio
VENDOR = "notifications/vendor"


async def test_a_notification_reaches_the_session_that_serves_its_client(rig: Rig) -> None:
    await rig.pool.notify("up", rig.owner, VENDOR, {"a": raw([1.5, None])})
    said = [one for one in (await rig.report())["said"] if one[0] == VENDOR]
    assert said == ([] if rig.modern else [[VENDOR, {"a": [1.5, None]}]])


async def test_one_that_has_failed_too_often_is_not_tried_with_notifications(legacy: Rig) -> None:
    gone = UpstreamSpec("up", command="/nonexistent", breaker_failures=2)
    await legacy.pool.update([gone])
    for _ in range(2):
        with pytest.raises(UpstreamUnavailable, match="nonexistent"):
            await legacy.pool.notify("up", legacy.owner, VENDOR, {})
    with pytest.raises(UpstreamUnavailable, match="too often"):
        await legacy.pool.notify("up", legacy.owner, VENDOR, {})
    with pytest.raises(UpstreamUnavailable, match="no upstream"):
        await legacy.pool.notify("away", legacy.owner, VENDOR, {})


async def test_what_a_client_says_beside_a_subscription_goes_with_it(legacy: Rig) -> None:
    owner: Owner = legacy.owner
    before = RESOURCE_META.set(("mem://one", raw({"x/y": 1.5})))
    await legacy.pool.set_subscriptions("up", owner, frozenset({"mem://one", "mem://two"}))
    await legacy.pool.set_subscriptions("up", owner, frozenset({"mem://two"}))
    RESOURCE_META.reset(before)
    await legacy.pool.set_subscriptions("up", owner, frozenset({"mem://one", "mem://two"}))
    with_meta = {"uri": "mem://one", "_meta": {"x/y": 1.5}}
    said = [one for one in (await legacy.report())["said"] if one[0].startswith("resources/")]
    assert said == [
        ["resources/subscribe", with_meta],
        ["resources/subscribe", {"uri": "mem://two"}],
        ["resources/unsubscribe", with_meta],
        ["resources/subscribe", {"uri": "mem://one"}],
    ]
