"""Private evolution: what a record moves, what is charged, and without noise the obvious slow answer."""

from dataclasses import replace

import pytest

from dpicl.accounting import accountants
from dpicl.accounting.events import compose
from dpicl.accounting.gaussians import exact_epsilon
from dpicl.core.vocabulary import Demonstration, Record, Sizes
from dpicl.data.task_file import BY_EMBEDDING
from dpicl.evaluation import lm_eval_bridge
from dpicl.leaderboards.gate.ledgers import sizes_of
from dpicl.mechanism.bases import Context
from dpicl.mechanism.options import build
from dpicl.mechanisms.private_evolution import PrivateEvolution, remove_repetitions
from dpicl.models.embeddings import embed_alone
from dpicl.models.simulated import SimulatedLM
from dpicl.run.pipeline import run_cell
from dpicl.run.workbench import Workbench
from tests.harness.run.test_pipeline import MECHANISMS, SUITE, make_cell
from tests.mechanisms.adversarial import TinyTask
from tests.samples import noisy_releases, private_set

SMALL = PrivateEvolution(rounds=3, candidates=3, variations=1, tokens=6, embedding="sim")
TEXTS = [
    f"the {word} of the year" for word in ("company", "river", "company", "team", "law", "company")
]


class Run:
    """One release: made, ledger, counts (clean, of every histogram), embedded (the texts of every call)."""

    def __init__(
        self, mechanism, texts, knob=1.0, shots=("a",), seed=0, grouped=True, sizes=None, model=None
    ):
        self.embedded = []
        sizes = sizes or {"a" if grouped else None: max(1, len(texts))}
        private, self.ledger, public = private_set(
            [Record(text, "a") for text in texts], sizes, seed
        )
        context = Context(
            TinyTask(),
            model or SimulatedLM(),
            shots,
            knob,
            public,
            embed=self.embed,
        )
        with noisy_releases() as releases:
            self.made = mechanism.release(private, context)
        self.counts = [release.clean for release in releases]

    def embed(self, texts, name):
        self.embedded.append(list(texts))
        return embed_alone(texts, name)


def test_every_record_votes_once_a_round_and_a_blank_one_never():
    counts = Run(SMALL, [*TEXTS, "", " \n"]).counts
    assert [clean.sum() for clean in counts] == [len(TEXTS)] * SMALL.rounds


def test_without_noise_every_generation_is_that_of_a_slow_vote():
    run = Run(SMALL, TEXTS, knob=0.0)
    records, *generations = run.embedded
    assert records == TEXTS and len(generations) == SMALL.rounds
    points = embed_alone(TEXTS, "sim")
    for number, texts in enumerate(generations):
        public = embed_alone(texts, "sim")
        votes = [
            min(
                range(len(texts)),
                key=lambda at: ((point - public[at]) ** 2).sum(),
            )
            for point in points
        ]
        assert run.counts[number].tolist() == [votes.count(at) for at in range(len(texts))]
        best = sorted(
            range(len(texts)),
            key=lambda at: -votes.count(at),
        )[: SMALL.candidates]
        if number + 1 < SMALL.rounds:
            assert generations[number + 1][: SMALL.candidates] == [texts[at] for at in best]
            assert len(generations[number + 1]) <= SMALL.candidates * (1 + SMALL.variations)
        else:
            assert [demonstration.text for demonstration in run.made] == [texts[best[0]]]


def test_without_noise_drawn_parents_are_those_that_got_votes():
    run = Run(replace(SMALL, selection="draw"), TEXTS, knob=0.0)
    _, first, second, _ = run.embedded
    voted = {
        text
        for text, count in zip(
            first,
            run.counts[0],
            strict=True,
        )
        if count
    }
    assert set(second[: len(voted)]) & voted
    assert set(first).intersection(second) <= voted


def test_the_ledger_is_what_events_promised():
    for shots, size in (
        (("a",), 6),
        (("a",) * 4, 1000),
    ):
        run = Run(SMALL, TEXTS, shots=shots, sizes={"a": size})
        assert len(run.made) == len(shots) and len(run.counts) == SMALL.rounds
        assert compose([run.ledger.event()]) == compose(
            [
                SMALL.events(
                    1.0,
                    Sizes(
                        {"a": size},
                        {"a": len(shots)},
                    ),
                )
            ]
        )


def test_texts_for_a_classifier_cost_nothing_more(own_cache):
    options = {"rounds": 2, "candidates": 3, "variations": 1, "tokens": 6, "embedding": "sim"}
    bench = Workbench(MECHANISMS)
    cells = [
        make_cell("private_evolution", options={**options, "texts": texts}, shots=4)
        for texts in (None, 14)
    ]
    few, many = (run_cell(cell, SUITE, bench) for cell in cells)
    assert few.privacy.event == many.privacy.event
    assert few.privacy.epsilon_proved == many.privacy.epsilon_proved
    assert few.released_count == 4 and many.released_count == len(many.released) == 14
    assert [text.label for text in many.released[:4]] == [text.label for text in few.released]
    assert set(many.scores) == {"acc", "acc_calibrated", "log_loss", *BY_EMBEDDING}
    task = bench.task(cells[1])
    shown = [Demonstration(text.text, text.label) for text in many.released[:4]]
    scores = lm_eval_bridge.evaluate(task, SimulatedLM(), shown).scores
    assert scores["acc"] == many.scores["acc"].value
    assert sizes_of(
        many,
        build(PrivateEvolution, cells[1].options),
    ).shots.keys() == {*task.labels}


def test_epsilon_is_the_closed_form_of_the_root_of_r_over_sigma():
    event = PrivateEvolution(rounds=9).events(
        6.0,
        Sizes(
            {"a": 50, "b": 900},
            {"a": 1, "b": 3},
        ),
    )
    assert accountants.epsilon(event, 1e-5).upper == pytest.approx(
        exact_epsilon(6.0 / 3, 1e-5), rel=1e-9
    )


def test_shots_of_a_label_share_one_evolution_and_differ():
    demonstrations = Run(SMALL, TEXTS, shots=("a",) * 3).made
    assert len({demonstration.text for demonstration in demonstrations}) == 3


def test_without_groups_all_labels_stand_in_one_histogram():
    run = Run(SMALL, TEXTS, shots=("a", "b"), grouped=False)
    assert [demonstration.label for demonstration in run.made] == ["a", "b"]
    assert len(run.counts) == SMALL.rounds
    assert compose([run.ledger.event()]) == compose(
        [SMALL.events(1.0, Sizes({None: 6}, {None: 2}))]
    )


def test_only_different_texts_stand():
    a, again, empty = (
        Demonstration("x", "a"),
        Demonstration("x", "a", tokens=3),
        Demonstration("", "a"),
    )
    assert [text.text for text in remove_repetitions([empty, a, again], ["a"])] == ["x"]
    assert remove_repetitions([a], ["a", "b"])[1:] == [Demonstration("", "b")]


def test_a_private_record_is_never_read_by_the_model():
    class Listening(SimulatedLM):
        heard = ""

        def log_probs_after(self, prompt):
            Listening.heard += self.decode(prompt)
            return super().log_probs_after(prompt)

    run = Run(SMALL, ["zqxjk"], model=Listening())
    assert sum(texts.count("zqxjk") for texts in run.embedded) == 1
    assert Listening.heard and "zqxjk" not in Listening.heard
