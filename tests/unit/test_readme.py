from __future__ import annotations

from benchmarks.readme import README, updated


def test_the_readme_shows_the_figures_that_were_measured() -> None:
    text = README.read_text(encoding="utf-8")
    assert updated(text) == text, "run: python -m benchmarks.readme"
