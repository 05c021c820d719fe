"""Which members of a client's `_meta` are passed on to the upstream.

Owns: taking out what belongs to the hop between client and gateway. Pure; never does I/O.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Raw

from armory.protocol.meta import HOP_KEYS, OWN_PREFIX, RELATED_TASK
from armory.protocol.rawjson import members_or_none, pack


def passed_meta(meta: Mapping[str, Raw], *, transparent: bool) -> dict[str, Raw]:
    """The members of a request's `_meta` that are passed on: vendor and trace keys."""
    return {
        key: raw
        for key, raw in meta.items()
        if key not in HOP_KEYS and (transparent or not key.startswith(OWN_PREFIX))
    }


def with_passed_meta(
    params: dict[str, Raw], meta: Mapping[str, Raw], *, transparent: bool
) -> dict[str, Raw]:
    """The parameters with `_meta` reduced to what is passed on."""
    if "_meta" in params:
        passed = passed_meta(meta, transparent=transparent)
        if passed:
            params["_meta"] = pack(passed)
        else:
            del params["_meta"]
    return params


def meta_alone(params: Mapping[str, Raw], *, transparent: bool) -> dict[str, Raw]:
    """The parameters of a notification that several upstreams get: what of `_meta` is passed on,
    without the task that it is about, which is one upstream's.
    """
    meta = members_or_none(params.get("_meta")) or {}
    passed = passed_meta(meta, transparent=transparent)
    passed.pop(RELATED_TASK, None)
    return {"_meta": pack(passed)} if passed else {}
