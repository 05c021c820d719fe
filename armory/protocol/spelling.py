"""Parameter names in another spelling: for servers in Go, C# or C they may equal the protocol's,
and the last one wins, or the first.

Owns: which names are told apart from that, and refusing the others. What is decided on `name` must
not be done to `Name`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Raw

from armory.protocol.codes import INVALID_PARAMS
from armory.protocol.errors import RpcError

_NAMES = frozenset(
    (
        "_meta",
        "argument",
        "arguments",
        "context",
        "cursor",
        "inputResponses",
        "level",
        "name",
        "names",
        "ref",
        "requestState",
        "task",
        "taskId",
        "type",
        "uri",
        "value",
    )
)
_BY_FOLDED = {name.lower(): name for name in _NAMES}
_LONGEST = 2 * max(map(len, _NAMES))


def without(members: Mapping[str, Raw], names: Iterable[str]) -> dict[str, Raw]:
    """The members that no server takes for one of `names`."""
    taken = frozenset(map(_folded, names))
    return {name: raw for name, raw in members.items() if _folded(_read(name)) not in taken}


def _read(name: str) -> str:
    """A name as C reads it."""
    return name.partition("\0")[0]


def _folded(name: str) -> str:
    return name.upper().casefold()  # the sign for Kelvin is a k as well


def refuse_other_case(members: Mapping[str, Raw], where: str) -> None:
    """Refuse members that some servers would take for ones on which decisions are made.

    Args:
        members: of an object that goes to a server.
        where: what it is called in the error.

    Raises:
        RpcError: there is such a member.
    """
    if _NAMES.issuperset(members):
        return
    for name in members:
        spelt = _read(name)
        if name in _NAMES or len(spelt) > _LONGEST:
            continue
        meant = _BY_FOLDED.get(_folded(spelt))
        if meant is not None:
            raise RpcError(
                INVALID_PARAMS,
                f"{where}.{name} is not known; expected {meant!r}, which some servers take it for",
                {"parameter": f"{where}.{name}"},
            )
