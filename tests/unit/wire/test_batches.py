"""How many bytes the answers to batches may hold, counted."""

from __future__ import annotations

from armory.wire.sessions.batches import AT_ONCE, BatchBytes

OWN, ALL = "the answers before this one fill", "the answers to batches under way fill"


def test_a_batch_may_be_answered_so_many_bytes() -> None:
    bytes_ = BatchBytes(10)
    with bytes_.batch() as one:
        assert not one.full
        assert [one.take(6), one.take(4), one.take(0)][:2] == ["", ""]
        assert (one.held, bytes_.held) == (10, 10)
        for why in (one.full, one.take(1)):
            assert why.startswith(OWN)
            assert "server.limits.batch_answer_bytes" in why
        assert (one.held, bytes_.held) == (10, 10), "what is refused is not held"
    with bytes_.batch() as next_:
        assert next_.take(11).startswith(OWN)
        assert not next_.take(10)


def test_what_all_batches_hold_is_bounded_and_given_back() -> None:
    bytes_ = BatchBytes(10)
    full = [bytes_.batch() for _ in range(AT_ONCE)]
    held = [batch.__enter__() for batch in full]
    assert [one.take(9) for one in held] == [""] * AT_ONCE
    with bytes_.batch() as another:
        assert not another.take(4), "it is all of them together that are bounded"
        for why in (another.full, another.take(1)):
            assert why.startswith(ALL), "what cannot be answered is not served either"
        full[0].__exit__(None, None, None)
        assert not another.take(5)
        assert not held[0].take(3), "its answers are handed over: nothing of it is held"
        assert bytes_.held == 9 * (AT_ONCE - 1) + 9
    for batch in full[1:]:
        batch.__exit__(None, None, None)
    assert bytes_.held == 0
