"""The sampling decision, made before a span is created.

Owns: what `OTEL_TRACES_SAMPLER` and its argument mean, trace ids for new traces. Imports
OpenTelemetry, so it is imported only where telemetry is on.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping

from opentelemetry.sdk.trace.sampling import TraceIdRatioBased

from armory.logger import Logger
from armory.telemetry.propagation import KEPT

_log = Logger(__name__)
SAMPLER = "OTEL_TRACES_SAMPLER"
ARGUMENT = "OTEL_TRACES_SAMPLER_ARG"
DEFAULT = "parentbased_always_on"
_PARENT_BASED = "parentbased_"
_KINDS = ("always_on", "always_off", "traceidratio")
_LOW = TraceIdRatioBased.TRACE_ID_LIMIT
_AT_ONCE = 128
"""Traces whose ids are drawn together."""


class Sampling:
    """Decides by the standard variables whether a trace is kept.

    The SDK's samplers decide alike; they are asked with a context, attributes and links, which a
    trace that is not kept would have made for nothing.

    Args:
        environ: the environment variables.

    Attributes:
        waiting: `traceparent` of traces that begin here, each to be taken once, by one thread;
            its end says whether the trace is kept.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        name = environ.get(SAMPLER, "").strip().lower() or DEFAULT
        kind = name.removeprefix(_PARENT_BASED)
        if kind not in _KINDS:
            _log.warning("trace_sampler_unknown", variable=SAMPLER, value=name, instead=DEFAULT)
            name, kind = DEFAULT, "always_on"
        self._by_parent = name.startswith(_PARENT_BASED)
        rate = {"always_on": 1.0, "always_off": 0.0}.get(kind)
        self._bound = TraceIdRatioBased(_rate(environ) if rate is None else rate).bound
        self._under = "g" if self._bound > _LOW else f"{self._bound:016x}"
        self.waiting: list[str] = []

    def drawn(self) -> str:
        """`traceparent` for a new trace."""
        if not self.waiting:
            self.waiting += self._more()
        return self.waiting.pop()

    def _more(self) -> Generator[str]:
        """`traceparent` values for several traces, generated together.

        The halves of trace ids on the left, of which nothing depends, are the same for them. That
        an id is zero, which means none, happens once in 2**64 times.
        """
        head = f"00-{os.urandom(8).hex()}"
        drawn = os.urandom(16 * _AT_ONCE).hex("-", 8)
        for at in range(0, len(drawn), 34):
            ids = drawn[at : at + 33]
            yield f"{head}{ids}{KEPT if ids < self._under else '-00'}"

    def keeps(self, trace_id: int, parent: bool | None) -> bool:
        """Whether a trace is kept.

        Args:
            trace_id: of the trace; its low 64 bits count.
            parent: whether the span above was kept; None: there is none.
        """
        if parent is not None and self._by_parent:
            return parent
        return (trace_id & _LOW) < self._bound


def _rate(environ: Mapping[str, str]) -> float:
    text = environ.get(ARGUMENT, "")
    try:
        rate = float(text)
        if 0.0 <= rate <= 1.0:
            return rate
    except ValueError:
        pass
    _log.warning("trace_sampler_rate_unknown", variable=ARGUMENT, value=text, instead=1.0)
    return 1.0
