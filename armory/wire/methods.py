"""One table: every method that a client may send, and how it is served.

Owns: the table. Never imports a transport.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

from msgspec import Raw

from armory.gateway.context import RequestContext
from armory.gateway.gateway import Gateway
from armory.protocol.link import Reply
from armory.protocol.rawjson import EMPTY_OBJECT
from armory.protocol.versions import Era
from armory.wire.eras.handshakes import discover_result, initialize_result

Handler = Callable[[RequestContext, dict[str, Raw]], Coroutine[Any, Any, Reply]]
OwnLists = Literal["unused", "known", "current"]
BOTH: frozenset[Era] = frozenset(("modern", "legacy"))
MODERN: frozenset[Era] = frozenset(("modern",))
LEGACY: frozenset[Era] = frozenset(("legacy",))


@dataclass(frozen=True, slots=True)
class Route:
    """How one method is served.

    Attributes:
        handler: gives the function that answers; None: the transport serves it itself.
        eras: in which eras the method exists.
        named: the parameter that the `Mcp-Name` header repeats, or None.
        own_lists: what of the lists that a principal has to itself has to be there: `known`, those
            that were had before; `current`, what they are by now.
        forwarded: whether one upstream answers it; its answer is put in the shape of the client's
            era.
        interactive: whether the server may ask the client for input before it answers.
        cacheable: whether modern results carry `ttlMs` and `cacheScope`.
    """

    handler: Callable[[Gateway], Handler] | None
    eras: frozenset[Era] = BOTH
    named: str | None = None
    own_lists: OwnLists = "known"
    forwarded: bool = False
    interactive: bool = False
    cacheable: bool = False


def _initialize(gateway: Gateway) -> Handler:
    async def answer(context: RequestContext, _params: dict[str, Raw]) -> Reply:
        described = gateway.described(context)
        return Reply(initialize_result(context.version, described), era="legacy")

    return answer


def _discover(gateway: Gateway) -> Handler:
    async def answer(context: RequestContext, _params: dict[str, Raw]) -> Reply:
        return Reply(discover_result(gateway.described(context)), era="modern")

    return answer


def _ping(_gateway: Gateway) -> Handler:
    async def answer(_context: RequestContext, _params: dict[str, Raw]) -> Reply:
        return Reply(EMPTY_OBJECT, era="legacy")

    return answer


def _listing(method: str) -> Route:
    return Route(
        lambda gateway: partial(gateway.list_entries, method), own_lists="current", cacheable=True
    )


def _task(method: str, eras: frozenset[Era] = BOTH, named: str | None = "taskId") -> Route:
    return Route(lambda gateway: partial(gateway.task_method, method), eras, named, forwarded=True)


METHODS: Mapping[str, Route] = MappingProxyType(
    {
        "initialize": Route(_initialize, LEGACY, own_lists="unused"),
        "ping": Route(_ping, LEGACY, own_lists="unused"),
        "server/discover": Route(_discover, MODERN, own_lists="unused", cacheable=True),
        "logging/setLevel": Route(None, LEGACY),
        "resources/subscribe": Route(None, LEGACY),
        "resources/unsubscribe": Route(None, LEGACY),
        "subscriptions/listen": Route(None, MODERN),
        "tools/list": Route(
            lambda gateway: gateway.list_tools, own_lists="current", cacheable=True
        ),
        "tools/call": Route(
            lambda gateway: gateway.call_tool, named="name", forwarded=True, interactive=True
        ),
        "prompts/list": _listing("prompts/list"),
        "prompts/get": Route(
            lambda gateway: gateway.get_prompt, named="name", forwarded=True, interactive=True
        ),
        "resources/list": _listing("resources/list"),
        "resources/templates/list": _listing("resources/templates/list"),
        "resources/read": Route(
            lambda gateway: gateway.read_resource,
            named="uri",
            forwarded=True,
            interactive=True,
            cacheable=True,
        ),
        "completion/complete": Route(lambda gateway: gateway.complete, forwarded=True),
        "tasks/get": _task("tasks/get"),
        "tasks/update": _task("tasks/update", MODERN),
        "tasks/cancel": _task("tasks/cancel"),
        "tasks/result": _task("tasks/result", LEGACY, None),
    }
)


def route(method: str, era: Era) -> Route | None:
    """The route of a method in an era; None where it has none there."""
    found = METHODS.get(method)
    return found if found is not None and era in found.eras else None


def exists_elsewhere(method: str, era: Era) -> bool:
    """Whether a method belongs to the other era only (and is therefore never passed on)."""
    found = METHODS.get(method)
    return found is not None and era not in found.eras


def named_parameter(method: str) -> str | None:
    """The parameter that `Mcp-Name` repeats for a method; None: there is none."""
    found = METHODS.get(method)
    return None if found is None else found.named
