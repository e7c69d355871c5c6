"""Deliberately broken mechanisms: each is caught, by the check that names what is wrong, and their sound twins pass."""

from pathlib import Path

import pytest

from dpicl.harness.conformance.bench import set_up
from dpicl.harness.conformance.evidence import FULL, QUICK, CheckEvidence
from dpicl.harness.conformance.kit import CHECKS, check_mechanism
from dpicl.harness.mechanism.registry import load_plugin
from tests.harness.conformance.sound import SoundTokens, SoundVoting

FOLDER = Path(__file__).parent / "broken"
#: file -> (the check that names it, a task, part of its sentence, other checks that a full run fails as well)
BROKEN = {
    "noise_missing_on_one_label": ("post-processing", "agnews", "is released in place of", ()),
    "noise_outside_the_doors": ("noise", "agnews", "nothing was drawn with its permit", ("budget", "post-processing")),
    "noise_from_the_global_generator": (
        "noise",
        "agnews",
        "nothing was drawn with its permit",
        ("budget", "post-processing", "private-reads", "seeds"),
    ),
    "ties_broken_by_the_global_generator": (
        "seeds",
        "agnews",
        "same seeds differ",
        ("non-private", "post-processing", "private-reads"),
    ),
    "noise_declared_as_none": ("ledger", "agnews", "costs nothing", ("budget",)),
    "noise_that_never_ends": ("non-private", "agnews", "still have noise", ()),
    "sigma_divided_by_m_twice": ("sensitivity", "agnews", "and 0.05657 is stated", ("audit",)),
    "ties_broken_by_true_counts": ("post-processing", "agnews", "is released in place of", ()),
    "sensitivity_one_for_root_two": ("sensitivity", "agnews", "by 1.414 (L2 norm), and 1 is stated", ("audit",)),
    "normalising_after_averaging": ("sensitivity", "agnews", "and 0.2828 is stated", ("audit",)),
    "stopping_on_a_private_eos": ("post-processing", "agnews", "doors are passed in place of", ()),
    "data_dependent_vocabulary": (
        "post-processing",
        "agnews",
        "what it is chosen from",
        ("audit", "private-reads", "sensitivity"),
    ),
    "private_keyword_copied": (
        "public-labels",
        "mit_g",
        "only a private record holds",
        ("audit", "budget", "post-processing"),
    ),
    "reading_past_the_sampler": ("private-reads", "agnews", "frames of other code", ("post-processing",)),
    "fixed_size_sample": ("private-reads", "agnews", "its own sample", ("audit", "sensitivity")),
    "samples_kept_when_full": (
        "sampling",
        "agnews",
        "not Poisson: the size of a sample",
        ("audit", "private-reads", "sensitivity"),
    ),
    "per_query_budget_spent_q_times": ("budget", "agnews", "must cover every query", ()),
    "two_releases_for_one_event": ("budget", "agnews", "was not charged", ()),
    "a_slot_that_fails_stops_the_run": ("no-crash", "agnews", "raises ValueError", ("audit",)),
    "private_count_in_tokens": ("post-processing", "agnews", "tokens'", ("audit",)),
    "exception_that_quotes_a_record": ("no-crash", "agnews", "holds an address", ()),
    "prompt_written_to_a_file": ("side-effects", "agnews", "opens a file for writing", ()),
    "records_deduplicated_across_slots": ("sensitivity", "agnews", "is stated", ("audit",)),
    "filter_against_copies": ("post-processing", "agnews", "copy the released texts", ("side-effects",)),
    "no_noise_where_it_is_not_seeded": ("noise", "agnews", "With secure noise", ("post-processing",)),
    "first_sample_used_again": ("private-reads", "agnews", "its own sample", ()),
    "wrong_order_under_an_option": ("sensitivity", "agnews", "and 0.2828 is stated", ()),
    "blank_behind_the_answer": ("post-processing", "agnews", "fracture", ("audit",)),
    "answers_kept_in_the_class": (
        "seeds",
        "agnews",
        "keep nothing between runs",
        ("audit", "budget", "sensitivity"),
    ),
    "best_of_two_runs": ("post-processing", "agnews", "is released in place of", ()),
    "budget_errors_swallowed": ("post-processing", "agnews", "is released in place of", ()),
    "clipping_bound_from_the_data": (
        "post-processing",
        "agnews",
        "another shape, sensitivity or scale",
        ("audit", "sensitivity"),
    ),
    "coins_seeded_by_a_record": ("post-processing", "agnews", "is released in place of", ()),
    "confidence_in_the_answer": ("post-processing", "agnews", "sure", ()),
    "divisor_is_the_number_of_rows": ("sensitivity", "agnews", "is stated", ("audit",)),
    "exits_on_an_empty_sample": ("no-crash", "agnews", "raises SystemExit", ()),
    "homoglyph_for_a_rare_record": ("post-processing", "agnews", "is released in place of", ()),
    "log_line_with_a_record": ("side-effects", "agnews", "no answer after", ()),
    "prompts_kept_in_a_cache": ("side-effects", "agnews", "the module's length still holds", ()),
    "public_prompt_in_a_private_order": ("post-processing", "agnews", "another public prompt", ("audit",)),
    "records_found_in_a_closure": ("private-reads", "agnews", "that no sample held", ()),
    "records_read_from_their_file": ("private-reads", "agnews", "from their source", ()),
    "streams_named_by_a_record": ("post-processing", "agnews", "is released in place of", ()),
    "true_counts_for_queries_with_a_link": ("post-processing", "agnews", "is released in place of", ()),
    "zero_width_mark_on_a_number": ("post-processing", "agnews", "is released in place of", ()),
}

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
OPTIONS = {"wrong_order_under_an_option": {"sharpen": True}}


def broken(name):
    (registered,) = load_plugin(FOLDER / f"{name}.py")
    return registered.cls


def test_every_file_of_the_folder_is_listed_and_every_check_but_the_audit_is_named_by_one():
    assert {path.stem for path in FOLDER.glob("*.py")} == set(BROKEN)
    assert {check for check, _, _, _ in BROKEN.values()} == set(CHECKS) - {"audit"}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_mechanism_is_named_by_the_right_check(name):
    check, task, sentence, _ = BROKEN[name]
    verdict = CHECKS[check](
        CheckEvidence(set_up(broken(name), task, OPTIONS.get(name, {}), seed=0), EFFORT.get(name, QUICK))
    )
    assert verdict.status == "failed"
    assert sentence in verdict.why


@pytest.fixture(scope="module", params=[SoundVoting, SoundTokens])
def sound(request):
    return CheckEvidence(set_up(request.param, "agnews", {}, seed=0), QUICK)


@pytest.mark.parametrize("check", [check for check in CHECKS if check != "audit"])
def test_a_sound_twin_passes_the_same_check(sound, check):
    assert CHECKS[check](sound).status == "passed"


def test_the_exact_audit_adds_up_what_neighbours_cost():
    """Twice the charged zCDP: a sum that moves by sqrt(2) in place of 1."""
    verdict = CHECKS["audit"](CheckEvidence(set_up(broken("sensitivity_one_for_root_two"), "agnews", {}, seed=0)))
    assert verdict.status == "failed" and "cost 2 times" in verdict.why


def test_the_experimental_audit_sees_a_leak_that_is_in_no_noisy_sum():
    verdict = CHECKS["audit"](CheckEvidence(set_up(broken("private_keyword_copied"), "mit_g", {}, seed=0)))
    assert verdict.status == "failed" and "can be told apart" in verdict.why


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_a_full_run_fails_these_checks_and_no_other(name):
    check, _, _, others = BROKEN[name]
    findings = check_mechanism(broken(name))
    assert {finding.check for finding in findings if finding.status == "failed"} == {check, *others}


@pytest.mark.slow
@pytest.mark.parametrize("cls", [SoundVoting, SoundTokens])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_sound_mechanism_passes_everything(cls, seed):
    assert {finding.status for finding in check_mechanism(cls, seed=seed)} == {"passed"}
