"""Deliberately broken mechanisms: each is caught, by the check that names what is wrong, and their sound twins pass."""

import ast
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from dpicl.conformance.bench import set_up
from dpicl.conformance.checking import FULL, LEAST, QUICK, CheckEvidence
from dpicl.conformance.imports import find_import_problem
from dpicl.conformance.kit import CHECKS, check_mechanism
from dpicl.conformance.scales import ORDINARY, Scale, scales
from dpicl.conformance.variants import variants
from dpicl.mechanism.registry import load_plugin
from tests.harness.conformance.sound import SoundLabels, SoundOwnSlots, SoundTokens, SoundVoting

FILES = [
    Path(__file__).parent / f"{name}.py" for name in ("mistakes", "rare_mistakes", "late_mistakes")
]
#: The one that docs/add-a-mechanism.md shows.
EXAMPLE = Path(__file__).parent / "broken" / "sensitivity_one_for_root_two.py"
#: Mistake -> the check that names it.
BROKEN = {
    "noise_missing_on_one_label": "post-processing",
    "noise_outside_the_releases": "noise",
    "noise_declared_as_none": "ledger",
    "noise_that_never_ends": "non-private",
    "sigma_divided_by_m_twice": "sensitivity",
    "ties_broken_by_true_counts": "post-processing",
    "sensitivity_one_for_root_two": "sensitivity",
    "public_rows_for_missing_slots": "sensitivity",
    "normalising_after_averaging": "sensitivity",
    "stopping_on_a_private_eos": "post-processing",
    "data_dependent_vocabulary": "post-processing",
    "private_keyword_copied": "public-labels",
    "reading_past_the_sampler": "private-reads",
    "fixed_size_sample": "private-reads",
    "samples_kept_when_full": "sampling",
    "per_query_budget_spent_q_times": "budget",
    "two_releases_for_one_event": "budget",
    "a_slot_that_fails_stops_the_run": "no-crash",
    "private_count_in_tokens": "post-processing",
    "prompt_written_to_a_file": "side-effects",
    "records_deduplicated_across_slots": "sensitivity",
    "filter_against_copies": "post-processing",
    "no_noise_where_it_is_not_seeded": "noise",
    "first_sample_used_again": "private-reads",
    "wrong_order_under_an_option": "sensitivity",
    "blank_behind_the_answer": "post-processing",
    "answers_kept_in_the_class": "seeds",
    "budget_errors_swallowed": "post-processing",
    "clipping_bound_from_the_data": "post-processing",
    "divisor_is_the_number_of_rows": "sensitivity",
    "exits_on_an_empty_sample": "no-crash",
    "log_line_with_a_record": "side-effects",
    "prompts_kept_in_a_cache": "side-effects",
    "public_prompt_in_a_private_order": "post-processing",
    "records_found_in_a_closure": "private-reads",
    "records_read_from_their_file": "private-reads",
    "streams_named_by_a_record": "post-processing",
    "zero_width_mark_on_a_number": "post-processing",
    # rare_mistakes.py
    "prompt_shows_the_previous_slot": "sensitivity",
    "first_rows_only": "sensitivity",
    "wording_by_position": "sensitivity",
    "bound_of_one_at_high_epsilon": "sensitivity",
    "true_counts_at_the_least_noise": "post-processing",
    "twice_from_the_tenth_token": "sensitivity",
    "twice_from_the_thirteenth_query": "sensitivity",
    "counts_of_a_query_asked_before": "private-reads",
    "half_the_noise_from_the_sixth_text": "budget",
    "private_head_of_a_large_vocabulary": "post-processing",
    "twice_for_the_second_label": "sensitivity",
    "public_answer_to_a_crowd": "post-processing",
    "ballots_in_half_precision": "sensitivity",
    "mean_where_a_slot_is_empty": "sensitivity",
    "sums_kept_for_another_noise_level": "side-effects",
    "lengths_on_the_model": "side-effects",
    "counts_in_a_context_variable": "private-reads",
    "sample_kept_across_shots": "seeds",
    "other_code_replaced": "side-effects",
    "blank_after_a_postcode": "post-processing",
    "twice_for_a_diagnosis": "sensitivity",
    "twice_for_some_hashes": "sensitivity",
    "twice_for_a_copy_of_the_query": "sensitivity",
    "blank_after_a_length": "post-processing",
    "order_of_texts_by_records": "post-processing",
    "first_label_at_night": "seeds",
    "knob_of_the_first_label": "ledger",
    "knob_of_the_largest_label": "ledger",
    "bound_of_one_at_some_noise_levels": "sensitivity",
    "counts_on_another_module": "side-effects",
    "twice_for_many_commas": "sensitivity",
    "twice_for_the_last_label": "sensitivity",
    # late_mistakes.py
    "twice_from_three_examples": "sensitivity",
    "twice_from_the_sixty_fifth_slot": "sensitivity",
    "true_sums_of_a_thousand_records": "post-processing",
    "twice_from_the_fortieth_token": "sensitivity",
    "twice_from_the_sixty_fifth_query": "sensitivity",
    "ballots_in_eight_bits": "sensitivity",
    "ballots_in_bfloat16": "sensitivity",
    "twice_from_the_fifth_label": "sensitivity",
    "margin_of_two_labels": "sensitivity",
    "twice_on_one_task": "sensitivity",
    "twice_where_two_records_are_blank": "sensitivity",
    "twice_under_two_options": "sensitivity",
    "queries_written_at_the_exit": "side-effects",
    "folder_of_the_user_at_import": "side-effects",
    "thread_outlives_the_run": "side-effects",
    "fast_where_the_environment_says_so": "seeds",
    "first_label_from2030_on": "seeds",
}
OTHER_TASK = {"private_keyword_copied": "mit_g"}
#: Those that only much evidence shows, and what an option turns on.
EFFORT = dict.fromkeys(
    (
        "samples_kept_when_full",
        "blank_behind_the_answer",
        "first_sample_used_again",
        "records_deduplicated_across_slots",
        "blank_after_a_postcode",
        "twice_for_a_diagnosis",
        "blank_after_a_length",
        "bound_of_one_at_some_noise_levels",
        "twice_for_many_commas",
        "ballots_in_half_precision",
        "fixed_size_sample",
    ),
    FULL,
)
#: Each takes seconds, and another mistake of the fast ones is named by the same check.
SLOW = (
    *(name for name in EFFORT if name != "samples_kept_when_full"),
    "log_line_with_a_record",
    "prompts_kept_in_a_cache",
    "normalising_after_averaging",
    "public_prompt_in_a_private_order",
    "prompt_shows_the_previous_slot",
    "bound_of_one_at_high_epsilon",
    "public_answer_to_a_crowd",
    "lengths_on_the_model",
    "counts_in_a_context_variable",
    "other_code_replaced",
    "twice_for_some_hashes",
    "twice_for_a_copy_of_the_query",
    "twice_from_the_sixty_fifth_slot",
    "twice_from_the_fifth_label",
    "ballots_in_bfloat16",
    "twice_from_the_thirteenth_query",
    "true_sums_of_a_thousand_records",
    "margin_of_two_labels",
    "twice_for_the_second_label",
    "order_of_texts_by_records",
    "mean_where_a_slot_is_empty",
    "clipping_bound_from_the_data",
    "filter_against_copies",
    "streams_named_by_a_record",
    "zero_width_mark_on_a_number",
)
OPTIONS = {"wrong_order_under_an_option": {"sharpen": True}}
#: What only another scale shows: how its title begins.
SCALES = {
    "twice_from_the_tenth_token": "long texts",
    "twice_from_the_thirteenth_query": "many queries",
    "twice_for_the_second_label": "many queries",
    "half_the_noise_from_the_sixth_text": "many queries",
    "private_head_of_a_large_vocabulary": "50400 tokens",
    "twice_from_three_examples": "its own sizes",
    "twice_from_the_sixty_fifth_slot": "its own sizes",
    "true_sums_of_a_thousand_records": "many queries",
    "twice_from_the_fortieth_token": "long texts",
    "twice_from_the_sixty_fifth_query": "many queries",
    "ballots_in_eight_bits": "two classes",
    "ballots_in_bfloat16": "two classes",
    "twice_from_the_fifth_label": "its own sizes",
    "margin_of_two_labels": "two classes",
    "twice_on_one_task": "the sizes of trec",
}
#: Enough runs at a scale for one mistake.
FEW = replace(LEAST, rounds=2, others=0, additions=2)
#: What the second import and the exit show.
AT_THE_ENDS = ("queries_written_at_the_exit", "folder_of_the_user_at_import")


def scale_of(name: str, cls) -> Scale:
    """The scale on which a mistake shows."""
    start = SCALES.get(name)
    return next(
        scale
        for scale in (ORDINARY, *scales(cls, "agnews", {}))
        if not start or scale.title.startswith(start)
    )


TREES = [ast.parse(path.read_text(encoding="utf-8")) for path in FILES]
CLASSES = {
    re.sub(r"(?<!^)(?=[A-Z])", "_", node.name).lower(): (node, tree)
    for tree in TREES
    for node in tree.body
    if isinstance(node, ast.ClassDef) and node.bases
}


def plugin(name: str) -> str:
    """The text of a plug-in with one mistake and what it uses of the file beside it, and nothing else to find there."""
    cls, tree = CLASSES[name]
    used = {node.id for node in ast.walk(cls) if isinstance(node, ast.Name)}
    parts = [
        node
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        or (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in used)
        or (isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in {*used, cls.name})
    ]
    text = "\n".join(map(ast.unparse, parts))
    return re.sub(rf"(class {cls.name}\(.*\):\n)", rf'\1    name = "{name}"\n', text)


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


def test_every_mistake_is_listed_and_every_check_but_the_audit_names_one_first():
    assert {*CLASSES, EXAMPLE.stem} == BROKEN.keys()
    fast = BROKEN.keys() - {*SLOW}
    assert {BROKEN[name] for name in fast} == set(CHECKS) - {"audit"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in BROKEN],
)
def test_a_broken_mechanism_is_named_by_the_right_check(name, broken, monkeypatch):
    monkeypatch.setattr(math, "comb", math.comb)  # one replaces it
    task, options = OTHER_TASK.get(name, "agnews"), OPTIONS.get(name, {})
    cls = broken(name)
    if name in AT_THE_ENDS:
        run = set_up(cls, task, options, seed=0).run
        assert BROKEN[name] == "side-effects" and find_import_problem(cls, run)
        return
    if name == "twice_under_two_options":
        options = next(
            dict(v.changes)
            for v in variants(cls, task, {})
            if {"sharpen", "way"} <= v.changes.keys()
        )
    bench = set_up(cls, task, options, 0, scale_of(name, cls))
    effort = (LEAST if name in SLOW else FEW) if name in SCALES else EFFORT.get(name, QUICK)
    assert CHECKS[BROKEN[name]](CheckEvidence(bench, effort)).status == "failed"


def test_labels_of_unequal_declared_sizes_have_knobs_of_their_own(broken):
    bench = set_up(broken("knob_of_the_first_label"), "agnews", {}, seed=0)
    first, other = bench.shots
    knobs, sizes = bench.label_knobs(), bench.sizes().records
    assert sizes[first] != sizes[other] and (sizes[first] < sizes[other]) == (
        knobs[first] > knobs[other]
    )
    why = CHECKS["ledger"](CheckEvidence(bench, QUICK)).why
    assert f"records of {other!r} with the knob of {first!r}" in why


@pytest.fixture(
    scope="module",
    params=[
        SoundVoting,
        SoundTokens,
        pytest.param(SoundOwnSlots, marks=pytest.mark.slow),
        pytest.param(SoundLabels, marks=pytest.mark.slow),
    ],
)
def sound(request):
    return CheckEvidence(set_up(request.param, "agnews", {}, seed=0), QUICK)


@pytest.mark.parametrize("check", CHECKS)
def test_a_sound_twin_passes_the_same_check(sound, check):
    verdict = CHECKS[check](sound)
    assert verdict.status == "passed", verdict.why


@pytest.mark.parametrize("name", ["sensitivity_one_for_root_two", "divisor_is_the_number_of_rows"])
def test_the_audit_sees_that_a_record_shows_more_than_was_charged(name, broken):
    verdict = CHECKS["audit"](CheckEvidence(set_up(broken(name), "agnews", {}, seed=0), QUICK))
    assert verdict.status == "failed" and "is charged" in verdict.why


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_a_full_run_names_it_too(name, broken, monkeypatch):
    monkeypatch.setattr(math, "comb", math.comb)
    assert BROKEN[name] in {
        finding.check for finding in check_mechanism(broken(name)) if finding.status == "failed"
    }


@pytest.mark.slow
@pytest.mark.parametrize("cls", [SoundVoting, SoundOwnSlots, SoundTokens])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_sound_mechanism_passes_everything(cls, seed):
    assert {finding.status for finding in check_mechanism(cls, seed=seed)} == {"passed"}
