"""The format of codes and tokens: the id of a grant, sealed.

Owns: how they are written, and that no kind is taken for another. Never asks the store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from armory.domain.encoding import decoded, encoded

if TYPE_CHECKING:
    from armory.security.sealing import Seal

_MAX_TOKEN_CHARS = 4_096


class Kind(NamedTuple):
    """A kind of token.

    Attributes:
        prefix: that all of them begin with.
        purpose: for which they are sealed.
    """

    prefix: str
    purpose: str


CODE = Kind("armory_code_", "oauth code")
ACCESS = Kind("armory_at_", "oauth access token")
REFRESH = Kind("armory_rt_", "oauth refresh token")


class Handle(msgspec.Struct, frozen=True, array_like=True):
    """The sealed contents of a token.

    Attributes:
        grant: its id.
        step: at which the grant must be; of an access token the one at which it was given out.
        until: seconds since 1970.
        resource: that an access token is for.
    """

    grant: str
    step: int
    until: float
    resource: str = ""


class Tokens:
    """Writes and reads tokens.

    Args:
        seal: of the gateway.
    """

    def __init__(self, seal: Seal) -> None:
        self._seal = seal

    def token(self, kind: Kind, handle: Handle) -> str:
        """A token with these contents."""
        return kind.prefix + encoded(self._seal.seal(msgspec.json.encode(handle), kind.purpose))

    def handle(self, kind: Kind, token: str) -> Handle | None:
        """The contents of a token, even if it has expired; None: it is none of this kind."""
        if not token.startswith(kind.prefix) or len(token) > _MAX_TOKEN_CHARS:
            return None
        sealed = decoded(token.removeprefix(kind.prefix))
        data = None if sealed is None else self._seal.open(sealed, kind.purpose)
        return None if data is None else msgspec.json.decode(data, type=Handle)
