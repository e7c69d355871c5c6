"""The primitives by which mechanisms release noisy sums and choices. Each bounds its input itself, spends what was
charged for it, and draws with the permit that it gets (dpicl.privacy.release_hooks): noise is added nowhere else.

Rows are per slot. Where records share M slots, one record replaces one row of M by another one of the same set. Where
every sampled record has a slot of its own (``own_slots``), one record adds one row, and nothing may stand in for a slot
that is not there. Whatever a row holds, NaN and infinities included, it is first mapped into a fixed public set, row by
row; so the sensitivity is a property of that set and never of the data, and no private value can make a run fail.

Floating point: noise is drawn in float64, and all but one release a choice or a ranking. `NoisySum` releases numbers:
its rows and its noise are whole multiples of public steps, so that its sums are exact (docs/accounting.md).
Others are in files of their own: top_k, cluster_tree, vote_histogram and limited_domain.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sized
from dataclasses import dataclass

import numpy as np

from dpicl.accounting import dp_event as dp
from dpicl.accounting.events import bounded_range_choice, gaussian
from dpicl.core.errors import PluginError, UsageError
from dpicl.privacy.private_set import Sample

#: L2 diameter of {x >= 0, sum(x) <= 1}: two corners. How far one record can move one slot's distribution.
SIMPLEX_DIAMETER = math.sqrt(2.0)
#: The largest L2 norm in the same set: one corner. How far a record moves a sum to which it adds one distribution.
SIMPLEX_RADIUS = 1.0


def check_slots(rows: Sized, own_slots: bool, sample: Sample, replaced: int = 1) -> None:
    """Raises PluginError for a bound on one added row where the sample replaces rows, or on fewer than it replaces, or
    where something else than what its slots say is summed: a row that stands in for a slot that is not there would be
    replaced as well."""
    if sample.replaced > replaced:
        raise PluginError(
            f"One record replaces {sample.replaced} rows of this sample, and the stated bound is for {replaced}; use"
            " `GaussianSum(..., replaced=2)`, or show all records that join."
        )
    if own_slots and not sample.own_slots:
        raise PluginError(
            "The stated bound is for samples that give every sampled record a slot of its own; draw them with"
            " `poisson_slots(expected, None, ...)`, or use a primitive for shared slots (`own_slots=False`)."
        )
    if own_slots and len(rows) != len(sample.slots):
        raise PluginError(
            "Where every sampled record has a slot of its own there is one row a slot, and no row for any other; leave"
            " out rows that stand in for missing slots."
        )


def _find_id(place: int, ids: np.ndarray | None) -> int:
    return place if ids is None else int(ids[place])


def finite_rows(rows: np.ndarray) -> np.ndarray:
    """float64 of the same shape, whose sums have one order: values that are not finite are 0."""
    return np.where(np.isfinite(rows), rows, 0.0).astype(np.float64, order="C")


def project_sub_simplex(rows: np.ndarray) -> np.ndarray:
    """float64[M, K]: every row mapped into {x >= 0, sum(x) <= 1}; values that are not finite count as 0."""
    rows = finite_rows(rows).clip(0.0, 1.0)
    mass = rows.sum(axis=1, keepdims=True)
    return rows / np.maximum(mass, 1.0)


def clip_scores(rows: np.ndarray, clip: float) -> np.ndarray:
    """float64[B, V]: clip_c(z)_i = max(-c, z_i - max_j z_j + c), in [-c, c] (PRISM, section 3; Amin et al. 2024).

    The value does not change when a constant is added to a row, so log-probabilities serve as logits. Values that are
    not finite count as -infinity; a row without any finite value becomes -c everywhere.
    """
    rows = np.where(np.isfinite(rows), rows, -np.inf).astype(np.float64)
    top = rows.max(axis=1, keepdims=True, initial=-np.inf)
    return np.maximum(
        -clip,
        rows - np.where(np.isfinite(top), top, 0.0) + clip,
    )


def clip_differences(rows: np.ndarray, public: np.ndarray, clip: float) -> np.ndarray:
    """float64[B, K]: every row minus the finite public one, in [-clip, clip]; what is no number counts as 0."""
    with np.errstate(invalid="ignore"):
        differences = np.subtract(rows, public, dtype=np.float64, order="C")  # a sum in one order
    return np.where(np.isnan(differences), 0.0, differences).clip(-clip, clip)


def clip_log_probs(rows: np.ndarray, clip: float) -> np.ndarray:
    """float64[B, K]: rows of log-probabilities in [-clip, 0]; a row with NaN is 0 throughout and so says nothing."""
    known = ~np.isnan(rows).any(axis=1, keepdims=True)
    return np.where(known, rows, 0.0).astype(np.float64, order="C").clip(-clip, 0.0)


def clip_norm(rows: np.ndarray, radius: float) -> np.ndarray:
    """float64[M, d]: every row scaled into the ball of that radius around 0; values that are not finite count as 0."""
    rows = finite_rows(rows)
    with np.errstate(over="ignore"):
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * (radius / np.maximum(norms, radius))


@dataclass(frozen=True)
class GaussianSum:
    """Argmax or ranking of a noisy sum of distributions over a public set of K things: tokens, labels, candidates.

    One record replaces one slot's row, both in the sub-simplex: the sum moves by at most sqrt(2) in L2. With
    ``own_slots`` it adds one row, of L2 norm 1 at most. The noise is N(0, (bound sigma)^2) on every coordinate of the
    sum, sigma = ``noise_multiplier`` (Tang et al. 2024, section 3.2, have the first). A ballot is a corner of the
    simplex, an abstention is 0. ``replaced``: how many rows one record replaces (Sample.replaced).
    """

    noise_multiplier: float
    own_slots: bool = False
    replaced: int = 1

    @property
    def bound(self) -> float:
        """How far one record moves the sum in L2, at most."""
        return SIMPLEX_RADIUS if self.own_slots else self.replaced * SIMPLEX_DIAMETER

    @property
    def event(self) -> dp.DpEvent:
        return gaussian(self.noise_multiplier)

    def choose(
        self,
        rows: np.ndarray,
        sample: Sample,
        ids: np.ndarray | None = None,
    ) -> int:
        """Index in [0, K) of the largest noisy coordinate; rows is [M, K], one a slot. Of equal ones the first.

        ids: int64[K], public: what the coordinates stand for, such as token ids; its id is returned then.
        Raises PluginError for own_slots where the sample has shared ones or not one slot a row, as `rank` does.
        """
        return _find_id(int(np.argmax(self._noisy_sum(rows, sample, ids))), ids)

    def rank(self, rows: np.ndarray, sample: Sample) -> list[int]:
        """All K indices, from the largest noisy coordinate to the smallest: post-processing of the same release."""
        return np.argsort(-self._noisy_sum(rows, sample), kind="stable").tolist()

    def _noisy_sum(
        self,
        rows: np.ndarray,
        sample: Sample,
        ids: np.ndarray | None = None,
    ) -> np.ndarray:
        check_slots(rows, self.own_slots, sample, self.replaced)
        bounded = project_sub_simplex(rows)
        return sample.spend(self.event).noisy_sum(
            bounded.sum(axis=0),
            self.bound,
            ids=ids,
        )


@dataclass(frozen=True)
class NearestToMean:
    """The public candidate that is nearest to a noisy mean of vectors of about length 1.

    One record replaces one slot's vector, both in the ball of ``radius`` around a public centre: the sum of centred
    vectors moves by at most 2 * radius in L2. With ``own_slots`` it adds one centred vector: radius. The noise is
    N(0, (bound sigma)^2) on every coordinate of the sum, sigma = ``noise_multiplier``. ``divisor`` is the (expected)
    number of slots, a constant.
    """

    noise_multiplier: float
    radius: float
    divisor: float
    own_slots: bool = False

    @property
    def bound(self) -> float:
        """How far one record moves the sum of centred vectors in L2, at most."""
        return self.radius if self.own_slots else 2 * self.radius

    @property
    def event(self) -> dp.DpEvent:
        return gaussian(self.noise_multiplier)

    def choose(
        self,
        rows: np.ndarray,
        centre: np.ndarray,
        candidates: np.ndarray,
        sample: Sample,
    ) -> int:
        """Index in [0, K) of the candidate with the largest inner product with the noisy mean; of equal ones the first.

        rows: [M, d], one a slot. centre: [d], public. candidates: [K, d], public and of length 1, for which the largest
        inner product is the smallest Euclidean distance. Raises PluginError as `GaussianSum.choose` does.
        """
        check_slots(rows, self.own_slots, sample)
        with np.errstate(invalid="ignore"):
            bounded = clip_norm(rows - centre, self.radius)
        total = sample.spend(self.event).noisy_sum(bounded.sum(axis=0), self.bound)
        return int(np.argmax(candidates @ (centre + total / self.divisor)))


@dataclass(frozen=True)
class NoisySum:
    """A noisy sum of vectors, or of matrices of rank 1, that is released as it is: whatever is made of it afterwards,
    for any number of queries, is post-processing.

    Every record has a slot of its own and adds one row w v^T of Frobenius norm at most ``radius``: ``v`` is scaled into
    the unit ball, the weights ``w`` into the ball of that radius. The noise is N(0, (radius sigma)^2) on every
    coordinate of the sum, sigma = ``noise_multiplier``.

    Both factors are cut towards 0 to multiples of a power of 2, which lengthens none of them. So the sum is a whole
    number of products of both steps, exact in whatever order (of up to 2^20 records), and the permit rounds the noise
    to multiples of that product. What is released is the sum plus a number whose distribution, its lowest bits
    included, does not depend on records. It equals the ideal noisy sum, rounded: post-processing of a Gaussian
    mechanism.
    """

    noise_multiplier: float
    radius: float = 1.0

    def __post_init__(self) -> None:
        if not _RADII[0] <= self.radius <= _RADII[1]:
            raise UsageError(
                f"The radius of a noisy sum must lie between {_RADII[0]:g} and {_RADII[1]:g}, where its products are"
                f" exact, and is {self.radius:g}; give another bound to clip to."
            )

    @property
    def bound(self) -> float:
        """How far one record moves the sum in L2, at most."""
        return self.radius

    @property
    def event(self) -> dp.DpEvent:
        return gaussian(self.noise_multiplier)

    def release(
        self,
        vectors: np.ndarray,
        sample: Sample,
        weights: np.ndarray | None = None,
    ) -> np.ndarray:
        """float64[k, d]: the noisy sum of the rows' w v^T. vectors: [M, d], weights: [M, k] (None: radius, k = 1).

        Raises PluginError for a sample whose slots are shared, or not one a row.
        """
        check_slots(vectors, True, sample)
        step = math.ldexp(_WEIGHT_STEP, math.frexp(self.radius)[1])
        factors = np.full((len(vectors), 1), self.radius) if weights is None else weights
        total = _steps(clip_norm(factors, self.radius), step).T @ _steps(
            clip_norm(vectors, _INSIDE), _VECTOR_STEP
        )
        return sample.spend(self.event).noisy_sum(
            total.astype(np.int64),
            self.bound,
            step * _VECTOR_STEP,
        )


#: The least and the largest radius of a `NoisySum`: far from where float64 ends, with room for sums and for noise.
_RADII = (1e-200, 1e200)
#: The steps of `NoisySum`: of vectors of length 1, and of weights relative to the power of 2 above their radius.
_VECTOR_STEP, _WEIGHT_STEP = 2.0**-20, 2.0**-13
#: Vectors are scaled into a ball of this radius: the rest is far more than what the rounding of both norms may be off.
_INSIDE = 1 - 1e-9


def _steps(rows: np.ndarray, step: float) -> np.ndarray:
    """How many whole steps every number is long: cut towards 0, and float64, whose products are as exact and fast."""
    return np.trunc(rows / step)


class RangeChoice(ABC):
    """A choice by Gumbel noise of a ``temperature`` on scores."""

    temperature: float

    @property
    @abstractmethod
    def width(self) -> float:
        """The range of the moves of all scores when one record is added or removed, at most."""

    @property
    def range_epsilon(self) -> float:
        """epsilon' of one draw; infinite at temperature 0."""
        return self.width / self.temperature if self.temperature > 0 else math.inf

    @property
    def event(self) -> dp.DpEvent:
        return bounded_range_choice(self.range_epsilon)


@dataclass(frozen=True)
class BoundedRangeChoice(RangeChoice):
    """A draw from softmax(score / temperature): the exponential mechanism on averaged, clipped scores.

    score = weight * (1/divisor) * sum of clip_c(private rows) + (1 - weight) * clip_c(public row). One more record adds
    one row in [-c, c]^V: every score moves by at most weight*c/divisor and the range of the move is at most twice that,
    so the choice is epsilon'-bounded range with epsilon' = 2*weight*c/(divisor*temperature). ``divisor`` is a constant,
    never the number of rows.
    """

    clip: float
    divisor: float
    temperature: float
    weight: float = 0.5

    @property
    def width(self) -> float:
        return 2 * self.weight * self.clip / self.divisor

    def choose(
        self,
        rows: np.ndarray,
        public: np.ndarray,
        sample: Sample,
        ids: np.ndarray | None = None,
    ) -> int:
        """Index in [0, V); rows is [B, V], one a slot (B may be 0), public is [V].

        ids: int64[V], public: what the scores are of, such as token ids; the id is returned then.
        Raises PluginError for a sample whose slots are shared (a record would replace a row, and move the scores by
        twice the range) or are not one a row.
        """
        check_slots(rows, True, sample)
        return _find_id(
            sample.spend(self.event).noisy_choice(
                self._scores(rows, public),
                self.width,
                ids,
            )[0],
            ids,
        )

    def _scores(self, rows: np.ndarray, public: np.ndarray) -> np.ndarray:
        private = clip_scores(rows, self.clip).sum(axis=0) / self.divisor
        return (
            self.weight * private + (1 - self.weight) * clip_scores(public[None, :], self.clip)[0]
        )


@dataclass(frozen=True)
class DifferenceChoice(BoundedRangeChoice):
    """A draw from softmax(score / temperature), where the private rows change the public scores (Vinod, Pillutla &
    Thakurta 2025, algorithm 1).

    score = public row + (weight/divisor) * sum of clip(private row - public row, -c, c). One more record adds one row
    in [-c, c]^V, so width and range are those of `BoundedRangeChoice`; what all rows have in common with the public one
    is neither clipped nor paid for. The public row must be finite.
    """

    weight: float = 1.0

    def _scores(self, rows: np.ndarray, public: np.ndarray) -> np.ndarray:
        return (
            public
            + self.weight * clip_differences(rows, public, self.clip).sum(axis=0) / self.divisor
        )


@dataclass(frozen=True)
class ProductChoice(RangeChoice):
    """A draw from softmax(sum of rows / temperature), where a row holds log-probabilities, -c at least.

    A row lies in [-c, 0]^K, so all scores move by a vector of range at most c when one record adds a row
    (``own_slots``); where it replaces one, the row moves from one point of the cube to another, and the range is 2c.
    """

    clip: float
    temperature: float
    own_slots: bool = False

    @property
    def width(self) -> float:
        return (1 if self.own_slots else 2) * self.clip

    def choose(self, rows: np.ndarray, sample: Sample) -> int:
        """Index in [0, K); rows is [M, K], one a slot.

        Raises PluginError for own_slots where the sample has shared ones or not one slot a row.
        """
        check_slots(rows, self.own_slots, sample)
        scores = clip_log_probs(rows, self.clip).sum(axis=0)
        return sample.spend(self.event).noisy_choice(scores, self.width)[0]
