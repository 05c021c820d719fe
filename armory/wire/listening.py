"""`subscriptions/listen` of modern clients: parsing, acknowledgement and frames.

Owns: reading the request, the acknowledgement, and the frames. Never imports a transport.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from armory.errors import ArmoryError
from armory.gateway.calls.forwarding import place_of
from armory.gateway.changes.changes import Changes
from armory.gateway.changes.resource_watches import MOST
from armory.gateway.context import RequestContext
from armory.gateway.gateway import Gateway
from armory.gateway.lists.groups import negotiated as groups_negotiated
from armory.gateway.subscription import Subscription
from armory.gateway.tasks.ownership import refuse_undeclared
from armory.logger import Logger
from armory.protocol import codes, jsonrpc
from armory.protocol import meta as meta_keys
from armory.protocol.errors import RpcError
from armory.protocol.link import Params, Refused
from armory.protocol.methods import ACKNOWLEDGED, GROUPS_CHANGED, LISTENED
from armory.protocol.rawjson import NULL, encode, members_or_none, pack
from armory.protocol.scanning.pieces import texts_in_pieces
from armory.tasks import shielded, start
from armory.wire.streams import EventStream

_log = Logger(__name__)
_TRUE = Raw(b"true")
_BEHIND = 256
_TASKS = 256
"""Tasks that one stream may follow."""
_LIST_BYTES = 512 * 1024
"""Longer lists are refused unread."""
_PIECE_BYTES = 16 * 1024
"""How much of a list is read in one turn of the event loop: a few thousand texts at the most."""
_AT_ONCE = 50
"""Resources that are looked at in one turn of the event loop."""


class ClientListening:
    """One `subscriptions/listen`: its subscriptions, and the frames for its transport.

    Args:
        id: the request's id, verbatim.
        context: the request.
        changes: where it is subscribed.
        lists: the list-changed methods that it wants.
        tasks: ids of its tasks that it wants to hear of, as the client names them.

    Attributes:
        stream: where frames go.
        principal: key of whose it is.
        subscription: what it hears of.
    """

    def __init__(
        self,
        id: bytes,
        context: RequestContext,
        changes: Changes,
        lists: frozenset[str],
        tasks: Iterable[str],
    ) -> None:
        self.id = id
        self.stream = EventStream("listen", keep_events=512, backlog=256)
        self.principal = context.principal.key
        self._early: list[tuple[str, Params]] | None = []
        self.subscription = Subscription(
            principal=context.principal,
            endpoint=context.endpoint,
            deliver=self.deliver,
            lists=lists,
            tasks=frozenset(tasks),
            answers=context.answers,
        )
        self._changes = changes
        self._meta = Raw(encode({meta_keys.SUBSCRIPTION_ID: Raw(id)}))

    def deliver(self, method: str, params: Params) -> None:
        """Queue one notification. A client too far behind loses its stream and listens anew.
        Notifications before the acknowledgement wait for it, since it is the first frame.
        """
        early = self._early
        waiting = self.stream.last - self.stream.delivered if early is None else len(early)
        if waiting >= _BEHIND:
            self.stream.close()
            return
        if early is not None:
            early.append((method, params))
            return
        own, said = self._meta, members_or_none(params.get("_meta"))
        if said:
            own = pack({**said, meta_keys.SUBSCRIPTION_ID: Raw(self.id)})
        self.stream.put(jsonrpc.notification(method, {**params, "_meta": own}))

    def acknowledge(self, uris: Sequence[str], tasks: Sequence[str] = ()) -> None:
        """Send the acknowledgement; `uris` and `tasks`: the resources and tasks that
        are honoured.
        """
        subscription = self.subscription
        honoured: dict[str, Any] = {
            key: True for key, method in LISTENED.items() if method in subscription.lists
        }
        if uris:
            honoured["resourceSubscriptions"] = uris
        if tasks:
            honoured["taskIds"] = tasks
        early, self._early = self._early or (), None
        self.deliver(ACKNOWLEDGED, {"notifications": pack(honoured)})
        for method, params in early:
            self.deliver(method, params)

    def result(self) -> bytes:
        """The frame that ends it properly."""
        return jsonrpc.response(self.id, encode({"resultType": "complete", "_meta": self._meta}))

    async def end(self) -> None:
        """Stop receiving changes."""
        try:
            await shielded(start(self._changes.remove(self.subscription), "end of listening"))
        finally:  # whoever ends it may be cancelled meanwhile, and it would hold this one for ever
            self.subscription.deliver = _unheard


def _unheard(_method: str, _params: Params) -> None:
    """Drops notifications after the end."""


async def start_listening(
    gateway: Gateway, context: RequestContext, id: bytes, params: Mapping[str, Raw]
) -> ClientListening:
    """Subscribe as a `subscriptions/listen` asks; the acknowledgement is on its stream.

    Raises:
        RpcError: `params.notifications` is no object, or a part of it has the wrong type or more
            than 512 KiB; it names tasks, and the client did not declare that it takes any.
        RateLimited: the caller has exceeded its rate.
    """
    await gateway.limiter.take(context.principal)
    wanted = members_or_none(params.get("notifications"))
    if wanted is None:
        raise RpcError(
            codes.INVALID_PARAMS,
            "params.notifications is not an object",
            {"parameter": "params.notifications"},
        )
    resources = await _texts(wanted, "resourceSubscriptions", MOST)
    named = await _texts(wanted, "taskIds", _TASKS)
    if named:
        refuse_undeclared(context)
    tasks: dict[str, tuple[str, str]] = {}
    for task in named:
        if (place := await gateway.tasks.located(context, task)) is not None:
            tasks[task] = place
    lists = frozenset(method for key, method in LISTENED.items() if wanted.get(key) == _TRUE)
    if not groups_negotiated(context):
        lists -= {GROUPS_CHANGED}
    listening = ClientListening(id, context, gateway.changes, lists, tasks)
    subscription = listening.subscription
    listening.stream.attach()
    gateway.changes.add(subscription)
    try:
        watched = await _watch(gateway, context, subscription, resources)
        followed = await _follow(gateway, context, subscription, tasks)
    except BaseException:
        await listening.end()
        raise
    listening.acknowledge(watched, followed)
    return listening


async def _follow(
    gateway: Gateway,
    context: RequestContext,
    subscription: Subscription,
    tasks: Mapping[str, tuple[str, str]],
) -> list[str]:
    """Follow the client's tasks; returns those that their servers report.

    Args:
        gateway: where it listens.
        context: its request.
        subscription: the client.
        tasks: (server, id there) of each task by the id that the client knows.
    """
    ids: dict[str, list[str]] = {}
    for server, id in tasks.values():
        ids.setdefault(server, []).append(id)
    follow, declared = gateway.changes.task_streams.follow, context.client.capabilities
    honoured = await asyncio.gather(
        *(follow(subscription, server, of_one, declared) for server, of_one in ids.items())
    )
    reported = dict(zip(ids, honoured, strict=True))
    return [task for task, (server, id) in tasks.items() if id in reported[server]]


async def _watch(
    gateway: Gateway, context: RequestContext, subscription: Subscription, resources: Sequence[str]
) -> list[str]:
    """Watch these resources; returns those that exist for the client."""
    uris: list[str] = []
    failed: list[str] = []
    for number, uri in enumerate(resources, 1):
        if number % _AT_ONCE == 0:
            await asyncio.sleep(0)
        place = place_of(context, uri)
        if place is None:
            failed.append("unknown resource: " + uri[:200])
            continue
        try:
            await gateway.changes.resources.add(subscription, *place)
        except (RpcError, ArmoryError, Refused) as error:
            failed.append(str(error)[:200])
        else:
            uris.append(uri)
    if failed:
        _log.rate_limited(
            "info", "resource_subscriptions_not_honoured", count=len(failed), first=failed[0]
        )
    return uris


async def _texts(wanted: Mapping[str, Raw], key: str, most: int) -> list[str]:
    """The first `most` strings of a list; the rest is not decoded."""
    raw = wanted.get(key)
    if raw is None or raw == NULL:
        return []
    where = f"params.notifications.{key}"
    size = len(memoryview(raw))
    if size > _LIST_BYTES:
        raise RpcError(
            codes.INVALID_PARAMS,
            f"{where} has {size:,} bytes; expected at most {_LIST_BYTES:,}",
            {"parameter": where},
        )
    found: list[str] = []
    try:
        for some in texts_in_pieces(raw, _PIECE_BYTES):
            found += some
            if len(found) >= most:
                break
            await asyncio.sleep(0)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise RpcError(
            codes.INVALID_PARAMS, f"{where} is not a list of strings", {"parameter": where}
        ) from None
    return found[:most]
