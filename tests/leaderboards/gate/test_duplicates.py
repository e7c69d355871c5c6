"""Copies of rows are found whatever was changed to hide them, and rows that are nobody's copy are not."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import pytest

from dpicl.leaderboards.gate.contents import Contents
from dpicl.leaderboards.gate.duplicates import duplicates_check, list_copies, list_repeated
from dpicl.leaderboards.model.comparability import BASELINES
from dpicl.results.schema import Answer, Documents, Released, Result
from tests.conftest import COMMITTED, read_releases
from tests.leaderboards.gate.conftest import World, move_cell


@pytest.fixture(scope="module")
def open_results() -> list[Result]:
    return read("open/embedded/*/*")


def read(folders: str) -> list[Result]:
    results = read_releases(sorted(COMMITTED.glob(f"{folders}/*.json")))
    return [result for result in results if not result.cell.development]


def at(
    results: Sequence[Result], mechanism: str, epsilon: float, task: str = "agnews"
) -> list[Result]:
    cells = [
        one for one in results if (one.cell.mechanism, one.cell.epsilon) == (mechanism, epsilon)
    ]
    return [one for one in cells if one.cell.task == task]


def copy(result: Result, *, flips: int = 0, label: str = "mine", **cell: object) -> Result:
    """The result under another name, with some outcomes changed; its texts stay."""
    documents = result.documents[result.main_metric]
    outcomes = [1 - one if at < flips else one for at, one in enumerate(documents.outcomes)]
    score = result.scores[result.main_metric].model_copy(
        update={"value": fmean(outcomes), "low": 0, "high": 1}
    )
    moved = result.cell.model_copy(update={"label": label, **cell})
    return result.model_copy(
        update={
            "cell": moved,
            "cell_id": moved.id,
            "documents": {result.main_metric: Documents(ids=documents.ids, outcomes=outcomes)},
            "scores": {result.main_metric: score},
        }
    )


def with_other_texts(result: Result) -> Result:
    texts = [
        Released(text=f"{one.text} more", label=one.label, tokens=one.tokens)
        for one in result.released
    ]
    return result.model_copy(update={"released": texts})


@pytest.mark.parametrize("mechanism", ["tang", "voting"])
@pytest.mark.parametrize("task", ["agnews", "trec"])
def test_a_copy_with_rotated_seeds_and_another_epsilon_is_found(
    open_results: list[Result], mechanism: str, task: str
):
    cells = at(open_results, mechanism, 8.0, task)
    copies = [copy(one, flips=1, seed=(one.cell.seed + 2) % 5, epsilon=1.0) for one in cells]
    (sentence,) = list_copies(copies, open_results)
    assert sentence.startswith(
        f"mine at ε = 1 on {task}: 5 of 5 cells have the texts or the outcomes, but for a few"
    )
    assert f"{mechanism} " in sentence and "at ε = 8" in sentence


def test_a_copy_with_other_texts_is_found_by_its_outcomes(
    open_results: list[Result],
):
    copies = [with_other_texts(copy(one, flips=3)) for one in at(open_results, "pta", 1.0)]
    assert list_copies(copies, open_results)
    real = [
        with_other_texts(copy(one, flips=3, epsilon=1.0))
        for one in at(open_results, BASELINES[1], float("inf"))
    ]
    assert "real_demonstrations" in list_copies(real, open_results)[0]


HIDDEN = {
    "unseen characters": lambda text: text.replace("e", "\u200be\u00ad"),
    "letters that look alike": lambda text: text.translate(str.maketrans("aeopc", "аеорс")),
    "accents": lambda text: text.replace("e", "e\u0301"),
    "full width": lambda text: "".join(
        chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text
    ),
    "case and blanks": lambda text: text.upper().replace(" ", "\u00a0 "),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_a_copy_whose_texts_look_the_same_is_found(open_results: list[Result], name: str):
    def hide(result: Result) -> Result:
        texts = [one.model_copy(update={"text": HIDDEN[name](one.text)}) for one in result.released]
        return result.model_copy(update={"released": texts})

    cells = [copy(one, flips=60) for one in at(open_results, "tang", 1.0)]
    assert list_copies(map(hide, cells), open_results)


def test_a_copy_with_answers_in_other_letters_is_found(open_results: list[Result]):
    cells = [copy(one, flips=60) for one in at(open_results, "voting", 1.0)]

    def hide(result: Result) -> Result:
        answers = [Answer(id=one.id, text=f" {one.text.upper()}.") for one in result.answers]
        return result.model_copy(update={"answers": answers})

    assert list_copies(map(hide, cells), open_results)


def test_copies_of_the_best_cell_under_all_seeds_are_found(open_results: list[Result]):
    best = max(at(open_results, "tang", 8.0), key=lambda one: one.score)
    copies = [with_other_texts(copy(best, flips=1, seed=seed)) for seed in range(5)]
    assert list_copies(copies, open_results)


def test_a_copy_of_cells_of_several_rows_is_found(open_results: list[Result]):
    parts = [
        *at(open_results, "tang", 1.0)[:2],
        *at(open_results, "pta", 8.0)[2:4],
        *at(open_results, "prism", 1.0)[4:],
    ]
    copies = [copy(one, flips=1, epsilon=1.0) for one in parts]
    assert (
        "of cells of prism at ε = 1 and pta at ε = 8 and tang at ε = 1"
        in list_copies(copies, open_results)[0]
    )


@pytest.mark.parametrize(
    "folders", ["open/*/*/*", "record/embedded-float32/*/trec", "record/embedded-float32/*/mit_d"]
)
def test_no_committed_row_is_a_copy_of_another_mechanism(folders: str):
    """Also not those whose answers are the same for all seeds (a single instruction, a label that is repeated)."""
    results = read(folders)
    mechanisms = {one.cell.mechanism for one in results} - {*BASELINES}
    assert len(mechanisms) >= 5
    for mechanism in mechanisms:
        rows = [one for one in results if one.cell.mechanism == mechanism]
        assert (
            list_copies(rows, [one for one in results if one.cell.mechanism != mechanism]) == []
        ), mechanism


def test_methods_without_noise_may_agree_in_everything(open_results: list[Result]):
    zero_shot = [
        one for one in open_results if one.cell.mechanism == "zero_shot" and one.cell.task == "trec"
    ]
    documents = [one.documents[one.main_metric] for one in zero_shot]
    assert len({tuple(each.outcomes) for each in documents}) == 1
    assert list_copies([copy(one, epsilon=1.0) for one in zero_shot], open_results) == []


def test_texts_of_another_epsilon_of_a_submission_are_found(open_results: list[Result]):
    rows = at(open_results, "tang", 8.0)
    copies = [copy(one, flips=number, label="tang", epsilon=1.0) for number, one in enumerate(rows)]
    assert list_repeated([*rows, *copies]) == [
        "tang at ε = 1 on agnews released in 5 of 5 cells what tang at ε = 8 released"
    ]
    assert list_repeated(open_results) == []


def test_the_check_names_the_row_that_was_copied(world: World):
    files = world.files
    rival = Contents(world.folder.with_name("other"), results=world.case().results)
    for path in files:
        move_cell(path, label="mine", epsilon=1.0)
    outcome = duplicates_check(world.case(others=[rival]))
    assert "mine at ε = 1 on agnews: 5 of 5 cells have the texts or the outcomes" in str(
        outcome.problems
    )
    assert "in team_a/other; send a method of its own, or explain it to the maintainers." in str(
        outcome.problems
    )
