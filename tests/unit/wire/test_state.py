"""Request state among replicas whose clocks are not quite the same, or are set."""

from __future__ import annotations

import pytest

from armory.domain.principal import ANONYMOUS
from armory.gateway.context import served_from
from armory.gateway.gateway import Gateway
from armory.protocol.errors import RpcError
from armory.testing.front import ScriptedPool, raws
from armory.wire.caller import Caller
from armory.wire.interaction.state import Binding, OwnedByReplica, RequestStates
from armory.wire.requests import modern_request

SECRET = b"s" * 32


async def nowhere(_data: bytes) -> None:
    """Nothing is said before the answer."""


def states(replica: str, ttl_s: float) -> RequestStates:
    made = RequestStates(ttl_s, replica)
    made.seal_with(SECRET)
    return made


def test_a_parked_call_waits_as_its_own_replica_knows_whatever_the_clocks_say() -> None:
    request = modern_request(Caller(ANONYMOUS), "2026-07-28", {}, nowhere)
    context = served_from(request, Gateway(ScriptedPool()).view)
    binding = Binding(context, "tools/call", raws({"name": "one"}))
    ahead, behind = states("ahead", 300), states("behind", -1)  # by more than the time there is
    sealed = behind.seal("parked", "handle", binding)
    with pytest.raises(OwnedByReplica) as owned:
        ahead.unseal(sealed, binding)
    assert owned.value.replica == "behind"
    assert behind.unseal(sealed, binding) == ("parked", "handle")
    with pytest.raises(RpcError):
        ahead.unseal(sealed, Binding(context, "tools/call", raws({"name": "another"})))
    for kind in ("upstream", "again"):  # nobody waits for these
        with pytest.raises(RpcError):
            behind.unseal(behind.seal(kind, "state", binding), binding)
        assert behind.unseal(ahead.seal(kind, "state", binding), binding) == (kind, "state")
