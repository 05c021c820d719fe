"""What a link is made with, and what negotiation found out about its upstream.

Owns: `LinkContext`, `Identity`, and `Unintelligible`, which is raised where nothing was found out.
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
    """The upstream's answer is not the protocol."""


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
    """What every link is made with.

    Attributes:
        spec: the upstream, `${principal}` filled in.
        client_info: the gateway's `clientInfo`.
        observer: who is told what happens outside requests.
        owner: the pool's key of whose session it is; goes into the events.
        errors: takes what a process writes to standard error.
        budget: what the upstream may say unasked; None: one for this session alone.
        client: the one client whose session it is; None: several may share it.
        silent: what never asked a client anything, by all that is known.
        inflow: counts what upstreams have sent of messages that are not whole yet.
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
