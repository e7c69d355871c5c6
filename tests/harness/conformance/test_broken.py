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
#: Check -> the mistakes that it names.
NAMED = {
    "post-processing": [
        "noise_missing_on_one_label",
        "ties_broken_by_true_counts",
        "stopping_on_a_private_eos",
        "data_dependent_vocabulary",
        "private_count_in_tokens",
        "filter_against_copies",
        "blank_behind_the_answer",
        "budget_errors_swallowed",
        "clipping_bound_from_the_data",
        "public_prompt_in_a_private_order",
        "streams_named_by_a_record",
        "zero_width_mark_on_a_number",
        "true_counts_at_the_least_noise",
        "private_head_of_a_large_vocabulary",
        "public_answer_to_a_crowd",
        "blank_after_a_postcode",
        "blank_after_a_length",
        "order_of_texts_by_records",
        "true_sums_of_a_thousand_records",
    ],
    "noise": ["noise_outside_the_releases", "no_noise_where_it_is_not_seeded"],
    "ledger": ["noise_declared_as_none", "knob_of_the_first_label", "knob_of_the_largest_label"],
    "non-private": ["noise_that_never_ends"],
    "sensitivity": [
        "sigma_divided_by_m_twice",
        "sensitivity_one_for_root_two",
        "public_rows_for_missing_slots",
        "normalising_after_averaging",
        "records_deduplicated_across_slots",
        "wrong_order_under_an_option",
        "divisor_is_the_number_of_rows",
        "prompt_shows_the_previous_slot",
        "first_rows_only",
        "wording_by_position",
        "bound_of_one_at_high_epsilon",
        "twice_from_the_tenth_token",
        "twice_from_the_thirteenth_query",
        "twice_for_the_second_label",
        "ballots_in_half_precision",
        "mean_where_a_slot_is_empty",
        "twice_for_a_diagnosis",
        "twice_for_some_hashes",
        "twice_for_a_copy_of_the_query",
        "bound_of_one_at_some_noise_levels",
        "twice_for_many_commas",
        "twice_for_the_last_label",
        "twice_from_three_examples",
        "twice_from_the_sixty_fifth_slot",
        "twice_from_the_fortieth_token",
        "twice_from_the_sixty_fifth_query",
        "ballots_in_eight_bits",
        "ballots_in_bfloat16",
        "ballots_in_signed_bytes",
        "twice_from_the_fifth_label",
        "margin_of_two_labels",
        "twice_on_one_task",
        "twice_where_two_records_are_blank",
        "twice_under_two_options",
    ],
    "public-labels": ["private_keyword_copied"],
    "private-reads": [
        "reading_past_the_sampler",
        "fixed_size_sample",
        "first_sample_used_again",
        "records_found_in_a_closure",
        "records_read_from_their_file",
        "counts_of_a_query_asked_before",
        "counts_in_a_context_variable",
    ],
    "sampling": ["samples_kept_when_full"],
    "budget": [
        "per_query_budget_spent_q_times",
        "two_releases_for_one_event",
        "half_the_noise_from_the_sixth_text",
    ],
    "no-crash": ["a_slot_that_fails_stops_the_run", "exits_on_an_empty_sample"],
    "side-effects": [
        "prompt_written_to_a_file",
        "log_line_with_a_record",
        "prompts_kept_in_a_cache",
        "sums_kept_for_another_noise_level",
        "lengths_on_the_model",
        "other_code_replaced",
        "counts_on_another_module",
        "queries_written_at_the_exit",
        "counts_written_by_a_finalizer",
        "counts_written_by_a_pool",
        "folder_of_the_user_at_import",
        "thread_outlives_the_run",
    ],
    "seeds": [
        "answers_kept_in_the_class",
        "sample_kept_across_shots",
        "first_label_at_night",
        "fast_where_the_environment_says_so",
        "first_label_from2030_on",
    ],
}
#: Mistake -> the check that names it.
BROKEN = {mistake: check for check, mistakes in NAMED.items() for mistake in mistakes}
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
    "ballots_in_signed_bytes",
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
    "wrong_order_under_an_option",
    "private_count_in_tokens",
    "ballots_in_eight_bits",
    "twice_on_one_task",
    "twice_from_the_fortieth_token",
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
    "ballots_in_signed_bytes": "sums of 128",
    "twice_from_the_fifth_label": "its own sizes",
    "margin_of_two_labels": "two classes",
    "twice_on_one_task": "the sizes of trec",
}
#: Enough runs at a scale for one mistake.
FEW = replace(LEAST, rounds=2, others=0, additions=2)
#: What the second import and the exit show.
AT_THE_ENDS = (
    "queries_written_at_the_exit",
    "counts_written_by_a_finalizer",
    "counts_written_by_a_pool",
    "folder_of_the_user_at_import",
)


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


def names_in(cls: ast.ClassDef) -> set[str]:
    return {node.id for node in ast.walk(cls) if isinstance(node, ast.Name)}


def plugin(name: str) -> str:
    """The text of a plug-in with one mistake and what it uses of the file beside it, and nothing else to find there."""
    cls, tree = CLASSES[name]
    used = names_in(cls)
    for node in tree.body:  # what a helper beside it uses
        if isinstance(node, ast.ClassDef) and node.name in used:
            used |= names_in(node)
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


def test_every_check_but_the_audit_names_a_mistake_first():
    assert {*CLASSES, EXAMPLE.stem} == BROKEN.keys()
    fast = BROKEN.keys() - {*SLOW}
    assert {BROKEN[name] for name in fast} == set(CHECKS) - {"audit"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in BROKEN],
)
def test_a_broken_mechanism_is_named_by_the_right_check(name, broken, monkeypatch):
    monkeypatch.setattr(math, "comb", math.comb)  # one replaces it
    task = OTHER_TASK.get(name, "agnews")
    options = OPTIONS.get(name, {})
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


def test_labels_of_unequal_sizes_have_knobs_of_their_own(broken):
    bench = set_up(broken("knob_of_the_first_label"), "agnews", {}, seed=0)
    first, other = bench.shots
    knobs, sizes = bench.label_knobs(), bench.sizes().records
    assert sizes[first] != sizes[other]
    assert (sizes[first] < sizes[other]) == (knobs[first] > knobs[other])
    why = CHECKS["ledger"](CheckEvidence(bench, QUICK)).why
    assert f"records of {other!r} with the knob of {first!r}" in why


@pytest.fixture(
    scope="module",
    params=[
        SoundVoting,
        *(
            pytest.param(cls, marks=pytest.mark.slow)
            for cls in (SoundTokens, SoundOwnSlots, SoundLabels)
        ),
    ],
)
def sound(request):
    return CheckEvidence(set_up(request.param, "agnews", {}, seed=0), QUICK)


@pytest.mark.parametrize("check", CHECKS)
def test_a_sound_twin_passes_the_same_check(sound, check):
    verdict = CHECKS[check](sound)
    assert verdict.status == "passed", verdict.why


def test_the_audit_sees_a_record_that_shows_more_than_is_charged(broken):
    bench = set_up(broken("sensitivity_one_for_root_two"), "agnews", {}, seed=0)
    verdict = CHECKS["audit"](CheckEvidence(bench, QUICK))
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
