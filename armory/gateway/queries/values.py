"""Validates single parameters of a query: JSON values, and text from headers and URLs.

Owns: what is allowed of each part, and how a refusal is worded. Never reads a request.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, cast

from armory.domain.query import MAX_QUERY_CHARS, MAX_TEXTS, MAX_TOP_K
from armory.protocol.codes import INVALID_PARAMS
from armory.protocol.errors import RpcError
from armory.retrieval.names import RANKERS

_LONGEST_NAME = 200
_WRITTEN_HOUR = re.compile(r"\d{1,2}")


def check_texts(given: object, where: str) -> tuple[str, ...]:
    """The texts of a query from a JSON value.

    Raises:
        RpcError: neither a string nor a list of strings, or of the wrong length.
    """
    if isinstance(given, str):
        texts: tuple[str, ...] = (given,)
    elif isinstance(given, list) and all(
        isinstance(item, str) for item in cast("list[Any]", given)
    ):
        texts = tuple(cast("list[str]", given))
    else:
        raise refused(where, given, "a string or a list of strings")
    if len(texts) > MAX_TEXTS:
        raise RpcError(
            INVALID_PARAMS,
            f"{where} has {len(texts):,} texts; expected at most {MAX_TEXTS}",
            {"parameter": where},
        )
    texts = tuple(text.strip() for text in texts)
    length = sum(map(len, texts))
    wrong = ""
    if not any(texts):
        wrong = f"{where} has no text"
    elif not all(texts):
        wrong = f"text {texts.index('') + 1} of {where} is empty"
    elif length > MAX_QUERY_CHARS:
        wrong = f"{where} has {length:,} characters"
    if wrong:
        expected = f"expected 1 to {MAX_QUERY_CHARS:,} characters together"
        raise RpcError(INVALID_PARAMS, f"{wrong}; {expected}", {"parameter": where})
    return texts


def check_top_k(given: object, where: str) -> int:
    """top_k from a JSON value.

    Raises:
        RpcError: no integer from 1 to 200.
    """
    number = _integer(given)
    if number is None or not 1 <= number <= MAX_TOP_K:
        raise refused(where, given, f"an integer from 1 to {MAX_TOP_K}")
    return number


def _integer(given: object) -> int | None:
    """A JSON number without a fraction, written 2 or 2.0; None: anything else."""
    if isinstance(given, float) and given.is_integer():
        return int(given)
    return given if isinstance(given, int) and not isinstance(given, bool) else None


def check_names(given: object, where: str) -> frozenset[str]:
    """A list of names from a JSON list (or a comma-separated string).

    Raises:
        RpcError: the value is no such list.
    """
    if isinstance(given, str):
        names = [part.strip() for part in given.split(",")]
    elif isinstance(given, list) and all(
        isinstance(item, str) for item in cast("list[Any]", given)
    ):
        names = cast("list[str]", given)
    else:
        raise refused(where, given, "a list of names")
    if not names or not all(names):
        raise refused(where, given, "at least one name, none empty")
    return frozenset(names)


def check_threshold(given: Any, where: str) -> float:
    """A threshold: a number in [0, 1], or its text.

    Raises:
        RpcError: no number in [0, 1].
    """
    number = given
    if isinstance(given, str):
        try:
            number = math.nan if "_" in given else float(given)  # Python reads 0_1 as 1
        except ValueError:
            number = math.nan
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number <= 1:
        raise refused(where, given, "a number from 0 to 1")
    return float(number)


def check_written_top_k(given: Any, where: str) -> int:
    """As `check_top_k`; also accepts text from a header or URL.

    Raises:
        RpcError: no integer from 1 to 200.
    """
    if isinstance(given, str):
        if not (given.isascii() and given.isdigit()):
            raise refused(where, given, f"an integer from 1 to {MAX_TOP_K}")
        given = int(given[:9])
    return check_top_k(given, where)


def check_hour(given: Any, where: str) -> int:
    """An hour of the day.

    Raises:
        RpcError: no integer from 0 to 23.
    """
    written = isinstance(given, str) and _WRITTEN_HOUR.fullmatch(given)
    number = int(given) if written else _integer(given)
    if number is None or not 0 <= number <= 23:
        raise refused(where, given, "an hour from 0 to 23")
    return number


def check_tool_name(given: Any, where: str) -> str:
    """The name of a tool.

    Raises:
        RpcError: no text, or of the wrong length.
    """
    if not isinstance(given, str) or not 1 <= len(given) <= _LONGEST_NAME:
        raise refused(where, given, f"a tool's name of 1 to {_LONGEST_NAME} characters")
    return given


def check_ranker(given: Any, where: str) -> str:
    """The name of a ranker.

    Raises:
        RpcError: there is none of that name.
    """
    if not isinstance(given, str) or given not in RANKERS:
        raise refused(where, given, f"one of {', '.join(RANKERS)}")
    return given


def refused(where: str, given: object, expected: str) -> RpcError:
    """The error for a value that cannot be used."""
    # As JSON. A header may hold bytes that are no text, and the message must be text.
    shown = json.dumps(given, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
    shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
    return RpcError(
        INVALID_PARAMS, f"{where} is {shown}; expected {expected}", {"parameter": where}
    )
