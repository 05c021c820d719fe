"""`python -m armory`: the console script `armory` by another name.

Owns: nothing but the way there.
"""

from __future__ import annotations

from armory.cli.entry import main

if __name__ == "__main__":
    main()
