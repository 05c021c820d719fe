"""Threads for work that would block the event loop, which has priority over them.

Owns: the names that rooms use. Never imports a room: every room has threads.
"""

from armory.threads.loop_thread import LoopThread
from armory.threads.pieces import Table, copied, in_order, let_go
from armory.threads.pools import (
    CATALOG_NICE,
    for_callers,
    for_callers_if,
    in_turn,
    in_turn_if,
    steps_for_callers,
    unattended,
)
from armory.threads.priorities import (
    GIVES_WAY,
    SLICE_NS,
    default_slice,
    lower_priority,
    wake_sooner,
)
from armory.threads.switching import SHORT_S, SWITCH_INTERVAL, SwitchInterval

__all__ = [
    "CATALOG_NICE",
    "GIVES_WAY",
    "SHORT_S",
    "SLICE_NS",
    "SWITCH_INTERVAL",
    "LoopThread",
    "SwitchInterval",
    "Table",
    "copied",
    "default_slice",
    "for_callers",
    "for_callers_if",
    "in_order",
    "in_turn",
    "in_turn_if",
    "let_go",
    "lower_priority",
    "steps_for_callers",
    "unattended",
    "wake_sooner",
]
