"""Opens a gateway in this process for the duration of a command.

Owns: opening it and asking it. Never imports a web framework.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from armory.cli.answers import OPERATOR, CommandLine, packed, result_of
from armory.cli.output import CONNECTING, EMBEDDING, waiting
from armory.config import Loaded
from armory.domain.query import VisibleSet
from armory.domain.tool import ToolRecord
from armory.errors import UpstreamUnavailable
from armory.gateway.requests import ClientRequest
from armory.protocol.versions import MODERN_VERSIONS
from armory.runtime.opening import open_runtime
from armory.runtime.running import Runtime
from armory.wire.dispatch import Dispatcher
from armory.wire.interaction.interactions import Interactions


class LocalGateway:
    """Asks a runtime of this process."""

    def __init__(self, runtime: Runtime, mode: str | None = None) -> None:
        self._runtime = runtime
        self._dispatcher = Dispatcher(runtime.gateway, Interactions())
        self._url = {"mode": [mode]} if mode else {}

    async def ask(
        self, method: str, params: Mapping[str, Any], meta: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """As `AnyGateway.ask`."""
        request = ClientRequest(
            principal=OPERATOR,
            client=CommandLine(),
            era="modern",
            version=MODERN_VERSIONS[-1],
            meta=packed(meta or {}),
            url=self._url,
            everything=True,
        )
        return result_of(await self._dispatcher.answer(request, method, packed(params)))

    def unreached(self) -> Mapping[str, str]:
        """As `AnyGateway.unreached`."""
        return unreached(self._runtime)


def _why(key: str, error: str) -> str:
    """The error without the upstream's name, which is shown before it anyway."""
    return error.removeprefix(f"upstream {key!r}").lstrip(": ")


def unreached(runtime: Runtime, among: Collection[str] | None = None) -> dict[str, str]:
    """Upstreams that could not be reached, and why.

    Args:
        runtime: of `opened`.
        among: only these; None: all.
    """
    return {
        key: _why(key, found.error) or "it did not answer in time"
        for key, found in runtime.supervisor.status().items()
        if found.state != "ready" and (among is None or key in among)
    }


def tools_of(runtime: Runtime) -> tuple[list[ToolRecord], dict[str, str]]:
    """Every tool, and the upstreams that could not be reached.

    Raises:
        UpstreamUnavailable: there is no tool, because of those.
    """
    tools, lacking = list(runtime.gateway.view.catalog.tools.values()), unreached(runtime)
    if lacking and not tools:
        why = "; ".join(f"upstream {key!r}: {reason}" for key, reason in lacking.items())
        raise UpstreamUnavailable(f"there is no tool: {why}")
    return tools, lacking


def findable(runtime: Runtime) -> VisibleSet:
    """What a search for tools may find: those that models may call. Skills are none."""
    view = runtime.gateway.view
    return VisibleSet(frozenset(view.catalog.tools) - view.tables.apps)


@asynccontextmanager
async def opened(
    loaded: Loaded, *, only: str | None = None, searched: bool = False
) -> AsyncGenerator[Runtime]:
    """A gateway that serves only this command, ready to be asked.

    Args:
        loaded: the configuration.
        only: connect to this one upstream alone.
        searched: every tool has to be found: however long embedding them takes.
    """
    if only is not None and only in loaded.config.upstreams:
        loaded = _only(loaded, only)
    with waiting(CONNECTING) as shown:
        async with open_runtime(
            loaded, trusted=True, on_progress=shown.counting(EMBEDDING)
        ) as runtime:
            await runtime.supervisor.wait_first(None, shown.counting(CONNECTING))
            await (runtime.searchable() if searched else runtime.ready())
            shown.say("asking")
            yield runtime


def _only(loaded: Loaded, server: str) -> Loaded:
    config = loaded.config.model_copy(
        update={"upstreams": {server: loaded.config.upstreams[server]}}
    )
    return replace(loaded, config=config)
