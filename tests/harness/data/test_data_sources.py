"""Where records come from: local files, the hub, synthetic corpora; de-duplication, limits, fingerprint."""

import json
from collections import Counter
from pathlib import Path

import pytest

from dpicl.core.errors import DataError, UsageError
from dpicl.data.task import Task, load_config
from tests.harness.helpers import write

pytestmark = pytest.mark.usefixtures("new_corpora")

AGNEWS = ["World", "Sports", "Business", "Sci/Tech"]


@pytest.fixture
def data(local_data) -> Path:
    """A local AG News with three train records a class and two test records."""
    train = [
        {"text": f"story {i} of {label}", "label": label} for i in range(3) for label in AGNEWS
    ]
    write(local_data, "agnews", "train", train)
    write(
        local_data,
        "agnews",
        "test",
        [{"text": f"exam {label}", "label": label} for label in AGNEWS[2:]],
    )
    return local_data


def load_local(**limits) -> Task:
    return Task.load("agnews", source="local", **limits)


def append(folder: Path, split: str, line: str) -> None:
    with (folder / "agnews" / f"{split}.jsonl").open("a", encoding="utf-8") as file:
        file.write(line + "\n")


# --- local files


def test_duplicates_and_leaks_are_dropped_and_counted(data):
    append(data, "train", json.dumps({"text": "STORY 0, of world!", "label": "World"}))
    append(data, "train", json.dumps({"text": "Story 1 of World", "label": "Business"}))
    append(data, "train", json.dumps({"text": "exam: business", "label": "World"}))
    append(data, "test", json.dumps({"text": "Exam business", "label": "Business"}))
    for text in ("?!", "..."):  # no letters: two records
        append(data, "train", json.dumps({"text": text, "label": "World"}))
    task = load_local()
    assert task.dropped == {"duplicates": 2, "train_in_test": 1, "test_duplicates": 1}
    assert len(task.train) == 14
    assert len(task.test) == 2


@pytest.mark.parametrize(
    ("split", "rows", "words"),
    [
        (
            "train",
            [{"text": "only this", "label": "World"}],
            "no train record of Sports, Business, Technology",
        ),
        ("test", [], "empty test set"),
    ],
)
def test_an_empty_class_and_an_empty_test_set_are_errors(data, split, rows, words):
    write(data, "agnews", split, rows)
    with pytest.raises(DataError, match=words):
        load_local()


def test_repr_shows_no_text(data):
    task = load_local()
    assert "story" not in repr(task)
    assert "story" not in repr(task.train[0])


# --- limits, order, fingerprint


def test_limits_keep_so_many_records_a_class_and_so_many_tests(data):
    task = load_local(limit_train=2, limit_test=1)
    assert Counter(record.label for record in task.train) == dict.fromkeys(task.labels, 2)
    assert len(task.test) == 1


def test_half_of_a_surrogate_pair_becomes_a_question_mark(data):
    append(data, "train", '{"text": "broken \\ud800 letter", "label": "World"}')
    assert "broken ? letter" in {record.text for record in load_local().train}


def test_test_records_are_permuted(data):
    rows = [{"text": f"exam {i}", "label": "World"} for i in range(40)]
    write(data, "agnews", "test", rows)
    texts = [record.text for record in load_local().test]
    assert texts != [row["text"] for row in rows]
    assert sorted(texts) == sorted(row["text"] for row in rows)


def test_the_fingerprint_follows_texts_labels_and_order(data):
    fingerprints = {load_local().fingerprint}
    path = data / "agnews" / "train.jsonl"
    lines = path.read_text().splitlines()
    for change in (
        [*lines[:-1], lines[-1].replace("story 2", "story 9")],
        [*lines[:-1], lines[-1].replace('"Sci/Tech"', '"World"')],
        [lines[1], lines[0], *lines[2:]],
    ):
        path.write_text("\n".join(change) + "\n")
        fingerprints.add(load_local().fingerprint)
    assert len(fingerprints) == 4


@pytest.mark.parametrize("limits", [{"limit_train": 0}, {"limit_test": -1}])
def test_limits_below_one_are_refused(limits):
    with pytest.raises(UsageError, match="at least 1"):
        Task.load("agnews", source="synthetic", **limits)


# --- sources


def test_auto_takes_local_data_or_else_the_synthetic_corpus(data, monkeypatch):
    assert Task.load("agnews").source == "local"
    assert Task.load("trec", limit_train=1).source == "synthetic"
    monkeypatch.delenv("DPICL_DATA")
    assert Task.load("agnews", limit_train=1).source == "synthetic"


def test_missing_local_data_says_what_to_do(data, monkeypatch):
    with pytest.raises(DataError, match=r"no trec/train\.jsonl.*--source synthetic"):
        Task.load("trec", source="local")
    monkeypatch.delenv("DPICL_DATA")
    with pytest.raises(DataError, match=r"DPICL_DATA is not set.*--source synthetic"):
        load_local()
    monkeypatch.setenv("DPICL_DATA", str(data / "nowhere"))
    with pytest.raises(DataError, match="is not a folder"):
        Task.load("agnews")


def test_without_network_the_hub_error_names_both_ways_out(monkeypatch):
    def fail(*args, **kwargs):
        raise ConnectionError("no route")

    monkeypatch.setattr("datasets.load_dataset", fail)
    with pytest.raises(
        DataError, match=r"fancyzhx/ag_news.*--source local.*DPICL_DATA.*--source synthetic"
    ) as caught:
        Task.load("agnews", source="hub")
    assert str(caught.value).count(". ") == 0


@pytest.mark.parametrize("name", ["mit_g", "enron"])
def test_a_task_without_hub_source_and_says_which_files_to_bring(name):
    with pytest.raises(DataError, match=rf"{name}/train\.jsonl"):
        Task.load(name, source="hub")


HUB = {  # label ids as the hub's data set cards list them
    "agnews": (
        "text",
        "label",
        {0: "World", 1: "Sports", 2: "Business", 3: "Technology"},
    ),
    "dbpedia": (
        "content",
        "label",
        {0: "Company", 1: "School", 4: "Politician", 7: "Nature", 13: "Book"},
    ),
    "trec": (
        "text",
        "coarse_label",
        {0: "Abbreviation", 1: "Entity", 2: "Description", 3: "Person", 4: "Location", 5: "Number"},
    ),
}


@pytest.mark.parametrize("name", HUB)
def test_hub_label_ids_become_label_words_at_a_pinned_commit(monkeypatch, name):
    text, label, words = HUB[name]
    request: dict[str, str] = {}

    def hub(path, config, split, revision):
        request.update(path=path, revision=revision)
        rows = [{text: f"train {i}", label: i} for i in range(len(load_config(name).doc_to_choice))]
        return {
            "train": rows,
            "test": [{text: f"test {i}", label: i} for i in words],
        }[split]

    monkeypatch.setattr("datasets.load_dataset", hub)
    task = Task.load(name, source="hub")
    assert {r.text: r.label for r in task.test} == {f"test {i}": word for i, word in words.items()}
    assert len(request["revision"]) == 40


PAIRS = {  # columns and splits as the hub's data set cards list them
    "samsum": ("knkarthick/samsum", "dialogue", "summary", ("train", "test")),
    "xsum": ("EdinburghNLP/xsum", "document", "summary", ("train", "test")),
    "chatdoctor": (
        "lavita/ChatDoctor-HealthCareMagic-100k",
        "input",
        "output",
        ("train[1000:]", "train[:1000]"),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_an_unpinned_hub_set_is_read_at_the_commit_given(monkeypatch, name):
    path, text, label, splits = PAIRS[name]
    requests = []

    def hub(path, config, split, revision):
        requests.append((path, split, revision))
        public = load_config(name).data.public["hub"]
        kind, number = ("test", 3) if split == splits[1] else ("train", public + 5)
        return [{text: f"{kind} text {i}", label: f"{kind} label {i}"} for i in range(number)]

    monkeypatch.setattr("datasets.load_dataset", hub)
    commit = "0123456789" * 4
    monkeypatch.setenv("DPICL_HUB_REVISION", f"other={'f' * 40}, {name}={commit}")
    task = Task.load(name, source="hub")
    assert requests == [(path, split, commit) for split in splits]
    assert sorted(r.label for r in task.test) == [f"test label {i}" for i in range(3)]
    assert len(task.train) == 5
    assert len(task.public) == load_config(name).data.public["hub"]


@pytest.mark.parametrize("revision", ["", "samsum=main", f"xsum={'f' * 40}", f"samsum={'F' * 40}"])
def test_a_branch_is_no_commit_and_the_message_says_what_to_set(monkeypatch, revision):
    monkeypatch.setenv("DPICL_HUB_REVISION", revision)
    monkeypatch.setattr(
        "datasets.load_dataset", lambda *args, **options: pytest.fail("the hub was asked")
    )
    with pytest.raises(DataError, match="DPICL_HUB_REVISION=samsum=COMMIT"):
        Task.load("samsum", source="hub")


def test_other_keys_and_a_byte_order_mark_change_no_record(data):
    path = data / "agnews" / "train.jsonl"
    before = Task.load("agnews", "local").fingerprint
    lines = path.read_bytes().splitlines()
    lines[0] = lines[0][:-1] + b', "id": 123456789012345678901, "weight": NaN}'
    path.write_bytes(b"\xef\xbb\xbf" + b"\n".join(lines))
    assert Task.load("agnews", "local").fingerprint == before
