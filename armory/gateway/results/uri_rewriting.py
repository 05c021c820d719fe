"""Names inside results and notifications: URIs, `ui://` links and task ids, mapped the same way
everywhere.

Owns: rewriting on the way to the client, and of the task in a client's `_meta` on the way back.
Bytes are only opened where a scan finds a candidate, and long lists in steps. Never imports
anything but the naming codec and the raw JSON helpers.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

import msgspec
from msgspec import Raw

from armory.domain.naming import expose_task, expose_uri, split_task
from armory.protocol.meta import RELATED_TASK, UI, UI_RESOURCE
from armory.protocol.outline import has_links
from armory.protocol.rawjson import encode, members_or_none, pack, pack_large, text_of
from armory.protocol.scanning.pieces import items_in_pieces
from armory.protocol.scanning.values import at_once

Members = dict[str, Raw]
_LARGE_BYTES = 1 << 20
_Steps = Generator[None, None, bool]
_Change = Callable[[Members, str], bool | _Steps]
"""Maps names in an object, where it may hold a long list in steps of a piece of it; whether there
were any."""


def exposing_result(raw: Raw, server: str) -> Generator[None, None, Raw]:
    """A result of `server` with every URI, link and task id in its exposed form, in steps.

    Looks where the specification puts them: `content` blocks, prompt `messages`, resource
    `contents`, a `skill` and its files, a folder's `resources`, tasks, input requests, and the
    links of MCP Apps in `_meta`. Everything else stays verbatim.
    """
    return _exposing(raw, server, _body)


def exposing_data(raw: Raw, server: str) -> Generator[None, None, Raw]:
    """The `data` of an error of `server` likewise: it may name an unknown resource or task."""
    return _exposing(raw, server, _data)


def _exposing(raw: Raw, server: str, change: _Change) -> Generator[None, None, Raw]:
    opened = members_or_none(raw) if has_links(raw) else None
    if opened is None or not (yield from _changed(change(opened, server))):
        return raw
    return pack_large(opened) if len(memoryview(raw)) > _LARGE_BYTES else pack(opened)


def expose_params(params: Members, server: str) -> Members:
    """Parameters of a notification or request of `server`, likewise; a new dict where changed."""
    return at_once(exposing_params(params, server))


def exposing_params(params: Members, server: str) -> Generator[None, None, Members]:
    """As `expose_params`, in steps."""
    changed = dict(params)
    return changed if (yield from _body(changed, server)) else params


def original_task(sent: Members, server: str) -> Members:
    """What a client sends to `server`, with the server's own id where `_meta` names a task; a new
    dict where changed.
    """
    if "_meta" not in sent:
        return sent
    changed = dict(sent)
    return changed if at_once(_inside(changed, "_meta", server, _related)) else sent


def _related(meta: Members, server: str) -> _Steps:
    return (yield from _inside(meta, RELATED_TASK, server, _original))


def _original(task: Members, server: str) -> bool:
    place = split_task(text_of(task, "taskId") or "")
    if place is None or place[0] != server:
        return False
    task["taskId"] = pack(place[1])
    return True


def _data(data: Members, server: str) -> _Steps:
    changed = _set(data, "uri", server, expose_uri) | _set(data, "taskId", server, expose_task)
    return (yield from _body(data, server)) or changed


def _body(body: Members, server: str) -> _Steps:
    """A result, or parameters; what has a status is a task itself."""
    changed = "status" in body and _task(body, server)
    changed |= yield from _each(body, "content", server, _block)
    changed |= yield from _each(body, "contents", server, _contents)
    changed |= yield from _each(body, "messages", server, _message)
    changed |= yield from _inside(body, "skill", server, _skill)
    changed |= yield from _each(body, "resources", server, _contents)
    changed |= yield from _inside(body, "task", server, _task)
    changed |= yield from _each(body, "tasks", server, _task)
    changed |= yield from _inside(body, "_meta", server, _meta)
    changed |= yield from _inside(body, "result", server, _body)
    changed |= yield from _inside(body, "inputRequests", server, _questions)
    return changed


def _questions(asked: Members, server: str) -> _Steps:
    """The input requests of a modern upstream, by key."""
    changed = False
    for key in asked:
        changed |= yield from _inside(asked, key, server, _question)
    return changed


def _question(question: Members, server: str) -> _Steps:
    return (yield from _inside(question, "params", server, _body))


def _set(target: Members, key: str, server: str, expose: Callable[[str, str], str]) -> bool:
    text = text_of(target, key)
    if text is None:
        return False
    target[key] = Raw(encode(expose(server, text)))
    return True


def _inside(target: Members, key: str, server: str, change: _Change) -> _Steps:
    raw = target.get(key)
    if raw is None or bytes(memoryview(raw)[:1]) != b"{":
        return False
    opened = members_or_none(raw)
    if opened is None or not (yield from _changed(change(opened, server))):
        return False
    target[key] = pack(opened)
    return True


def _each(target: Members, key: str, server: str, change: _Change) -> _Steps:
    raw = target.get(key)
    if raw is None:
        return False
    if bytes(memoryview(raw)[:1]) == b"{":  # sampling messages may carry one block bare
        return (yield from _inside(target, key, server, change))
    exposed = (yield from _items(raw, server, change)) if has_links(raw) else None
    if exposed is not None:
        target[key] = exposed
    return exposed is not None


def _changed(made: bool | _Steps) -> _Steps:
    return made if isinstance(made, bool) else (yield from made)


def _items(raw: Raw, server: str, change: _Change) -> Generator[None, None, Raw | None]:
    """A list whose items were mapped by `change`; None: nothing changed."""
    changed = False
    parts: list[bytes] = []
    try:
        for number, entries in enumerate(items_in_pieces(raw)):
            if number and entries:  # within a long item there is nothing to do
                yield
            for place, entry in enumerate(entries):
                opened = members_or_none(entry) if has_links(entry) else None
                if opened is not None and (yield from _changed(change(opened, server))):
                    entries[place] = pack(opened)
                    changed = True
            if entries:
                parts.append(encode(entries)[1:-1])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return Raw(b"".join((b"[", b",".join(parts), b"]"))) if changed else None


def _block(block: Members, server: str) -> _Steps:
    kind = text_of(block, "type")
    changed = yield from _inside(block, "_meta", server, _meta)
    if kind == "resource_link":
        changed |= _set(block, "uri", server, expose_uri)
    elif kind == "resource":
        changed |= yield from _inside(block, "resource", server, _contents)
    elif kind == "tool_result":
        changed |= yield from _each(block, "content", server, _block)
    return changed


def _contents(entry: Members, server: str) -> _Steps:
    changed = _set(entry, "uri", server, expose_uri)
    return (yield from _inside(entry, "_meta", server, _meta)) or changed


def _skill(skill: Members, server: str) -> _Steps:
    changed = _set(skill, "uri", server, expose_uri)
    return (yield from _each(skill, "resources", server, _contents)) or changed


def _message(message: Members, server: str) -> _Steps:
    return (yield from _each(message, "content", server, _block))


def _task(task: Members, server: str) -> bool:
    return _set(task, "taskId", server, expose_task)


def _meta(meta: Members, server: str) -> _Steps:
    changed = yield from _inside(meta, RELATED_TASK, server, _task)
    changed |= _set(meta, UI_RESOURCE, server, expose_uri)
    return (yield from _inside(meta, UI, server, _ui)) or changed


def _ui(ui: Members, server: str) -> bool:
    return _set(ui, "resourceUri", server, expose_uri)
