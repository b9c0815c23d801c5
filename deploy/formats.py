"""Looks for the sentences of formats.jsonl in what Sidenote reads; see formats.sh."""

import json
import os
import shutil
import subprocess
import sys
import unicodedata
from concurrent.futures import ThreadPoolExecutor


def sentences():
    """Returns the lines of formats.jsonl."""
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "formats.jsonl"), encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def collect(formats):
    """Copies the documents from the packages to docs, by format."""
    docs = os.path.join(formats, "docs")
    shutil.rmtree(docs, ignore_errors=True)
    for s in sentences():
        name, target = os.path.join(formats, "packages", s["from"]), os.path.join(docs, s["file"])
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if os.path.exists(name):
            shutil.copyfile(name, target)
        else:
            print(f"formats.sh: {s['from']} is not there", file=sys.stderr)


def plain(text):
    """Returns a text with one form of each letter and single spaces."""
    return " ".join(unicodedata.normalize("NFKC", text).split())


def read(sidenote, formats, file):
    """Returns the text of a document as it was cut; empty for one that was not read.

    The messages of a mailbox are documents of their own, named FILE#N.
    """
    names = [file] if not file.endswith(".mbox") else [f"{file}#{i}" for i in range(1, 10)]
    command = [sidenote, "knowledge", "get", "--state", os.path.join(formats, "state"), "formats"]
    return plain("".join(subprocess.run([*command, name], capture_output=True, text=True).stdout for name in names))


def found(sentence, text):
    """Tells whether a text has what is shown in its file, and nothing that is hidden there."""
    hidden = sentence.get("hidden")
    return plain(sentence["text"]) in text and not (hidden and hidden in text)


def check(formats, sidenote):
    """Prints how many sentences are found, and returns 0 if all are."""
    asked = sentences()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        texts = list(pool.map(lambda s: read(sidenote, formats, s["file"]), asked))
    rows = {}
    for s, text in zip(asked, texts):
        rows.setdefault(s["file"].partition("/")[0], []).append((s, found(s, text)))
    rows["all"] = [pair for row in rows.values() for pair in row]
    print(f"{'format':10}{'files':>8}{'found':>8}")
    for format, row in rows.items():
        print(f"{format:10}{len(row):>8}{sum(right for _, right in row):>8}")
    wrong = [s for s, right in rows["all"] if not right]
    for s in wrong:
        print(f"missing in {s['file']}: {s['text']}" + (f", or has {s['hidden']}" if "hidden" in s else ""))
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1] == "collect":
        collect(sys.argv[2])
    else:
        sys.exit(check(sys.argv[2], sys.argv[3]))
