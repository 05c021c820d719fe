"""The token estimate: what the fit against o200k_base promised."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from armory.llm.tokens import estimate_tokens

# Counted with the o200k_base vocabulary.
COUNTED = [
    ('{"name":"create_issue","description":"Create a new issue in a GitHub repository"}', 18),
    ("Book a table for four people tomorrow evening and send the invitation by e-mail.", 16),
    ("tools[2]{name,description}:\n  read_file,Read a file\n  write_file,Write a file", 24),
    ("internationalization of 20251120 user-facing strings", 10),
]


@pytest.mark.parametrize(("text", "counted"), COUNTED)
def test_estimates_are_near_a_real_tokenizer(text: str, counted: int) -> None:
    assert abs(estimate_tokens(text) - counted) <= max(3, 0.2 * counted)


def test_nothing_costs_nothing() -> None:
    assert estimate_tokens("") == 0
    assert estimate_tokens(" ") >= 1


@given(st.text(max_size=300), st.text(max_size=300))
def test_it_is_repeatable_and_about_additive(left: str, right: str) -> None:
    both = estimate_tokens(left + right)
    assert both == estimate_tokens(left + right)
    # Joining can merge pieces or split them at the seam, nowhere else.
    assert both <= estimate_tokens(left) + estimate_tokens(right) + 4


@pytest.mark.parametrize("text", ["a" * 200_000, "{" * 200_000, " " * 200_000, "\u4e00" * 100_000])
def test_long_runs_take_linear_time(text: str) -> None:
    started = time.thread_time()
    estimate_tokens(text)
    assert time.thread_time() - started < 20  # hours, if each character meant a look at the rest
