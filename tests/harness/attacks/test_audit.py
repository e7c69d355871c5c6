"""Audits end to end: they find what is there, refute a mechanism with too little noise, and refute no other."""

import json
import math
from dataclasses import dataclass

import numpy as np
import pytest

from dpicl.api.tables import failure
from dpicl.attacks import audit_runs, noisy_sums
from dpicl.attacks.audit_runs import AuditJob, AuditRuns
from dpicl.attacks.canaries import FAR_TEXTS
from dpicl.attacks.results import CEILING, GDP, attack_from_text
from dpicl.core.errors import UsageError
from dpicl.data.task import Task
from dpicl.mechanisms.esa import ESA
from dpicl.mechanisms.hot_pate import HotPATE
from dpicl.mechanisms.invisible_ink import InvisibleInk
from dpicl.mechanisms.ksa import KSA
from dpicl.mechanisms.prism import Prism
from dpicl.mechanisms.private_prediction import PrivatePrediction
from dpicl.mechanisms.sga import SGA
from dpicl.mechanisms.tang import Tang
from dpicl.mechanisms.voting import Voting
from dpicl.mechanisms.zero_shot import ZeroShot
from dpicl.models.simulated import SimulatedLM
from dpicl.privacy.primitives import GaussianSum
from dpicl.releasing.release import calibrate_mechanism
from dpicl.results.schema import to_text
from tests.harness.attacks.copying_model import CopyingLM
from tests.harness.attacks.understating import Understating
from tests.harness.parrot import Parrot
from tests.samples import contents

SMALL = {"slots": 4, "examples_per_slot": 1}
WHITE_BOX = {"access": "white-box"}


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    monkeypatch.setattr(audit_runs, "DRAWS", 4)
    monkeypatch.setattr(noisy_sums, "TRIALS", 40_000)


def runs_of(mechanism, task, model, **settings):
    return AuditRuns(AuditJob(mechanism, task, "sim", {}, **settings), model)


def audit(mechanism, task, model, epsilon, **settings):
    return runs_of(mechanism, task, model, **settings).audit(epsilon)


def check_and_audit(job, model):
    job.check()
    return AuditRuns(job, model).audit(2.0)


@dataclass(frozen=True)
class Blind(Parrot):
    """Looks at no record."""

    name = "blind"

    def answer(self, query, sample, context):
        rows = np.zeros((len(sample.slots), len(context.task.labels)))
        return context.task.labels[GaussianSum(context.knob).choose(rows, sample)]


@pytest.mark.parametrize("epsilon", [8.0, math.inf])
def test_a_sound_mechanism_has_a_bound_above_0_below_its_proof(own_cache, agnews, sim, epsilon):
    alone = Parrot(slots=2, examples_per_slot=1)
    result = audit(alone, agnews, sim, epsilon, question="lookup", runs=100)
    assert 0 < result.bound.epsilon <= result.privacy.epsilon_proved
    assert result.bound.decision.trials_in == 50
    assert result.privacy.queries == 1 and result.subject.members == 2


def test_too_little_noise_is_refuted(own_cache, agnews, sim):
    alone = Understating(
        slots=1, examples_per_slot=1, divisor=20
    )  # one of several hardly ever wins
    result = audit(alone, agnews, sim, 0.5, question="lookup", runs=100)
    assert result.bound.epsilon > result.privacy.epsilon_proved and "refuted" in failure(result)


def test_what_depends_on_no_record_has_the_bound_zero(own_cache, agnews, sim):
    result = audit(
        Blind(**SMALL),
        agnews,
        sim,
        1.0,
        question="lookup",
        runs=40,
        delta=0.3,
    )
    assert result.bound.epsilon == 0 and any(
        "delta = 0.3 is above 1/" in note for note in result.notes
    )


@pytest.mark.parametrize("question", ["inquiry", "lookup"])
@pytest.mark.parametrize(
    "mechanism",
    [
        Voting(slots=4, examples_per_slot=1),
        ESA(slots=4, examples_per_slot=1, candidates=4, embedding="sim"),
        KSA(slots=4, examples_per_slot=1),
        SGA(slots=4, examples_per_slot=1, public_slots=4, embedding="sim"),
    ],
    ids=lambda mechanism: mechanism.name,
)
def test_every_answer_mechanism_can_be_audited(own_cache, agnews, samsum, sim, mechanism, question):
    task = agnews if isinstance(mechanism, Voting) else samsum
    result = audit(mechanism, task, sim, 2.0, question=question, runs=8)
    assert result.bound.epsilon <= result.privacy.epsilon_proved
    assert result.access == "black-box"
    assert result.bound.method == "rates"
    assert attack_from_text(to_text(result)) == result


def test_with_four_partitions_the_estimate_is_near_theory(own_cache, agnews):
    """Every slot of this model says whether it holds the text: the canary moves a vote in every run."""
    mechanism = Voting(slots=4, examples_per_slot=2, calibrate=False)
    labels, votes = (
        audit(mechanism, agnews, CopyingLM(), 8.0, runs=8, access=access)
        for access in ("black-box", "white-box")
    )
    assert labels.counts == votes.counts == {"runs": 8, "moved": 8}
    assert all(7.0 < result.measures[GDP].value < 8.0 for result in (labels, votes))
    assert 4.5 < labels.measures[CEILING].value < 5.0 and CEILING not in votes.measures
    assert max(labels.bound.epsilon, votes.bound.epsilon) <= votes.privacy.epsilon_proved
    assert votes.access == "white-box"
    assert votes.bound.method == "rates"


def test_votes_that_no_canary_moves_have_no_estimate_above_zero(own_cache, agnews, sim):
    result = audit(Blind(**SMALL), agnews, sim, 8.0, runs=8, access="white-box")
    assert result.bound.epsilon == 0.0
    assert result.counts["moved"] == 0
    assert result.measures[GDP].value < 0.1


class FarTexts(SimulatedLM):
    """Writes the first of the far texts that stands in its prompt."""

    def generate(self, prompts, max_tokens, stop=(), prefix=None, **settings):
        shown = map(self.decode, prompts)
        return [
            next((far for far in FAR_TEXTS if far in text), "nothing of note") for text in shown
        ]


def test_embeddings_are_compared_along_the_reference_vector(own_cache, samsum):
    mechanism = ESA(slots=2, examples_per_slot=1, candidates=4, embedding="sim")
    result = audit(
        mechanism, samsum, FarTexts(), 16.0, question="lookup", runs=8, access="white-box"
    )
    assert result.counts["moved"] == 8 and result.bound.epsilon <= result.privacy.epsilon_proved
    assert 0 < result.measures[GDP].value <= result.privacy.epsilon_proved


@pytest.mark.parametrize(
    "mechanism",
    [
        Tang(slots=4, tokens=4, top_k=10),
        HotPATE(slots=4, tokens=4, top_k=10),
        Prism(prompts=4, tokens=4),
        InvisibleInk(prompts=4, tokens=4, top_k=10),
        PrivatePrediction(prompts=4, tokens=4, private_tokens=2),
    ],
    ids=lambda mechanism: mechanism.name,
)
def test_demonstration_mechanisms_can_be_audited(own_cache, agnews, sim, mechanism):
    runs = runs_of(mechanism, agnews, sim, runs=8)
    noisy, bare = (runs.audit(epsilon) for epsilon in (2.0, math.inf))
    assert noisy.bound.epsilon <= noisy.privacy.epsilon_proved and math.isinf(
        bare.privacy.epsilon_proved
    )


def test_a_demonstration_s_canary_is_looked_for_token_by_token(own_cache, agnews, sim):
    mechanism = Tang(slots=4, tokens=4, top_k=10)
    canary = runs_of(mechanism, agnews, sim, records=20).canary(1.0)
    text = canary.record.text
    assert text.strip() and canary.record.label == agnews.labels[0] and not canary.queries
    whole, none = canary.score([f"so {text}", "zzz"])
    assert none < whole <= 1.0 and whole > 0.5


def test_no_private_text_is_in_a_result(own_cache, agnews, samsum, sim):
    for mechanism, task in (
        (Voting(**SMALL), agnews),
        (ESA(**SMALL, candidates=4, embedding="sim"), samsum),
    ):
        text = to_text(audit(mechanism, task, sim, 1.0, question="lookup", runs=8))
        for record in task.train:
            assert " ".join(record.text.split()[:6]) not in text
        assert not any(far in text for far in FAR_TEXTS)


def test_coupled_sets_differ_in_one_slot_and_runs_in_all(own_cache, agnews, sim):
    mechanism = Voting(slots=5, examples_per_slot=4)
    runs = runs_of(mechanism, agnews, sim, question="lookup", seed=3)
    bare = calibrate_mechanism(mechanism, runs.sizes, math.inf, 1e-5)
    canary, assigned = runs.canary(0.0).record, []
    for run in range(20):
        sampled = (
            runs.execution(present, bare, run).sampler(mechanism)("a query")
            for present in (True, False)
        )
        with_it, without = (contents(sample.slots) for sample in sampled)
        (at,) = (i for i in range(5) if with_it[i] != without[i])
        assert [record for record in with_it[at] if record != canary] == list(without[at])
        assert with_it[at].count(canary) == 1
        assigned.append(without)
    assert len(set(assigned)) == 20


def test_a_canary_to_be_copied_spells_its_example_out(agnews, sim):
    canary = runs_of(Voting(**SMALL), agnews, sim, question="lookup").canary(1.0)
    (query,), label = canary.queries, canary.record.label
    shown = agnews.icl_prefix((canary.record,))
    assert shown.count(f"Article: {query.text}\nAnswer: {label}\n\n") == 3
    assert label in agnews.labels and len(query.text.split()) <= 12


@pytest.mark.parametrize(
    ("mechanism", "task", "settings", "message"),
    [
        (ZeroShot(), "agnews", {}, "adds no noise"),
        (Tang(), "samsum", {}, "cannot do samsum"),
        (ESA(), "agnews", {}, "cannot answer the audit's question"),
        (Voting(), "samsum", {}, "voting cannot do samsum"),
        (Voting(slots=100_000), "agnews", {}, "lower --records"),
        (Parrot(**SMALL), "mit_g", {"question": "lookup"}, "ask mit_g by inquiry"),
        (KSA(**SMALL, words=1), "samsum", WHITE_BOX, "does not answer from one noisy sum.*--exact"),
        (Tang(slots=4, tokens=4), "agnews", WHITE_BOX, "gives no answers.*--exact"),
    ],
)
def test_what_cannot_be_audited_is_refused(own_cache, sim, mechanism, task, settings, message):
    loaded = Task.load(task, "synthetic", limit_train=50, limit_test=1)
    job = AuditJob(mechanism, loaded, "sim", {}, runs=8, **settings)
    with pytest.raises(UsageError, match=message):
        check_and_audit(job, sim)


def test_the_command_writes_a_result_and_shows_it(dpicl, tmp_path):
    command = "audit voting --task agnews --model sim --source synthetic --epsilon 1"
    command += f" --runs 8 --option slots=3 --results {tmp_path}"
    answer = dpicl(command, "--json").succeed()
    (result,) = answer.json
    (path,) = tmp_path.rglob("*.json")
    stored = json.loads(path.read_text())
    assert stored["id"] == result["id"] == path.stem
    assert path.relative_to(tmp_path).parts[:5] == ("attacks", "audit", "sim", "voting", "agnews")
    assert result["subject"]["options"]["slots"] == 3 and result["subject"]["members"] == 6
    before = path.stat().st_mtime_ns
    shown = dpicl(command)
    assert shown.code == 0 and "FAILED" not in shown.out
    assert "proved" in shown.out and "audited" in shown.out
    assert path.stat().st_mtime_ns == before, "a result that is there is not made again"
    path.write_text("{")
    again = dpicl(command, "--epsilon", "2")
    assert again.code == 0 and "quarantine" in again.err
    assert len(list(tmp_path.rglob("quarantine/*.json"))) == 1
    assert json.loads(path.read_text())["bound"] == stored["bound"]
    assert len(list(path.parent.glob("*.json"))) == 2
