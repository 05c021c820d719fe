"""Which clients share an upstream session, and which need one with a handshake.

Owns: `Placing`; docs/sessions.md has the table. Never opens a session.
"""

from __future__ import annotations

from armory.domain.principal import INTERNAL
from armory.protocol.capabilities import may_be_asked
from armory.protocol.link import Owner
from armory.upstreams.connecting.negotiate import Connector
from armory.upstreams.spec import UpstreamSpec

OWN = ""
"""Owner key of the gateway's own session, and of the one that all callers share."""


class Placing:
    """Maps an owner to the key of the session that serves it, by the upstream's `isolation`.

    Args:
        spec: the upstream.
        connector: knows what the upstream speaks, as far as anybody does yet.
    """

    def __init__(self, spec: UpstreamSpec, connector: Connector) -> None:
        self._spec = spec
        self._connector = connector

    def key(self, owner: Owner) -> str:
        """The part of `owner` that selects its session, by the configured isolation."""
        return self.key_of(owner, legacy=self.legacy(owner))

    def key_of(self, owner: Owner, *, legacy: bool) -> str:
        """As `key`, where it is known whether the owner needs a session with a handshake."""
        isolation = self._spec.isolation
        if isolation == "shared" or owner.principal is INTERNAL:
            return OWN
        if owner.session_id is not None and (legacy or isolation == "session"):
            # what one client has to itself, as `session_events.is_of_one_client` knows it
            return f"{owner.principal.key}\n{owner.session_id}"
        return owner.principal.key

    def session_owner(self, owner: Owner) -> Owner:
        """`owner` without the parts that others on the same session differ in."""
        key = self.key(owner)
        if key == OWN:
            return Owner(INTERNAL)
        return Owner(owner.principal) if key == owner.principal.key else owner

    def legacy(self, owner: Owner) -> bool:
        """Whether `owner` needs a session with a handshake, and can have one.

        In such a session the upstream may ask its client something at any time, and keeps roots
        and answers there. Modern upstreams keep nothing: they ask in each call anew, and one that
        speaks both eras may ask only in the client's.
        """
        if owner.session_id is None or not may_be_asked(owner.capabilities):
            return False
        return self._connector.may_shake_hands

    def is_certain(self, owner: Owner) -> bool:
        """Whether it is known for certain which session serves `owner`."""
        verdict = self._connector.verdict
        if not self.legacy(owner):
            return True
        return verdict is not None and (verdict.era == "legacy" or verdict.handshake is not None)
