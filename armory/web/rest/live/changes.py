"""Tool definitions that changed under their name and are withheld, and approving them.

Owns: the routes. Decides nothing: pinning does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

from pydantic import Field

from armory.errors import AccessDenied
from armory.security.pinning import Changed
from armory.web.rest.live.access import LiveGateway
from armory.web.rest.problems import Problem
from armory.web.rest.routes import Answer, Reply, RestCall, Route, Shape

_SHOWN_LINES = 20_000
"""Lines of differences after which further tools are left to `armory approve`."""
_TOO_MUCH = "too much has changed to show it here; `armory approve` shows it"


class ChangeAnswer(Answer):
    """One tool whose definition is not the one that was pinned."""

    tool: str
    pinned: str = Field(description="Fingerprint of the definition that was pinned.")
    now: str = Field(description="Fingerprint of the present definition.")
    difference: list[str] = Field(
        description="Lines of a unified difference; empty where only the fingerprint is known."
    )


class Changes(Answer):
    """The withheld tools."""

    mode: Literal["off", "warn", "block"] = Field(
        description="`security.pinning`; tools are withheld with `block` alone."
    )
    changes: list[ChangeAnswer]


class Approval(Shape):
    """What is approved: the definition that was looked at, and no later one."""

    now: str = Field(
        min_length=1, max_length=200, description="Fingerprint of the definition that is approved."
    )


def routes(live: LiveGateway) -> list[Route]:
    """The routes of changes."""
    return [
        Route("GET", "/v1/changes", partial(_list, live), "Withheld tool definitions", Changes,
              access="admin", tag="gateway"),
        Route("POST", "/v1/changes/{tool}/approve", partial(_approve, live),
              "Take a changed definition as good", None, access="admin", tag="gateway",
              body=Approval, status=204,
              path_params={"tool": "Exposed name of the tool."}),
    ]  # fmt: skip


async def _list(live: LiveGateway, call: RestCall) -> Reply:
    pinning = live.pinning()
    if pinning is None:
        return Reply({"mode": "off", "changes": []})
    found = sorted(pinning.withheld.values(), key=lambda change: change.name)
    # of many large definitions that takes seconds
    return Reply({"mode": pinning.mode, "changes": await asyncio.to_thread(_all_shown, found)})


async def _approve(live: LiveGateway, call: RestCall) -> Reply:
    if call.principal.delegated:
        raise AccessDenied(
            "an approval outlasts the login with which you let this program in; give it in the "
            "console after logging in there, with `armory approve`, an API key or a static token"
        )
    name, pinning = call.path["tool"], live.pinning()
    change = None if pinning is None else pinning.withheld.get(name)
    if pinning is None or change is None:
        raise Problem(404, "unknown_tool", f"no definition of a tool {name!r} is withheld")
    if change.now != call.body.now:
        message = "the definition has changed again; look at it anew"
        raise Problem(422, "changed_again", message, parameter="now")
    await asyncio.to_thread(pinning.take, change)
    await live.tell_approved(change)
    await live.rebuild()
    return Reply(None, 204)


def _all_shown(changes: Sequence[Changed]) -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = []
    lines = 0
    for change in changes:
        difference = change.difference() if lines < _SHOWN_LINES else [_TOO_MUCH]
        lines += len(difference)
        shown.append(
            {
                "tool": change.name,
                "pinned": change.pinned,
                "now": change.now,
                "difference": difference,
            }
        )
    return shown
