"""Asks the questions of manuals.jsonl and prints how many were answered; see manuals.sh."""

import json
import os
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit, urlunsplit

AMONG = 6  # how many sources a request has by default


def configure(manuals, engine, bases):
    """Writes a configuration of bases in an engine at a URL, and returns its name."""
    name = os.path.join(manuals, "engine-" + "-".join(bases) + ".yaml")
    at = urlsplit(engine)
    knowledge = {}
    for base in bases:
        k = {"engine": "postgres" if at.scheme.startswith("postgres") else "opensearch"}
        k["url"] = urlunsplit((at.scheme, at.netloc.rpartition("@")[2], at.path, "", ""))
        if at.username:
            k["user"] = at.username
        k["path"] = os.path.join(manuals, "docs", *([] if base == "all" else [base]))
        knowledge[base] = k
    part = f"{name}.{threading.get_ident()}"  # many ask at a time
    with open(part, "w", encoding="utf-8") as f:
        json.dump({"upstreams": {"default": {"base_url": "http://127.0.0.1:9"}}, "knowledge": knowledge, "policies": {"default": {"retrieval": {"deadline": "30s"}}}, "state": os.path.join(manuals, "state")}, f)
    os.replace(part, name)
    return name


def run(sidenote, manuals, command, bases, argument=None, body=None):
    """Returns what a command of the binary answers in JSON."""
    line = [sidenote, command, "--json"]
    if engine := os.environ.get("ENGINE"):
        line += ["--config", configure(manuals, engine, bases)]
    else:
        line += ["--state", os.path.join(manuals, "state")]
        for base in bases:
            line += ["--knowledge", base]
    if argument is not None:
        line += ["--", argument]
    done = subprocess.run(line, input=body, capture_output=True, text=True)
    # rewrite prints the request that it makes, and its ledger beside it
    answer = done.stderr if command == "rewrite" else done.stdout
    try:
        return json.loads(answer)
    except ValueError:
        raise SystemExit(f"{' '.join(line)}: {done.stderr.strip()}") from None


class Asker:
    def __init__(self, sidenote, manuals):
        self.sidenote, self.manuals = sidenote, manuals

    def search(self, question, bases):
        """Returns the sources of a question: base and document, best first."""
        answer = run(self.sidenote, self.manuals, "search", bases, argument=question)
        return [(s["kb_id"], s["doc_id"]) for s in answer.get("data") or []]

    def converse(self, turns, bases):
        """Returns the sources that a chat request with these turns of its user gets."""
        messages = []
        for turn in turns[:-1]:
            messages += [{"role": "user", "content": turn}, {"role": "assistant", "content": "…"}]
        messages.append({"role": "user", "content": turns[-1]})
        body = json.dumps({"model": "gpt-4o", "messages": messages})
        answer = run(self.sidenote, self.manuals, "rewrite", bases, body=body)
        sources = answer.get("ledger", {}).get("sources") or []
        return [(s["kb_id"], s["doc_id"]) for s in sources if s.get("id")]


def place(sources, question):
    """Returns the place of the first source that answers, from 1; 0 for none."""
    for i, (base, document) in enumerate(sources[:AMONG]):
        if base == "all":
            base, _, document = document.partition("/")
        if base == question["base"] and re.search(question["want"], document):
            return i + 1
    return 0


def home(source):
    """Returns the manual of a source."""
    base, document = source
    return document.partition("/")[0] if base == "all" else base


def check(questions, docs):
    """Names the patterns that no file of their manual matches."""
    for q in questions:
        folder = os.path.join(docs, q["base"])
        names = (os.path.relpath(os.path.join(d, f), folder) for d, _, files in os.walk(folder) for f in files)
        if not any(re.search(q["want"], name) for name in names):
            raise SystemExit(f"no file of {q['base']} matches {q['want']}")


def main(sidenote, manuals, *bases):
    worst = "--worst" in bases
    bases = [b for b in bases if b != "--worst"]
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "manuals.jsonl"), encoding="utf-8") as f:
        questions = [q for q in map(json.loads, f) if q["base"] in bases]
    with open(os.path.join(here, "manuals-off-topic.txt"), encoding="utf-8") as f:
        off_topic = [line.strip() for line in f if line.strip()]
    check(questions, os.path.join(manuals, "docs"))
    asker = Asker(sidenote, manuals)
    side_by_side = ThreadPoolExecutor(os.cpu_count()).map
    single = [q for q in questions if "q" in q]
    talks = [q for q in questions if "turns" in q]
    print(f"{'':34}{'right@1':>12}{'right@6':>12}{'off target':>12}{'other base':>12}{'follow-ups among 6':>22}{'off-topic with sources':>26}")
    for name, asked in (
        (f"{len(bases)} bases", lambda q: bases),
        ("one base of all", lambda q: ["all"]),
        ("told the right base", lambda q: [q["base"]]),
    ):
        answers = list(side_by_side(lambda q: asker.search(q["q"], asked(q))[:AMONG], single))
        found = [(place(sources, q), q["q"]) for sources, q in zip(answers, single)]
        given = [(source, q) for sources, q in zip(answers, single) for source in sources]
        astray = sum(place([source], q) == 0 for source, q in given)
        elsewhere = sum(home(source) != q["base"] for source, q in given)
        last = list(side_by_side(lambda q: (place(asker.converse(q["turns"], asked(q)), q), " / ".join(q["turns"])), talks))
        first = sum(p == 1 for p, _ in found)
        among = sum(p > 0 for p, _ in found)
        kept = sum(p > 0 for p, _ in last)
        row = f"{name:34}{f'{first} of {len(found)}':>12}{f'{among} of {len(found)}':>12}{astray / max(1, len(given)):>12.0%}{elsewhere / max(1, len(given)):>12.0%}{f'{kept} of {len(last)}':>22}"
        injected = []
        if name != "told the right base":
            answers = side_by_side(lambda m: asker.search(m, asked(None)), off_topic)
            injected = [m for m, sources in zip(off_topic, answers) if sources]
            row += f"{f'{len(injected)} of {len(off_topic)}':>26}"
        print(row, flush=True)
        if worst:
            for p, text in found + last:
                if p != 1:
                    print(f"    {'place ' + str(p) if p else 'not found'}: {text}")
            for text in injected:
                print(f"    off-topic with sources: {text}")


if __name__ == "__main__":
    if sys.argv[1] == "configure":
        print(configure(sys.argv[2], sys.argv[3], sys.argv[4:]))
    else:
        main(*sys.argv[1:])
