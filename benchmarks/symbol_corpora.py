"""Writes the public corpora that the symbol-tuned model learnt from; none holds texts of a task of this benchmark.

    python -m benchmarks.symbol_corpora CLONES FOLDER
    python -m benchmarks.symbol_tuning FOLDER symbol_tuned.safetensors

CLONES holds a git clone of each repository of REPOSITORIES, as owner/name. FOLDER gets one JSON Lines file a corpus, of
records with `text` and `label`: texts once, with single blanks, of classes that have at least SMALLEST.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

#: Repository -> the commit that was read.
REPOSITORIES = {
    "PolyAI-LDN/task-specific-datasets": "57ec275d8078af65b7731c2a98be812d844a6d6b",
    "clinc/oos-eval": "828f8093932c8fe6ca7936c3d2e52903b1c523de",
    "jacoxu/STC2": "34a28c5a8cf2d6e1db300d32f271f6522db3bde5",
    "clairett/pytorch-sentiment-classification": "457ffd83de90a9d6d472d8ffc31bbffe40a8b236",
    "justmarkham/pycon-2016-tutorial": "5339710562cc46c4a32a369d63f1e8751a18a54e",
    "shawbyoung/ngram_model": "49196a34a01ca0d0e6d571e78acdd2b999ad17b4",
    "laxmimerit/All-CSV-ML-Data-Files-Download": "c4f568bd3e166ea06eac4426a64562a8d7700e35",
}
#: Records of a class that is kept.
SMALLEST = 30
#: Characters of a text that is too short to say anything.
_TOO_SHORT = 8

#: (text, label) of every record.
Rows = Iterable[tuple[str, str]]
#: Repository and path -> the file's text.
Read = Callable[[str, str], str]


def read_banking(read: Read) -> Rows:
    table = read("PolyAI-LDN/task-specific-datasets", "banking_data/train.csv")
    for row in csv.DictReader(io.StringIO(table)):
        yield row["text"], row["category"]


def read_intents(read: Read) -> Rows:
    parts = json.loads(read("clinc/oos-eval", "data/data_full.json"))
    for part in ("train", "val", "test"):
        yield from parts[part]


def read_domains(read: Read) -> Rows:
    domains = json.loads(read("clinc/oos-eval", "data/domains.json"))
    domain_of = {intent: domain for domain, intents in domains.items() for intent in intents}
    for text, intent in read_intents(read):
        yield text, domain_of[intent]


def read_short_texts(name: str) -> Callable[[Read], Rows]:
    """One of the three corpora of Xu et al. 2017: texts in one file, numbers of classes in another."""

    def read_corpus(read: Read) -> Rows:
        texts = read("jacoxu/STC2", f"dataset/{name}.txt").lstrip("\ufeff").splitlines()
        labels = read("jacoxu/STC2", f"dataset/{name}_gnd.txt").split()
        return zip(texts, labels, strict=True)

    return read_corpus


def read_sentiment(read: Read) -> Rows:
    table = read("clairett/pytorch-sentiment-classification", "data/SST2/train.tsv")
    for line in table.splitlines():
        text, label = line.rsplit("\t", 1)
        yield text, label


def read_messages(read: Read) -> Rows:
    for line in read("justmarkham/pycon-2016-tutorial", "data/sms.tsv").splitlines():
        if "\t" in line:
            label, text = line.split("\t", 1)
            yield text, label


def read_headlines(read: Read) -> Rows:
    table = read("shawbyoung/ngram_model", "clickbait_data.csv")
    for row in csv.DictReader(io.StringIO(table)):
        yield row["text"], row["is_clickbait"]


def read_films(read: Read) -> Rows:
    table = read("laxmimerit/All-CSV-ML-Data-Files-Download", "netflix_titles.csv")
    for row in csv.DictReader(io.StringIO(table)):
        yield row["description"], row["listed_in"].split(",")[0]


CORPORA: Mapping[str, Callable[[Read], Rows]] = {
    "banking77": read_banking,
    "clinc150": read_intents,
    "clinc_domains": read_domains,
    "stackoverflow": read_short_texts("StackOverflow"),
    "searchsnippets": read_short_texts("SearchSnippets"),
    "biomedical": read_short_texts("Biomedical"),
    "sst2": read_sentiment,
    "sms": read_messages,
    "clickbait": read_headlines,
    "netflix": read_films,
}


def select(rows: Rows) -> list[dict[str, str]]:
    """The records that are kept, class by class."""
    plain = dict.fromkeys((" ".join(text.split()), label) for text, label in rows)
    kept = [(text, label) for text, label in plain if len(text) > _TOO_SHORT]
    sizes = Counter(label for _, label in kept)
    labels = [label for label in sizes if sizes[label] >= SMALLEST]
    return [
        {"text": text, "label": label}
        for label in labels
        for text, its_label in kept
        if its_label == label
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clones", type=Path)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()

    def read(repository: str, path: str) -> str:
        clone = str(arguments.clones / repository)
        shown = ["git", "-C", clone, "show", f"{REPOSITORIES[repository]}:{path}"]
        content = subprocess.run(shown, capture_output=True, check=True).stdout
        return content.decode("utf-8", "replace")

    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name, read_corpus in CORPORA.items():
        records = select(read_corpus(read))
        lines = "".join(f"{json.dumps(record)}\n" for record in records)
        (arguments.folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")
        labels = {record["label"] for record in records}
        print(f"{name}: {len(records):,} records of {len(labels)} classes")


if __name__ == "__main__":
    main()
