"""Protocol revisions, oldest first, and what each of them introduced.

Owns: the names of the revisions. Never imports anything.
"""

from __future__ import annotations

from typing import Literal

Era = Literal["modern", "legacy"]
"""Legacy: revisions with a handshake and sessions. Modern: each request stands alone."""

V2024_10_07 = "2024-10-07"
V2024_11_05 = "2024-11-05"
V2025_03_26 = "2025-03-26"
V2025_06_18 = "2025-06-18"
V2025_11_25 = "2025-11-25"
V2026_07_28 = "2026-07-28"

LEGACY_VERSIONS = (V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25)
ANSWERED_VERSIONS = (V2024_10_07, *LEGACY_VERSIONS)
"""What an upstream may answer to a handshake. Servers written by hand after the earliest examples
still answer the first, a draft of the second that differs in nothing that is asked of them.
"""
MODERN_VERSIONS = (V2026_07_28,)
ALL_VERSIONS = (*LEGACY_VERSIONS, *MODERN_VERSIONS)

BATCHES = V2025_03_26
"""The one revision that has batches."""
VERSION_HEADER_SINCE = V2025_06_18
"""The first revision in which every HTTP request of a session names its revision."""
PRIMING_SINCE = V2025_11_25
"""The first revision in which a stream begins with an empty event, so that it can be resumed."""
URL_ELICITATION_SINCE = V2025_11_25
