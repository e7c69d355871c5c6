"""Suites: strict reading, and what they expand to."""

import contextlib
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.core.cell import Cell
from dpicl.core.errors import UsageError
from dpicl.mechanism.registry import load_mechanisms
from dpicl.plan.expand import expand
from dpicl.plan.suite import Suite
from dpicl.plan.suite_files import Changes, OptionChange, apply_changes, load_suite

MECHANISMS = load_mechanisms()
TEXT = """\
name: small
version: 3
source: auto
models: [sim]
seeds: [0, 1]
epsilons: [1, 8]
tasks: [agnews, trec]
mechanisms:
  - name: zero_shot
  - name: real_demonstrations
  - name: tang
    options: {slots: 7}
    per_task:
      trec: {tokens: 5}
"""
HEAD = TEXT.partition("mechanisms:")[0]


@pytest.fixture(autouse=True)
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `auto` means depends on a folder of data."""
    monkeypatch.delenv("DPICL_DATA", raising=False)


def read(tmp_path: Path, text: str = TEXT) -> Suite:
    path = tmp_path / "suite.yaml"
    path.write_text(text)
    return load_suite(path)


def cells_of(suite: Suite, **changes: object) -> list[Cell]:
    options = changes.pop("options", ())
    return expand(apply_changes(suite, Changes(**changes), MECHANISMS), MECHANISMS, options)


def test_a_suite_expands_to_every_combination(
    tmp_path,
):
    cells = cells_of(read(tmp_path))
    epsilons = {
        name: {cell.epsilon for cell in cells if cell.mechanism == name} for name in MECHANISMS
    }
    assert epsilons["zero_shot"] == {0.0}
    assert epsilons["real_demonstrations"] == {math.inf}
    assert epsilons["tang"] == {1.0, 8.0}
    assert len(cells) == 2 * (2 + 2 + 2 * 2)
    assert len({cell.id for cell in cells}) == len(cells)
    assert {cell.source for cell in cells} == {"synthetic"}


def test_options_of_later_places_win(tmp_path):
    suite = read(tmp_path)
    tang = {cell.task: cell.options for cell in cells_of(suite) if cell.mechanism == "tang"}
    assert tang["agnews"]["examples_per_slot"] == 2  # published for agnews
    assert tang["trec"]["examples_per_slot"] == 1
    assert tang["agnews"]["slots"] == tang["trec"]["slots"] == 7
    assert tang["agnews"]["tokens"] == 100
    assert tang["trec"]["tokens"] == 5
    assert tang["agnews"]["style"] == "completion"  # the class's default
    cells = cells_of(suite, options=[OptionChange(None, "slots", 9)])
    changed_rows = {cell.label: cell.options["slots"] for cell in cells if cell.mechanism == "tang"}
    assert changed_rows == {"tang+slots=9": 9}


def test_a_task_and_an_epsilon_may_have_fewer_seeds(tmp_path):
    counts = "test_records: 50\ntask_test_records: {trec: 7}\ntask_seeds: {trec: 2}\nepsilon_seeds: {8: 1}\n"
    text = TEXT.replace("seeds: [0, 1]", "seeds: [4, 0, 1]") + counts
    cells = cells_of(read(tmp_path, text))
    assert {cell.task: cell.test_records for cell in cells} == {"agnews": 50, "trec": 7}

    def seeds(cells: list[Cell], task: str, mechanism: str, epsilon: float) -> list[int]:
        key = (task, mechanism, epsilon)
        return [cell.seed for cell in cells if (cell.task, cell.mechanism, cell.epsilon) == key]

    assert seeds(cells, "agnews", "tang", 1) == seeds(cells, "agnews", "zero_shot", 0) == [4, 0, 1]
    assert seeds(cells, "agnews", "tang", 8) == seeds(cells, "trec", "tang", 8) == [4]
    assert seeds(cells, "trec", "tang", 1) == seeds(cells, "trec", "zero_shot", 0) == [4, 0]
    some = cells_of(read(tmp_path, text), seeds=[0, 1, 9])
    assert seeds(some, "agnews", "tang", 8) == [9]
    assert seeds(some, "trec", "tang", 1) == [0, 9]


HEADROOM = (
    TEXT.replace("  - name: tang\n", "  - name: public_demonstrations\n  - name: tang\n")
    + "baseline_seeds: [7, 8]\n"
)


def test_baselines_of_headroom_come_first_on_their_own_seeds(tmp_path):
    cells = cells_of(read(tmp_path, HEADROOM + "task_shots: {trec: 16}\n"))
    first = [cell for cell in cells if cell.development]
    assert cells[: len(first)] == first
    assert {(cell.mechanism, cell.seed) for cell in first} == {
        (name, seed)
        for name in ("zero_shot", "real_demonstrations", "public_demonstrations")
        for seed in (7, 8)
    }
    assert {cell.seed for cell in cells[len(first) :]} == {0, 1}
    assert {(cell.task, cell.shots) for cell in first} == {("agnews", 4), ("trec", 16)}
    assert len({cell.id for cell in cells}) == len(cells)
    assert {
        (cell.seed, cell.development)
        for cell in cells_of(
            read(tmp_path, HEADROOM),
            seeds=[8],
        )
    } == {(8, True)}
    assert {
        (cell.seed, cell.development)
        for cell in cells_of(
            read(tmp_path, HEADROOM),
            seeds=[1],
        )
    } == {(1, False)}


def test_a_model_that_only_a_flag_names_has_the_first_ones_tasks(tmp_path):
    suite = read(tmp_path, TEXT.replace("{slots: 7}", "{slots: 7}\n    tasks: {sim: [trec]}"))
    assert {
        cell.task for cell in cells_of(suite, models=["embedded"]) if cell.mechanism == "tang"
    } == {"trec"}


@pytest.mark.parametrize("text", ["1e-5", "0.00001", "1/100000", "'1e-5'"])
def test_delta_may_be_a_decimal_or_a_fraction(tmp_path, text):
    assert read(tmp_path, TEXT + f"delta: {text}\n").delta == 1e-5


def test_the_id_depends_on_everything_but_the_label(tmp_path):
    cell = cells_of(read(tmp_path))[0]
    assert cell.model_copy(update={"label": "other"}).id == cell.id
    assert "private_share" not in cell.model_dump(mode="json")  # as in ids of earlier versions
    for field, value in {
        "suite": "x", "suite_version": 4, "task": "trec", "task_version": 99, "source": "local", "mechanism": "x",
        "options": {"a": 1}, "model": "x", "epsilon": 0.5, "delta": 0.1, "seed": 9, "shots": 8, "test_records": 1,
        "train_records": 1, "noise": "secure", "mode": "paper", "plugin": "ab", "queries": 3,
        "private_share": 0.5, "development": True, "fresh_test_records": True, "metric": "x",
    }.items():  # fmt: skip
        assert cell.model_copy(update={field: value}).id != cell.id, field
        assert field in Cell.model_fields
    assert len(Cell.model_fields) == 23  # a new field must be added above


def test_the_suites_hash_is_over_what_cells_share(tmp_path):
    first = read(tmp_path)
    grown = read(tmp_path, TEXT.replace("seeds: [0, 1]", "seeds: [0, 1, 2]"))
    assert first.hash == grown.hash
    assert first.hash != read(tmp_path, TEXT + "test_records: 10\n").hash
    assert first.hash != read(tmp_path, TEXT.replace("version: 3", "version: 4")).hash
    assert first.hash != read(tmp_path, TEXT + "private_share: 0.8\n").hash
    assert (
        first.hash == read(tmp_path, TEXT + "margin: 0.05\n").hash
    )  # how results are read moves no score


def test_a_share_of_the_private_records_is_in_every_cell(tmp_path):
    cells = cells_of(read(tmp_path, TEXT + "private_share: 0.8\n"))
    assert {cell.private_share for cell in cells} == {0.8}
    assert {cell.private_share for cell in cells_of(read(tmp_path))} == {None}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (TEXT.replace("epsilons", "epsilon"), 6, "Did you mean 'epsilons'?"),
        (TEXT.replace("    options", "    option"), 12, "Did you mean 'options'?"),
        (TEXT.replace("slots: 7", "slot: 7"), 11, "Did you mean 'slots'?"),
        (TEXT.replace("tokens: 5", "token: 5"), 11, "Did you mean 'tokens'?"),
        (TEXT.replace("trec: {", "treck: {"), 14, "Did you mean 'trec'?"),
        (TEXT.replace("slots: 7", "slots: many"), 11, "slots"),
        (TEXT.replace("agnews, trec", "agnews, trek"), 7, "Did you mean 'trec'?"),
        (TEXT.replace("name: tang", "name: tank"), 11, "Did you mean 'tang'?"),
        (TEXT.replace("[1, 8]", "[1, -8]"), 6, "above 0"),
        (TEXT.replace("[1, 8]", "[1, 1]"), 6, "twice"),
        (
            "name: attacks\n" + "\n".join(TEXT.splitlines()[1:]) + "\n",
            1,
            "a results folder of its own",
        ),
        (TEXT + "delta: 1\n", 15, "less than 1"),
        (TEXT + "shots: true\n", 15, "whole number"),
        (TEXT + "noise: loud\n", 15, "should be 'seeded'"),
        (TEXT + "noise: secure\n", 15, "dpicl release"),
        (TEXT + "  - name: tang\n", 15, "label"),
        (TEXT.replace("seeds: [0, 1]", "seeds: [0, 1"), 6, "not valid YAML"),
        (TEXT.replace("version: 3\n", ""), 1, "'version' is missing"),
        (TEXT.replace("agnews, trec", "yes"), 7, "quotes"),
        (TEXT + "task_seeds: [1, 2]\n", 15, "valid dictionary"),
        (TEXT + "task_seeds:\n", 15, "is empty"),
        (TEXT + "task_seeds: {trec: 3}\n", 15, "'seeds' lists 2"),
        (TEXT + "task_seeds: {tree: 1}\n", 15, "Did you mean 'trec'?"),
        (TEXT + "epsilon_seeds: {one: 1}\n", 15, "'epsilon_seeds, one' must be"),
        (TEXT + "epsilon_seeds: {2: 1}\n", 15, "does not list"),
        (
            TEXT + "queries: 9\ntask_test_records: {trec: 10}\n",
            15,
            "'queries' (9) does not cover 10",
        ),
        (HEADROOM.replace("[7, 8]", "[7, 1]"), 16, "'baseline_seeds' lists 1"),
        (HEADROOM.replace("[7, 8]", "[7, 7]"), 16, "occurs twice"),
        (HEADROOM.replace("  - name: public_demonstrations\n", ""), 15, "public_demonstrations"),
    ],
)
def test_a_broken_suite_is_an_error_with_its_line_and_a_hint(tmp_path, text, line, words):
    with pytest.raises(UsageError) as error:
        cells_of(read(tmp_path, text))
    message = str(error.value)
    assert f"suite.yaml, line {line}: " in message and words in message and len(message) < 500
    for jargon in (
        "MechanismEntry",
        "mechanisms.0",
        "Input should",
        "input should",
        "instance of",
        "[type=",
    ):
        assert jargon not in message


@given(st.text(max_size=60))
def test_any_text_is_a_suite_or_a_usage_error(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(TEXT + text, encoding="utf-8")
    with contextlib.suppress(UsageError):  # any other exception fails the test
        load_suite(path)


def test_shipped_suites_expand():
    from dpicl.core.paths import shipped_suites

    assert shipped_suites()
    for path in shipped_suites().values():
        assert expand(load_suite(path), MECHANISMS)


def test_a_row_may_have_fewer_seeds_than_its_suite(tmp_path):
    cells = cells_of(
        read(
            tmp_path,
            TEXT.replace("    options: {slots: 7}", "    seeds: 1\n    options: {slots: 7}"),
        )
    )
    assert {cell.seed for cell in cells if cell.mechanism == "tang"} == {0}
    assert {cell.seed for cell in cells if cell.mechanism == "zero_shot"} == {0, 1}
    with pytest.raises(UsageError, match="tang asks for 3 seeds, and 'seeds' lists 2"):
        read(
            tmp_path,
            TEXT.replace("    options: {slots: 7}", "    seeds: 3\n    options: {slots: 7}"),
        )


def test_a_suite_of_too_many_cells_is_refused_before_one_is_made(tmp_path, monkeypatch):
    """Only those count for which it asks."""
    many = HEAD.replace("[1, 8]", str([*range(1, 9_001)]))
    few = many + "mechanisms: [{name: tang, tasks: [trec], epsilons: [8]}]\n"
    assert len(cells_of(read(tmp_path, few))) == 2
    with pytest.raises(UsageError, match="seeds"):
        cells_of(read(tmp_path), seeds=range(20_000))
    monkeypatch.setattr(Cell, "__init__", lambda *_, **__: pytest.fail("a cell was made"))
    with pytest.raises(UsageError, match="36,000 cells, 30,000 is the most"):
        read(tmp_path, many + "mechanisms: [tang]\n")


CONTRAST = """
contrasts:
  - {name: above, better: tang, than: pta, tasks: [agnews]}
"""


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("better: tang", "better: tong", ["row of 'above'", "'tong'", "'tang'"]),
        ("than: pta", "than: tang", ["'above' compares tang with itself"]),
        ("[agnews]", "[trec]", ["'above' names trec, which 'tasks' does not list"]),
        ("[agnews]", "[dbpedia]", ["tang does not run on dbpedia"]),
        ("[agnews]", "[]", ["tasks"]),
        (
            "tasks: [agnews]",
            "tasks: [agnews], epsilon: 3",
            ["'above' names 3, which 'epsilons' does not list"],
        ),
        ("tasks: [agnews]", "tasks: [agnews], epsilon: 8", ["pta has no ε = 8"]),
        ("tasks: [agnews]", "tasks: [agnews], margin: 1", ["'margin'"]),
        (
            "contrasts:",
            "contrasts:\n  - {name: above, better: pta, than: tang, tasks: [agnews]}",
            ["above occurs twice"],
        ),
    ],
)
def test_a_contrast_that_makes_no_sense_is_one_sentence(tmp_path, old, new, words):
    path = tmp_path / "mine.yaml"
    text = "name: mine\nversion: 1\nmodels: [sim]\nseeds: [0]\nepsilons: [1, 8]\n"
    text += "tasks: [agnews, dbpedia]\nmechanisms:\n"
    text += "  - {name: tang, tasks: [agnews]}\n  - {name: pta, epsilons: [1]}\n"
    path.write_text(text + CONTRAST)
    (planned,) = load_suite(path).planned
    assert planned.better == "tang"
    assert planned.epsilon == 1.0
    plain = tmp_path / "plain.yaml"
    plain.write_text(text)
    assert load_suite(path).hash == load_suite(plain).hash  # results stay on their board
    path.write_text(text + CONTRAST.replace(old, new))
    with pytest.raises(UsageError, match=r"line 1\d") as error:
        load_suite(path)
    assert [word for word in words if word not in str(error.value)] == []


def test_a_limit_of_test_records_is_that_of_every_task(tmp_path):
    suite = read(tmp_path, TEXT + "test_records: 50\ntask_test_records: {trec: 7}\n")
    assert {cell.task: cell.test_records for cell in cells_of(suite)} == {"agnews": 50, "trec": 7}
    assert {cell.test_records for cell in cells_of(suite, test_records=3)} == {3}
