"""Every example runs and its assertions hold."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ("agent_loop", "hot_query_cache", "multi_step_retrieval")


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs(name: str) -> None:
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("ARMORY_", "OPENAI_"))}
    environ["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / f"{name}.py")],
        env=environ, capture_output=True, text=True, timeout=150, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3_000:]
