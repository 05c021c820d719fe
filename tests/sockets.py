"""Where a socket was made, told by its `repr`, so that one which nobody closed can be traced.

Owns: the patch of `socket.socket`. A socket that is found open by the garbage collector is found in
some later test; its warning says who made it.
"""

from __future__ import annotations

import inspect
import socket
from types import CodeType, FrameType
from typing import Any

_FRAMES = 16
_RUNNER = "pytest_pyfunc_call"
_made: dict[int, list[tuple[CodeType, int]]] = {}
_init = socket.socket.__init__
_repr = socket.socket.__repr__


def remember_makers() -> None:
    """From now on each socket remembers the calls that made it."""
    socket.socket.__init__ = _init_and_note
    socket.socket.__repr__ = _repr_with_maker


def _init_and_note(self: socket.socket, *arguments: Any, **options: Any) -> None:
    frame: FrameType | None = getattr(inspect.currentframe(), "f_back", None)  # own: holds itself
    frames: list[tuple[CodeType, int]] = []
    while frame is not None and frame.f_code.co_name != _RUNNER and len(frames) < _FRAMES:
        frames.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    _made[id(self)] = frames
    _init(self, *arguments, **options)


def _repr_with_maker(self: socket.socket) -> str:
    frames = _made.get(id(self), ())
    calls = [f"{code.co_filename}:{line} {code.co_name}" for code, line in frames]
    return f"{_repr(self)} made by {' < '.join(calls)}" if calls else _repr(self)
