"""Deliberately broken mechanisms: each is caught, by the check that names what is wrong, and their sound twins pass."""

import ast
import re
from pathlib import Path

import pytest

from dpicl.harness.conformance.bench import set_up
from dpicl.harness.conformance.checking import FULL, QUICK, CheckEvidence
from dpicl.harness.conformance.kit import CHECKS, check_mechanism
from dpicl.harness.mechanism.registry import load_plugin
from tests.harness.conformance.sound import SoundTokens, SoundVoting

MISTAKES = Path(__file__).parent / "mistakes.py"
#: The one that docs/add-a-method.md shows.
EXAMPLE = Path(__file__).parent / "broken" / "sensitivity_one_for_root_two.py"
#: Mistake -> the check that names it, and others that a full run fails as well.
BROKEN: dict[str, tuple[str, ...]] = {
    "noise_missing_on_one_label": ("post-processing",),
    "noise_outside_the_releases": ("noise", "budget", "post-processing"),
    "noise_from_the_global_generator": ("noise", "budget", "post-processing", "private-reads", "seeds"),
    "ties_broken_by_the_global_generator": ("seeds", "non-private", "post-processing", "private-reads"),
    "noise_declared_as_none": ("ledger", "budget"),
    "noise_that_never_ends": ("non-private",),
    "sigma_divided_by_m_twice": ("sensitivity", "audit"),
    "ties_broken_by_true_counts": ("post-processing",),
    "sensitivity_one_for_root_two": ("sensitivity", "audit"),
    "public_rows_for_missing_slots": ("sensitivity", "audit"),
    "normalising_after_averaging": ("sensitivity", "audit"),
    "stopping_on_a_private_eos": ("post-processing",),
    "data_dependent_vocabulary": ("post-processing", "audit", "private-reads", "sensitivity"),
    "private_keyword_copied": ("public-labels", "audit", "budget", "post-processing"),
    "reading_past_the_sampler": ("private-reads", "post-processing"),
    "fixed_size_sample": ("private-reads", "audit", "sensitivity"),
    "samples_kept_when_full": ("sampling", "audit", "private-reads", "sensitivity"),
    "per_query_budget_spent_q_times": ("budget",),
    "two_releases_for_one_event": ("budget",),
    "a_slot_that_fails_stops_the_run": ("no-crash", "audit"),
    "private_count_in_tokens": ("post-processing", "audit"),
    "exception_that_quotes_a_record": ("no-crash",),
    "prompt_written_to_a_file": ("side-effects",),
    "records_deduplicated_across_slots": ("sensitivity", "audit"),
    "filter_against_copies": ("post-processing", "side-effects"),
    "no_noise_where_it_is_not_seeded": ("noise", "post-processing"),
    "first_sample_used_again": ("private-reads",),
    "wrong_order_under_an_option": ("sensitivity",),
    "blank_behind_the_answer": ("post-processing", "audit"),
    "answers_kept_in_the_class": ("seeds", "audit", "budget", "sensitivity"),
    "best_of_two_runs": ("post-processing",),
    "budget_errors_swallowed": ("post-processing",),
    "clipping_bound_from_the_data": ("post-processing", "audit", "sensitivity"),
    "coins_seeded_by_a_record": ("post-processing",),
    "confidence_in_the_answer": ("post-processing",),
    "divisor_is_the_number_of_rows": ("sensitivity", "audit"),
    "exits_on_an_empty_sample": ("no-crash",),
    "homoglyph_for_a_rare_record": ("post-processing",),
    "log_line_with_a_record": ("side-effects",),
    "prompts_kept_in_a_cache": ("side-effects",),
    "public_prompt_in_a_private_order": ("post-processing", "audit"),
    "records_found_in_a_closure": ("private-reads",),
    "records_read_from_their_file": ("private-reads",),
    "streams_named_by_a_record": ("post-processing",),
    "true_counts_for_queries_with_a_link": ("post-processing",),
    "zero_width_mark_on_a_number": ("post-processing",),
}
OTHER_TASK = {"private_keyword_copied": "mit_g"}
#: Those that only much evidence shows, and what an option turns on.
EFFORT = dict.fromkeys(
    (
        "samples_kept_when_full",
        "exception_that_quotes_a_record",
        "blank_behind_the_answer",
        "first_sample_used_again",
        "records_deduplicated_across_slots",
    ),
    FULL,
)
#: Each takes seconds, and another mistake of the fast ones is named by the same check.
SLOW = (
    *(name for name in EFFORT if name != "samples_kept_when_full"),
    "log_line_with_a_record",
    "prompts_kept_in_a_cache",
    "best_of_two_runs",
    "confidence_in_the_answer",
    "normalising_after_averaging",
    "public_prompt_in_a_private_order",
    "true_counts_for_queries_with_a_link",
)
OPTIONS = {"wrong_order_under_an_option": {"sharpen": True}}


TREE = ast.parse(MISTAKES.read_text(encoding="utf-8"))
CLASSES = {
    re.sub(r"(?<!^)(?=[A-Z])", "_", node.name).lower(): node
    for node in TREE.body
    if isinstance(node, ast.ClassDef) and node.bases
}


def plugin(name: str) -> str:
    """The text of a plug-in with one mistake and what it uses of the file beside it, and nothing else to find there."""
    used = {node.id for node in ast.walk(CLASSES[name]) if isinstance(node, ast.Name)}
    parts = [
        node
        for node in TREE.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        or (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in used)
        or (isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in {*used, CLASSES[name].name})
    ]
    text = "\n".join(map(ast.unparse, parts))
    return re.sub(rf"(class {CLASSES[name].name}\(.*\):\n)", rf'\1    name = "{name}"\n', text)


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    """broken(name) -> the class, from a file of its own."""

    def load(name):
        path = EXAMPLE
        if name != EXAMPLE.stem:
            path = tmp_path_factory.mktemp("broken") / f"{name}.py"
            path.write_text(plugin(name), encoding="utf-8")
        (registered,) = load_plugin(path)
        return registered.cls

    return load


def test_every_mistake_is_listed_and_every_check_but_the_audit_names_one():
    assert {*CLASSES, EXAMPLE.stem} == BROKEN.keys()
    fast = BROKEN.keys() - {*SLOW}
    assert {BROKEN[name][0] for name in fast} == set(CHECKS) - {"audit"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in BROKEN]
)
def test_a_broken_mechanism_is_named_by_the_right_check(name, broken):
    bench = set_up(broken(name), OTHER_TASK.get(name, "agnews"), OPTIONS.get(name, {}), seed=0)
    assert CHECKS[BROKEN[name][0]](CheckEvidence(bench, EFFORT.get(name, QUICK))).status == "failed"


@pytest.fixture(scope="module", params=[SoundVoting, SoundTokens])
def sound(request):
    return CheckEvidence(set_up(request.param, "agnews", {}, seed=0), QUICK)


@pytest.mark.parametrize("check", [check for check in CHECKS if check != "audit"])
def test_a_sound_twin_passes_the_same_check(sound, check):
    assert CHECKS[check](sound).status == "passed"


def test_the_exact_audit_adds_up_what_neighbours_cost(broken):
    """Twice the charged zCDP: a sum that moves by sqrt(2) in place of 1."""
    verdict = CHECKS["audit"](CheckEvidence(set_up(broken("sensitivity_one_for_root_two"), "agnews", {}, seed=0)))
    assert verdict.status == "failed" and "cost 2 times" in verdict.why


@pytest.mark.slow
def test_the_experimental_audit_sees_a_leak_that_is_in_no_noisy_sum(broken):
    verdict = CHECKS["audit"](CheckEvidence(set_up(broken("private_keyword_copied"), "mit_g", {}, seed=0)))
    assert verdict.status == "failed" and "can be told apart" in verdict.why


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_a_full_run_fails_these_checks_and_no_other(name, broken):
    findings = check_mechanism(broken(name))
    assert {finding.check for finding in findings if finding.status == "failed"} == set(BROKEN[name])


@pytest.mark.slow
@pytest.mark.parametrize("cls", [SoundVoting, SoundTokens])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_sound_mechanism_passes_everything(cls, seed):
    assert {finding.status for finding in check_mechanism(cls, seed=seed)} == {"passed"}
