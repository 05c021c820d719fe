"""Filters an upstream's answers at its own endpoint: its groups, its manifest, its definitions.

Owns: taking out of such answers what the caller may not see, and what no list shows (withheld,
left out), in steps; an answer that cannot be looked into is refused. Definitions are those of
`tools/list`: others were neither pinned nor looked at. Never imports a transport.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable

import msgspec
from msgspec import Raw

from armory.domain.groups import OwnGroup
from armory.gateway.context import RequestContext
from armory.gateway.views.definitions import Form
from armory.protocol.codes import RESOURCE_NOT_FOUND
from armory.protocol.errors import RpcError
from armory.protocol.link import Reply
from armory.protocol.rawjson import few_items, members_or_none, need_members, pack, text_of
from armory.tasks import step_by_step

_MOST = 20_000
"""Entries of one list that are checked; of a longer list nothing is shown."""
_PIECE_BYTES, _ENTRY_BYTES = 16 * 1024, 256
"""Bytes of entries that are checked in one round of the event loop, and those that each entry
counts for beside its own: checking one long URI takes as long as checking many short ones."""
_CONTENTS = frozenset(("tools", "prompts", "resources", "groups"))
"""What a group has in it, as the draft knows it."""
Members = dict[str, Raw]
Shown = Callable[[Members, Raw], Raw | None]
"""An entry as the caller sees it; None: it sees none."""
_Steps = Generator[None, None, None]


async def manifest_seen(context: RequestContext, reply: Reply) -> Reply:
    """An answer to `tools/manifest`."""
    return await _with(reply, lambda result: _only(result, "entries", _named(context)))


async def definitions_seen(context: RequestContext, reply: Reply) -> Reply:
    """An answer to `tools/describe`."""
    return await _with(reply, lambda result: _only(result, "tools", _defined(context)))


async def groups_seen(context: RequestContext, reply: Reply) -> Reply:
    """An answer to `groups/list`."""
    return await _with(reply, lambda result: _only(result, "groups", _grouped(context)))


async def group_seen(context: RequestContext, name: str, reply: Reply) -> Reply:
    """An answer to `groups/get`.

    Raises:
        RpcError: the caller sees nothing of what is in it.
    """

    def seen(result: Members) -> _Steps:
        if "contents" not in result:
            return
        contents = need_members(result["contents"])
        if not context.view.servers.sees_whole(context):  # of others nobody can tell whose they are
            contents = {name: raw for name, raw in contents.items() if name in _CONTENTS}
        before = _count(contents)
        yield from _only(contents, "tools", _defined(context))
        yield from _only(contents, "prompts", _prompt(context))
        yield from _only(contents, "resources", _resource(context))
        yield from _only(contents, "groups", _grouped(context))
        if before and not _count(contents):
            raise RpcError(RESOURCE_NOT_FOUND, f"Group not found: {name[:200]}", {"name": name})
        result["contents"] = pack(contents)

    return await _with(reply, seen)


async def _with(reply: Reply, change: Callable[[Members], _Steps]) -> Reply:
    if reply.result is None:
        return reply
    result = need_members(reply.result)
    await step_by_step(change(result))
    return Reply(pack(result), era=reply.era)


def _only(result: Members, member: str, shown: Shown) -> _Steps:
    if member not in result:
        return
    seen: list[Raw] = []
    looked_at = 0
    for entry in _entries(result[member]):
        looked_at += _ENTRY_BYTES + len(memoryview(entry))
        if looked_at > _PIECE_BYTES:
            looked_at = 0
            yield
        found = shown(members_or_none(entry) or {}, entry)
        if found is not None:
            seen.append(found)
    result[member] = pack(seen)


def _entries(raw: Raw) -> list[Raw]:
    try:
        return few_items(raw, _MOST)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return []


def _count(contents: Members) -> int:
    return sum(len(_entries(raw)) for raw in contents.values())


def _named(context: RequestContext) -> Shown:
    view = context.view
    return lambda opened, entry: entry if view.tool(context, _name(opened)) else None


def _defined(context: RequestContext) -> Shown:
    """Shows definitions, each once: a small answer could repeat one many times."""
    view, form = context.view, Form(context.era, original=True, headers=True)
    seen_names = set[str]()

    def shown(opened: Members, _entry: Raw) -> Raw | None:
        name = _name(opened)
        record = None if name in seen_names else view.tool(context, name)
        seen_names.add(name)
        return None if record is None else Raw(view.listed.tool(record.name, form))

    return shown


def _prompt(context: RequestContext) -> Shown:
    view = context.view
    return lambda opened, entry: entry if view.prompt(context, _name(opened)) else None


def _resource(context: RequestContext) -> Shown:
    view, server = context.view, context.endpoint.name

    def shown(opened: Members, entry: Raw) -> Raw | None:
        uri = text_of(opened, "uri") or ""
        return entry if view.may_read(context, server, uri) else None

    return shown


def _grouped(context: RequestContext) -> Shown:
    """Shows groups of which the caller sees a tool. Groups with unknown contents are shown to
    callers that see the whole server.
    """
    view, server = context.view, context.endpoint.name
    lists = view.catalog.servers.get(server)
    tools = {group.name: group for group in _all(lists.groups if lists is not None else ())}
    whole = view.servers.sees_whole(context)
    judged: dict[str, bool] = {}

    def seen(name: str) -> bool:
        known = tools.get(name)
        if known is None or not (names := [*known.everything()]):
            return whole
        return any(view.tool(context, each) for each in names)

    def shown(opened: Members, entry: Raw) -> Raw | None:
        name = _name(opened)
        if name not in judged:
            judged[name] = seen(name)
        return entry if judged[name] else None

    return shown


def _all(groups: Iterable[OwnGroup]) -> Iterable[OwnGroup]:
    for group in groups:
        yield group
        yield from _all(group.groups)


def _name(opened: Members) -> str:
    return text_of(opened, "name") or ""
