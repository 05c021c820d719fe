"""Maps an upstream's answer to the client's names, and builds the results of failed calls.

Owns: `Answers`. Never imports a transport.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Generator, Sequence
from weakref import WeakValueDictionary

import msgspec
from msgspec import Raw

from armory.domain.naming import split_name
from armory.errors import ArmoryError, LoginNeeded, UnknownTool, UpstreamUnavailable
from armory.gateway.context import RequestContext
from armory.gateway.ports import OnCompacted, Pool
from armory.gateway.results.compact import compact_result, wants_toon
from armory.gateway.results.uri_rewriting import exposing_data, exposing_result
from armory.gateway.tasks.ownership import TaskOwnership
from armory.protocol.link import Reply
from armory.protocol.meta import ERROR
from armory.protocol.outline import LINKS, PIECE_BYTES, has_links, outlining
from armory.protocol.rawjson import encode, members_or_none, pack
from armory.protocol.scanning.values import at_once
from armory.tasks import step_by_step
from armory.threads import steps_for_callers

_LARGE_BYTES = 256 * 1024
"""Longer results with links are rewritten in a thread."""
_MANY_LINKS, _MANY_BYTES = 200, 16 * 1024
"""Results with more links than this are rewritten in a thread as well, from this many bytes on:
each link takes some microseconds."""
_SAYS_WHEN = re.compile(r"\bagain (in|when)\b|\bbegins anew\b")
"""In a message that says when to come back."""


class Answers:
    """Maps answers on their way to the client.

    Args:
        tasks: whose tasks are.
        on_compacted: called for each result that became smaller.
    """

    def __init__(self, tasks: TaskOwnership, on_compacted: OnCompacted) -> None:
        self._tasks = tasks
        self._on_compacted = on_compacted
        self._renaming: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def exposed(self, context: RequestContext, server: str, reply: Reply) -> Reply:
        """An upstream's answer in the client's names; a task that it created is recorded as the
        caller's.
        """
        if reply.short is None and takes_long(reply):
            await look_through(reply)
        transparent = context.endpoint.transparent
        linked = not transparent and has_links(reply.outline)
        if (transparent or linked) and b'"taskId"' in reply.outline:
            await self._tasks.note_made(context, server, reply)
        if transparent:
            return reply
        if reply.result is None:
            return await self._exposed_error(context, server, reply)
        result = reply.result
        configured = context.view.settings.result_formats.get(server, "json")
        if wants_toon(context.headers, configured):
            result = await compact_result(result, server, self._on_compacted)
        if result is reply.result and not linked:
            return reply
        large = _takes_a_while(result)
        exposed = await self._renamed(context, large, exposing_result(result, server))
        if exposed is reply.result:
            return reply
        short = reply.outline if large and result is reply.result else None  # the same keys
        return Reply(result=exposed, era=reply.era, short=short)

    async def _exposed_error(self, context: RequestContext, server: str, reply: Reply) -> Reply:
        if reply.error is None or not has_links(reply.error):
            return reply
        error = members_or_none(reply.error)
        data = None if error is None else error.get("data")
        if not error or data is None:
            return reply
        exposed = await self._renamed(context, _takes_a_while(data), exposing_data(data, server))
        error["data"] = exposed
        return Reply(error=pack(error), era=reply.era)

    async def _renamed(
        self, context: RequestContext, large: bool, steps: Generator[None, None, Raw]
    ) -> Raw:
        """The renamed result. Large ones of one caller are processed one after the other, so that
        other callers need not wait for all of them.
        """
        if not large:
            return at_once(steps)
        async with self._renaming.setdefault(context.principal.person, asyncio.Lock()):
            return await steps_for_callers(steps)

    async def own(self, context: RequestContext, origin: str, result: Raw) -> Reply:
        """A result of the gateway itself, as TOON where the request asks for that."""
        if wants_toon(context.headers):
            result = await compact_result(result, origin, self._on_compacted)
        return Reply(result=result)


def takes_long(reply: Reply) -> bool:
    """Whether computing its outline takes long."""
    result = reply.result
    return result is not None and reply.short is None and len(memoryview(result)) > PIECE_BYTES


async def look_through(reply: Reply) -> None:
    """Compute the outline of a large result in steps, so that other requests run in between."""
    if reply.result is not None:
        await asyncio.sleep(0)  # decoding it was a long step already
        reply.short = await step_by_step(outlining(reply.result))


def _takes_a_while(raw: Raw) -> bool:
    """Whether renaming the links in it takes long."""
    view = memoryview(raw)
    if not _MANY_BYTES < len(view) <= _LARGE_BYTES:
        return len(view) > _LARGE_BYTES
    return bytes(view).count(LINKS[0]) > _MANY_LINKS


def missing(pool: Pool, context: RequestContext, kind: str, name: str) -> ArmoryError:
    """The error for a name that is not listed: `not_known` if it applies, else `unknown`."""
    server, _ = split_name(name) or ("", "")
    return not_known(pool, context, kind, server, name) or unknown(kind, name)


def not_known(
    pool: Pool, context: RequestContext, kind: str, server: str, name: str
) -> UpstreamUnavailable | None:
    """The error where it is unknown whether the upstream has what was asked for, since it is down
    or gave this caller no lists. None: it is known.
    """
    view = context.view
    why = view.lists_failure(server)
    if (
        server in pool.servers()
        and (why or server not in view.catalog.servers)
        and context.endpoint.scope.has_tool(server, name)
        and view.policy.allows(context.principal, name)
    ):
        if why:
            return UpstreamUnavailable(why, upstream=server)
        return UpstreamUnavailable(
            f"upstream {server!r} is down, so that it is not known whether it has the {kind} "
            f"{_short(name)!r}",
            upstream=server,
        )
    return None


def unknown(kind: str, name: str) -> UnknownTool:
    """The error for what does not exist, and for what the caller may not see: the same."""
    return UnknownTool(f"unknown {kind}: {_short(name)}")


def _short(name: str) -> str:
    return name if len(name) <= 200 else name[:197] + "..."


def failed_call(error: ArmoryError) -> Reply:
    """A result that tells a model what went wrong and whether a retry makes sense."""
    text = error.told
    if error.retry_after_s is not None and _SAYS_WHEN.search(text) is None:
        stop = "" if text.endswith((".", "!", "?")) else "."
        text = f"{text}{stop} Try again in {_spelled(error.retry_after_s)}."
    details = {
        "code": error.code,
        "upstream": getattr(error, "upstream", "") or None,
        "retry_after_s": error.retry_after_s,
    }
    if isinstance(error, LoginNeeded) and error.url is not None:
        details["url"] = error.url
    result = {
        "content": [{"type": "text", "text": text}],
        "isError": True,
        "_meta": {ERROR: details},
    }
    return Reply(result=Raw(encode(result)))


def _spelled(seconds: float) -> str:
    minutes = math.ceil(seconds / 60)
    if minutes <= 2:
        return f"{max(1, math.ceil(seconds))} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def unknown_call(message: str, nearest: Sequence[str], *, search: bool) -> Reply:
    """A result that helps a model that called a tool by an unknown name.

    Args:
        message: what is unknown.
        nearest: names that come near and that it may call.
        search: whether it can search for tools.
    """
    text = f"{with_nearest(message, nearest)}."
    if search:
        text += " search_tools finds tools by what they do."
    result = {
        "content": [{"type": "text", "text": text}],
        "isError": True,
        "_meta": {ERROR: {"code": "unknown_tool", "nearest": list(nearest)}},
    }
    return Reply(result=Raw(encode(result)))


def with_nearest(message: str, nearest: Sequence[str]) -> str:
    """The message, with similar names."""
    return f"{message}; nearest: {', '.join(nearest)}" if nearest else message


class _Outcome(msgspec.Struct):
    isError: bool = False


_outcome = msgspec.json.Decoder(_Outcome)


def succeeded(reply: Reply) -> bool:
    """Whether a call succeeded: neither an error nor a result with `isError`."""
    if reply.well is None:
        reply.well = _went_well(reply)
    return reply.well


def _went_well(reply: Reply) -> bool:
    if reply.result is None:
        return False
    if reply.outline.find(b'"isError"') < 0:  # takes half of what `in` does
        return True
    try:
        return not _outcome.decode(reply.outline).isError
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return True
