"""Wishes that only tools of one kind can fulfil, and the words that such tools have: "book a flight
to Rome" where no tool speaks of flights.

Owns: recognising in English that no tool can be meant. Never imports anything of Armory but the
tokenizer and the vocabulary.

A short wish is given the benefit of the doubt, and among a hundred tools some are always a little
like it: "order a pizza" lists those that put something in order.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from armory.retrieval.lexical.known_words import KnownWords
from armory.retrieval.lexical.text import terms

_CHARS = 150
"""Longest text that is looked at; longer ones say more than that."""
_NEAR = r"[^.?!\n]{0,40}?"
_MONEY = (
    r"(?:usd|eur|gbp|jpy|inr|chf|cny|krw|cad|aud|(?:us )?dollars?|euros?|pounds?|yen|rupees?"
    r"|francs?|pesos?|kron(?:e|er|or)|yuan|bucks)"
)
_UNIT = (
    r"(?:miles?|km|kilomet(?:er|re)s?|met(?:er|re)s?|feet|foot|inch(?:es)?|yards?|cm|kg|kilos?"
    r"|kilograms?|pounds?|lbs?|ounces?|grams?|lit(?:er|re)s?|gallons?|celsius|fahrenheit)"
)
_LANGUAGE = (
    r"(?:english|german|french|spanish|italian|portuguese|dutch|polish|hungarian|russian|chinese"
    r"|japanese|korean|turkish|arabic|hindi|swedish|vietnamese|indonesian)"
)
_FITTING = (
    r"(?:lights?(?! (?:mode|theme))|lamps?|heating|heater|thermostat|tv|television|air ?con|blinds"
    r"|oven|radiators?)"
)
_DISH = (
    r"(?:pizzas?|sushi|burgers?|take ?away|take ?out|coffees?|food|lunch|dinner|groceries"
    r"|sandwich(?:es)?|curry|ramen|tacos?)"
)


#: What a wish may be a part of: "add a task to book a table", "where do we drop the table?",
#: "search my notes about git rebase".
_ACT = re.compile(
    r"\b(?:add|append|comment|create|document|file|log|open|post|record|update|write down)\b"
    r"|\b(?:where|why) (?:do|does|did|we|the|it|is|are)\b"
    r"|\bsearch (?:(?:all|in|my|our|the|through) ){0,3}(?:notes|mails?|messages|docs|wiki|slack)\b"
)
#: "Find the flight confirmation in my mail", "where is the hotels table read?": what a wish of such
#: words may be about, for which there are tools of another kind.
_HELD = re.compile(
    r"\b(?:e-?mails?|mails?|mailbox|inbox|gmail|outlook|calendars?|agenda|slack|discord|telegram"
    r"|whatsapp|messages?|chats?|channels?|threads?|conversations?|notes?|notion|obsidian|wiki"
    r"|confluence|pages?|docs?|documents?|drive|dropbox|folders?|files?|sheets?|spreadsheets?|excel"
    r"|csv|json|pdfs?|readme|tables?|databases?|db|rows?|columns?|records?|sql|quer(?:y|ies)"
    r"|collections?|buckets?|logs?|queues?|requests?|code|codebase|repos?|repositor(?:y|ies)|branch"
    r"|commits?|components?|functions?|modules?|tests?|usages?|references?|apis?"
    r"|endpoints?|schemas?|issues?|tickets?|bugs?|epics?|stories|jira|github|gitlab|tasks?|todos?"
    r"|contacts?|invoices?|receipts?|confirmations?|history|bookmarks?"
    r"|jobs?|cron|forms?|buttons?|features?)\b"
)


class _Kind(NamedTuple):
    """What is wished. A tool for it has one of the words `said` somewhere, or one of `named` in its
    name or that of its server: those are common words, or have other meanings in descriptions.
    With `held`, a text that speaks of what other tools hold may be about that.
    """

    wish: re.Pattern[str]
    said: str
    named: str = ""
    held: bool = False


_SHELL = "command terminal shell bash cli process exec execute run"
_KINDS = (
    _Kind(
        re.compile(
            rf"\b(?:book|reserve|find|get|search|look for)\b{_NEAR}(?<![\w-])flights?\b(?![-./]\w)"
        ),
        "flight airline airport travel trip fare",
        held=True,
    ),
    _Kind(
        re.compile(rf"\b(?:book|buy|reserve)\b{_NEAR}\b(?:train|bus) tickets?\b"),
        "railway travel trip",
        "train station bus ticket",
    ),
    _Kind(
        re.compile(
            rf"\b(?:book|reserve|find|get|search|look for)\b{_NEAR}"
            r"(?<![\w-])(?:hotels?|hostels?|airbnbs?)\b(?![-./]\w)"
        ),
        "hotel hostel accommodation lodging airbnb travel",
        "booking place local map web internet google",
        held=True,
    ),
    _Kind(
        re.compile(r"\b(?:call|order|book|get|hail) (?:me |us )?(?:an? )?(?:taxi|cab|uber|lyft)\b"),
        "taxi cab uber lyft",
        "ride driver",
    ),
    _Kind(
        re.compile(
            r"\b(?:book|reserve|get) (?:me |us )?(?:a )?table (?:for|at|in|tonight|tomorrow)\b"
        ),
        "restaurant dining",
        "reservation reserve booking",
    ),
    _Kind(
        re.compile(
            rf"\border\b (?!by\b){_NEAR}\b{_DISH}\b"
            r"(?! (?:items?|entries|rows|list|table|by|alphabetically|first|last)\b)"
        ),
        "food restaurant grocery meal pizza",
        "cart shop product menu merchant order recipe",
    ),
    _Kind(
        re.compile(
            r"\bplay (?:me )?(?:some\b|music\b|songs?\b|(?:an?|the|my|this|that) (?:\w{1,20} )?"
            r"(?:song|album|playlist|track|music|radio|podcast)\b)"
        ),
        "music song playlist album podcast spotify sonos",
        "play player track radio audio video home",
    ),
    _Kind(
        re.compile(
            rf"\b(?:convert|exchange|change|how much|what)\b{_NEAR}\b{_MONEY} (?:in|to|into)"
            rf" {_MONEY}\b"
        ),
        "currency forex",
        "exchange money rate conversion",
        held=True,
    ),
    _Kind(
        re.compile(
            rf"\b(?:convert|how many|how much|what)\b{_NEAR}\b{_UNIT} (?:in|to|into) {_UNIT}\b"
        ),
        "mile kilometer celsius arithmetic",
        "unit measurement conversion calculator calculate math",
        held=True,
    ),
    _Kind(
        re.compile(r"\bset (?:me )?(?:an?|my|the) (?:alarm|timer)\b|\bwake me\b"),
        "alarm timer reminder",
        "clock calendar wake event task",
        held=True,
    ),
    _Kind(
        re.compile(
            r"\b(?:draw|paint|generate|create|make) (?:me )?(?:an?|some) (?:\w{1,20} )?"
            r"(?:picture|photo|painting|drawing|illustration)s? of\b"
        ),
        "draw paint illustration",
        "image picture photo art canvas design diagram generate",
    ),
    _Kind(
        re.compile(rf"\btranslate\b[^\n]{{0,120}}?\b(?:in)?to {_LANGUAGE}\b"),
        "translate translator",
        held=True,
    ),
    _Kind(
        re.compile(
            r"\b(?:send|transfer|wire|pay) (?:\w{1,20} ){0,2}?"
            rf"(?:[$\u20ac\u00a3] ?\d|\d[\d.,]*+ ?{_MONEY}\b(?! of\b))"
        ),
        "payment bank wallet payout money transaction crypto",
        "pay transfer fund refund charge balance invoice token",
    ),
    _Kind(
        re.compile(
            r"\b(?:squash|rebase|cherry-pick|amend)\b"
            + _NEAR
            + r"\b(?:commits?|branch|main|master)\b"
            r"|\bgit (?:push|pull|commit|rebase|stash|log|status|diff|checkout|merge)\b"
            r"|\b(?:open|merge|review|create|close|approve) (?:the |an? |this |that |my )?"
            r"(?:prs?|pull requests?|merge requests?)\b"
        ),
        "commit",
        f"git github gitlab bitbucket repository branch repo pull merge {_SHELL}",
    ),
    _Kind(
        re.compile(
            r"\b(?:drop|alter|truncate) (?:the |an? |this |my )?(?:\w{1,30} )?"
            r"(?:tables?|columns?|schemas?|databases?)\b"
        ),
        "sql",
        f"table database schema column collection query db {_SHELL}",
    ),
    _Kind(
        re.compile(
            rf"\b(?:scale|restart|redeploy|deploy|drain)\b{_NEAR}"
            r"\b(?:pods?|replicas?|containers?|deployments?|kubernetes|k8s|cluster|nginx|vercel|heroku"
            r"|netlify|staging|prod|production)\b"
        ),
        "kubernetes",
        "deploy deployment docker vercel heroku netlify pod container cluster replica release"
        f" rollout build pipeline server instance kubectl service scale restart app {_SHELL}",
    ),
    _Kind(
        re.compile(
            r"\b(?:build|pipeline|ci)\b.{0,30}?\b(?:is|are|was|keeps?|has|went)\b.{0,30}?"
            r"\b(?:red|broken|failing|failed|stuck)\b"
            r"|\b(?:rerun|retry|restart|trigger) (?:the |that |this )?(?:failed |failing )?"
            r"(?:build|pipeline)\b"
        ),
        "jenkins circleci",
        "ci build pipeline workflow job check test status action log commit pull github gitlab"
        f" {_SHELL}",
    ),
    _Kind(
        re.compile(
            r"\b(?:send|write|draft|forward) "
            r"(?:(?!(?:about|for|in|of|that|the|to)\b)[^\s.?!]{1,20} ){0,3}?"
            r"e-?mails?\b(?! (?:address|template|draft))"
        ),
        "email mail gmail smtp outlook inbox",
    ),
    _Kind(
        re.compile(
            r"\A\W*+(?:(?:what|how|whats|check|get|show|tell me|give me|is)\b[^.?!,\n]{0,30}?"
            r"(?<!space )(?<!solar ))?\bweather\b(?!-| (?:app|api|bot|widget|page|station|data))"
            r"|\bwill it (?:rain|snow)\b"
        ),
        "weather forecast temperature climate rain",
        "web internet google",
        held=True,
    ),
    _Kind(
        re.compile(
            r"\b(?:stock|share) price of\b|\bprice of (?:bitcoin|btc|eth|ethereum|gold|silver)\b"
            r"(?! (?:plan|tier|package|subscription|edition|level|member(?:ship)?s?|sponsor)\b)"
        ),
        "stock ticker crypto bitcoin finance financial commodity",
        "price market quote web internet google",
    ),
    _Kind(
        re.compile(r"\brecipes? (?:for|with)\b"),
        "recipe food cook meal ingredient",
        "web internet google",
        held=True,
    ),
    _Kind(
        re.compile(
            rf"\b(?:turn|switch|put) (?:on|off|up|down)\b{_NEAR}\b{_FITTING}\b"
            rf"|\b(?:turn|switch|put) (?:the |my |our |all )?(?:\w{{1,20}} )?{_FITTING}"
            r" (?:on|off|up|down)\b"
            rf"|\bdim\b{_NEAR}\b{_FITTING}\b"
        ),
        "lamp thermostat appliance hvac iot hue zigbee assistant",
        "light device home switch heating climate fan tv room house control",
    ),
)
#: Without any of these no text is one; looking for them costs next to nothing.
_HINT = re.compile(
    r"\b(?:book|buy|reserve|find|get|search|look|call|order|hail|play|convert|exchange|change|how"
    r"|what|set|wake|draw|paint|generate|create|make|translate|send|transfer|wire|pay|squash|rebase"
    r"|cherry-pick|amend|git|open|merge|review|close|approve|drop|alter|truncate|scale|restart"
    r"|redeploy|deploy|drain|build|pipeline|ci|write|draft|forward|weather|will|price|recipes?|turn"
    r"|switch|put|dim)\b"
)


def is_elsewhere(text: str, words: KnownWords) -> bool:
    """Whether a text wishes for what no tool can do, since none has a word of that kind.

    Args:
        text: with one wish, in English.
        words: of the tools that may be found.
    """
    if len(text) > _CHARS:
        return False
    plain = text.lower()
    if _HINT.search(plain) is None:
        return False
    asked = [(kind, found) for kind in _KINDS if (found := kind.wish.search(plain)) is not None]
    return bool(asked) and not any(_is_served(*each, words) for each in asked)


def _is_served(kind: _Kind, found: re.Match[str], words: KnownWords) -> bool:
    """Whether a tool has a word of the kind, or the text asks for something else, of which the wish
    is a part: "create an issue: the build is red".
    """
    if any(map(words.has, _terms(kind.said))) or any(map(words.names, _terms(kind.named))):
        return True
    text = found.string
    besides = text[: found.start()], text[found.end() :]
    return any(map(_ACT.search, besides)) or (kind.held and _HELD.search(text) is not None)


@cache
def _terms(text: str) -> tuple[str, ...]:
    """Those of a kind's words, once they are wanted: stemming takes a library to load."""
    return tuple(terms(text))
