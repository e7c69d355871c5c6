"""The command line: what each command answers, for people and as JSON."""

import json
import math
import shlex
import signal
import subprocess
import sys

from dpicl.api import lists
from dpicl.api.verbs import parameters
from dpicl.cli.commands import load
from dpicl.program import VERBS, build, parse
from tests.harness.helpers import refuse


def words_of(program, name):
    """The flags of a command, and the lines of its example."""
    command = program.commands[name]
    flags = {option for each in command.params for option in each.opts if option.startswith("--")}
    return flags, [
        line.strip() for line in command.epilog.partition("example:")[2].strip().splitlines()
    ]


def test_every_verb_has_an_example_that_calls_its_function():
    program = build()
    for name, (place, _) in VERBS.items():
        flags, lines = words_of(program, name)
        known = [
            each
            for each in parameters(load(place)).values()
            if not each.flag.hidden and not each.positional
        ]
        assert flags == {"--json", "--config", *(each.written for each in known)}, name
        for line in lines:
            call = parse(shlex.split(line)[1:])
            assert line.startswith(f"dpicl {name} ") and call.function is load(place)


def test_a_file_holds_the_parameters_of_any_verb(dpicl, sim_suite, tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(
        f"suite: {sim_suite}\nepsilon: [1, .inf]\nlimit: 3\noption: {{prism_short.prompts: 6}}\n"
    )
    call = parse(["plan", "--config", str(file), "--limit", "4"])
    assert call.arguments == {
        "suite": str(sim_suite), "epsilon": [1.0, math.inf], "test_records": 4, "options": {"prism_short.prompts": 6},
    }  # fmt: skip
    cells = dpicl(f"plan --config {file} --seed 0 --json").json["cells"]
    assert {cell["label"] for cell in cells} >= {"prism_short+prompts=6"}
    assert {c["test_records"] for c in cells} == {3}
    file.write_text("epsilom: 1\n")
    refuse(dpicl(f"plan {sim_suite} --config {file}"), "epsilom", "Did you mean 'epsilon'")
    file.write_text("epsilon: much\n")
    refuse(dpicl(f"plan {sim_suite} --config {file}"), "--epsilon", "much")


#: Runs commands, and prints after each of them which modules of the last argument are loaded.
LOADED = """
import sys
from dpicl.program import main
*commands, heavy = sys.argv[1:]
for command in commands:
    main(command.split())
    print(*sorted({*heavy.split()} & {*sys.modules}), file=sys.stderr)
"""


def test_help_lists_and_boards_load_no_more_than_they_need():
    """What runs models, draws pages and computes epsilon; a board tests differences by a function of scipy."""
    heavy = (
        "dp_accounting prv_accountant scipy torch transformers sklearn pandas vl_convert lm_eval"
    )
    words = [sys.executable, "-c", LOADED, "--help", "list mechanisms", "board generation", heavy]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-3:] == ["", "", "scipy"]


def test_a_plan_names_the_selected_rows_that_are_not_tuned(dpicl, sim_suite, tmp_path):
    suite = tmp_path / "suite.yaml"
    suite.write_text(
        sim_suite.read_text() + "  - {name: pta, tune: {alpha: [1, 1.5, 2], top_k: [10, 100]}}\n"
    )
    assert dpicl(f"plan {suite} --json").json["untuned"] == ["pta"]
    assert dpicl(f"plan {suite} --mechanism tang --json").json["untuned"] == []


def test_run_plan_and_board_from_nothing_to_a_page(dpicl, sim_suite, tmp_path):
    place = f"{sim_suite} --results {tmp_path}/results"
    before = dpicl(f"plan {place} --json").json
    assert before["present"] == 0
    assert before["missing"] == 8
    assert before["seconds"] is None  # nothing has run here yet
    assert "no cell of it has run here" in " ".join(dpicl(f"plan {place}").out.split())
    refuse(dpicl(f"plan {place} --model hf:/nowhere"), "There is no folder /nowhere")
    assert before["tokens"] == sum(cell["tokens"] for cell in before["cells"]) > 0
    assert not (tmp_path / "results").exists()

    done = dpicl(f"run {place} --json").succeed()
    assert done.json["counts"] == {"done": 8, "present": 0, "skipped": 0, "failed": 0}
    for cell in done.json["cells"]:
        result = json.loads((tmp_path / cell["path"]).read_text())
        assert result["cell_id"] == cell["id"]
        assert result["scores"][result["main_metric"]]["value"] == cell["score"]

    after = dpicl(f"plan {place} --json").json
    assert after["present"] == 8
    assert after["missing"] == 0
    assert {cell["id"] for cell in after["cells"]} == {cell["id"] for cell in before["cells"]}
    more = dpicl(f"plan {place} --seed 7 --json").json
    assert more["missing"] == 4 and more["seconds"] > 0
    assert dpicl(f"run {place} --json").json["counts"]["present"] == 8

    board = dpicl(f"board {place} --html {tmp_path}/site --json").succeed()
    labels = {row["label"] for row in board.json["sections"][0]["tasks"][0]["rows"]}
    assert labels == {"zero_shot", "real_demonstrations", "tang", "prism_short"}
    assert (tmp_path / "site" / "index.html").is_file()


def test_a_run_says_which_command_comes_next(dpicl, sim_suite, tmp_path):
    place = f"{sim_suite} --results {tmp_path}/results --limit 5"
    done = dpicl(f"run {place} --mechanism zero_shot --mechanism real_demonstrations")
    board = dpicl(done.out.split("Next: dpicl ")[1])
    assert board.code == 0 and "zero_shot" in board.out
    dpicl(dpicl(f"plan {place}").out.split("Next: dpicl ")[1]).succeed()


def test_a_board_holds_no_results_with_other_settings(dpicl, sim_suite, tmp_path):
    place = f"{sim_suite} --results {tmp_path}/results"
    few = "--mechanism zero_shot --mechanism real_demonstrations --seed 0"
    for limit, flags in ((12, ""), (5, "--limit 5")):
        dpicl(f"run {place} {few} {flags}")
        (section,) = dpicl(f"board {place} {flags} --json").json["sections"]
        assert [table["documents"] for table in section["tasks"]] == [limit]
    refuse(dpicl(f"board {place} --limit 6"), "dpicl run")


def test_calibrate_answers_noise_within_its_target(dpicl):
    words = "calibrate prism --task agnews --epsilon 1 --delta 1e-5 --size 30000"
    answer = dpicl(words, "--json").json
    assert 0.98 <= answer["epsilon_upper"] <= 1
    assert answer["noise"] > 0
    assert answer["mode"] == "proved"
    assert set(answer["sizes"].values()) == {30000}
    assert answer["events"]["event"] == "parallel"
    assert "temperature" in dpicl(words).out
    knobless = dpicl("calibrate zero_shot --task agnews --epsilon 1 --size 10")
    assert "no knob" in knobless.out
    changed = dpicl(words, "--option", "tokens=10", "--json").json
    assert changed["options"]["tokens"] == 10
    assert changed["noise"] < answer["noise"]


def test_a_plan_counts_the_tokens_that_the_events_say_are_read(dpicl, sim_suite):
    cells = dpicl(f"plan {sim_suite} --seed 0 --results nowhere --json").json["cells"]
    tokens = {cell["label"]: cell["tokens"] for cell in cells}
    evaluation = 12 * 80  # test records x tokens of a record
    assert tokens["zero_shot"] == tokens["real_demonstrations"] == evaluation
    assert (
        tokens["tang"] == evaluation + 4 * 4 * 4 * 80
    )  # shots x tokens x records in a sample, read anew every time
    assert tokens["prism_short"] == evaluation + 4 * 8 * (
        80 + 3
    )  # shots x records, read once and grown by 3 tokens


def test_a_run_into_a_submission_goes_on_with_the_gate(dpicl, sim_suite, tmp_path):
    (tmp_path / "submission.yaml").write_text("")
    done = dpicl(f"run {sim_suite} --mechanism zero_shot --seed 0 --results {tmp_path}/results")
    assert done.code == 0 and f"Next: dpicl submit {tmp_path}" in done.out


def test_sigterm_ends_any_command_as_ctrl_c_does(dpicl, monkeypatch):
    monkeypatch.setattr(lists, "list_tasks", lambda plugins: signal.raise_signal(signal.SIGTERM))
    answer = dpicl("list", "tasks")
    assert (answer.code, answer.out) == (130, "") and "dpicl: stopped." in answer.err
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
