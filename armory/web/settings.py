"""What configuration says about the listening server, as plain values.

Owns: `ListenSettings` and its defaults. Never imports anything else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ReadyWhen = Literal["gateway", "any", "all"]


@dataclass(frozen=True, slots=True)
class ListenSettings:
    """How a server listens and ends.

    Attributes:
        header_bytes: longest request line, and longest single header; 400 beyond.
        drain_timeout_s: how long requests in flight may go on when it closes, in seconds.
    """

    header_bytes: int = 96 * 1024
    drain_timeout_s: float = 30.0
