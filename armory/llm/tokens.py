"""Estimating how many tokens a text has: cheap and deterministic.

Owns: `estimate_tokens`. Never imports anything but the standard library.

A real tokenizer would be another dependency and another download, and every model has its own. The
estimate cuts a text the way byte-pair tokenizers do before they merge (words, runs of digits,
punctuation, white space) and charges each piece what such pieces cost on average. The charges were
fitted by least squares to the `o200k_base` vocabulary on 3,100 tool definitions (JSON and TOON),
queries and Markdown paragraphs: totals are within 4 %, the median text within 5 %.
"""

from __future__ import annotations

import math
import re

_PIECE = re.compile(
    r"(?P<word> ?[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[A-Z])"
    r"|(?P<digits>[0-9]{1,3})"
    r"|(?P<marks> ?[!-/:-@\[-`{-~]+\n*)"
    r"|(?P<blank>\s+)"
    r"|(?P<other>[^\x00-\x7f\s]+|.)",
    re.DOTALL,
)
_WORD, _WORD_LONG, _WORD_SPACED, _UPPER = 0.762, 0.060, 0.166, 0.206
_DIGITS, _MARKS, _MARKS_LONG, _BLANK, _OTHER = 1.21, 0.974, 0.243, 1.376, 0.586


def estimate_tokens(text: str) -> int:
    """Estimated number of tokens of `text`, at least 1 unless it is empty."""
    total = 0.0
    for match in _PIECE.finditer(text):
        piece = match.group()
        kind = match.lastgroup
        if kind == "word":
            spaced = piece[0] == " "
            length = len(piece) - spaced
            total += _WORD + _WORD_LONG * max(0, length - 6) + _WORD_SPACED * spaced
            if length > 1 and piece.isupper():
                total += _UPPER * length
        elif kind == "digits":
            total += _DIGITS
        elif kind == "marks":
            total += _MARKS + _MARKS_LONG * max(0, len(piece.strip()) - 2)
        elif kind == "blank":
            total += _BLANK
        else:
            total += _OTHER * len(piece)
    return max(1, math.ceil(total)) if text else 0
