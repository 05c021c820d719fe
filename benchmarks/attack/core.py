"""How late timers are on the gateway's cores, whatever runs there: what is late is the machine.

Prints answers as `good` does, of the kind `core`. Prints none where it may not go first: its timers
would wait for the gateway, not for the machine. Linux only.
"""

from __future__ import annotations

import json
import os
import sys
import time

EVERY_S = 0.05


def main() -> None:
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(2))
    except OSError:
        return
    due = time.monotonic()
    while True:
        due += EVERY_S
        time.sleep(max(0.0, due - time.monotonic()))
        came = time.monotonic()
        line = {"kind": "core", "due": round(due, 4), "came": round(came, 4)}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
        due = max(due, came - EVERY_S)


if __name__ == "__main__":
    main()
