"""From the blocks `accounts`, `storage` and `security` to accounts, and what hangs on them.

Owns: opening and closing accounts, the schemes of authentication that need them, and keeping the
indexed tools beside the catalogue's in the index. Never imports a transport.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

import structlog

from armory.accounts.registry import ToolRegistry
from armory.accounts.service import Accounts, AccountSettings
from armory.config import Config, Loaded
from armory.domain.principal import Principal
from armory.domain.query import Query, VisibleSet
from armory.domain.results import Listing
from armory.domain.tool import ToolRecord
from armory.errors import ArmoryError, BackendError
from armory.gateway.ports import ToolEvents
from armory.retrieval.ports import FloatArray
from armory.retrieval.ranking.answer import Ranking
from armory.retrieval.retriever import Retriever
from armory.runtime.catalogue import Searchable
from armory.security.authentication import Scheme
from armory.security.jwt import JwtScheme
from armory.storage.database import Database
from armory.storage.opening import make_cache

_log = structlog.get_logger(__name__)
FIRST_CHANGE_S = 5.0
AGAIN_S = 2.0
"""Seconds between two attempts to open a database that is away."""


def make_accounts(loaded: Loaded) -> Accounts:
    """The accounts that the configuration describes; nothing is opened yet.

    Raises:
        ConfigError: a URL or a pattern does not hold, or an extra is missing.
    """
    config = loaded.config
    log = config.observability.query_log
    return Accounts(
        Database(config.storage.url),
        make_cache(config.storage.redis),
        AccountSettings(
            enabled=config.accounts.enabled,
            default_plan=config.accounts.default_plan,
            plans={name: plan.queries_limit for name, plan in config.accounts.plans.items()},
            query_log=log.enabled,
            retention_days=log.retention_days,
            redact=tuple(log.redact),
        ),
    )


class Opening:
    """Accounts on their way to being open.

    Attributes:
        away: why they are not open, as their database says it; None once they are.

    Args:
        accounts: not open yet.
        again_s: seconds between two attempts.
    """

    def __init__(self, accounts: Accounts, *, again_s: float = AGAIN_S) -> None:
        self.away: str | None = None
        self._accounts = accounts
        self._again_s = again_s

    async def attempt(self) -> None:
        """Try once; `away` says how that went.

        Raises:
            ConfigError: the database was written by a newer Armory.
        """
        before, self.away = self.away, None
        try:
            await self._accounts.open()
        except BackendError as error:
            self.away = error.message
            if before != self.away:
                _log.warning("database_away", error=error.message, again_s=self._again_s)
            return
        if before is not None:
            _log.info("database_reached")

    async def run(self) -> None:
        """Try until they are open, then keep them going."""
        while self.away is not None:
            await asyncio.sleep(self._again_s)
            try:
                await self.attempt()
            except ArmoryError as error:
                self.away = error.message
                _log.error("database_refused", error=error.message)
        await self._accounts.run()


@asynccontextmanager
async def opened(accounts: Accounts) -> AsyncGenerator[Opening]:
    """Accounts open and kept going for as long as the context lasts.

    A database that cannot be reached is tried again and again: the gateway serves what needs no
    account meanwhile, and statistics and the query log begin when it is there.

    Args:
        accounts: not open yet.

    Raises:
        ConfigError: the database was written by a newer Armory.
    """
    opening = Opening(accounts)
    try:
        await opening.attempt()
    except ArmoryError:
        await accounts.close()
        raise
    task = asyncio.create_task(opening.run(), name="accounts")
    try:
        if opening.away is None:
            await accounts.feed.wait_trusted(FIRST_CHANGE_S)
        yield opening
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await accounts.close()


def accounts_needed(config: Config) -> bool:
    """Whether somebody's access depends on the accounts database."""
    return config.accounts.enabled or config.security.api_keys


def schemes(config: Config, accounts: Accounts | None) -> list[Scheme]:
    """Ways to authenticate beside static tokens.

    Raises:
        ConfigError: the block `security.jwt` does not fit itself.
    """
    found: list[Scheme] = []
    if accounts is not None and config.security.api_keys:
        found.append(accounts.keys)
    if config.security.jwt is not None:
        found.append(jwt_scheme(config))
    return found


def jwt_scheme(config: Config) -> JwtScheme:
    """The check of session tokens.

    Raises:
        ConfigError: its keys do not fit each other.
    """
    block = config.security.jwt
    assert block is not None
    algorithms = tuple(block.algorithms)
    if block.secret is not None and "algorithms" not in block.model_fields_set:
        algorithms = ("HS256",)
    return JwtScheme(
        issuer=block.issuer,
        audience=block.audience,
        jwks_url=block.jwks_url,
        secret=None if block.secret is None else block.secret.get_secret_value(),
        algorithms=algorithms,
        user_claim=block.user_claim,
        scopes_claim=block.scopes_claim,
    )


def variant(config: Config) -> str:
    """Text that differs whenever retrieval is configured otherwise."""
    return hashlib.sha256(config.tool_rag.model_dump_json().encode()).hexdigest()


class AlsoIndexed:
    """The retriever as the catalogue's keeper knows it, with the registered tools beside.

    Args:
        retriever: makes tools searchable.
        registry: the tools that no upstream offers.
    """

    def __init__(self, retriever: Searchable, registry: ToolRegistry) -> None:
        self._retriever = retriever
        self._registry = registry
        self._tools: Sequence[ToolRecord] | None = None
        self._task: asyncio.Task[None] | None = None
        self._again = False
        registry.on_change = self._registry_changed

    async def index(self, tools: Sequence[ToolRecord]) -> object:
        """Make exactly these tools and the registered ones searchable."""
        self._tools = tools
        return await self._retriever.index(self._joined(tools))

    async def close(self) -> None:
        """Stop indexing."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _joined(self, tools: Sequence[ToolRecord]) -> Sequence[ToolRecord]:
        registered = self._registry.records
        if not registered:
            return tools
        offered = {tool.name for tool in tools}
        return [*tools, *(tool for name, tool in registered.items() if name not in offered)]

    async def _registry_changed(self) -> None:
        """Index anew in the background: whoever tells of changes must not wait for an embedder."""
        self._again = True
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._reindex(), name="index registered tools")

    async def _reindex(self) -> None:
        while self._again:
            self._again = False
            try:
                await self._retriever.index(self._joined(self._tools or ()))
            except ArmoryError as error:
                _log.error("registered_tools_not_indexed", error=error.message)


class Fan:
    """`gateway.ports.ToolEvents` for several listeners."""

    def __init__(self, listeners: Sequence[ToolEvents]) -> None:
        self._listeners = tuple(listeners)

    def called(
        self,
        principal: Principal,
        tool: str,
        *,
        ok: bool,
        latency_ms: float,
        query: str | None = None,
    ) -> None:
        """One `tools/call` was answered."""
        for listener in self._listeners:
            listener.called(principal, tool, ok=ok, latency_ms=latency_ms, query=query)

    def listed(self, principal: Principal, listing: Listing) -> None:
        """One `tools/list` or `search_tools` was answered."""
        for listener in self._listeners:
            listener.listed(principal, listing)


class RestEngine:
    """The retriever as REST knows it; where Tool RAG is off every search says so."""

    def __init__(self, retriever: Callable[[], Retriever | None]) -> None:
        self._retriever = retriever

    @property
    def tools(self) -> Sequence[ToolRecord]:
        """See `Retriever.tools`."""
        found = self._retriever()
        return () if found is None else found.tools

    async def rank(self, query: Query, visible: VisibleSet | None = None) -> Ranking:
        """See `Retriever.rank`.

        Raises:
            BackendError: retrieval is off.
        """
        return await self._there().rank(query, visible)

    async def embedding(self, text: str) -> FloatArray | None:
        """See `Retriever.embedding`.

        Raises:
            BackendError: retrieval is off.
        """
        return await self._there().embedding(text)

    def _there(self) -> Retriever:
        found = self._retriever()
        if found is None:
            raise BackendError("retrieval is off here; see tool_rag.enabled")
        return found


def states(status: Mapping[str, object]) -> dict[str, bool]:
    """Which upstreams are up, out of the supervisor's status."""
    return {key: getattr(found, "state", "") == "ready" for key, found in status.items()}
