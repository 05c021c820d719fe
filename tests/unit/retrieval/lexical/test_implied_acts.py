"""Which texts name a file that is to be written."""

from __future__ import annotations

import pytest

from armory.retrieval.lexical.implied import WRITE_FILE, implied


@pytest.mark.parametrize(
    "text",
    [
        "Compare both packages and put a table into /tmp/compare.md.",
        "the weather of the week, saved as report.md, please",
        "Summarize the talk and write it to 'C:\\notes\\talk.txt'",
        "Create a login page in src/pages/login.tsx",
        "Read /tmp/a.csv, then save the sums to ./sums.csv",
        "Speichere das Ergebnis als notizen.md",
        "Enregistre le résumé dans /tmp/resume.md",
        "Guarda el resumen en /tmp/resumen.txt",
        "Put the report at /tmp/report.md",
        "a report at /tmp/report.md",
        "把总结保存到/root/summary.md",
    ],
)
def test_a_file_to_be_written(text: str) -> None:
    assert implied(text) == (WRITE_FILE,)


@pytest.mark.parametrize(
    "text",
    [
        "read /tmp/a.txt",
        "save my work",
        "Write a Next.js page",
        "Save the picture at /tmp/a.png",
        "save https://example.com/a.html to the reading list",
        "Our wishes are written down in wishes.md, where do we start?",
        "What does the report /tmp/a.md say?",
        "Create the file and open /tmp/a.md",
        "email the report at /tmp/report.md to Bob",
        "Translate this document in /tmp/a.txt",
        "",
    ],
)
def test_nothing_to_be_written(text: str) -> None:
    assert implied(text) == ()


def test_only_the_beginning_of_a_long_text_is_looked_at() -> None:
    assert implied("word " * 2_000 + "saved at /tmp/a.md") == ()
