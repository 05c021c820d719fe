"""The console script `armory`.

Owns: what holds until the command line is imported: an interrupt in that time ends the process as
it ends any other program, without a traceback. Imports nothing before that is so.
"""

from __future__ import annotations

# `signal` adds `enum` to it, which would be most of what is imported before that is so
import _signal as signal  # pyright: ignore[reportMissingImports]

_INTERRUPTED = 130


def main() -> None:
    """Import the command line and run it."""
    # One that was started with interrupts ignored (`nohup`, `&` in a script) keeps them so.
    python = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if python:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from armory.cli.main import main as run

    try:
        if python:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        run()
    except KeyboardInterrupt:  # before or after what `run` looks after
        raise SystemExit(_INTERRUPTED) from None
