"""Equal tuning: what suites say of it, which cells it runs, what it chooses, and what it writes."""

from pathlib import Path

import pytest

from dpicl.core.errors import UsageError
from dpicl.mechanism.registry import load_mechanisms
from dpicl.plan.expand import expand
from dpicl.plan.suite import Suite
from dpicl.plan.suite_files import Changes, apply_changes, load_suite
from dpicl.plan.suite_rows import Tuned
from dpicl.plan.tuning import choose_settings, describe_tuning, tuning_suite, write_choice
from dpicl.results.schema import Result
from tests.leaderboards.factory import make_result

MECHANISMS = load_mechanisms()
GRID = "tune: {alpha: [1, 1.5, 2], top_k: [10, 100]}"
TEXT = f"""\
name: small  # a comment that stays
version: 1
source: local
models: [sim]
seeds: [0, 1]
epsilons: [1, 8]
test_records: 12
train_records: 60
tasks: [agnews, trec, shared_facts]
mechanisms:
  - zero_shot
  - name: pta
    options: {{slots: 4}}
    {GRID}
"""


def read(tmp_path: Path, text: str = TEXT) -> Suite:
    path = tmp_path / "suite.yaml"
    path.write_text(text)
    return load_suite(path)


def results_of(grid: Suite, scores: dict[str, float]) -> list[Result]:
    """A result for every cell of a suite; scores: row -> score (others: 0.25)."""
    results = []
    for cell in expand(grid, MECHANISMS):
        names = ("task", "epsilon", "seed", "label", "options")
        settings = {name: getattr(cell, name) for name in names}
        results.append(
            make_result(
                cell.mechanism,
                scores.get(cell.label, 0.25),
                **settings,
            )
        )
    return results


def tune(
    tmp_path: Path, scores: dict[str, float] | None = None, text: str = TEXT
) -> tuple[Suite, Tuned]:
    """A suite, and the choice of settings that is written beside it."""
    suite = read(tmp_path, text)
    grid = tuning_suite(suite, MECHANISMS)
    tuned = choose_settings(suite, grid, results_of(grid, scores or {}), "dpicl tune small")
    assert write_choice(tmp_path / "suite.yaml", tuned) == tmp_path / "suite.tuned.yaml"
    return suite, tuned


def options_of(suite: Suite, label: str, *names: str) -> set[tuple[object, ...]]:
    """What the cells of a row have of these options."""
    cells = [cell for cell in expand(suite, MECHANISMS) if cell.label == label]
    return {tuple(cell.options[name] for name in names) for cell in cells}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("tune: {alpha: [1, 2]}", "lists 2 settings, and every tuned row has 6"),
        (
            "tune: {slots: [1, 2, 3, 4, 5, 6]}",
            "tunes slots, which its options or per_task set already",
        ),
        ("tune: {alfa: [1, 2, 3, 4, 5, 6]}", "alfa"),
    ],
)
def test_a_grid_has_six_settings_that_nothing_else_sets(tmp_path, change, message):
    with pytest.raises(UsageError, match=message):
        expand(read(tmp_path, TEXT.replace(GRID, change)), MECHANISMS)


def test_settings_run_on_synthetic_records_at_the_first_epsilon(tmp_path):
    suite = read(tmp_path)
    grid = tuning_suite(suite, MECHANISMS)
    cells = expand(grid, MECHANISMS)
    assert {(cell.suite, cell.task, cell.source, cell.epsilon) for cell in cells} == {
        ("small-tuning", "agnews", "synthetic", 1.0)
    }
    assert grid.source == "synthetic" and all(cell.development for cell in cells)
    assert not {cell.seed for cell in cells} & set(suite.seeds)
    assert {cell.label for cell in cells} == {f"pta.{i}" for i in range(6)}
    assert options_of(grid, "pta.3", "alpha", "top_k", "slots") == {(1.5, 100, 4)}
    more = expand(tuning_suite(suite, MECHANISMS, shots=5), MECHANISMS)
    assert {cell.shots for cell in more} == {5}


def test_the_best_mean_is_chosen_and_written_beside_the_suite(tmp_path):
    suite, tuned = tune(tmp_path, {"pta.4": 0.75, "pta.1": 0.5})
    assert suite.untuned == ["pta"] and tuned.tasks.keys() == {"agnews"}
    scores = [setting.score for setting in tuned.tasks["agnews"].rows["pta"].settings]
    assert scores[:3] == [0.75, 0.5, 0.25]
    assert tuned.tasks["agnews"].records == "f" * 64
    path = tmp_path / "suite.yaml"
    after = load_suite(path)
    assert path.read_text() == TEXT and after.hash == suite.hash and after.untuned == []
    assert options_of(after, "pta", "alpha", "top_k", "slots") == {(2.0, 10, 4)}


def test_rows_tuned_alike_join_an_earlier_choice(tmp_path):
    text = (
        TEXT
        + "  - {name: private_evolution, tune: {rounds: [3, 5, 10], selection: [rank, draw]}}\n"
    )
    suite = read(tmp_path, text)
    path = tmp_path / "suite.yaml"

    def choose(row: str, command: str, shots: int | None = None) -> Tuned:
        part = apply_changes(suite, Changes(mechanisms=(row,)), MECHANISMS)
        grid = tuning_suite(part, MECHANISMS, shots=shots)
        return choose_settings(part, grid, results_of(grid, {}), command)

    write_choice(path, choose("pta", "first"))
    assert load_suite(path).untuned == ["private_evolution"]
    write_choice(path, choose("private_evolution", "second"))
    after = load_suite(path)
    assert after.untuned == [] and after.tuned is not None
    assert {row: tuned.command for row, tuned in after.tuned.tasks["agnews"].rows.items()} == {
        "pta": "first",
        "private_evolution": "second",
    }
    with pytest.raises(UsageError, match="shots"):
        write_choice(path, choose("pta", "third", shots=5))
    with pytest.raises(UsageError, match="agnews has 4 classes"):
        choose("pta", "fourth", shots=3)
    assert load_suite(path).tuned == after.tuned


def test_a_row_is_tuned_on_the_first_task_that_it_can_do(tmp_path):
    text = (
        TEXT.replace("agnews, trec", "agnews, chatdoctor")
        + "  - {name: ksa, tune: {words: [5, 8, 10, 15, 20, 30]}}\n"
    )
    rows = {
        entry.row: entry.tasks
        for entry in tuning_suite(read(tmp_path, text), MECHANISMS).mechanisms
    }
    assert rows["pta.0"] == ["agnews"] and rows["ksa.5"] == ["chatdoctor"]
    without = read(tmp_path, text.replace("chatdoctor, ", ""))
    assert {entry.row for entry in tuning_suite(without, MECHANISMS).mechanisms} == {
        f"pta.{i}" for i in range(6)
    }
    alone = without.model_copy(
        update={"mechanisms": [one for one in without.mechanisms if one.row == "ksa"]}
    )
    with pytest.raises(UsageError, match=r"ksa can do none of agnews, shared_facts;.*--task"):
        tuning_suite(alone, MECHANISMS)


def test_a_setting_without_a_result_chooses_nothing(tmp_path):
    suite = read(tmp_path)
    grid = tuning_suite(suite, MECHANISMS)
    with pytest.raises(UsageError, match="pta"):
        choose_settings(suite, grid, results_of(grid, {})[:-1], "dpicl tune small")


def test_a_row_may_share_the_choice_of_another_one(tmp_path):
    both = TEXT + "  - {name: pta, label: pta_large, options: {slots: 9}, tune: pta}\n"
    suite, _ = tune(tmp_path, {"pta.2": 0.5}, both)
    assert suite.untuned == ["pta", "pta_large"]
    assert len(tuning_suite(suite, MECHANISMS).mechanisms) == 6
    after = load_suite(tmp_path / "suite.yaml")
    assert options_of(after, "pta_large", "slots", "alpha", "top_k") == {(9, 1.5, 10)}
    with pytest.raises(UsageError, match="no grid"):
        read(tmp_path, both.replace("tune: pta}", "tune: zero_shot}"))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "score: 0.25",
            "score: .nan",
            r"suite\.tuned\.yaml, line \d+: 'tasks, agnews, rows, pta, settings, entry 1, score'",
        ),
        ("score: 0.25", "score: -1", "best score first"),
        ("score: 0.25", "scroe: 0.25", "'scroe'. Did you mean 'score'.*Known: options, score"),
        ("    seeds:", "    sedes:", "Did you mean 'seeds'.*Known: epsilon, model"),
    ],
)
def test_a_damaged_choice_is_one_sentence_with_file_and_line(tmp_path, old, new, message):
    tune(tmp_path)
    choice = tmp_path / "suite.tuned.yaml"
    text = choice.read_text()
    assert old in text
    choice.write_text(text.replace(old, new, 1))
    with pytest.raises(UsageError, match=message):
        load_suite(tmp_path / "suite.yaml")


def test_tune_refuses_first_what_it_could_not_finish(dpicl, local_data):
    path = local_data / "suite.yaml"
    path.write_text(TEXT)
    other = dpicl(f"tune {path} --task dbpedia --results {local_data}/results")
    assert other.code == 2 and "agnews, shared_facts, trec" in other.err
    (local_data / "suite.tuned.yaml").mkdir()
    for command in ("tune", "plan"):
        folder = dpicl(command, path, "--results", local_data / "results")
        assert folder.code == 2 and "suite.tuned.yaml" in folder.err
    assert not (local_data / "results").exists()


@pytest.mark.parametrize("key", ["queries: 3", "baseline_seeds: [1]", "baseline_seeds: [7]"])
def test_what_does_not_go_together_is_told_with_its_line(tmp_path, key):
    with pytest.raises(UsageError, match="line 3"):
        read(tmp_path, TEXT.replace("source: local", key))


def test_a_choice_among_other_settings_counts_as_none(tmp_path):
    tune(tmp_path)
    after = read(tmp_path, TEXT.replace("[1, 1.5, 2]", "[1, 1.5, 3]"))
    assert after.untuned == ["pta"] and after.tuned_options("pta", "trec") == {}


def test_a_board_names_the_rows_that_have_the_options_chosen(tmp_path):
    suite, _ = tune(tmp_path, {"pta.5": 1.0})
    after = load_suite(tmp_path / "suite.yaml")
    (note, *_) = describe_tuning(after, results_of(after, {}))
    assert note.startswith("Tuned: pta (6 settings a row, on public records")
    assert describe_tuning(after, results_of(suite, {})) == []


def test_a_row_has_what_it_lists_of_tasks_models_and_epsilons(tmp_path):
    text = TEXT.replace("[sim]", "[sim, embedded]")
    by_model = "tasks: {sim: [trec], embedded: [agnews, trec]}\n    epsilons: [8]"
    for tasks, expected in (
        (
            "tasks: [trec]",
            {("trec", model, epsilon) for model in ("sim", "embedded") for epsilon in (1.0, 8.0)},
        ),
        (
            by_model,
            {
                ("trec", "sim", 8.0),
                ("agnews", "embedded", 8.0),
                ("trec", "embedded", 8.0),
            },
        ),
    ):
        cells = expand(read(tmp_path, text.replace(GRID, tasks)), MECHANISMS)
        assert {
            (cell.task, cell.model, cell.epsilon) for cell in cells if cell.mechanism == "pta"
        } == expected
    for tasks in (
        "tasks: [dbpedia]",
        "tasks: {sim: [dbpedia]}",
        "tasks: {dbpedia: [trec]}",
        "epsilons: [4]",
    ):
        with pytest.raises(UsageError, match=r"suite\.yaml, line 14: pta names (dbpedia|4\.0)"):
            read(tmp_path, TEXT.replace(GRID, tasks))


def test_tune_runs_what_is_missing_and_a_run_wants_its_choice(dpicl, local_data):
    path, results = local_data / "suite.yaml", local_data / "results"
    text = TEXT.replace("test_records: 12", "test_records: 4").replace(
        "slots: 4", "slots: 2, tokens: 2"
    )
    path.write_text(
        text + "  - {name: pta, label: pta_large, options: {slots: 3, tokens: 2}, tune: pta}\n"
    )
    before = dpicl(f"run {path} --results {results}")
    assert before.code == 2 and "dpicl tune" in before.err and "pta" in before.err
    first = dpicl(f"tune {path} --results {results} --task trec --json").succeed()
    (on_trec,) = first.json["tasks"].values()
    assert set(first.json["tasks"]) == {"trec"}
    assert len(on_trec["rows"]["pta"]["settings"]) == 6
    assert on_trec["rows"]["pta"]["command"].startswith("dpicl tune")
    assert len(list(results.rglob("*.json"))) == 12  # settings x seeds
    again = dpicl(
        f"tune {path} --results {results} --task trec --mechanism pta_large --json"
    )  # all there
    assert again.code == 0 and len(list(results.rglob("*.json"))) == 12
    assert (
        again.json["tasks"]["trec"]["rows"]["pta"]["settings"] == on_trec["rows"]["pta"]["settings"]
    )
    plan = dpicl(f"plan {path} --results {results} --source synthetic --json")
    options = on_trec["rows"]["pta"]["settings"][0]["options"]
    assert all(
        options.items() <= cell["options"].items()
        for cell in plan.json["cells"]
        if cell["label"] == "pta"
    )


def test_a_suite_without_grids_is_not_tuned(tmp_path):
    with pytest.raises(UsageError, match="No row of suite small has a grid"):
        tuning_suite(read(tmp_path, TEXT.replace(GRID, "")), MECHANISMS)
