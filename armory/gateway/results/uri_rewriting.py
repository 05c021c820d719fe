"""Names inside results and notifications: URIs, `ui://` links and task ids, mapped the same way
everywhere.

Owns: rewriting on the way to the client, and of the task in a client's `_meta` on the way back.
Bytes are only opened where a scan finds a candidate. Never imports anything but the naming codec,
the raw JSON helpers and how threads rest.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Raw

from armory.domain.naming import expose_task, expose_uri, split_task
from armory.protocol.meta import RELATED_TASK, UI, UI_RESOURCE
from armory.protocol.outline import has_links
from armory.protocol.rawjson import encode, members_or_none, pack, pack_large, text_of
from armory.protocol.scanning.pieces import items_in_pieces
from armory.threads import rest

Members = dict[str, Raw]
_RELATED = encode(RELATED_TASK)
_LARGE_BYTES = 1 << 20
_SOON, _REST_S = 8, 0.03
"""After so many pieces of 64 KiB a thread rests between two, ten times as long as one takes: the
event loop waits for it after each of its own pauses, and nobody is in need of ten thousand links.
"""


def expose_result(raw: Raw, server: str) -> Raw:
    """A result of `server` with the exposed form of every URI, link and task id in it.

    Looks where the specification puts them: `content` blocks, prompt `messages`, resource
    `contents`, a `skill` and its files, a folder's `resources`, tasks, input requests, and the
    links of MCP Apps in `_meta`. Everything else stays verbatim.
    """
    return _exposed(raw, server, _body)


def expose_data(raw: Raw, server: str) -> Raw:
    """The `data` of an error of `server` likewise: it may name the resource or task that there is
    none of.
    """
    return _exposed(raw, server, _data)


def _exposed(raw: Raw, server: str, change: Callable[[Members, str], bool]) -> Raw:
    opened = members_or_none(raw) if has_links(raw) else None
    if opened is None or not change(opened, server):
        return raw
    return pack_large(opened) if len(memoryview(raw)) > _LARGE_BYTES else pack(opened)


def expose_params(params: Members, server: str) -> Members:
    """Parameters of a notification or request of `server`, likewise; a new dict where changed."""
    changed = dict(params)
    return changed if _body(changed, server) else params


def original_task(sent: Members, server: str) -> Members:
    """What a client sends to `server`, where its `_meta` names a task of that server's with the
    server's own id; a new dict where changed.
    """
    meta = sent.get("_meta")
    if meta is None or _RELATED not in bytes(memoryview(meta)):
        return sent
    changed = dict(sent)
    return changed if _inside(changed, "_meta", server, _related) else sent


def _related(meta: Members, server: str) -> bool:
    return _inside(meta, RELATED_TASK, server, _original)


def _original(task: Members, server: str) -> bool:
    place = split_task(text_of(task, "taskId") or "")
    if place is None or place[0] != server:
        return False
    task["taskId"] = pack(place[1])
    return True


def _data(data: Members, server: str) -> bool:
    changed = _set(data, "uri", server, expose_uri) | _set(data, "taskId", server, expose_task)
    return _body(data, server) or changed


def _body(body: Members, server: str) -> bool:
    """A result, or parameters; what has a status is a task itself."""
    changed = "status" in body and _task(body, server)
    changed |= _each(body, "content", server, _block)
    changed |= _each(body, "contents", server, _contents)
    changed |= _each(body, "messages", server, _message)
    changed |= _inside(body, "skill", server, _skill)
    changed |= _each(body, "resources", server, _contents)
    changed |= _inside(body, "task", server, _task)
    changed |= _each(body, "tasks", server, _task)
    changed |= _inside(body, "_meta", server, _meta)
    changed |= _inside(body, "result", server, _body)
    changed |= _inside(body, "inputRequests", server, _questions)
    return changed


def _questions(asked: Members, server: str) -> bool:
    """The input requests of a modern upstream, by key."""
    changed = False
    for key in asked:
        changed |= _inside(asked, key, server, _question)
    return changed


def _question(question: Members, server: str) -> bool:
    return _inside(question, "params", server, _body)


def _set(target: Members, key: str, server: str, expose: Callable[[str, str], str]) -> bool:
    text = text_of(target, key)
    if text is None:
        return False
    target[key] = Raw(encode(expose(server, text)))
    return True


def _inside(target: Members, key: str, server: str, change: Callable[[Members, str], bool]) -> bool:
    raw = target.get(key)
    if raw is None or bytes(memoryview(raw)[:1]) != b"{":
        return False
    opened = members_or_none(raw)
    if opened is None or not change(opened, server):
        return False
    target[key] = pack(opened)
    return True


def _each(target: Members, key: str, server: str, change: Callable[[Members, str], bool]) -> bool:
    raw = target.get(key)
    if raw is None:
        return False
    if bytes(memoryview(raw)[:1]) == b"{":  # sampling messages may carry one block bare
        return _inside(target, key, server, change)
    exposed = _items(raw, server, change) if has_links(raw) else None
    if exposed is not None:
        target[key] = exposed
    return exposed is not None


def _items(raw: Raw, server: str, change: Callable[[Members, str], bool]) -> Raw | None:
    """A list with what `change` made of its items; None: nothing. Very many in one go would keep
    the interpreter.
    """
    changed = False
    parts: list[bytes] = []
    try:
        for number, entries in enumerate(items_in_pieces(raw)):
            if number >= _SOON:
                rest(_REST_S)
            for place, entry in enumerate(entries):
                opened = members_or_none(entry) if has_links(entry) else None
                if opened is not None and change(opened, server):
                    entries[place] = pack(opened)
                    changed = True
            if entries:
                parts.append(encode(entries)[1:-1])
    except msgspec.DecodeError:
        return None
    return Raw(b"".join((b"[", b",".join(parts), b"]"))) if changed else None


def _block(block: Members, server: str) -> bool:
    kind = text_of(block, "type")
    changed = _inside(block, "_meta", server, _meta)
    if kind == "resource_link":
        changed |= _set(block, "uri", server, expose_uri)
    elif kind == "resource":
        changed |= _inside(block, "resource", server, _contents)
    elif kind == "tool_result":
        changed |= _each(block, "content", server, _block)
    return changed


def _contents(entry: Members, server: str) -> bool:
    changed = _set(entry, "uri", server, expose_uri)
    return _inside(entry, "_meta", server, _meta) or changed


def _skill(skill: Members, server: str) -> bool:
    changed = _set(skill, "uri", server, expose_uri)
    return _each(skill, "resources", server, _contents) or changed


def _message(message: Members, server: str) -> bool:
    return _each(message, "content", server, _block)


def _task(task: Members, server: str) -> bool:
    return _set(task, "taskId", server, expose_task)


def _meta(meta: Members, server: str) -> bool:
    changed = _inside(meta, RELATED_TASK, server, _task)
    changed |= _set(meta, UI_RESOURCE, server, expose_uri)
    return _inside(meta, UI, server, _ui) or changed


def _ui(ui: Members, server: str) -> bool:
    return _set(ui, "resourceUri", server, expose_uri)
