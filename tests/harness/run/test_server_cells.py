"""Cells on a model server: results as in this process, what was sent where on the row, and no release twice."""

import json
import pickle
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from dpicl import models
from dpicl.data.task import Task
from dpicl.leaderboards.gate.case import Case
from dpicl.leaderboards.gate.code import reason_not_to_run
from dpicl.leaderboards.gate.contents import Contents
from dpicl.leaderboards.model.marks import SERVED, UNANSWERED, marks_of
from dpicl.leaderboards.model.submissions import Card
from dpicl.mechanism.registry import load_mechanisms
from dpicl.models import server, server_http
from dpicl.models.server_settings import ServerRecord, ServerSettings
from dpicl.models.simulated import SimulatedLM
from dpicl.plan.selection import select
from dpicl.plan.suite_files import Changes
from dpicl.results.schema import Result, from_text
from dpicl.run import workbench
from tests.harness.models import fake_server
from tests.harness.models.fake_server import FakeServer, run_server

SUITE = """\
name: servers
version: 1
source: synthetic
models: [sim]
seeds: [0]
epsilons: [2]
shots: 2
test_records: 2
train_records: 60
tasks: [agnews]
mechanisms:
  - name: voting
    options: {{slots: 3, examples_per_slot: 1}}
  - name: tang
    options: {{slots: 4, examples_per_slot: 2, tokens: 4, top_k: 30}}
  - name: prism
    options: {{prompts: 4, tokens: 2}}
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_http, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(workbench, "EMBEDDED", "sim")


def name(fake: FakeServer, **more: object) -> str:
    return fake.name(patience=1, timeout=60, **more)


@pytest.fixture
def run(dpicl: Callable, tmp_path: Path) -> Callable[..., dict[str, Result]]:
    """Runs the suite on a model: label -> result. code: the exit code that is expected."""

    def make_results(
        model: str, *flags: object, code: int = 0, results: str = "results"
    ) -> dict[str, Result]:
        suite = tmp_path / "suite.yaml"
        suite.write_text(SUITE.format(), encoding="utf-8")
        answer = dpicl(f"run {suite} --model {model} --results", tmp_path / results, *flags)
        assert answer.code == code, answer.err
        make_results.stderr = answer.err
        results_made = [
            from_text(path.read_text()) for path in (tmp_path / results).rglob("*.json")
        ]
        return {result.cell.label: result for result in results_made}

    return make_results


def read_release(result: Result) -> object:
    """Everything that a release determines."""
    privacy = result.privacy.model_dump(exclude={"notes"})
    return privacy, result.released, result.answers


def values(result: Result) -> dict[str, float]:
    return {name: score.value for name, score in result.scores.items()}


def test_results_are_those_of_the_same_model_in_this_process(
    run, fake: FakeServer, monkeypatch
) -> None:
    as_the_server_reads = "dpicl.models.huggingface.preferred_dtype"
    monkeypatch.setattr(as_the_server_reads, lambda device: torch.float32)
    expected = run(f"hf:{fake.folder}", results="here")
    served = run(name(fake))
    assert served.keys() == expected.keys() == {"voting", "tang", "prism"}
    for label, result in served.items():
        assert read_release(result) == read_release(expected[label])
        assert values(result) == pytest.approx(values(expected[label]), abs=1e-5)
        record = result.manifest.server
        assert (
            record is not None
            and record.vocabulary
            and record.loopback
            and record.kind == "llama.cpp"
        )
        assert (
            result.manifest.model.batch_invariant is False
            and expected[label].manifest.server is None
        )
        assert any("model server" in note for note in result.privacy.notes)
        assert SERVED in marks_of([result]) and SERVED not in marks_of([expected[label]])
        assert "server" not in expected[label].manifest.model_dump(mode="json")

    case = Case(
        Contents(Path("sent"), card=Card.model_construct(mechanism=""), results=served),
        {},
        run_code=True,
    )
    assert "server" in reason_not_to_run(case)  # no submitted address is asked


def test_tang_asks_the_public_prompt_once_for_a_token(run, tiny_folder: Path) -> None:
    with run_server("vllm", tiny_folder, top=64) as fake:
        run(name(fake), "--mechanism", "tang")
        bodies = [body for _, body in fake.seen]
    public = [
        body["prompt"]
        for body in bodies
        if body.get("logprobs") == 30 and "logprob_token_ids" not in body
    ]
    listing = [body["prompt"] for body in bodies if "logprob_token_ids" in body]
    assert public and listing
    assert not [prompt for prompt in public if prompt in listing]


def test_speed_is_in_no_name_and_reaches_the_connection(
    run, dpicl, fake: FakeServer, tmp_path, monkeypatch
) -> None:
    settings, read = list[ServerSettings](), server.settings_of

    def note(rest: str) -> ServerSettings:
        settings.append(read(rest))
        return settings[-1]

    monkeypatch.setattr(server, "settings_of", note)
    (result,) = run(
        name(fake, window=3, context=200),
        "--mechanism",
        "prism",
    ).values()
    assert result.cell.model == result.manifest.model.name + f"?tokenizer={fake.folder}&context=200"
    assert {(each.window, each.timeout, each.patience, each.context) for each in settings} == {
        (3, 60, 1, 200)
    }
    plan = f"plan {tmp_path}/suite.yaml --results {tmp_path}/results --mechanism prism --json"
    for address, there in (
        (fake.name(window=9, context=200), 1),
        (fake.name(context=200), 1),
        (fake.name(), 0),
    ):
        assert dpicl(plan, "--model", address).json["present"] == there
    changes = Changes(
        mechanisms=["prism"],
        models=[name(fake, window=3, context=200)],
    )
    (cell,) = select(str(tmp_path / "suite.yaml"), tmp_path, changes=changes).cells
    sent = pickle.loads(pickle.dumps(cell))  # as to a worker process
    assert sent.id == result.cell_id
    assert sent.address == name(fake, window=3, context=200)


def is_private(handler: fake_server.Handler) -> bool:
    """Whether it is asked about a prompt with examples: two articles at least."""
    return handler.server.model.decode(handler.sent["prompt"]).count("Article:") > 1


def test_refused_slots_are_counted_marked_and_asked_again(
    run, dpicl, fake: FakeServer, tmp_path, fresh_cache, monkeypatch
) -> None:
    voting = (name(fake), "--mechanism", "voting")
    with monkeypatch.context() as patch:
        patch.setenv("DPICL_CACHE", str(tmp_path / "another"))
        sound = run(*voting, results="sound")["voting"]
    fake.always = lambda handler, answer: (
        is_private(handler) and fake_server.status(400)(handler, answer)
    )
    broken = run(*voting, results="broken")["voting"]
    warning = run.stderr
    fake.always = None
    repaired = run(*voting, results="repaired")["voting"]

    assert sound.failures == {}
    assert repaired.failures == {}
    assert values(repaired) == values(sound) and read_release(repaired) == read_release(sound)
    ((reason, number),) = broken.failures.items()
    assert reason == "it answers 400" and number > 0
    assert f"no answer to {number} prompts of slots" in warning and reason in warning
    assert UNANSWERED in marks_of([sound, broken]) and UNANSWERED not in marks_of([sound])
    old = broken.model_dump(mode="json", exclude={"failures"})
    assert from_text(json.dumps(old)).failures is None

    board = f"board {tmp_path}/suite.yaml --results {tmp_path}/broken --model {name(fake)}"
    (row,) = dpicl(board, "--json").json["sections"][0]["tasks"][0]["rows"]
    assert row["failures"] == broken.failures and UNANSWERED.name in row["marks"]
    assert f"⇄{UNANSWERED.sign}" in dpicl(board).out


def test_another_model_at_the_same_address_makes_results_stale(
    run, dpicl, fake: FakeServer, tmp_path
) -> None:
    run(name(fake), "--mechanism", "prism")
    flags = f"{tmp_path}/suite.yaml --results {tmp_path}/results --model {name(fake)}"
    flags += " --mechanism prism,voting"  # the second one is missing, so the model is loaded
    plan = dpicl(f"plan {flags} --json").json
    assert plan["present"] == 1 and "only loading it tells" in plan["unknown"]
    fake.id = "another"
    assert dpicl(f"plan {flags} --json").json["present"] == 1  # it asks no server
    answer = dpicl(f"run {flags}")
    assert answer.code == 2 and "the model server:" in answer.err and "--rerun-stale" in answer.err
    dpicl(f"run {flags} --rerun-stale").succeed()
    assert dpicl(f"plan {flags} --json").json["present"] == 2


def test_another_tokenizer_is_another_model(fake: FakeServer, tmp_path) -> None:
    shutil.copytree(fake.folder, tmp_path / "copy")
    before = models.load(fake.name(tokenizer=tmp_path / "copy")).identity.pin
    assert before == models.load(fake.name()).identity.pin
    template = tmp_path / "copy" / "chat_template.jinja"
    template.write_text(template.read_text().replace("<user>", "<bot>"))
    assert models.load(fake.name(tokenizer=tmp_path / "copy")).identity.pin != before


@pytest.mark.slow
def test_a_run_that_failed_goes_on_with_the_same_release(run, fake: FakeServer) -> None:
    expected = run(name(fake), "--mechanism", "tang", results="unbroken")["tang"]
    requests = len(fake.seen)
    fake.seen.clear()
    fake.faults.extend([None] * (requests // 2) + [fake_server.status(500)] * 1000)
    assert run(name(fake), "--mechanism", "tang", code=2) == {}
    fake.faults.clear()
    result = run(name(fake), "--mechanism", "tang")["tang"]
    assert read_release(result) == read_release(expected)
    assert result.privacy.ledger == expected.privacy.ledger


def test_a_truncating_server_says_so_on_the_row(run, fake: FakeServer) -> None:
    result = run(name(fake, top=20), "--mechanism", "tang")
    assert any("truncated" in note for note in result["tang"].privacy.notes)
    prism = run(name(fake, top=20), "--mechanism", "prism")[
        "prism"
    ]  # among the tokens that the public prompt shows
    assert prism.manifest.server is not None and not prism.manifest.server.vocabulary
    assert prism.released_count == 2


def test_each_mechanism_declares_what_it_needs() -> None:
    class Limited(SimulatedLM):
        server = ServerRecord(
            kind="vllm", model="m", vocabulary=False, listed_ids=0, top_tokens=20, context=100, fingerprint="",
            loopback=True,
        )  # fmt: skip

    task = Task.read_public("agnews").public_view()
    refused = set()
    for name, registered in load_mechanisms().items():
        if registered.cls().unmet_needs(task, Limited()):
            refused.add(name)
    assert {"prism", "invisible_ink", "private_prediction"} == refused


def test_prefixes_of_private_sets_are_kept_apart(tiny_folder: Path, own_cache: Path) -> None:
    with run_server("vllm", tiny_folder, top=20) as vllm:
        model = models.load(vllm.name())
        model.next_token_log_probs([[5, 6]])
        with model.isolated_cache():
            model.next_token_log_probs([[5, 6]])
            model.generate([[5, 6]], 2)
        with model.isolated_cache():
            model.next_token_log_probs([[5, 6]])
    salts = [body["cache_salt"] for _, body in vllm.seen[-4:]]
    assert salts[1] == salts[2]
    assert len(set(salts)) == 3
    assert min(map(len, salts)) > 40


TEXTS = """\
name: texts
version: 1
source: synthetic
models: [sim]
seeds: [0]
epsilons: [4]
shots: 2
test_records: 1
train_records: 60
tasks: [samsum, agnews, dbpedia]
mechanisms:
  - {name: esa, tasks: [samsum], options: {slots: 2, candidates: 2, embedding: sim, examples_per_slot: 1}}
  - {name: ksa, tasks: [samsum], options: {slots: 2, words: 2, examples_per_slot: 1}}
  - {name: sga, tasks: [samsum], options: {slots: 2, public_slots: 2, embedding: sim, examples_per_slot: 1}}
  - name: private_evolution
    tasks: [agnews]
    options: {rounds: 1, candidates: 2, variations: 1, tokens: 3, embedding: sim}
  - {name: voting, tasks: [agnews]}
  - {name: tang, tasks: [agnews], options: {slots: 4}}
  - {name: zero_shot, tasks: [dbpedia]}
"""


@pytest.fixture
def plain(tiny_folder: Path, own_cache: Path) -> Iterator[str]:
    """The name of a server of plain completions, without a tokenizer."""
    with run_server("openai", tiny_folder) as server:
        yield f"server:{server.url}?patience=1&context=4000"


@pytest.mark.slow
def test_a_server_of_texts_runs_what_needs_no_more(plain: str, dpicl, tmp_path) -> None:
    suite = tmp_path / "suite.yaml"
    suite.write_text(TEXTS)
    answer = dpicl(f"run {suite} --model {plain} --results {tmp_path}/results")
    assert answer.code == 2
    results = [from_text(path.read_text()) for path in (tmp_path / "results").rglob("*.json")]
    assert {result.cell.label for result in results} == {"esa", "ksa", "sga", "private_evolution"}
    for result in results:
        assert result.manifest.server is not None and result.manifest.server.kind == "openai"
        assert any("sent to a model server" in note for note in result.privacy.notes)
        assert not any("truncated" in note for note in result.privacy.notes)
    assert answer.err.count("gives texts alone") >= 3  # voting, tang and the scores of zero_shot
    assert "finite" not in answer.err


def test_doctor_says_mechanism_by_mechanism_what_a_server_can_do(
    plain: str, fake: FakeServer, dpicl
) -> None:
    answer = dpicl(f"doctor --json --model {plain} --model", fake.name())
    checks = {check["name"]: check for check in answer.json["checks"][::-1]}  # the first of a name
    texts = checks[f"model {plain.partition('?')[0]}"]
    assert texts["ok"] and "texts alone" in texts["found"]
    assert all(
        checks[f"mechanism {name}"]["ok"] for name in ("esa", "ksa", "sga", "private_evolution")
    )
    for name in ("tang", "voting", "prism"):
        assert "log-probabilities" in checks[f"mechanism {name}"]["found"]
    assert not checks["mechanism tang"]["ok"] and not checks["mechanism prism"]["ok"]
    sentence = checks["mechanism private_evolution"]["found"]
    assert "agnews" in sentence.partition("not on")[0]
    assert "dbpedia" in sentence.partition("not on")[2]
    assert "log-probabilities of all tokens" in checks[f"model server:{fake.url}"]["found"]
    runs = [check for check in answer.json["checks"] if check["name"] == "mechanism tang"]
    assert [check["found"] for check in runs][1:] == ["runs"]

    gone = dpicl("doctor --json --model server:http://127.0.0.1:9?tokenizer=x&patience=0.1")
    assert gone.code == 1 and "gives no sound answer" in gone.json["checks"][-1]["found"]


def test_what_a_server_of_texts_cannot_release_costs_nothing(plain: str, dpicl, tmp_path) -> None:
    data = tmp_path / "notes.csv"
    data.write_text(
        "text,label\n"
        + "".join(f"note {at} about {label},{label}\n" for label in "ab" for at in range(9))
    )
    flags = f"--data {data} --labels a,b --size 9 --model {plain} --epsilon 1 --delta 1e-06"
    refused = dpicl(f"release tang {flags} --option slots=4 --out {tmp_path}/tang.jsonl")
    assert refused.code == 2 and "texts alone" in refused.err and "charging" not in refused.err
    assert not (tmp_path / "tang.jsonl").exists()
    options = [word for one in ("rounds=1", "candidates=2", "variations=1", "tokens=4", "embedding=sim")
               for word in ("--option", one)]  # fmt: skip
    released = dpicl(
        f"release private_evolution {flags}", *options, "--out", tmp_path / "own.jsonl"
    ).succeed()
    assert (tmp_path / "own.jsonl").read_text().count("\n") == 4
    assert "charging" in released.err and released.err.count("charged to") == 1
