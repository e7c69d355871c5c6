"""Every mechanism that is built in passes the kit."""

import pytest

from dpicl.conformance.bench import set_up
from dpicl.conformance.checking import QUICK, CheckEvidence
from dpicl.conformance.kit import CHECKS, check_mechanism, tasks_of
from dpicl.mechanism.registry import load_mechanisms
from dpicl.privacy.sampling_schemes import SCHEMES

BUILT_IN = {
    name: registered.cls
    for name, registered in load_mechanisms().items()
    if registered.origin == "built in"
}
ENDS = {
    "zero_shot": "agnews",
    "public_demonstrations": "agnews",
    "real_demonstrations": "agnews",
    "repeated_label": "agnews",
    "public_records": "samsum",
    "esa_public": "samsum",
    "sga_public": "samsum",
}
#: One of each kind of release and each way of sampling; the slow tests have all.
FAST = (*ENDS, "tang", "prism", "voting", "embedding_centroids", "private_evolution")
#: Every record is in the one sample, so nothing is claimed from sampling.
ALL_RECORDS = ("private_evolution", "one_vote", "embedding_centroids", "topic_words")


@pytest.mark.parametrize(
    "name",
    [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in BUILT_IN],
)
def test_a_built_in_mechanism_passes_on_its_first_task(name):
    cls = BUILT_IN[name]
    evidence = CheckEvidence(
        set_up(
            cls,
            tasks_of(cls, None, {})[0],
            {},
            seed=0,
        ),
        QUICK,
    )
    verdicts = {check: run(evidence) for check, run in CHECKS.items()}
    assert {check: v.why for check, v in verdicts.items() if v.status == "failed"} == {}
    if name not in ENDS:
        unpassed = {check for check, v in verdicts.items() if v.status != "passed"}
        assert unpassed == ({"sampling"} if name in ALL_RECORDS else set())


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if ENDS[name] == "samsum" else name
        for name in ENDS
    ],
)
def test_the_ends_of_the_scale_have_nothing_to_check_of_noise(name):
    cls = BUILT_IN[name]
    status = {finding.check: finding.status for finding in check_mechanism(cls, task=ENDS[name])}
    assert "failed" not in status.values()
    assert all(
        status[check] == "not applicable"
        for check in ("sensitivity", "noise", "non-private", "audit")
    )
    expected = "not applicable" if name == "real_demonstrations" else "passed"
    assert status["post-processing"] == status["private-reads"] == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", BUILT_IN)
def test_a_built_in_mechanism_passes_all_on_every_kind_of_task(name):
    findings = check_mechanism(BUILT_IN[name])
    assert {f.check: f.why for f in findings if f.status == "failed"} == {}


@pytest.mark.slow
@pytest.mark.parametrize("way", SCHEMES)
@pytest.mark.parametrize("name", ["voting", "esa", "ksa", "sga", "sga_histogram"])
def test_every_sampling_scheme_passes(name, way):
    findings = check_mechanism(BUILT_IN[name], options={"partition": way})
    assert {f.check: f.why for f in findings if f.status == "failed"} == {}
