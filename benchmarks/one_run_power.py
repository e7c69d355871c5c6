"""Measures both bounds of one run on a Gaussian mechanism whose epsilon is known.

    python -m benchmarks.one_run_power --candidates 100 --candidates 1000 --runs 100

Each of m records is in by a fair coin, and its coin is seen with noise of its own, for which the
record pays epsilon at delta = 1e-5; the attacker ranks what it sees. Prints, for each m and
epsilon, the mean bound by (epsilon, delta) (Steinke et al. 2023) and by the Gaussian curve
(Mahloujifar et al. 2025), the largest that each can be, and in what share of runs each was above
epsilon: at most .05 is promised.
"""

from __future__ import annotations

import argparse
import json

import numpy as np
from dp_accounting import gaussian_mechanism

from dpicl.accounting import dp_event as dp
from dpicl.attacks.one_run import OneRun, guess_by_rules
from dpicl.attacks.trade_off import curve_bound

DELTA = 1e-5
EPSILONS = (1.0, 2.0, 4.0, 8.0, 16.0)


def find_bounds(runs: list[OneRun], multiplier: float) -> tuple[float, float]:
    """(the bound by epsilon and delta, the bound by the Gaussian curve)."""
    by_curve = curve_bound(lambda factor: [dp.GaussianDpEvent(multiplier * factor)], runs, DELTA)
    return max(run.epsilon for run in runs), by_curve


def measure(candidates: int, epsilon: float, runs: int) -> dict[str, object]:
    """Means, and shares of runs with a bound above epsilon."""
    multiplier = gaussian_mechanism.get_sigma_gaussian(epsilon, DELTA)
    generator = np.random.default_rng(candidates)
    bounds = []
    for _ in range(runs):
        inside = generator.random(candidates) < 0.5
        noisy = inside / multiplier + generator.normal(size=candidates)
        bounds.append(find_bounds(guess_by_rules(noisy, inside, DELTA), multiplier))
    table = np.array(bounds)
    steinke, curve = table.mean(axis=0).round(3).tolist()
    false_steinke, false_curve = (table > epsilon).mean(axis=0).tolist()
    return {
        "candidates": candidates,
        "epsilon": epsilon,
        "by_epsilon_delta": steinke,
        "by_curve": curve,
        "false_by_epsilon_delta": false_steinke,
        "false_by_curve": false_curve,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--candidates", type=int, action="append")
    parser.add_argument("--runs", type=int, default=100)
    arguments = parser.parse_args()
    for candidates in arguments.candidates or [100, 1000]:
        inside = np.arange(candidates) % 2 == 0
        perfect = find_bounds(guess_by_rules(inside.astype(float), inside, DELTA), 0.5)
        print(
            json.dumps(
                {"candidates": candidates, "largest": [round(bound, 3) for bound in perfect]}
            )
        )
        for epsilon in EPSILONS:
            print(json.dumps(measure(candidates, epsilon, arguments.runs)))


if __name__ == "__main__":
    main()
