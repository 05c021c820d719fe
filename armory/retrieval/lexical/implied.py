"""Acts that a query implies without a word for them: "...; put the report at /tmp/report.md" needs
a tool that writes files, "keep in mind that I'm vegetarian" one that adds memories, which neither
their words nor their meaning would find.

Owns: recognising that a text names a file to be written, that it tells whoever listens to remember,
to recall or to forget, that it asks who changed a file, and that it asks for what is new. Never
imports anything of Armory but the wishes of every day.

A file that is read implies nothing: which tool reads it depends on what for, and the query says
that. Nor do office documents: the text names their kind, which finds their tools.
"""

from __future__ import annotations

import re

from armory.retrieval.lexical.everyday import BUILD, CHANNEL, DONE_BY, ERRORS, MAILBOX, everyday

#: What such a query also asks for, in the words of the tools that do it.
WRITE_FILE = "write content to a file"
REMEMBER = "add a memory"
RECALL = "search memories"
FORGET = "delete a memory"
CHANGES = "list commits"
#: Said plainly, and yet the name of what is looked for may be that of a server.
WEB = "search the web for something"
#: Only of a query that would be refused: what is new cannot be known, and others have to be told.
LOOK_UP = "search the web"
SEND = "send a message to somebody"
INSTEAD = frozenset((LOOK_UP, SEND, CHANNEL, MAILBOX, BUILD, ERRORS))
#: A tool does it that has all words of one of these.
DOING = {
    **DONE_BY,
    WRITE_FILE: ("write file", "save file"),
    REMEMBER: ("add memory", "save memory", "store memory", "create memory", "keep memory"),
    RECALL: ("search memory", "find memory", "read memory", "retrieve memory", "recall memory"),
    FORGET: ("delete memory", "remove memory", "forget memory"),
    CHANGES: ("commit log", "commit history", "list commit", "git blame"),
    SEND: ("send message", "post message", "send email", "send mail", "send notification"),
    LOOK_UP: ("search web", "search internet", "search online", "search google"),
    WEB: ("search web", "search internet", "search online", "search google"),
}
_ASKS = (
    r"(?:^|(?<=[.!?;,:\n]))[^\S\n]*+"
    r"(?:(?:please|and|but|also|always|from now on|(?:can|could|will|would|should) you)"
    r"[,\s]++){0,4}+"
)
#: Without any of these no text is one of the next; looking for them costs next to nothing.
_HINTS = (
    *("remember", "memori", "in mind", "mental note", "note to self", "forget", "recall"),
    *("know about", "did i ", "have i ", "remind me what", " that down", " this down"),
    *("merk", "vergiss", "retiens"),
    *("souviens", "oublie", "recuerda", "olvides", "记住"),
)
#: Of whoever listens: not "remember to call Bob", which wants a reminder, nor "what do you know
#: about whales?".
_REMEMBERING = {
    REMEMBER: re.compile(
        _ASKS + r"(?:remember(?:,|:|;|\s*+[-\u2013\u2014])?\s++"
        r"(?:that|this|it|i|i'm|i've|i'd|my|we|we're|our|his|her|their)\b"
        r"|remember\s*+:|memori[sz]e\b|(?:keep|bear) (?:(?:that|this|it) )?in mind\b"
        r"|make a mental note\b|note to self\b"
        r"|(?:don't|do not|never) forget\s++(?:that|this|it|i|i'm|i've|my|we|our)\b"
        r"|(?:note|jot|write) (?:that|this) down[.!]*+$"
        r"|(?:merk|merke) dir\b|merken sie sich\b|vergiss nicht, dass\b|retiens que\b"
        r"|souviens-toi que\b|n'oublie pas que\b|recuerda que\b|no olvides que\b|请?记住)",
        re.IGNORECASE,
    ),
    RECALL: re.compile(
        r"\bdo you (?:still )?remember\b|\bwhat (?:else )?do you (?:remember|recall)\b"
        r"|\bwhat (?:else )?do you know about (?:me|my|our|us(?! ?[a-z]))\b"
        r"|\bdid i (?:ever |already |once )?(?:tell you|mention)\b"
        r"|\b(?:who|what|where|when|which|how) did i say (?:(?:was|were|is|are|am) )?+(?:my|i)\b"
        r"|\bhave i (?:ever |already |once )?(?:told you|mentioned)\b"
        r"|\bremind me what i (?:told|said)\b",
        re.IGNORECASE,
    ),
    FORGET: re.compile(
        _ASKS + r"forget\s++(?:what i\b|(?:all|everything|anything)\b)", re.IGNORECASE
    ),
}
#: "Who touched the parser last week?", "who wrote that line?": of files of code, and no book.
_CHANGED = re.compile(
    r"\bwho(?: else)?(?: has| had|'s)?(?: last| recently)? (?:"
    r"(?:touched|edited|modified|changed|committed|refactored|broke|wrote|added|removed|deleted"
    r"|introduced) [^.?!;,:\n]{0,60}?\b(?:code|lines?|functions?|methods?|class|module|tests?"
    r"|script|build|repo|branch"
    r"|bug|regression|readme|dockerfile|makefile|\w+\.(?:py|js|ts|tsx|jsx|go|rs|java|rb|php|c|h|cpp|cs"
    r"|kt|swift|sql|sh|md|ya?ml|json|toml|css|html))\b"
    r"|(?:touched|edited|modified|refactored) (?:the|our) [\w /-]{1,40}?"
    r" (?:last|lately|recently|yesterday|today|since|this (?:week|month)|before|first)\b)"
)
#: "Search the web for Kubernetes CVEs", "google the Notion pricing".
_WEB = re.compile(
    r"\b(?:search|browse|scour|check|look|query)(?: (?:on|in|through|across|for it on))?"
    r" (?:the )?(?:web|internet)\b(?!\s?(?:pages?|sites?|apps?|sockets?|hooks?|server|ui))"
    r"|\b(?:search|look|check) online\b"
    r"|\blook (?:[^\s.?!;]{1,30} ){0,6}up (?:online|on the (?:web|internet))\b"
    r"|\b(?:find|research|look) (?:[^\s.?!;]{1,30} ){1,8}on the (?:web|internet)\b"
    r"|(?:\A|(?<=[.!?;:,\n])|\b(?:and|then|please|just|to|you))[^\S\n]*+google"
    r" (?:(?:for|it|the|that|this|what|who|how|when|where|why|whether|if|some)\b|[\"'\u201c])"
)
_ONLINE = ("web", "internet", "online", "google")
#: "Let the team know", "and notify Bob": whoever else is told something.
_NOTIFYING = re.compile(
    r"(?:\A|(?<=[.!?;,:\n])|\band\b|\bthen\b)[^\S\n]*+"
    r"(?:(?:please|also|just|then|can you|could you)\s++){0,3}+"
    r"(?:let (?!me\b|us\b|it\b|you\b)[^.!?;,:\n]{1,40}? know\b"
    r"|(?:reply|respond|write)(?: back)? to [^.!?;,:\n]{1,40}? (?:that|saying)\b"
    r"|(?:notify|inform|tell|ping|dm) (?!(?:me|us|you|it|a|an|apart|how|what|which|whether|if|where"
    r"|when|who|why|the (?:time|truth|difference|story|server|host))\b|stor|\S*[.\d])@?\w)"
)
_NOTIFYING_HINTS = (
    *("let ", "notify ", "inform ", "tell ", "ping ", "dm ", "reply ", "respond ", "write "),
)
#: What says by what means: it finds the tool.
_MEANS = re.compile(
    r"#|\b(?:e-?mails?|mails?|slack|messages?|sms|texts?|whatsapp|telegram|discord|teams|channels?"
    r"|chat|thread|comments?|posts?|(?<!-)calls?|tweets?|notifications?)\b"
)
#: "Latest news on the election", "who is currently president of Peru?"
_NEW = re.compile(
    r"\b(?:latest|newest|breaking|recent) (?:\w{1,30} ){0,3}?"
    r"(?:news|headlines|versions?|releases?|updates?|developments|scores?|results)\b"
    r"|\b(?:news|headlines) (?:on|about|from|of|regarding)\b|\bin the news\b"
    r"|^\W*+(?:who|what|when|where|how|which|is|are|did|has|have|does|do|will|was|were)"
    r"(?:'s|'re|'ll)?\b[^.?!\n]{0,200}?\b(?:current(?:ly)?|latest|newest|now|today|tonight|yesterday"
    r"|this (?:week|month|year|season|weekend)|last (?:night|week|weekend)|yet|nowadays|recently"
    r"|so far|20(?:2[3-9]|3\d))\b"
)
#: Who is meant by these is in no news.
_PERSONAL = re.compile(r"\b(?:you|your|i|i'm|i've|my|me|we|our|us|it)\b")
_NEW_CHARS, _EXAMINED_CHARS = 200, 1_000
#: Characters of a text that are looked at.
_CHARS = 4_000
_EDGES = "\"'`\u2018\u2019\u201c\u201d()[]{}<>,;:!?*\u3002\uff0c\uff01\uff1f"
_PROSE = "md txt csv tsv json jsonl html htm xml yaml yml log bib tex rst"
_CODE = "py js ts jsx tsx css sh sql java go rs c h cpp rb php toml ini cfg"
_NAMED, _PLACED = frozenset(_PROSE.split()), frozenset(f"{_PROSE} {_CODE}".split())
_SAVE = """
save saved saves saving write writes writing store stored export output
speichere speichern gespeichert schreibe schreib schreiben
enregistre enregistrer enregistrez sauvegarde sauvegarder
guarda guardar guárdalo guarde escribe escribir
"""
_MAKE = """
written create created creating generate generated make put draft produce report document summary
download
"""
_READ = """
read reads reading open load parse inspect check look view find from convert extract analyze analyse
import compare edit lies lese lis lee
"""
_LIBRARY = """
alpine.js angular.js backbone.js chart.js d3.js discord.js ember.js express.js next.js node.js
nuxt.js p5.js pdf.js react.js svelte.js three.js vue.js
"""
_POINT = """
the this that these those my your our his her their its
"""
_PLACE = """
to into as at in on under file named called titled als nach unter dans sous comme en como
"""
#: Libraries that are written like files of code.
_LIBRARIES = frozenset(_LIBRARY.split())
#: Verbs before a bare file name, in English, German, French and Spanish.
_SAVES = frozenset(_SAVE.split())
#: Words between such a verb and the bare name of a file of code: "write it to a.py", but not "write
#: it in a.py".
_GOES = frozenset(("to", "into", "as", "named", "called"))
#: Verbs before a path with a folder.
_MAKES = _SAVES | frozenset(_MAKE.split())
_READS = frozenset(_READ.split())
#: Of the makers things as well, which are there already where a word points at them: "mail the
#: report at /tmp/a.md".
_THINGS = frozenset(("report", "document", "summary", "draft", "output", "export", "download"))
_POINTING = frozenset(_POINT.split())
#: Words right before either: a file that is only mentioned ("the report x.md says") is not written.
_PLACES = frozenset(_PLACE.split())
#: Verbs before a path in the same word, in Chinese.
_HAN = ("保存", "写入", "写到", "存到", "另存")


def implied(text: str) -> tuple[str, ...]:
    """Further texts to search for.

    "Save it as notes.md", "a summary at /tmp/a.txt", but not "read /tmp/a.txt"; "keep in mind that
    I'm vegetarian", "do you remember my shoe size?", "forget what I said of Bob"; "news on Peru".
    """
    plain = text[:_CHARS].lower().replace("\u2019", "'")
    memory: tuple[str, ...] = ()
    if any(hint in plain for hint in _HINTS):
        memory = tuple(act for act, asked in _REMEMBERING.items() if asked.search(plain))
    acts = (*memory, WRITE_FILE) if _writes_file(text) else memory
    if any(hint in plain for hint in _ONLINE) and _WEB.search(plain, 0, _EXAMINED_CHARS):
        acts = (*acts, WEB)
    if "who" in plain and _CHANGED.search(plain, 0, _EXAMINED_CHARS):
        acts = (*acts, CHANGES)
    if any(hint in plain for hint in _NOTIFYING_HINTS) and _asks_to_notify(plain):
        acts = (*acts, SEND)
    acts = (*acts, *everyday(plain))
    return acts if acts or not _is_new(plain) else (LOOK_UP,)


def _asks_to_notify(plain: str) -> bool:
    """Whether a text asks to tell somebody something without naming a channel."""
    return _NOTIFYING.search(plain, 0, _EXAMINED_CHARS) is not None and not _MEANS.search(plain)


def _is_new(plain: str) -> bool:
    """Whether a text asks for what only a look at the web can tell."""
    if len(plain) > _NEW_CHARS or _PERSONAL.search(plain):
        return False
    return _NEW.search(plain) is not None


def _writes_file(text: str) -> bool:
    """Whether the text names a text file that is to be written."""
    said = before = ""
    for word in text[:_CHARS].split():
        lower = word.strip(_EDGES).rstrip(".").lower()
        if _is_path(lower):
            if said in _MAKES and before in _PLACES:
                return True
            if any(verb in lower[: lower.replace("\\", "/").index("/")] for verb in _HAN):
                return True
        elif said in _SAVES and before in _PLACES and _is_name(lower, code=before in _GOES):
            return True
        made = lower in _MAKES and not (lower in _THINGS and before in _POINTING)
        if made or lower in _READS:
            said = lower
        before = lower
    return False


def _is_path(word: str) -> bool:
    """Whether a word is the path of a text file."""
    stem, _, kind = word.rpartition(".")
    return kind in _PLACED and ("/" in stem or "\\" in stem) and "://" not in stem


def _is_name(word: str, *, code: bool) -> bool:
    """Whether a word is the name of a text file in no folder, of prose or data; `code`: or code."""
    stem, _, kind = word.rpartition(".")
    known = _PLACED if code and word not in _LIBRARIES else _NAMED
    return kind in known and bool(stem.strip(".")) and "/" not in stem
