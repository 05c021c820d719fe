"""Memory of use: evidence floor, caps, decay, forgetting."""

from __future__ import annotations

import numpy as np
import pytest

from armory.feedback.vectors import FeedbackLimits, FeedbackVectors
from armory.retrieval.ports import FloatArray

DAY = 86_400.0


def axis(i: int) -> FloatArray:
    return np.eye(8, dtype=np.float32)[i]


@pytest.fixture
def now() -> list[float]:
    return [0.0]


@pytest.fixture
def memory(now: list[float]) -> FeedbackVectors:
    limits = FeedbackLimits(floor=2.0, per_tool=4, per_user=3, half_life_days=10)
    return FeedbackVectors(limits, clock=lambda: now[0])


def recalled(memory: FeedbackVectors, user: str | None = None) -> dict[str, tuple[float, float]]:
    found = memory.recall(axis(0)[None], user)
    return {
        name: (float(found.cosine[0, i]), float(found.uses[i]))
        for i, name in enumerate(found.names)
    }


def test_too_little_evidence_does_not_count(memory: FeedbackVectors) -> None:
    memory.learn("a", axis(0), "tool")
    assert recalled(memory) == {}
    memory.learn("a", axis(0), "tool")
    assert recalled(memory) == {}, "the same query again is no further evidence"
    memory.learn("b", axis(1), "tool")
    assert recalled(memory) == {"tool": (1.0, 2.0)}


def test_three_uses_count_by_default_although_time_has_passed(now: list[float]) -> None:
    """As `armory eval --usage` remembers them, before it asks."""
    memory = FeedbackVectors(clock=lambda: now[0])
    for i in range(3):
        memory.learn(f"q{i}", axis(i), "tool")
    now[0] = 60.0
    assert list(recalled(memory)) == ["tool"]


def test_own_uses_weigh_more(memory: FeedbackVectors) -> None:
    memory.learn("a", axis(0), "tool", "ann")
    assert recalled(memory, "bob") == {}
    assert recalled(memory, "ann") == {"tool": (1.0, 2.0)}


def test_old_uses_fade(memory: FeedbackVectors, now: list[float]) -> None:
    for i in range(3):
        memory.learn(f"q{i}", axis(i), "tool")
    now[0] = 10 * DAY
    assert recalled(memory) == {}
    memory.learn("fresh", axis(4), "tool")
    assert recalled(memory)["tool"][1] == pytest.approx(2.5)


def test_one_users_flood_is_capped(memory: FeedbackVectors) -> None:
    memory.learn("seen", axis(0), "tool", "somebody")
    for i in range(50):
        memory.learn(f"q{i}", axis(i % 8), "tool", "flood")
    assert recalled(memory)["tool"][1] == 3.0
    for i in range(50):
        memory.learn(f"r{i}", axis(i % 8), "tool")
    assert recalled(memory)["tool"][1] == 4.0


def test_forgetting_and_restoring(memory: FeedbackVectors) -> None:
    for i in range(2):
        memory.learn(f"q{i}", axis(i), "one", "ann")
        memory.learn(f"q{i}", axis(i), "two", "bob")
    kept = memory.entries()
    assert memory.forget(user="ann") == 2
    assert recalled(memory).keys() == {"two"}
    assert memory.forget() == 2
    assert recalled(memory) == {}
    memory.restore(kept)
    assert recalled(memory).keys() == {"one", "two"}
    assert memory.forget(tool="one", user="bob") == 0


def test_vectors_of_another_model_are_left_alone(memory: FeedbackVectors) -> None:
    for i in range(3):
        memory.learn(f"q{i}", axis(i), "tool")
    assert memory.recall(np.ones((2, 5), np.float32), None).names == ()


def test_to_others_one_users_uses_stay_below_the_floor() -> None:
    memory = FeedbackVectors()
    for i in range(8):
        memory.learn(f"q{i}", axis(i), "tool", "flood")
    assert recalled(memory) == {}
    assert recalled(memory, "ann") == {}
    assert "tool" in recalled(memory, "flood")
    memory.learn("mine", axis(0), "tool", "bob")
    assert recalled(memory, "ann")["tool"][1] == pytest.approx(3.0, abs=0.01)


def test_there_is_an_end_to_what_is_kept() -> None:
    now = [0.0]
    memory = FeedbackVectors(FeedbackLimits(most=6, user_total=4), clock=lambda: now[0])
    for i in range(9):
        now[0] = float(i)
        memory.learn(f"q{i}", axis(i % 8), f"tool{i}", "flood" if i < 6 else "ann")
    kept = {entry.tool for entry in memory.entries()}
    assert kept == {f"tool{i}" for i in range(3, 9)}
    before = memory.stamp
    assert memory.forget(user="flood") == 3
    assert memory.stamp != before


def test_one_users_queries_do_not_move_the_mean_far() -> None:
    memory = FeedbackVectors(FeedbackLimits(floor=1.0, others_see=2.0))
    for i in range(4):
        memory.learn(f"shared {i}", axis(0), "tool")
    for i in range(30):
        memory.learn(f"flood {i}", axis(1), "tool", "flood")
    found = memory.recall(np.stack([axis(0), axis(1)]), None)
    assert found.centre[:, 0] == pytest.approx([2 / 5**0.5, 1 / 5**0.5])
