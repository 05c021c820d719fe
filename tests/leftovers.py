"""What a test may have left behind in its event loop.

Owns: `tasks_of`.
"""

from __future__ import annotations

import asyncio
from typing import Any


def tasks_of(folder: str) -> list[asyncio.Task[Any]]:
    """The tasks of this event loop whose code is below a folder, as `/armory/upstreams/`."""
    return [task for task in asyncio.all_tasks() if folder in _file_of(task)]


def _file_of(task: asyncio.Task[Any]) -> str:
    code = getattr(task.get_coro(), "cr_code", None)
    return "" if code is None else str(code.co_filename)
