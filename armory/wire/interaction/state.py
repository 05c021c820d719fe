"""Sealed request state, which clients send back with their answers.

Owns: `RequestStates`, what a state is bound to, and the refusal of one that does not fit. Never
imports a transport.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Mapping
from typing import Any, Literal, cast

import msgspec
from msgspec import Raw

from armory.gateway.context import RequestContext
from armory.logger import Logger
from armory.protocol import jsonrpc
from armory.protocol.codes import INVALID_PARAMS
from armory.protocol.errors import RpcError
from armory.protocol.rawjson import encode, text_of, value
from armory.wire.interaction.sealing import SECRET_BYTES, BrokenSeal, Seals, load_ciphers

_log = Logger(__name__)
_sorted = msgspec.json.Encoder(order="deterministic").encode
_SORTED_BYTES = 256 * 1024
"""Longer arguments count as equal only byte for byte: sorting their members takes long."""
_REFUSED = "Invalid or expired requestState"
_REASON = {"reason": "invalid_request_state"}
REFUSED_STATE = jsonrpc.error(INVALID_PARAMS, _REFUSED, _REASON)
"""The error that answers a request whose `requestState` cannot be used here."""
Kind = Literal["parked", "upstream", "again"]
"""What a retry goes on with: a call that is parked here, the upstream's own state, or the call from
its start, after the user visited a URL.
"""


class OwnedByReplica(Exception):
    """The call is parked at another replica, which alone can resume it."""

    def __init__(self, replica: str) -> None:
        super().__init__(replica)
        self.replica = replica


class Binding:
    """What request state is bound to: caller, endpoint and request.

    Attributes:
        method: of the request.
    """

    __slots__ = ("_context", "_digest", "_params", "method")

    def __init__(self, context: RequestContext, method: str, params: Mapping[str, Raw]) -> None:
        self._context = context
        self.method = method
        self._params = params
        self._digest: str | None = None

    @property
    def digest(self) -> str:
        """Its hash; equal for a request and its retry."""
        if self._digest is None:
            context, params = self._context, self._params
            endpoint = context.endpoint
            bound = [context.principal.key, endpoint.kind, endpoint.name, self.method]
            bound.extend(text_of(params, key) or "" for key in ("name", "uri"))
            hasher = hashlib.sha256(encode(bound))
            arguments = params.get("arguments")
            if arguments is not None:
                hasher.update(_canonical(arguments))
            self._digest = hasher.hexdigest()
        return self._digest


def _canonical(arguments: Raw) -> bytes:
    """Equal bytes for equal arguments; arguments that cannot be decoded (1e400), or only slowly, as
    they came.
    """
    if len(memoryview(arguments)) > _SORTED_BYTES:
        return bytes(arguments)
    try:
        return _sorted(cast("object", value(arguments)))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return bytes(arguments)


class RequestStates:
    """Seals request state and opens it again.

    Args:
        ttl_s: how long a state is good for, in seconds.
        replica: name of this replica among those that share the keys.

    Attributes:
        loaded: whether the ciphers are; before, sealing loads them, and holds up the event loop.
    """

    def __init__(self, ttl_s: float, replica: str) -> None:
        self._seals = Seals([os.urandom(SECRET_BYTES)])
        self._ttl_s = ttl_s
        self._replica = replica
        self.loaded = False

    async def load(self) -> None:
        """Load the ciphers in a thread, if they are not loaded."""
        if not self.loaded:
            await asyncio.to_thread(load_ciphers)
            self.loaded = True

    def seal_with(self, secret: bytes) -> None:
        """Seal with another secret from now on."""
        self._seals.seal_with(secret)

    def seal(self, kind: Kind, inner: str, binding: Binding) -> str:
        """The request state for a client."""
        claims = {
            "k": kind,
            "s": inner,
            "d": binding.digest,
            "r": self._replica,
            "e": time.time() + self._ttl_s,
        }
        return self._seals.seal(encode(claims))

    def unseal(self, sealed: str | None, binding: Binding) -> tuple[Kind, str]:
        """(kind, inner state) of a client's request state.

        Raises:
            RpcError: it is not ours, not for this request, or expired.
            OwnedByReplica: another replica parked the call.
        """
        if sealed is None:
            raise refused_state()
        try:
            claims: Any = value(self._seals.unseal(sealed))
        except (BrokenSeal, msgspec.DecodeError) as error:
            _log.rate_limited("info", "request_state_refused", reason=str(error))
            raise refused_state() from None
        fits, parked = claims["d"] == binding.digest, claims["k"] == "parked"
        if fits and parked and claims["r"] != self._replica:
            raise OwnedByReplica(claims["r"])
        # where it is parked, it is known how long it waits, whatever becomes of the clock
        if not fits or not (parked or time.time() < claims["e"]):
            _log.rate_limited(
                "info", "request_state_refused", reason="not for this request, or expired"
            )
            raise refused_state()
        return claims["k"], claims["s"]


def refused_state() -> RpcError:
    """The error for an invalid state."""
    return RpcError(INVALID_PARAMS, _REFUSED, _REASON)
