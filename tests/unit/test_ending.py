"""What is left of the time in which a process ends."""

from __future__ import annotations

import time
from contextvars import copy_context

import pytest

from armory import ending


def test_those_that_end_share_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    def ends() -> None:
        ending.begin()
        assert ending.at_most(4.0) == 4.0
        at = time.monotonic() + 8.0
        monkeypatch.setattr(time, "monotonic", lambda: at)
        assert ending.at_most(4.0) < 2.5  # eight of ten seconds are gone
        at += 100.0
        assert ending.at_most(4.0) == 0.5, "the last of them are asked, too"
        assert ending.at_most(0.1) == 0.1

    copy_context().run(ends)
    assert ending.at_most(400.0) == 400.0, "nothing ends"
