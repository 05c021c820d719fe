"""The table of all methods that clients may send, and how each is served.

Owns: the table, and how large what Armory answers itself may be. Never imports a transport.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

from msgspec import UNSET, Raw

from armory.gateway.context import RequestContext
from armory.gateway.gateway import Gateway, OwnLists
from armory.gateway.lists.entries import list_entries
from armory.protocol import codes
from armory.protocol.errors import Malformed
from armory.protocol.jsonrpc import BEGINNING_BYTES, NULL, Message, opening_message
from armory.protocol.link import Reply
from armory.protocol.methods import LISTEN
from armory.protocol.rawjson import EMPTY_OBJECT
from armory.protocol.versions import Era
from armory.wire.eras.handshakes import discover_result, initialize_result

Handler = Callable[[RequestContext, dict[str, Raw]], Coroutine[Any, Any, Reply]]
BOTH: frozenset[Era] = frozenset(("modern", "legacy"))
MODERN: frozenset[Era] = frozenset(("modern",))
LEGACY: frozenset[Era] = frozenset(("legacy",))
OWN_BYTES = 1 << 20
"""Limit of `params` that Armory itself reads: no handshake, list or subscription needs more."""


@dataclass(frozen=True, slots=True)
class Route:
    """How one method is served.

    Attributes:
        handler: gives the function that answers; None: the transport serves it itself.
        eras: in which eras the method exists.
        named: the parameter that the `Mcp-Name` header repeats, or None.
        own_lists: what of the lists that a principal has to itself has to be there; see
            `Gateway.context`.
        forwarded: whether one upstream answers it; its answer is put in the shape of the client's
            era.
        relayed: whether the gateway, which answers it, may also send it to an upstream, with what
            its `_meta` says for upstreams.
        interactive: whether the server may ask the client for input before it answers.
        cacheable: whether modern results carry `ttlMs` and `cacheScope`.
    """

    handler: Callable[[Gateway], Handler] | None
    eras: frozenset[Era] = BOTH
    named: str | None = None
    own_lists: OwnLists = "known"
    forwarded: bool = False
    relayed: bool = False
    interactive: bool = False
    cacheable: bool = False


async def _ping(_context: RequestContext, _params: dict[str, Raw]) -> Reply:
    return Reply(EMPTY_OBJECT, era="legacy")


def _initialize(gateway: Gateway) -> Handler:
    async def answer(context: RequestContext, _params: dict[str, Raw]) -> Reply:
        described = gateway.description.of_endpoint(context)
        return Reply(initialize_result(context.version, described), era="legacy")

    return answer


def _discover(gateway: Gateway) -> Handler:
    async def answer(context: RequestContext, _params: dict[str, Raw]) -> Reply:
        return Reply(discover_result(gateway.description.of_endpoint(context)), era="modern")

    return answer


def _entries(method: str) -> Route:
    return Route(lambda _: partial(list_entries, method), own_lists="current", cacheable=True)


def _task(method: str, eras: frozenset[Era] = BOTH, named: str | None = "taskId") -> Route:
    return Route(
        lambda gateway: partial(gateway.primitives.task, method), eras, named, forwarded=True
    )


METHODS: Mapping[str, Route] = MappingProxyType(
    {
        "initialize": Route(_initialize, LEGACY, own_lists="unused"),
        "ping": Route(lambda _: _ping, LEGACY, own_lists="unused"),
        "server/discover": Route(_discover, MODERN, own_lists="unused", cacheable=True),
        "logging/setLevel": Route(
            lambda gateway: gateway.session_methods.set_log_level, LEGACY, own_lists="unused"
        ),
        "resources/subscribe": Route(
            lambda gateway: gateway.session_methods.subscribe,
            LEGACY,
            own_lists="unused",
            relayed=True,
        ),
        "resources/unsubscribe": Route(
            lambda gateway: gateway.session_methods.unsubscribe,
            LEGACY,
            own_lists="unused",
            relayed=True,
        ),
        LISTEN: Route(None, MODERN),
        "tools/list": Route(
            lambda gateway: gateway.tool_lists.list, own_lists="current", cacheable=True
        ),
        "tools/call": Route(
            lambda gateway: gateway.tool_calls.call, named="name", forwarded=True, interactive=True
        ),
        "prompts/list": _entries("prompts/list"),
        "prompts/get": Route(
            lambda gateway: gateway.primitives.get_prompt,
            named="name",
            forwarded=True,
            interactive=True,
        ),
        "resources/list": _entries("resources/list"),
        "resources/templates/list": _entries("resources/templates/list"),
        "resources/read": Route(
            lambda gateway: gateway.primitives.read_resource,
            named="uri",
            forwarded=True,
            interactive=True,
            cacheable=True,
        ),
        "skills/list": Route(
            lambda gateway: gateway.skills.list, own_lists="current", cacheable=True
        ),
        "skills/get": Route(lambda gateway: gateway.skills.get, forwarded=True, cacheable=True),
        "resources/directory/read": Route(
            lambda gateway: gateway.skills.read_directory, forwarded=True
        ),
        "tools/manifest": Route(
            lambda gateway: gateway.manifest.index,
            own_lists="current",
            forwarded=True,
            cacheable=True,
        ),
        "tools/describe": Route(
            lambda gateway: gateway.manifest.describe, own_lists="current", forwarded=True
        ),
        "groups/list": Route(
            lambda gateway: gateway.groups.list,
            own_lists="current",
            forwarded=True,
            cacheable=True,
        ),
        "groups/get": Route(lambda gateway: gateway.groups.get, forwarded=True),
        "completion/complete": Route(lambda gateway: gateway.primitives.complete, forwarded=True),
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


def refuse_large(message: Message) -> None:
    """Refuse parameters that are too large for their method, before they are decoded: for a message
    of 1 MB that takes a millisecond each time.

    Raises:
        Malformed: they have more than `OWN_BYTES`, and Armory answers the method itself.
    """
    if message.params is not UNSET:
        _refuse(message, len(memoryview(message.params)))


def refuse_begun(head: bytes, size: int) -> None:
    """As `refuse_large`, for a body of which only the beginning has arrived.

    Args:
        head: its first bytes.
        size: bytes that it will have.

    Raises:
        Malformed: as above; what stands before the method and behind the parameters counts.
    """
    if size > OWN_BYTES + BEGINNING_BYTES and (message := opening_message(head)) is not None:
        _refuse(message, size)


def _refuse(message: Message, size: int) -> None:
    route = METHODS.get(str(message.method)) if size > OWN_BYTES else None
    if route is not None and not route.forwarded:
        raise Malformed(
            codes.INVALID_PARAMS,
            f"params of {message.method} have {size:,} bytes; expected at most {OWN_BYTES:,}",
            message.key or NULL,
        )
