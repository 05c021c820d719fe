"""What a configuration that does not hold is told."""

from __future__ import annotations

import pytest

from armory.config import ConfigProblems, load_text


def problems(text: str, **environ: str) -> dict[str, str]:
    """The messages by the path of each problem."""
    with pytest.raises(ConfigProblems) as caught:
        load_text(text, environ=environ)
    return {problem.path: problem.message for problem in caught.value.problems}
