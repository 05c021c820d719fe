"""Seals: only whole ones of a known key open."""

from __future__ import annotations

import pytest

from armory.wire.interaction.sealing import BrokenSeal, Seals

SEALS = Seals([b"s" * 32])


def test_what_is_sealed_opens() -> None:
    sealed = SEALS.seal(b"state")
    assert SEALS.unseal(sealed) == b"state"
    assert SEALS.seal(b"state") != sealed
    assert Seals([b"t" * 32, b"s" * 32]).unseal(sealed) == b"state"


def test_what_is_not_whole_does_not() -> None:
    sealed = SEALS.seal(b"state")
    changed = [
        sealed[:at] + ("A" if sealed[at] != "A" else "B") + sealed[at + 1 :] for at in (3, 20, 40)
    ]
    short = [sealed[:cut] for cut in (0, 3, 10, len(sealed) - 1)]
    for text in (*changed, *short, sealed + "=", sealed + "A", "v2" + sealed[2:], "v1.é", "v1.\n"):
        with pytest.raises(BrokenSeal):
            SEALS.unseal(text)
    with pytest.raises(BrokenSeal, match="another key"):
        Seals([b"t" * 32]).unseal(sealed)


def test_another_secret_seals_and_those_before_it_still_open() -> None:
    seals = Seals([b"s" * 32])
    sealed = seals.seal(b"state")
    for letter in b"tuv":
        seals.seal_with(bytes([letter]) * 32)
        assert Seals([bytes([letter]) * 32]).unseal(seals.seal(b"new")) == b"new"
        assert seals.unseal(sealed) == b"state"
    seals.seal_with(b"s" * 32)
    assert SEALS.unseal(seals.seal(b"again")) == b"again"


@pytest.mark.parametrize("secrets", [[], [b"short"], [b"s" * 32, b"short"]])
def test_secrets_that_are_none(secrets: list[bytes]) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        Seals(secrets)
