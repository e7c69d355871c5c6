"""Calibration against prv-accountant's own `find_noise_multiplier`, on the settings of Tang et al. and Wu et al.

    python -m benchmarks.calibration --json

Both sides search the noise of a Poisson-subsampled Gaussian and use the accuracy 0.01 in epsilon. They agree when
prv-accountant finds that our noise keeps the target, and our noise is at most 2% larger than theirs. The time of the
library's own, ten times coarser default accuracy is reported beside it.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from typing import Any

from dp_accounting import dp_event as dp
from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant
from prv_accountant.dpsgd import find_noise_multiplier

from benchmarks._report import main, of_settings, report, timed
from dpicl.mechanism.bases import Context, Demonstration, DemonstrationMechanism, Knob, Sizes
from dpicl.privacy.private_set import PrivateSet
from dpicl.releasing.release import calibrate_mechanism

ACCURACY = 0.01
LARGEST_NOISE_RATIO = 1.02
#: name, rate, steps, epsilon, delta.
SETTINGS = (
    ("agnews", 20 / 30000, 100, 1.0, 1e-5),
    ("trec", 80 / 835, 15, 1.0, 1 / 835),
    ("mit_g", 80 / 2953, 80, 4.0, 1 / 2953),
    ("esa_samsum", 400 / 14732, 100, 3.0, 5e-5),
)


@dataclass(frozen=True)
class SubsampledGaussian(DemonstrationMechanism):
    """Only the events of a mechanism: Gaussians on Poisson samples."""

    name = "subsampled_gaussian"
    knob = Knob("noise_multiplier", low=0.05, high=1000.0, non_private=0.0)
    rate: float
    steps: int

    def events(self, knob: float, sizes: Sizes) -> dp.DpEvent:
        return dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(self.rate, dp.GaussianDpEvent(knob)), self.steps)

    def release(self, private: PrivateSet, context: Context) -> list[Demonstration]:
        raise NotImplementedError("this mechanism is for accounting only")


def run() -> dict[str, Any]:
    """Calibrates every setting with both sides, nothing cached."""
    return of_settings("calibration", [_setting(*one) for one in SETTINGS], accuracy=ACCURACY)


def _setting(name: str, rate: float, steps: int, epsilon: float, delta: float) -> dict[str, Any]:
    sizes = Sizes(records={None: 1}, shots={None: 1})
    ours, ours_seconds = timed(
        lambda: calibrate_mechanism(SubsampledGaussian(rate, steps), sizes, epsilon, delta, cache=None).knob
    )
    theirs, seconds = timed(lambda: _reference(rate, steps, epsilon, delta, ACCURACY))
    coarse, coarse_seconds = timed(lambda: _reference(rate, steps, epsilon, delta, 0.1))
    accountant = PRVAccountant(
        [PoissonSubsampledGaussianMechanism(rate, ours)], ACCURACY, delta / 1000, max_self_compositions=[steps]
    )
    checked = accountant.compute_epsilon(delta, [steps])[1]
    return report(
        name,
        ours_seconds,
        seconds,
        checked <= epsilon and ours <= theirs * LARGEST_NOISE_RATIO,
        reference_default_seconds=round(coarse_seconds, 4),
        ours_noise=ours,
        reference_noise=theirs,
        reference_default_noise=coarse,
        epsilon_of_ours=checked,
        epsilon=epsilon,
    )


def _reference(rate: float, steps: int, epsilon: float, delta: float, accuracy: float) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(find_noise_multiplier(rate, steps, epsilon, delta, eps_error=accuracy))


if __name__ == "__main__":
    sys.exit(main(run))
