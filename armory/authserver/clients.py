"""OAuth clients and their dynamic registration (RFC 7591), without a table.

Owns: what a client may say of itself, its id, and those whom the operator registered. Never fetches
anything.

The id of a client that registers is what it said, sealed: so replicas know it without a database,
and registering without end fills nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from armory.authserver import redirects
from armory.authserver.errors import OAuthError, UnusableClient
from armory.authserver.settings import KnownClient
from armory.domain.encoding import decoded, encoded
from armory.oauth.metadata import text, texts

if TYPE_CHECKING:
    from armory.security.sealing import Seal

AuthMethod = Literal["none", "client_secret_basic", "client_secret_post", "private_key_jwt"]
METHODS: tuple[AuthMethod, ...] = ("none", "client_secret_basic", "client_secret_post")
_PREFIX, _PURPOSE, _SECRET = "armory_client_", "oauth client", "oauth client secret"
_MAX_NAME, _MAX_REDIRECTS, _MAX_SEALED = 100, 10, 1_500
_DEFAULT_NAME = "a client without a name"
OWN = f"{_PREFIX}own"
_OWN_DIGEST = hashlib.sha256(OWN.encode()).hexdigest()


class Client(msgspec.Struct, frozen=True):
    """One OAuth client.

    Attributes:
        id: its id; of a client that is known by its document, the document's URL.
        name: what it calls itself; nobody has checked it.
        redirects: where it may have people sent back to.
        method: how it proves who it is at the token endpoint.
        host: of its document, which vouches for it, in ASCII; "": it has none.
        keys: where its public keys are (a URL), or they themselves (JWKS); "": it has none.
    """

    id: str
    name: str
    redirects: tuple[str, ...]
    method: AuthMethod = "none"
    host: str = ""
    keys: str = ""

    @property
    def digest(self) -> str:
        """A short unique id that codes and tokens are bound to."""
        return hashlib.sha256(self.id.encode()).hexdigest()

    @property
    def registered_itself(self) -> bool:
        """Whether it did; else it is known by its document, or the operator registered it."""
        return self.id.startswith(_PREFIX)


def is_own(digest: str) -> bool:
    """Whether a digest is that of the gateway's own pages."""
    return digest == _OWN_DIGEST


def own(issuer: str) -> Client:
    """The gateway's own pages as a client. Their codes are redeemed inside the gateway; the token
    endpoint does not know this client.
    """
    pages = (f"{issuer}/console/", f"{issuer}/connect/callback")
    return Client(OWN, "The pages of this gateway", pages)


class _Registration(msgspec.Struct, frozen=True, array_like=True):
    name: str
    redirects: tuple[str, ...]
    method: AuthMethod
    at: int


def printable(name: str) -> str:
    """A name chosen by a stranger, in a form that is safe to show."""
    kept = "".join(c for c in name if c.isprintable()).strip()
    return kept[:_MAX_NAME] or _DEFAULT_NAME


def usable_redirects(metadata: Mapping[str, Any], patterns: Sequence[str]) -> tuple[str, ...]:
    """The redirect URIs in a client's metadata.

    Raises:
        OAuthError: there are none, too many, or one that is not allowed.
    """
    uris = tuple(dict.fromkeys(texts(metadata.get("redirect_uris"))))
    if not 1 <= len(uris) <= _MAX_REDIRECTS:
        raise OAuthError("invalid_redirect_uri", f"give 1 to {_MAX_REDIRECTS} redirect_uris")
    for uri in uris:
        wrong = redirects.problem(uri)
        if wrong is None and not redirects.is_allowed(uri, patterns):
            wrong = "the operator does not allow it (security.oauth.proxy.redirects)"
        if wrong is not None:
            raise OAuthError("invalid_redirect_uri", f"{uri[:200]!r}: {wrong}")
    return uris


class Registrations:
    """Dynamic registration; see the module.

    Args:
        seal: makes ids.
        patterns: of redirect URIs that are allowed.
        by_hand: clients that the operator registered.
    """

    def __init__(
        self,
        seal: Seal,
        patterns: Sequence[str] = (),
        by_hand: Mapping[str, KnownClient] | None = None,
    ) -> None:
        self._seal = seal
        self._patterns = patterns
        self._by_hand = by_hand or {}

    def register(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Register a client; returns the answer of RFC 7591, 3.2.1.

        Raises:
            OAuthError: its metadata cannot be taken.
        """
        uris = usable_redirects(asked, self._patterns)
        method = asked.get("token_endpoint_auth_method", "client_secret_basic")
        if method not in METHODS:
            method = "none"
        grants = texts(asked.get("grant_types")) or ["authorization_code"]
        if "authorization_code" not in grants:
            raise OAuthError("invalid_client_metadata", "grant_types lacks authorization_code")
        kinds = texts(asked.get("response_types")) or ["code"]
        if "code" not in kinds:
            raise OAuthError("invalid_client_metadata", "response_types lacks code")
        name = printable(text(asked.get("client_name")))
        now = int(time.time())
        sealed = self._seal.seal(
            msgspec.json.encode(_Registration(name, uris, method, now)), _PURPOSE
        )
        if len(sealed) > _MAX_SEALED:
            raise OAuthError("invalid_client_metadata", "redirect_uris are too long in all")
        client_id = _PREFIX + encoded(sealed)
        answer: dict[str, Any] = {
            "client_id": client_id,
            "client_id_issued_at": now,
            "client_name": name,
            "redirect_uris": uris,
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": method,
        }
        if method != "none":
            answer["client_secret"] = self._secret(client_id)
            answer["client_secret_expires_at"] = 0
        return answer

    def _secret(self, client_id: str) -> str:
        digest = hashlib.sha256(client_id.encode()).digest()
        return encoded(self._seal.seal(digest, _SECRET))

    def find(self, client_id: str) -> Client | None:
        """The client with an id; None: it was not registered, or is not allowed any more."""
        by_hand = self._by_hand.get(client_id)
        if by_hand is not None:
            method: AuthMethod = "client_secret_basic" if by_hand.client_secret else "none"
            return Client(client_id, by_hand.name or client_id, by_hand.redirects, method)
        sealed = decoded(client_id.removeprefix(_PREFIX))
        if not client_id.startswith(_PREFIX) or sealed is None:
            return None
        data = self._seal.open(sealed, _PURPOSE)
        if data is None:
            return None
        said = msgspec.json.decode(data, type=_Registration)
        allowed = tuple(u for u in said.redirects if redirects.is_allowed(u, self._patterns))
        return Client(client_id, said.name, allowed, said.method) if allowed else None

    def check(self, client: Client, secret: str) -> None:
        """Check a client's secret.

        Raises:
            UnusableClient: the secret does not match.
        """
        if client.method == "none":
            return
        by_hand = self._by_hand.get(client.id)
        if by_hand is not None:
            if not hmac.compare_digest(secret.encode(), by_hand.client_secret.encode()):
                raise UnusableClient("the client_secret is not the configured one")
            return
        sealed = decoded(secret)
        kept = None if sealed is None else self._seal.open(sealed, _SECRET)
        digest = hashlib.sha256(client.id.encode()).digest()
        if kept is None or not hmac.compare_digest(kept, digest):
            raise UnusableClient("the client_secret is not the one that was given")
