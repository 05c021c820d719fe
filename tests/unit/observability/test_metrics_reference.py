"""docs/metrics.md names every metric that there is, and none else."""

from __future__ import annotations

from tests.unit.observability.metrics_reference import FILE, reference


def test_the_page_is_what_the_code_registers() -> None:
    said = "run: python -m tests.unit.observability.metrics_reference"
    assert FILE.read_text(encoding="utf-8") == reference(), said
