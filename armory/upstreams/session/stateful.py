"""The base of links whose upstream keeps a session: stdio, HTTP+SSE, legacy Streamable HTTP.

Owns: the deadline of a call, whose turn it is, questions about changed roots. Never imports a
transport.
"""

from __future__ import annotations

from abc import abstractmethod

from armory.errors import UpstreamOverloaded, UpstreamTimeout, UpstreamUnavailable
from armory.http1.deadlines import CallDeadline, Deadlines
from armory.protocol.link import Call, ClientChannel, Params, Reply
from armory.protocol.methods import ROOTS_CHANGED
from armory.upstreams.session.base import BaseLink
from armory.upstreams.session.context import LinkContext
from armory.upstreams.session.multiplexer import RequestMultiplexer


class StatefulLink(BaseLink):
    """A link with calls in flight, and an upstream that may ask in between.

    Args:
        context: as every link's.
        exact: whether the transport tells because of which call the upstream asks.

    Attributes:
        requests: the calls in flight.
    """

    def __init__(self, context: LinkContext, *, exact: bool) -> None:
        super().__init__(context)
        self._deadlines = Deadlines()
        self.requests = RequestMultiplexer(self, self._send_answer, exact=exact)

    @abstractmethod
    async def _exchange(self, call: Call, scope: CallDeadline) -> Reply:
        """Send one call and wait for its answer; `scope` is its deadline."""

    @abstractmethod
    async def _send_answer(self, data: bytes) -> None:
        """Write the answer to a question of the upstream."""

    def fail_all(self, error: UpstreamUnavailable) -> None:
        """The session ends: fail every call in flight with `error`."""
        self.requests.fail_all(error)
        self._deadlines.finish()

    async def request(self, call: Call) -> Reply:
        """As `BaseLink.request`."""
        timeout_s = self.spec.call_timeout_s if call.timeout_s is None else call.timeout_s
        waits = False
        try:
            with CallDeadline(self._deadlines, timeout_s) as scope:
                if call.client is not None and "logging" in self.capabilities:
                    await self.subscriptions.ensure_log_level(call.client.log_level)
                turn = self.requests.attribution.turn_for(call)
                if turn is None:
                    return await self._exchange(call, scope)
                waits = True
                async with turn:
                    waits = False
                    return await self._exchange(call, scope)
        except TimeoutError:
            raise self._late(call, timeout_s, began=not waits) from None

    def _late(
        self, call: Call, timeout_s: float, *, began: bool
    ) -> UpstreamTimeout | UpstreamOverloaded:
        """The error of a call that ended too late; it is the upstream's only where nothing else
        kept it waiting.
        """
        asked = self.requests.attribution.waits_for_person()
        what = f"did not answer {call.method}" if began else f"had no turn for {call.method}"
        late = f"upstream {self.server!r} {what} within {timeout_s:g} s"
        if began and not asked:
            return UpstreamTimeout(late, upstream=self.server)
        why = (
            "another call of this session waits for the answer to a question"
            if asked
            else "calls of this session whose client may be asked run one at a time"
        )
        return UpstreamOverloaded(f"{late}: {why}", upstream=self.server, retry_after_s=1.0)

    async def roots_changed(self, client: ClientChannel, params: Params) -> None:
        """As `BaseLink.roots_changed`."""
        self.requests.attribution.roots_changed(client)
        await self.notify(ROOTS_CHANGED, params)
