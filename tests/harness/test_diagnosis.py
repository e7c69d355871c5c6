"""`dpicl diagnose`: its numbers on a small task, what it reads, what it refuses."""

import json
import math

import numpy as np
import pytest

import dpicl
from dpicl.cli import main
from dpicl.harness.core.errors import UsageError
from dpicl.harness.evaluation.log_loss import PUBLIC_SHARE, RowScores, TextScore, paired_differences, text_score
from dpicl.harness.evaluation.statistics import bootstrap_interval
from dpicl.harness.models.simulated import SimulatedLM

SMALL = {"task": "agnews", "model": "sim:3", "source": "synthetic", "texts": 4, "tokens": 3, "progress": False}
OPTIONS = {"slots": 4, "prompts": 6, "tokens": 5, "top_k": 20, "style": "completion"}
FLAGS = ["--task", "agnews", "--model", "sim", "--source", "synthetic", "--texts", "2", "--tokens", "2"]


def test_loss_and_hit_rate_are_the_formula_and_a_mean_over_draws_stands_inside_the_logarithm():
    public, chances = np.array([0.5, 0.25]), np.array([[0.2, 0.0], [0.6, 0.0]])
    found = text_score(chances, public)
    mixed = [(1 - PUBLIC_SHARE) * 0.4 + PUBLIC_SHARE * 0.5, PUBLIC_SHARE * 0.25]
    assert found.log_loss == pytest.approx(-np.log(mixed).mean()) and found.hit_rate == pytest.approx(0.2)
    assert found.variances is not None and text_score(public[None], public) == TextScore(
        -float(np.log(public).mean()), 0.375
    )


def test_differences_are_paired_over_texts():
    values = np.array([1.0, 5.0, 9.0])
    public = RowScores("public", 0.0, "public", None, values + 2, values)
    rows = [RowScores(name, 1.0, "public", 1.0, values + gain, values) for name, gain in (("a", 0.5), ("b", 0.0))]
    found = {(one.first, one.second): one for one in paired_differences([public, *rows])}
    assert found.keys() == {("a", "public"), ("b", "public"), ("a", "b")}
    assert found["a", "b"].log_loss == 0.5 and found["a", "b"].log_loss_interval == (0.5, 0.5)
    assert found["b", "public"].hit_rate_error == 0.0
    assert found["a", "public"].log_loss_interval == bootstrap_interval([-1.5] * 3)


def test_slots_are_read_once_for_all_rows_and_epsilons(monkeypatch, own_cache):
    read, plain = [], SimulatedLM.log_probs_after
    monkeypatch.setattr(
        SimulatedLM, "log_probs_after", lambda self, prompt: read.append(tuple(prompt)) or plain(self, prompt)
    )
    names = ["tang", "pta", "hot_pate", "prism", "invisible_ink", "private_prediction"]
    found = dpicl.diagnose(names, epsilon=8, options=OPTIONS, draws=3, **SMALL)
    assert len(read) - len(set(read)) <= SMALL["texts"] * SMALL["tokens"]  # a text may come after the same prefix
    rows = {(row.row.partition("+")[0], row.epsilon): row for row in found}
    assert len(rows) == len(found) == 1 + 6 * 2
    assert {epsilon for _, epsilon in rows} == {0, 8, math.inf}
    assert all(row.log_loss.shape == (4,) and np.isfinite(row.log_loss).all() for row in found)
    assert all((row.hit_rate >= 0).all() and (row.hit_rate <= 1).all() for row in found)
    assert {row.row.partition("+")[0] for row in found if row.spread} == {"hot_pate"}
    assert len(found.differences) == 6 + 15
    assert {"log_loss", "hit_rate", "epsilon"} < {*found.to_frame().columns}
    again = dpicl.diagnose(["prism", "tang"], epsilon=8, options=OPTIONS, **SMALL)
    assert {row.row: row.log_loss.tolist() for row in again if row.epsilon == 8} == {
        rows[name, 8].row: rows[name, 8].log_loss.tolist() for name in ("prism", "tang")
    }


def test_the_command_prints_one_document_and_says_what_it_is(capsys, own_cache):
    options = [word for name, value in OPTIONS.items() for word in ("--option", f"{name}={value}")]
    command = ["diagnose", "tang", "prism", *FLAGS, "--epsilon", "8", *options]
    assert main([*command, "--option", "prism.prompts=6", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["texts"] == document["tokens"] == 2 and "outside of any ledger" in document["notes"][0]
    assert [row["row"].partition("+")[0] for row in document["rows"]][-2:] == ["prism"] * 2
    assert document["rows"][-1]["epsilon"] == "Infinity" and len(document["rows"][0]["by_text"]["hit_rate"]) == 2
    assert main([*command]) == 0
    assert "outside of any ledger" in capsys.readouterr().out


@pytest.mark.slow
def test_rows_of_a_suite_and_who_is_left_out(own_cache):
    found = dpicl.diagnose(suite="field", **{**SMALL, "texts": 2, "tokens": 2}, epsilon=1)
    assert {row.row for row in found if row.epsilon == 1} == {
        *("tang", "pta", "hot_pate", "prism", "invisible_ink", "private_prediction")
    }
    assert sum("private_evolution" in note for note in found.notes) == 1
    assert found.setup["delta"] == 1e-5


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"mechanism": "tang", "noise": "secure"}, "Secure"),
        ({"mechanism": "voting"}, "no demonstrations"),
        ({"mechanism": "zero_shot"}, "noise"),
        ({"mechanism": ["tang", "private_evolution"]}, "private_evolution"),
        ({"mechanism": "ldp_labels"}, "ldp_labels"),
        ({"mechanism": "tang", "tokens": 101}, "at most 100"),
        ({"mechanism": "tang", "options": {"prism.slots": 3}}, "prism"),
        ({"mechanism": "tang", "options": {"style": "letter"}}, "letter"),
        ({"mechanism": "tang", "texts": 1}, "texts"),
        ({"mechanism": "tang", "task": "samsum"}, "samsum|text"),
        ({"mechanism": "tang", "epsilon": None}, "epsilon"),
        ({"mechanism": []}, "mechanism"),
        ({"mechanism": "tang", "source": "moon"}, "moon"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(given, words, own_cache):
    with pytest.raises(UsageError, match=words) as error:
        dpicl.diagnose(**{"epsilon": 1, **SMALL, **given})
    assert "\n" not in str(error.value)


def test_secure_noise_is_a_bad_use_of_the_command(capsys):
    assert main(["diagnose", "tang", *FLAGS, "--epsilon", "1", "--noise", "secure"]) == 2
    assert capsys.readouterr().out == ""
