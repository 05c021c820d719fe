from __future__ import annotations

import pytest

from benchmarks.tables import FILES, ROOT, filled


@pytest.mark.parametrize("name", FILES)
def test_the_texts_show_the_figures_that_were_measured(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert filled(text) == text, "run: python -m benchmarks.tables"
