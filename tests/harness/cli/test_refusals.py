"""Command lines that make no sense: exit code 2, one sentence that says what to do, and nothing is written."""

import shlex
from pathlib import Path

import pytest

from tests.harness.helpers import refuse

ACCOUNT = "account --delta 1e-5"
AUDIT = "audit voting --task agnews --epsilon 1"
PRIVATE = (
    "calibrate private_prediction --task agnews --size 100 --epsilon 1 --option prompts=10 --option"
)
#: A command line -> what its sentence says. RUN: `dpicl run` on the simulated suite.
REFUSALS = {
    "": "command is missing",
    "--noise 3": "No such option: --noise. See `dpicl --help`",
    "rum quick": "Did you mean 'run'",
    "publish wandbb": "Did you mean 'wandb'",
    "run": "SUITE",
    "run quik": "Did you mean 'quick'",
    "run no/such/suite.yaml": "There is no suite file",
    "plan .": "is a folder",
    "plan quick --results file": "is a file",
    "plan quick --mechanism qqqq": "--plugin",
    "plan generation --detect 3": "--detect",
    "plan generation --detect 0.1 --power 80": "--power",
    "RUN extra": "unexpected",
    "RUN --epsilom 1": "--epsilon",
    "RUN --task agnewz": "Did you mean 'agnews'",
    "RUN --mechanism tangy": "Did you mean 'tang'",
    "RUN --model sim:x": "sim:x",
    "RUN --option slotz=3": "Did you mean 'slots'",
    "RUN --option slots=few": "few",
    "RUN --epsilon 0": "must be an epsilon above 0",
    "RUN --epsilon 1,x": "'x'",
    "RUN --seed -1": "greater than or equal to 0",
    "RUN --limit 0": "greater than or equal to 1",
    "RUN --limit \udcff": "valid string",
    "RUN --plugin 'a\0b'": "null character",
    "RUN --plugin nowhere.py": "is not there",
    "RUN --workers 2": "--engine local",
    "RUN --engine local --address a:1": "ray",
    **{
        f"RUN --shard={part}": "2/8"
        for part in (
            "0/2",
            "3/2",
            "1/٢",
            "9" * 5000 + "/2",
            "",
        )
    },
    **{f"account --noise 1 --delta {delta}": "--delta" for delta in ("1", "nan", "1/0")},
    "calibrate tang --task agnews --epsilon 1 --size 9 --delta 0": "--delta",
    "calibrate tang --task samsum --epsilon 1 --size 100": "tang cannot do samsum",
    "calibrate tang --task agnews --epsilon 1 --size 3000 --queries 5": "leave queries out",
    f"{PRIVATE} clip=inf": "must be a finite number",
    f"{PRIVATE} clip=1e300": "far too large",
    f"{PRIVATE} clip=1e-300": "far too small",
    f"{PRIVATE} private_tokens=100000000000000000000": "2^53",
    ACCOUNT: "needs 'noise'",
    f"{ACCOUNT} --family gausian --noise 1": "Did you mean 'gaussian'",
    f"{ACCOUNT} --family classical": "needs 'epsilon0'",
    f"{ACCOUNT} --family bounded-range": "either 'epsilon0' or 'temperature'",
    f"{ACCOUNT} --family bounded-range --temperature 1 --noise 1": "scale of the scores",
    f"{ACCOUNT} --family epsilon-delta --epsilon0 1 --sensitivity 2": "it goes with gaussian",
    f"{ACCOUNT} --family no-noise --noise 1": "'noise' says nothing",
    f"{ACCOUNT} --noise 1 --slots 5": "'noise_on'",
    f"{ACCOUNT} --noise 1 --noise-on sum --slots 5": "'noise_on'",
    f"{ACCOUNT} --noise 1 --sample twice": "Known: each, once",
    f"{ACCOUNT} --noise 1 --rate 2": "--rate should be less than or equal to 1, not",
    "check missing.py": "missing.py is not there",
    "check voting --task samsum": "voting cannot do samsum",
    "check voting --option slot=3": "Unknown option 'slot'",
    "check voting --option tang.slots=3": "Unknown mechanism 'tang'",
    "audit nope --exact": "Unknown mechanism 'nope'",
    "audit --suite quick": "add --exact",
    "audit voting --epsilon 1": "--task T",
    "audit voting --task agnews --exact": "--epsilon E",
    "audit voting --suite quick --exact": "Unknown row of quick 'voting'",
    "audit --exact --suite quick --epsilon 3": "Unknown epsilon of quick",
    f"{AUDIT} --copies 2": "add --exact",
    **{
        f"{AUDIT} --exact {flag}": "leave --"
        for flag in ("--records 8", "--runs 200", "--question inquiry")
    },
    **{
        f"audit --exact --suite quick {flag}": f"leave {flag.partition(' ')[0]} out"
        for flag in (
            "--option slots=2",
            "--delta 1e-5",
            "--seed 0",
            "--model sim",
            "--source auto",
            "--limit 5",
        )
    },
}


@pytest.mark.usefixtures("no_plugins_before")
@pytest.mark.parametrize("line", REFUSALS, ids=lambda line: line[:60])
def test_what_makes_no_sense_is_refused_in_one_sentence(
    dpicl, sim_suite, tmp_path, monkeypatch, line
):
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    words = shlex.split(line.replace("RUN", f"run {shlex.quote(str(sim_suite))} --seed 0", 1))
    answer = dpicl(*words)
    refuse(answer, REFUSALS[line])
    assert ", line " not in answer.err  # a flag is not blamed on the file
    assert not list(tmp_path.rglob("*.json"))
