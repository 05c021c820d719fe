"""API keys `acx_...`: shown once when created, stored as a hash, compared in constant time.

Owns: the form of a key and its whole life. Satisfies `security.authentication.Scheme`. Never logs
or returns a key after it was made.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Iterable

import msgspec
from sqlalchemy import insert, select, update
from sqlalchemy.exc import IntegrityError

from armory.accounts.limits import check_key_limit
from armory.accounts.listings import ApiKey, keys_listed
from armory.accounts.names import check_name
from armory.accounts.users import ENDED, KEY
from armory.domain.principal import Principal
from armory.errors import AuthenticationFailed, InvalidRequest
from armory.storage.cache import Cache
from armory.storage.changes import ChangeFeed
from armory.storage.database import Database, now_ms
from armory.storage.logins import forget_person
from armory.storage.readthrough import ReadThrough
from armory.storage.tables import api_keys, users

PREFIX = "acx_"
VALID_TTL_S = 300.0
INVALID_TTL_S = 60.0
_SECRET_CHARS = 43  # 32 random bytes
_FORM = re.compile(rf"{PREFIX}[A-Za-z0-9_-]{{{_SECRET_CHARS}}}")
_SHOWN_CHARS = 12
_SCOPE = re.compile(r"[A-Za-z0-9_.:/*-]{1,64}")
_REFUSED = "the API key is not valid: unknown, revoked or expired"


class _CachedKey(msgspec.Struct, frozen=True):
    """A cached lookup; without an id the key is invalid."""

    digest: str = ""
    id: str = ""
    user: str | None = None
    scopes: tuple[str, ...] = ()
    expires_at_ms: int | None = None


class ApiKeys:
    """The keys of one database.

    Args:
        database: where their hashes are.
        cache: where valid ones are kept 300 s and invalid ones 60 s.
        feed: tells every process of revocations.
        now_ms: the time, milliseconds since 1970.
    """

    def __init__(
        self,
        database: Database,
        cache: Cache,
        feed: ChangeFeed,
        *,
        now_ms: Callable[[], int] = now_ms,
    ) -> None:
        self._database = database
        self._feed = feed
        self._now_ms = now_ms
        self._kept: ReadThrough[_CachedKey] = ReadThrough(
            "key", _CachedKey, cache=cache, feed=feed, ttl_s=self._ttl_s
        )
        feed.subscribe(KEY, self._kept.invalidate)

    async def create(
        self,
        name: str,
        *,
        user: str | None = None,
        scopes: Iterable[str] = (),
        expires_at_ms: int | None = None,
    ) -> tuple[ApiKey, str]:
        """Create a key; returns it with its text, which cannot be read again later.

        Raises:
            InvalidRequest: an invalid name or scope, an expiry that has passed, an unknown user, or
                one that has too many keys.
        """
        check_name(name, "name")
        granted = _checked_scopes(scopes)
        now = self._now_ms()
        if expires_at_ms is not None and expires_at_ms <= now:
            raise InvalidRequest("the key would have expired already", parameter="expires_at_ms")
        text = PREFIX + secrets.token_urlsafe(32)
        made = ApiKey(
            secrets.token_hex(8), name, user, text[:_SHOWN_CHARS], granted, now, expires_at_ms
        )
        digest = digest_of(text)
        row = insert(api_keys).values(
            id=made.id,
            user_id=user,
            name=name,
            prefix=made.prefix,
            digest=digest,
            scopes=list(granted),
            created_at_ms=now,
            expires_at_ms=expires_at_ms,
        )
        try:
            async with self._feed.transaction() as change:
                await check_key_limit(change.connection, user, now)
                await change.connection.execute(row)
                change.changed(KEY, digest)
        except IntegrityError:
            message = "there is no such user; create it first"
            raise InvalidRequest(message, parameter="user") from None
        return made, text

    async def list(
        self, user: str | None = None, *, after: str = "", limit: int = 1_000
    ) -> list[ApiKey]:
        """Keys of one user, or of all, newest first, starting after the key `after`.

        Raises:
            InvalidRequest: there is no key `after` that these could come after.
        """
        listing = keys_listed(user, after=after, limit=limit)
        rows = await self._database.rows(listing.sql, listing.values)
        if after and not rows and not await self._is_of(after, user):
            raise InvalidRequest("there is no such key", parameter="after")
        return [listing.row(*row) for row in rows]

    async def _is_of(self, key_id: str, user: str | None) -> bool:
        async with self._database.read() as connection:
            found = select(api_keys.c.user_id).where(api_keys.c.id == key_id)
            row = (await connection.execute(found)).first()
        return row is not None and user in (None, row.user_id)

    async def revoke(self, key_id: str, *, user: str | None = None) -> bool:
        """Revoke a key in every process; returns whether there was such a key (of `user`, when
        given). For a key without a user, its logins at upstreams are deleted too: nobody else can
        use them.
        """
        chosen = api_keys.c.id == key_id
        if user is not None:
            chosen &= api_keys.c.user_id == user
        async with self._feed.transaction() as change:
            found = select(api_keys).where(chosen)
            row = (await change.connection.execute(found)).first()
            if row is None:
                return False
            if row.revoked_at_ms is None:
                ended = update(api_keys).where(chosen).values(revoked_at_ms=self._now_ms())
                await change.connection.execute(ended)
            if row.user_id is None:
                await forget_person(change, Principal(key_id, method="api_key").person)
            change.changed(KEY, row.digest)
            change.changed(ENDED, key_id)
        return True

    async def identify(self, credential: str) -> Principal | None:
        """The principal that a key belongs to; None when `credential` does not have the form of a
        key.

        Raises:
            AuthenticationFailed: no such key, or it is revoked or expired.
            BackendError: the database could not be asked.
        """
        if not credential.startswith(PREFIX):
            return None
        if _FORM.fullmatch(credential) is None:
            raise AuthenticationFailed(_REFUSED)
        digest = digest_of(credential)
        known = await self._kept.get(digest, lambda: self._load(digest))
        if not known.id or not hmac.compare_digest(known.digest, digest):
            raise AuthenticationFailed(_REFUSED)
        if known.expires_at_ms is not None and known.expires_at_ms <= self._now_ms():
            raise AuthenticationFailed(_REFUSED)
        until = None if known.expires_at_ms is None else known.expires_at_ms / 1000
        return Principal(known.id, known.user, frozenset(known.scopes), "api_key", until)

    async def _load(self, digest: str) -> _CachedKey:
        joined = api_keys.outerjoin(users, users.c.id == api_keys.c.user_id)
        statement = (
            select(api_keys, users.c.is_active)
            .select_from(joined)
            .where(api_keys.c.digest == digest)
        )
        async with self._database.read() as connection:
            row = (await connection.execute(statement)).first()
        if row is None or row.revoked_at_ms is not None or row.is_active is False:
            return _CachedKey()
        return _CachedKey(row.digest, row.id, row.user_id, tuple(row.scopes), row.expires_at_ms)

    def _ttl_s(self, known: _CachedKey) -> float:
        if not known.id:
            return INVALID_TTL_S
        if known.expires_at_ms is None:
            return VALID_TTL_S
        return min(VALID_TTL_S, (known.expires_at_ms - self._now_ms()) / 1000)


def _checked_scopes(scopes: Iterable[str]) -> tuple[str, ...]:
    """The scopes, each once.

    Raises:
        InvalidRequest: one has an invalid form.
    """
    granted = tuple(dict.fromkeys(scopes))
    for scope in granted:
        if _SCOPE.fullmatch(scope) is None:
            raise InvalidRequest(
                f"scope {scope[:40]!r}; expected 1 to 64 letters, digits or _.:/*-",
                parameter="scopes",
            )
    return granted


def digest_of(text: str) -> str:
    """SHA-256 (hex) of a key. A plain hash is enough: keys have 256 random bits, so no dictionary
    attack works.
    """
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
