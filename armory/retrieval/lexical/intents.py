"""Query analysis: the clauses of a query, and the servers and categories that it names.

Owns: splitting a query into clauses without a model, naming, how a query is put. Never imports
anything of Armory but the tokenizer and pleasantries.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

from armory.retrieval.lexical.pleasantries import is_pleasantry
from armory.retrieval.lexical.text import terms

MAX_CLAUSES = 6
_NAMES = 10_000
_MIN_TERMS = 2
_VERBS = """
add analyze analyse announce archive arrange ask assign attach backup book build buy calculate call
cancel categorize change chart check classify clean clear clone close collect combine commit compare
compile compose compress compute configure connect convert copy count create crop cut debug decode
decrypt delete deploy describe design detect determine diagnose display download draft draw edit
email encode encrypt enter estimate evaluate examine execute explain explore export extract fetch
filter find fix forecast format forward generate get give grade guide identify implement import
include inform insert inspect install investigate invite join know launch learn list locate log
look make map mark measure merge message monitor move notify obtain open optimize order organize
pay perform pick pin plan play plot post predict prepare present print process provide publish pull
purchase push put query rank rate read recommend record reduce register remind remove rename render
replace reply report request resend reserve reset resize resolve restart retrieve return review
rotate run save scan schedule scrape search see select send set share show sign solve sort split
start stop store stream subscribe suggest summarize summarise sync tag take tell test track transfer
transcribe transform translate turn uninstall unsubscribe update upgrade upload use validate verify
view visit visualize watch write zip
"""
VERB = "|".join(_VERBS.split())
#: These part wishes too. Refusal was fitted without them, so they do not count for a query's form.
_PARTING = """
append apply approve authenticate browse click disable dismiss enable hover initialize invoke kill
migrate modify navigate parse pause ping reboot rebase refund reject reopen respond restore revert
revoke scroll submit suspend toggle trigger undo unlock unpin
"""
#: As a verb, not "by phone and mail".
_TO_MAIL = r"mail(?=\s++(?:it|them|him|her|me|us|that|this|the|my|our|a)\b)"
ACT = "|".join([VERB, *_PARTING.split(), _TO_MAIL])
_EDGES = " ,.;:!?-*\t\xa0\u2022\u3000\"'\u3002\uff01\uff1f\uff1b"
_GAP = r"(?:,|(?<!\s))\s++"
"""A comma or not, and white space before a word that parts clauses: all of it, and looked at from
its beginning only. From each of its characters it would cost the square of its length.
"""
_SPLIT = re.compile(
    r"(?<=[.?!;\u3002\uff01\uff1f\uff1b])(?=\s|[^\x00-\x7f])(?<!\b[a-z]\.[a-z]\.)(?<!\bvs\.)"
    r"(?<!(?-i:\b[DMS][rst]\.))(?<!(?-i:\bMrs\.))"
    # "at 5 p.m. tell Ann", not "U.S. news"
    rf"|(?<=\b[a-z]\.[a-z]\.)(?<!\be\.g\.)(?<!\bi\.e\.)(?=\s++(?:{ACT})\b)"
    rf"|{_GAP}(?:\(?[1-9a-h]\)|[1-9]\.|step\s++[1-9][:.)])\s++"  # "1) find it 2) book it"
    rf"(?=(?:{ACT})\b)"
    r"|[\r\n]+"
    rf"|{_GAP}(?:and\s++(?:then|also|finally|lastly)|then|additionally|furthermore|moreover"
    r"|afterwards?|as\s++well\s++as|after\s++that|finally|lastly|next(?=,))[\s,]++"
    rf"|{_GAP}(?:and|or|und|och|et|y|e|&{{1,2}}(?=\s++(?-i:[a-z]))|[-=]>|[\u2192\u21d2])\s++"
    rf"(?=(?:{ACT})\b)"  # "fetch it & list it", not "Pack & Send"
    rf"|,\s++(?=(?:{ACT})\b)"
    r"|,\s++and\s++(?![^\s@]++@)",  # the last of some addresses
    re.IGNORECASE,
)


_PIECE, _REACH = 500, 128


def _gaps(text: str) -> Iterator[re.Match[str]]:
    """What separates clauses. A long text is searched in pieces, since each search keeps other
    threads waiting; white space that reaches a hundred characters beyond its piece may be missed.
    """
    at = 0
    while at < len(text):
        end = min(at + _PIECE, len(text))
        scanner: Any = _SPLIT.scanner(text, at, min(end + _REACH, len(text)))  # pyright: ignore
        while (gap := scanner.search()) is not None and gap.start() < end:
            yield gap
            at = gap.end()
        at = max(at, end)


def clauses(text: str) -> list[tuple[int, int]]:
    """The clauses of a query that can be searched by themselves: at most six (start, end) in
    characters, in order.

    A query with fewer than two such clauses is one wish and has none, except the words before a
    colon, if they begin with a verb ("write down: meeting at 5"). A clause needs two searchable
    terms (one, if it begins with a verb), so that "deploy and notify the team" has both halves. Of
    more than six, those that ask for something are preferred, then the first and the last: what is
    wanted is above or below a log, a chat or a stack trace.
    """
    found: list[tuple[int, int]] = []
    asks: list[bool] = []
    seen = {""}
    at = 0
    for gap in itertools.chain(_gaps(text), (None,)):
        part, start = text[at : gap.start() if gap else None], at
        at = gap.end() if gap else at
        clause = part.strip(_EDGES)
        if clause in seen:
            continue
        seen.add(clause)
        needed = 1 if _STARTS.match(clause) else _MIN_TERMS
        if len(terms(clause, _MIN_TERMS)) >= needed:
            start += len(part) - len(part.lstrip(_EDGES))
            found.append((start, start + len(clause)))
            asks.append(_REQUEST.search(clause, 0, _REQUEST_CHARS) is not None)
            if len(found) > MAX_CLAUSES:
                least = min(range(len(found)), key=lambda i: (asks[i], abs(i - MAX_CLAUSES // 2)))
                del found[least], asks[least]
    if len(found) > 1:
        return found
    head = _HEAD.match(text)
    return [head.span(1)] if head else []


_STARTS = re.compile(rf"(?:{ACT})\b", re.IGNORECASE)
#: "Write down: meeting at 5": the words before the colon say what is wanted, the others to what.
_HEAD = re.compile(rf"\s*+((?:{ACT}|jot|note)\b[\w '\-]{{0,40}}):\s", re.IGNORECASE)


class _Names:
    """Names split into terms, and found by a term in them: a query looks up its own terms, not each
    of the names that it may contain. It only grows; a known name is complete.
    """

    def __init__(self) -> None:
        self.known: dict[str, tuple[frozenset[str], ...]] = {}
        self.holding: dict[str, list[str]] = {}

    def read(self, name: str) -> None:
        """Split a name, as it is written and, if that differs, in lower case."""
        lower = name.lower()
        written = frozenset(terms(name))
        found = dict.fromkeys((written, written if lower == name else frozenset(terms(lower))))
        words = tuple(some for some in found if some)
        for some in words:
            self.holding.setdefault(min(some), []).append(name)
        self.known[name] = words


_read = _Names()


def read_names(names: Iterable[str]) -> None:
    """Split names that queries may contain beforehand, so that no query waits for it."""
    for name in itertools.islice(names, _NAMES):
        if name not in _read.known:
            _room().read(name)


def _room() -> _Names:
    """The names that were read, where one more may be read; of too many none is kept."""
    global _read
    if len(_read.known) >= 2 * _NAMES:
        _read = _Names()
    return _read


def named(query: str, names: Iterable[str]) -> set[str]:
    """The names that the query says in full: servers ("with GitHub") or categories."""
    asked = set(names)
    said = {*terms(query), *terms(query.lower())}
    read = _room()
    for name in asked:
        if name not in read.known:
            read.read(name)
    held = {name for term in said for name in read.holding.get(term, ())}
    return {name for name in held & asked if any(words <= said for words in read.known[name])}


_FORM_CHARS, _REQUEST_CHARS = 2_000, 200
_REQUEST = re.compile(
    rf"^(?:{VERB})\b"
    r"|\b(?:i (?:need|want|wish|require|must|have to)|i(?:'d| would) (?:like|love|appreciate)"
    r"|i(?:'m| am) (?:looking|trying|planning|interested|curious|searching|working|going)"
    r"|(?:can|could|would|will) (?:you|i|we)|please|(?:help|show|give|tell|let|find|get)"
    r" (?:me|us))\b",
    re.IGNORECASE,
)
_WH = re.compile(r"^\W*(?:why|what|who|whom|whose|where|when|which|how)\b", re.IGNORECASE)
_WHY = re.compile(
    r"\b(?:why|how do(?:es)?|how did|how should|how would|what (?:would|might|could"
    r"|should|do|does|did|makes?|happens?|will))\b",
    re.IGNORECASE,
)
_SUPPOSED = re.compile(
    r"\b(?:if|would|might|suppose|imagine|pretend|could have|ever)\b", re.IGNORECASE
)
_OTHERS = re.compile(
    r"\b(?:he|she|him|her|his|hers|they|them|their|someone|somebody|people|person|human|humans"
    r"|man|woman|everyone|anyone|we)\b",
    re.IGNORECASE,
)
#: "Also give her a voucher", "find Ann and call her": whom an act is done to, who is no sign of
#: talk about people.
_TO_WHOM = re.compile(
    r"\b(\w{2,16}+)\s++(?:him|her|them|someone|somebody|everyone|everybody)\b", re.IGNORECASE
)
_BEFORE_ACT = re.compile(
    r"(?:\A|[.!?;:,\n]|\b(?:and|then)\b)\W{0,3}"
    r"(?:(?:also|now|please|just|instead|(?:can|could|would|will) you)\b\W{0,3}){0,3}\Z",
    re.IGNORECASE,
)
_BEFORE_CHARS = 40
_DONE = frozenset([*_VERBS.split(), *_PARTING.split(), "cc", "charge", "mail", "ping", "text"])


def _done_to(text: str) -> int:
    """How many that a text speaks of are those whom it asks to do something to."""
    return sum(
        found[1].lower() in _DONE
        and _BEFORE_ACT.search(text, max(found.start() - _BEFORE_CHARS, 0), found.start())
        is not None
        for found in _TO_WHOM.finditer(text)
    )


_MINE = re.compile(r"\b(?:i|me|my|mine|our|us)\b", re.IGNORECASE)
_CONCRETE = re.compile(r"\d|[\"\u201c\u201d/@#$%]|(?<=[a-z,;] )[A-Z]")
_LANGUAGE = re.compile(
    r"\b(?:explain|describe|write|compose|story|poem|essay|sentence|paragraph|rhyme|word|words"
    r"|meaning|opinion|think|feel|believe|joke|paraphrase|rewrite|classify|complete|blank"
    r"|difference|answer|question|riddle)\b",
    re.IGNORECASE,
)
_TERSE = 8
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def _terse(text: str, words: int) -> float:
    """How terse a wish is, in [0, 1]: 1 - log(words) / log 8; nothing for a mere pleasantry, or
    where nothing is named at all ("show me the").
    """
    words += len(_UNSPACED.findall(text)) // 2  # Chinese and Japanese: about two signs a word
    if words >= _TERSE or is_pleasantry(text) or not terms(text, 1):
        return 0.0
    return 1 - math.log(words, _TERSE)


def form(text: str) -> dict[str, float]:
    """How a query is put (English): signals of whether it asks for an act or for an answer.

    Shares and flags in [0, 1], `form_length` the logarithm of the number of words. Texts in other
    languages give zeros (but `form_terse`), and the judgement rests on what was found. Of a long
    text the beginning tells: each expression holds the interpreter's lock for as long as it looks.
    """
    text = text[:_FORM_CHARS]
    words = max(len(text.split()), 1)
    others = len(_OTHERS.findall(text))
    others -= _done_to(text) if others else 0
    return {
        "form_request": float(bool(_REQUEST.search(text))),
        "form_wh": float(bool(_WH.search(text))),
        "form_why": float(bool(_WHY.search(text))),
        "form_supposed": float(bool(_SUPPOSED.search(text))),
        "form_others": min(others / words * 5, 1.0),
        "form_mine": float(bool(_MINE.search(text))),
        "form_concrete": min(len(_CONCRETE.findall(text)) / words * 5, 1.0),
        "form_language": float(bool(_LANGUAGE.search(text))),
        "form_length": math.log(words),
        "form_terse": _terse(text, words),
    }
