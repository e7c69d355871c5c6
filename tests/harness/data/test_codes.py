"""Tasks of codes: what a mechanism sees does not depend on the map, so that all that is above chance is private."""

from collections import Counter
from dataclasses import fields

import numpy as np
import pytest
from scipy import stats

from dpicl.core.cell import ReleaseConfig
from dpicl.core.errors import PluginError
from dpicl.core.seeds import streams
from dpicl.core.vocabulary import Demonstration
from dpicl.data import config as task_config
from dpicl.data import task as task_module
from dpicl.data.codes import code_map, draw_classes
from dpicl.data.config import load_config
from dpicl.data.task import PublicTask, Task
from dpicl.evaluation.lm_eval_bridge import evaluate
from dpicl.leaderboards.model.comparability import PAIR, REFERENCE, TASK, list_differing
from dpicl.mechanism.bases import AnswerContext, Context
from dpicl.mechanisms.tang import Tang
from dpicl.mechanisms.voting import Voting
from dpicl.models.simulated import SimulatedLM
from dpicl.releasing.release import release
from dpicl.run.pipeline import run_cell
from dpicl.run.workbench import Workbench
from tests.harness.helpers import refuse, write
from tests.harness.run.test_pipeline import MECHANISMS, SUITE, make_cell

BASES = {"agnews_codes": "agnews", "trec_codes": "trec", "dbpedia_codes": "dbpedia"}
#: Codewords of World, Sports, Business and Technology at seeds 0, 1 and 2, as committed results have them.
MAPS = [
    ("Red", "Blue", "Green", "Yellow"),
    ("Yellow", "Green", "Red", "Blue"),
    ("Yellow", "Green", "Blue", "Red"),
]


def load(name: str = "agnews_codes", code_seed: int = 0, **limits: int) -> Task:
    return Task.load(
        name, "synthetic", code_seed=code_seed, **{"limit_train": 6, "limit_test": 40, **limits}
    )


def read_view(view: PublicTask) -> dict[str, object]:
    """Everything that a public view holds, and what it says when it is asked."""
    held = {each.name: getattr(view, each.name) for each in fields(PublicTask)}
    shown = [Demonstration("a text", label) for label in view.labels]
    shown_texts: list[object] = [
        view.icl_prefix(shown),
        view.prompts_hash,
        view.version,
        view.has_public_part,
    ]
    shown_texts.append(view.stop_strings)
    shown_texts += [
        view.generation_prompt(label, [], style)
        for label in view.labels
        for style in ("completion", "chat")
    ]
    return {**held, "said": shown_texts}


@pytest.mark.parametrize("name", BASES)
def test_records_are_the_base_tasks_with_codewords_for_labels(name):
    base = Task.load(BASES[name], "synthetic", limit_train=6)
    for seed in range(3):
        task, codewords = load(name, seed), load_config(name).doc_to_choice
        codes = code_map(draw_classes(base.labels, len(codewords), seed), codewords, seed)
        drawn = [
            (record.text, codes[record.label]) for record in base.train if record.label in codes
        ]
        assert [(record.text, record.label) for record in task.train] == drawn
        known = {
            (record.text, codes[record.label]) for record in base.test if record.label in codes
        }
        assert {(record.text, record.label) for record in task.test} <= known
        assert len(task.test) == 40
        assert sorted(codes.values()) == sorted(task.labels)


def test_maps_of_earlier_results_are_drawn_again():
    labels = load_config("agnews").doc_to_choice
    maps = [
        tuple(code_map(labels, ("Red", "Blue", "Green", "Yellow"), seed).values())
        for seed in range(3)
    ]
    assert maps == MAPS
    assert all(draw_classes(labels, 4, seed) == tuple(labels) for seed in range(20))


def test_every_set_of_classes_is_drawn_alike_with_every_map():
    sets, firsts = Counter[tuple](), Counter[tuple]()
    for seed in range(3000):
        drawn = draw_classes("abcde", 3, seed)
        sets[drawn] += 1
        firsts[drawn, code_map(drawn, "xyz", seed)[drawn[0]]] += 1
    assert len(sets) == 10 and all(list(drawn) == sorted(drawn) for drawn in sets)
    assert stats.chisquare(list(sets.values())).pvalue > 1e-4
    assert len(firsts) == 30
    assert stats.chisquare(list(firsts.values())).pvalue > 1e-4


def test_drawn_classes_have_limits_of_their_own(local_data):
    """Of as many records of every class, whichever are drawn; the fingerprint is that of all classes' records."""
    labels = load_config("dbpedia").doc_to_choice
    for split, size in (("train", 5), ("test", 20)):
        write(
            local_data,
            "dbpedia",
            split,
            [{"text": f"{split} {y} {i}", "label": y} for y in labels for i in range(size)],
        )
    tasks = [Task.load("dbpedia_codes", "local", 4, 60, code_seed=seed) for seed in range(4)]
    texts = [{record.text.split()[1] for record in task.train} for task in tasks]
    assert len({frozenset(classes) for classes in texts}) > 1
    assert {len(classes) for classes in texts} == {6}
    assert len({task.fingerprint for task in tasks}) == 1
    for task, classes in zip(tasks, texts, strict=True):
        assert dict(task.group_sizes) == dict.fromkeys(task.labels, 4)
        assert len(task.test) == 60
        assert {record.text.split()[1] for record in task.test} <= classes
        last = Task.load(
            "dbpedia_codes", "local", 4, 60, code_seed=tasks.index(task), development=True
        )
        assert len(last.test) == 60 and not {*last.test} & {*task.test}


@pytest.mark.parametrize("name", BASES)
def test_the_public_view_is_the_same_whatever_the_map(name, monkeypatch):
    first = load(name)
    monkeypatch.setattr(
        task_module, "code_map", lambda labels, words, seed: code_map(labels, words, seed + 1)
    )
    second = load(name)  # of the same classes
    assert [r.label for r in first.train] != [r.label for r in second.train]
    assert read_view(first.public_view()) == read_view(second.public_view())
    assert first.group_sizes == second.group_sizes
    assert first.sizes(first.labels) == second.sizes(first.labels)
    assert first.queries() == second.queries() and first.fingerprint == second.fingerprint
    for seed in range(3):
        plan = [task.plan_shots(6, streams(seed).stream("shots")) for task in (first, second)]
        assert plan[0] == plan[1]


def test_what_a_mechanism_is_handed_is_the_same_whatever_the_map():
    """The context of a release at one seed, from the calibrated knob to the reader's prompts, with two maps."""
    handed: list[object] = []

    class Looks(Tang):
        def release(self, private, context: Context):
            handed.append(
                (
                    read_view(context.task),
                    context.shots,
                    context.knob,
                    private.size(context.shots[0]),
                )
            )
            handed.append(context.streams.stream("anything").random(4).tolist())
            return super().release(private, context)

    class Asks(Voting):
        def answer(self, query, sample, context: AnswerContext):
            handed.append((read_view(context.task), context.knob, query))
            return super().answer(query, sample, context)

    for mechanism in (
        Looks(slots=4, examples_per_slot=1, tokens=2),
        Asks(slots=2, examples_per_slot=1),
    ):
        both = []
        for seed in (0, 1):
            task = load(code_seed=seed, limit_train=20, limit_test=3)
            release(mechanism, task, SimulatedLM(), ReleaseConfig(epsilon=4, delta=1e-3))
            both.append(list(handed))
            handed.clear()
        assert both[0] and both[0] == both[1]


def test_classes_of_different_sizes_have_one_public_size(local_data):
    """Else the calibrated noise, and n_y itself, would say which codeword is the large class."""
    counts = {"World": 9, "Sports": 4, "Business": 2, "Technology": 2}
    rows = [
        {"text": f"{label} {i}", "label": label} for label, n in counts.items() for i in range(n)
    ]
    write(local_data, "agnews", "train", rows)
    write(local_data, "agnews", "test", [{"text": "exam", "label": "World"}])
    task = Task.load("agnews_codes")
    assert task.source == "local"  # the base task's file
    assert dict(task.group_sizes) == dict.fromkeys(task.labels, 5)
    assert sorted(Counter(r.label for r in task.train).values()) == [2, 2, 4, 9]


def test_the_id_of_a_query_says_nothing_of_its_label():
    """A hash of text and label could be tried for every label."""
    tasks = [load(code_seed=seed) for seed in range(3)]
    assert len({tuple(q.id for q in task.queries()) for task in tasks}) == 1
    assert [d["gold"] for d in tasks[0].documents()] != [d["gold"] for d in tasks[1].documents()]


def test_a_mechanism_cannot_draw_the_stream_of_the_map():
    with pytest.raises(PluginError, match="codes"):
        streams(0).public.stream("codes")


def test_cells_of_a_run_have_a_map_of_their_seed(own_cache):
    """And what is kept between cells, records and the zero-shot score, is not taken from another seed."""
    bench = Workbench(MECHANISMS)
    cells = [make_cell("zero_shot", task="agnews_codes", seed=seed) for seed in range(3)]
    results = [run_cell(cell, SUITE, bench) for cell in cells]
    for cell, result in zip(cells, results, strict=True):
        task = load(code_seed=cell.seed, limit_train=60, limit_test=10)
        assert bench.task(cell).train == task.train
        alone = evaluate(task, SimulatedLM(), [])
        first = np.mean(
            [record.label == task.labels[0] for record in task.test]
        )  # nothing was released
        scores = {metric: score.value for metric, score in result.scores.items()}
        assert scores == pytest.approx(
            {**alone.scores, "acc_nearest": first, "acc_logistic": first}
        )
        assert result.main_metric == "acc_nearest"
    assert len({result.scores["acc"].value for result in results}) > 1
    assert len({result.manifest.data.fingerprint for result in results}) == 1
    assert not any(
        list_differing(results[0], result, (*TASK, *PAIR, *REFERENCE)) for result in results
    )


OWN = "data: {local: {missing: x}, hub: {missing: x}, synthetic: {missing: x}}"
WRONG = {
    "more codewords than labels": ("Green, Yellow]", "Green, Yellow, Pink]", "as many labels"),
    "a base that is not there": ("codes: agnews ", "codes: agnew ", "Unknown task"),
    "a base of another kind": ("codes: agnews ", "codes: samsum ", "as many labels"),
    "a class as files call it": ("Green, Yellow]", "Sci/Tech, Yellow]", "none of them a codeword"),
    "a base of codes": ("codes: agnews ", "codes: dbpedia_codes ", "as many labels"),
    "data of its own as well": ("  codes:", f"  {OWN}\n  codes:", "`codes`"),
    "no records at all": ("  codes: agnews ", "  restricted: false ", "`codes`"),
}


@pytest.mark.usefixtures("no_plugins_before")
@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_task_of_codes_is_one_sentence(dpicl, tmp_path, what):
    old, new, words = WRONG[what]
    text = (task_config.TASKS / "agnews_codes" / "task.yaml").read_text()
    assert text.count(old) == 1
    folder = tmp_path / "mine_codes"
    folder.mkdir()
    (folder / "task.yaml").write_text(text.replace(old, new).replace("agnews_codes", "mine_codes"))
    answer = dpicl("plan", "quick", "--task", "mine_codes", "--plugin", folder, "--model", "sim")
    refuse(answer, words)


@pytest.mark.usefixtures("no_plugins_before")
def test_public_records_of_the_base_would_tell_the_map(dpicl, tmp_path):
    for name, old, new in (
        ("agnews", "  data:\n", "  data:\n    public: {local: 5, hub: 5, synthetic: 5}\n"),
        ("agnews_codes", "codes: agnews ", "codes: open_agnews "),
    ):
        text = (task_config.TASKS / name / "task.yaml").read_text()
        assert text.count(old) == 1
        (tmp_path / f"open_{name}").mkdir()
        text = text.replace(f"dpicl_{name}\n", f"dpicl_open_{name}\n").replace(
            f"name: {name}\n", f"name: open_{name}\n"
        )
        (tmp_path / f"open_{name}" / "task.yaml").write_text(text.replace(old, new))
    answer = dpicl(
        "plan", "quick", "--task", "open_agnews_codes", "--plugin", tmp_path, "--model", "sim"
    )
    refuse(answer, "open_agnews", "public")
