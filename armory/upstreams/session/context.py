"""The dependencies of a link, and the result of negotiating with its upstream.

Owns: `LinkContext`, `Identity`, and `Unintelligible`, raised where negotiation fails.
Never imports a link.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from armory.errors import UpstreamUnavailable
from armory.protocol.link import ClientChannel
from armory.protocol.session_events import SessionObserver
from armory.protocol.versions import MODERN_VERSIONS, Era
from armory.upstreams.error_output import ErrorOutput
from armory.upstreams.session.budget import Budget
from armory.upstreams.session.inflow import Inflow
from armory.upstreams.session.turns import Silent
from armory.upstreams.spec import UpstreamSpec


class Unintelligible(UpstreamUnavailable):
    """The upstream's answer is not MCP."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What negotiation found out about an upstream."""

    era: Era
    protocol_version: str
    capabilities: Mapping[str, Any] = field(default_factory=dict[str, Any])
    server_info: Mapping[str, Any] = field(default_factory=dict[str, Any])
    instructions: str = ""


UNKNOWN = Identity("modern", MODERN_VERSIONS[-1])


@dataclass(frozen=True, slots=True)
class LinkContext:
    """The dependencies of every link.

    Attributes:
        spec: the upstream, `${principal}` filled in.
        client_info: the gateway's `clientInfo`.
        observer: gets the events that come outside requests.
        owner: the pool's key for the owner of the session; part of each event.
        errors: takes what a process writes to standard error.
        budget: what the upstream may say unasked; None: one for this session alone.
        client: the one client whose session it is; None: several may share it.
        silent: the tools and methods that have finished a call without a question.
        inflow: counts the bytes of messages that are not complete yet.
    """

    spec: UpstreamSpec
    client_info: Mapping[str, Any]
    observer: SessionObserver
    owner: str = ""
    errors: ErrorOutput = field(default_factory=ErrorOutput)
    budget: Budget | None = None
    client: ClientChannel | None = None
    silent: Silent = field(default_factory=Silent)
    inflow: Inflow = field(default_factory=Inflow)
