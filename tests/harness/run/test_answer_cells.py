"""Cells of answer mechanisms from the suite to the result, with the simulated model."""

import math

import pytest

from dpicl.accounting.accountants import epsilon
from dpicl.accounting.events import from_json
from dpicl.results.store import Store
from tests.harness.helpers import write
from tests.harness.local_suite import synthetic_suite


@pytest.fixture
def run(dpicl, fresh_cache, tmp_path):
    """run('esa', 'samsum') -> (answer of `dpicl run`, results by (epsilon, seed))."""

    def start(mechanism, task, more=", sampling_seed: 0", flags="", **keys):
        row = f"{{name: {mechanism}, options: {{slots: 4, examples_per_slot: 2{more}}}}}"
        shared = {
            "seeds": "[0, 1]",
            "epsilons": "[1, 8]",
            "test_records": "6",
            "train_records": "80",
            **keys,
        }
        path = synthetic_suite(tmp_path, row, tasks=f"[{task}]", **shared)
        answer = dpicl(f"run {path} --results {tmp_path}/results --json {flags}")
        results, _ = Store(tmp_path / "results", "own").load_all()
        return answer, {(result.cell.epsilon, result.cell.seed): result for result in results}

    return start


@pytest.mark.parametrize(
    ("mechanism", "task", "more"),
    [
        ("voting", "agnews", ""),
        ("voting", "mit_g", ", partition: one_sample"),
        ("voting_nearest", "agnews", ", embedding: sim, threshold: 0.2, uses: 3"),
        pytest.param("esa", "samsum", ", embedding: sim, candidates: 4", marks=pytest.mark.slow),
        ("ksa", "xsum", ", words: 3, partition: once"),
        ("sga_histogram", "samsum", ", embedding: sim, public_slots: 4, public: out"),
    ],
)
def test_every_mechanism_answers_at_its_proved_epsilon(run, mechanism, task, more):
    seed = "" if mechanism == "voting_nearest" else ", sampling_seed: 0"
    answer, results = run(mechanism, task, seed + more)
    assert answer.code == 0, answer.err
    assert set(results) == {
        (1, 0),
        (1, 1),
        (8, 0),
        (8, 1),
    }
    for (target, _), result in results.items():
        privacy = result.privacy
        assert 0.98 * target <= privacy.epsilon_proved <= target
        assert epsilon(from_json(privacy.event), 1e-5).upper == pytest.approx(
            privacy.epsilon_proved
        )
        assert 0 < privacy.epsilon_per_query < privacy.epsilon_proved
        assert privacy.queries == len(result.answers) == result.released_count == 6
        assert {a.id for a in result.answers} == set(result.documents[result.main_metric].ids)
    first, *others = [results[key].cost.tokens_read for key in sorted(results)]
    if mechanism in ("voting", "voting_nearest", "esa"):
        assert others == [0, 0, 0]
    else:  # what was released differs, so the final prompts do; the slots are not asked again
        assert max(others) < first / 2


def test_answers_without_privacy_are_counted_and_not_stored(run):
    _, results = run("voting", "agnews", flags="--epsilon inf --seed 0")
    (result,) = results.values()
    assert math.isinf(result.privacy.epsilon_proved)
    assert result.answers == [] and result.released_count == 6


def test_answers_that_retell_real_records_stay_here(run, tmp_path, monkeypatch):
    for split, number in (("train", 2000), ("test", 8)):
        rows = [
            {"dialogue": f"{split} person {i} says zyxw{i} twice", "summary": f"zyxw{i}"}
            for i in range(number)
        ]
        write(tmp_path / "data", "samsum", split, rows)
    monkeypatch.setenv("DPICL_DATA", str(tmp_path / "data"))
    flags = "--epsilon 1 --seed 0 --mechanism ksa --mechanism public_demonstrations"
    options = ", sampling_seed: 0, words: 2"
    answer, _ = run("ksa", "samsum", options, source="local", flags=flags)
    assert answer.code == 0, answer.err
    results, _ = Store(tmp_path / "results", "own").load_all()
    assert not any((*result.answers, *result.released) for result in results)
    counts = {result.cell.mechanism: result.released_count for result in results}
    assert counts == {"ksa": 6, "public_demonstrations": 2}
    written = "".join(path.read_text() for path in (tmp_path / "results").rglob("*.json"))
    assert "zyxw" not in written


def test_a_budget_for_fewer_queries_is_refused(run):
    more, results = run("voting", "agnews", queries="500", flags="--epsilon 1 --seed 0")
    assert more.code == 0, more.err
    assert results[1, 0].privacy.queries == 500
    assert len(results[1, 0].answers) == 6
    flags = "--epsilon 1 --seed 0 --limit 6"
    late, _ = run("voting", "agnews", queries="5", test_records="3", flags=flags)
    assert late.code == 2 and "'queries' (5) does not cover 6 test records" in late.err


def test_the_plan_counts_a_collection_once(dpicl, run, tmp_path):
    run("voting", "agnews", flags="--epsilon 1 --seed 0")
    plan = dpicl(f"plan {tmp_path}/own.yaml --results {tmp_path}/elsewhere --json").json
    tokens = [cell["tokens"] for cell in plan["cells"]]
    assert tokens[0] > 0 and tokens[1:] == [0, 0, 0]
