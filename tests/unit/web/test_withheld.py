"""Withheld definitions over REST."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from armory.gateway.gateway import Gateway
from armory.security.pinning import Changed, Pinning
from armory.web.rest.live.access import LiveGateway
from armory.web.rest.live.changes import routes

pytestmark = pytest.mark.anyio
LINES = 15_000


def changed(name: str) -> Changed:
    before, after = ({"enum": [f"{which}{n}" for n in range(LINES)]} for which in "ab")
    return Changed(name, "before", "after", before, after)


async def test_of_many_large_changes_the_first_are_shown(tmp_path: Path) -> None:
    pinning = Pinning(tmp_path / "pins.json", "block")
    pinning.withheld = {name: changed(name) for name in ("up__c", "up__a", "up__b")}
    live = LiveGateway(cast("Gateway", None), pinning=lambda: pinning)
    listing = next(route for route in routes(live) if route.method == "GET")
    answer: Any = await listing.handler(cast("Any", None))
    shown = {one["tool"]: one["difference"] for one in answer.body["changes"]}
    assert list(shown) == ["up__a", "up__b", "up__c"]
    assert len(shown["up__a"]) > 2 * LINES
    assert len(shown["up__b"]) == len(shown["up__c"]) == 1
    assert "armory approve" in shown["up__b"][0]
