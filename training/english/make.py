"""Make the list of English words that `armory` takes for spelt rightly.

    python training/english/make.py WORDS... --out armory/retrieval/lexical/english.txt.gz

WORDS are word lists with a word a line: SCOWL's American and British ones (the Debian packages
`wamerican` and `wbritish`). Words that the shipped model's tokenizer holds whole join them, among
them many names, and those of `terms.txt` beside this file: products, formats and terms of the trade
that neither has, written by hand. Lower case, letters only, at least four of them.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TERMS = Path(__file__).with_name("terms.txt")
TOKENIZER = ROOT / "armory/retrieval/models/embedded/tokenizer.json"


def words_of(lines: Iterable[str]) -> set[str]:
    """Those that count."""
    found = {line.strip() for line in lines}
    return {w for w in found if len(w) >= 4 and w.isascii() and w.isalpha() and w.islower()}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("lists", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    found = words_of(json.loads(TOKENIZER.read_text(encoding="utf-8"))["model"]["vocab"])
    for path in [TERMS, *args.lists]:
        found |= words_of(path.read_text(encoding="utf-8").splitlines())
    text = "\n".join(sorted(found)) + "\n"
    args.out.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(f"{args.out}: {len(found):,} words, {args.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
