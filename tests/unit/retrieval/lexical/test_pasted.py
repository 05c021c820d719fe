"""The output of programs is left out of a text that says something besides."""

from __future__ import annotations

import pytest

from armory.retrieval.lexical.bm25 import LexicalIndex
from armory.retrieval.lexical.known_words import KnownWords
from armory.retrieval.lexical.pasted import without_output
from armory.retrieval.search.scope import prepared

JAVASCRIPT = """\
Error: connect ECONNREFUSED 10.0.12.4:5432
    at TCPConnectWrap.afterConnect [as oncomplete] (node:net:1555:16)
    at Pool.connect (/app/node_modules/pg-pool/index.js:45:11)
    at async UserRepo.findById (/app/dist/repos/user.js:31:18)"""
PYTHON = """\
Traceback (most recent call last):
  File "/srv/app/worker.py", line 88, in run
    self.handle(message)
  File "/srv/app/worker.py", line 41, in handle
    amount = Decimal(payload["amount"])
KeyError: 'amount'"""
LOG = """\
2025-11-12T09:14:22.902Z WARN  [api] retrying in 2000ms (attempt 4)
2025-11-12T09:14:24.917Z ERROR [api] giving up
[09:14:25] worker stopped"""
GO = """\
[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x4a1b2c]
goroutine 1 [running]:
\t/home/ci/server/main.go:57 +0x2c
exit status 2"""
NPM = """\
npm ERR! code ERESOLVE
npm ERR! ERESOLVE unable to resolve dependency tree
npm ERR! Found: react@19.0.0"""
DIFF = """\
diff --git a/app/models/user.rb b/app/models/user.rb
index 83db48f..bf2f1c2 100644
--- a/app/models/user.rb
+++ b/app/models/user.rb
@@ -10,7 +10,7 @@
-  validates :email, presence: true
+  validates :email, presence: true, uniqueness: true"""
CHAT = """\
[10:02] Mark: the deploy is stuck again
10:04 AM - Ola Berg: same as last week, the migration hangs
(10:05:11) Mark: someone should write this down"""
WISH = "open an issue in acme/backend about it"


@pytest.mark.parametrize(
    ("output", "left"),
    [
        (JAVASCRIPT, "Error: connect ECONNREFUSED 10.0.12.4:5432"),
        (PYTHON, "KeyError: 'amount'"),
        (LOG, ""),
        (GO, ""),
        (NPM, ""),
        (DIFF, ""),
        (CHAT, ""),
    ],
)
def test_output_is_left_out(output: str, left: str) -> None:
    below = without_output(f"{output}\n\n{WISH}")
    assert "".join(below.splitlines()) == left + WISH
    above = without_output(f"{WISH}\n{output}\n")
    assert "".join(above.splitlines()) == WISH + left


@pytest.mark.parametrize(
    "text",
    [
        f"{LOG}\nfix it",  # it is all there is to go by
        LOG,
        CHAT,
        f"{CHAT}\nhelp them",
        "10:00 Standup\n11:00 Review with Ann: budget of the next year\n12:00 Lunch\nadd these",
        f"{WISH}: 09:14:22 giving up",
        "meet at\n09:00:00 in the lobby\nand tell Ann",
        "- buy milk\n- at the market\n+ call Bob tomorrow about the invoice",
        "a list of things\n  at home\n  at work\n  at the seaside, with all of the family",
    ],
)
def test_what_says_something_stays(text: str) -> None:
    assert without_output(text) == text


def test_two_words_beside_a_chat_are_enough() -> None:
    assert without_output(f"{CHAT}\nmake a Jira ticket of it") == "make a Jira ticket of it"


def test_it_is_not_searched_for() -> None:
    assert prepared(f"{LOG}\n{WISH}", KnownWords(LexicalIndex().freeze())) == WISH
