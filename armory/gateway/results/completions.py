"""Filters the completions of a resource template: no values of URIs that policy forbids.

Owns: which URI a value stands for, and leaving values out of an answer. Never imports a transport.
Of what nobody can judge, nothing is shown: a template that its upstream does not list, or that is
too long, an argument that does not occur in it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from urllib.parse import quote

import msgspec
from msgspec import Raw

from armory.domain.naming import expose_uri
from armory.gateway.context import RequestContext
from armory.protocol.link import Reply
from armory.protocol.rawjson import NULL, few_items, members_or_none, pack, text_of, text_or_none

_MOST = 1_000
"""Values that are looked at; the standard allows 100. Of more nothing is shown."""
_AT_ONCE = 16
"""Values that are looked at in one round of the event loop."""
_CHARS, _VARIABLES_MOST = 2_048, 32
"""Longest template and longest value of a variable; most variables of a template. The whole
template is expanded twice for each value."""
_EXPRESSION = re.compile(r"\{([+#./;?&]?)([^{}]*)\}")
_MODIFIER = re.compile(r"\*|:[0-9]+")
_SEPARATORS = {"": ",", "+": ",", "#": ",", ".": ".", "/": "/", ";": ";", "?": "&", "&": "&"}
_NAMED = ";?&"
_RESERVED = ":/?#[]@!$&'()*+,;="


async def values_seen(
    context: RequestContext, server: str, template: str, params: Mapping[str, Raw], reply: Reply
) -> Reply:
    """An answer to `completion/complete` as the caller may see it.

    Args:
        context: the request.
        server: the upstream.
        template: what is completed, as the upstream writes it.
        params: of the request.
        reply: the upstream's answer.
    """
    if not context.view.policy.has_rules:
        return reply
    result = members_or_none(reply.result)
    completion = None if result is None else members_or_none(result.get("completion"))
    if result is None or completion is None:
        return reply
    listed = _items(completion.get("values", Raw(b"[]")))
    values = [text for raw in listed or () if (text := text_or_none(raw)) is not None]
    shown = await _shown(context, server, template, params, values)
    if listed is not None and len(shown) == len(listed):
        return reply
    completion["values"] = pack(shown)
    completion.pop("total", None)  # how many there are is not for the caller either
    result["completion"] = pack(completion)
    return Reply(pack(result), era=reply.era)


def _items(values: Raw) -> list[Raw] | None:
    try:
        return few_items(values, _MOST)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


async def _shown(
    context: RequestContext,
    server: str,
    template: str,
    params: Mapping[str, Raw],
    values: list[str],
) -> list[str]:
    argument = text_of(members_or_none(params.get("argument")) or {}, "name") or ""
    if expose_uri(server, template) not in context.view.catalog.templates:
        return []
    variables = _variables(template)
    if argument not in variables or len(variables) > _VARIABLES_MOST:
        return []
    given = members_or_none((members_or_none(params.get("context")) or {}).get("arguments")) or {}
    known = {
        name: text
        for name in variables
        if (text := text_or_none(given.get(name, NULL))) is not None
    }
    if any(len(text) > _CHARS for text in known.values()):
        return []

    def is_shown(value: str) -> bool:
        policy, whose = context.view.policy, context.principal
        uris = (expanded(template, {**known, argument: value}, raw=raw) for raw in (True, False))
        return any(
            policy.allows_uri(whose, server, uri)
            if complete
            else not policy.bars_uri(whose, server, uri)
            for uri, complete in uris
        )

    shown: list[str] = []
    for first in range(0, len(values), _AT_ONCE):
        some = values[first : first + _AT_ONCE]
        shown += [value for value in some if len(value) <= _CHARS and is_shown(value)]
        await asyncio.sleep(0)
    return shown


def expanded(template: str, known: Mapping[str, str], *, raw: bool) -> tuple[str, bool]:
    """Expand a URI template (RFC 6570): (the URI, whether all of it is known).

    Args:
        template: in it stays what has no value; what is optional goes.
        known: by variable.
        raw: whether values are written as they are; false: as a URI has them.
    """
    complete = True

    def filled(found: re.Match[str]) -> str:
        nonlocal complete
        operator, names = found[1], _names(found[2])
        safe = _RESERVED if operator in ("+", "#") and operator else ""
        values = {
            name: known[name] if raw else quote(known[name], safe=safe)
            for name in names
            if name in known
        }
        complete = complete and len(values) == len(names)
        if not values:
            return "" if operator and operator in f"{_NAMED}#" else found[0]
        shown = [f"{n}={v}" if operator and operator in _NAMED else v for n, v in values.items()]
        return ("" if operator == "+" else operator) + _SEPARATORS[operator].join(shown)

    return _EXPRESSION.sub(filled, template), complete


def _variables(template: str) -> list[str]:
    """The template's variables, with repetitions; none where the template is too long."""
    if len(template) > _CHARS:
        return []
    return [name for found in _EXPRESSION.finditer(template) for name in _names(found[2])]


def _names(listed: str) -> list[str]:
    return [_MODIFIER.sub("", name).strip() for name in listed.split(",")]
