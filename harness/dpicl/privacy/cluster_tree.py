"""Private clusters of points: the tree of DPM (Liebenow et al., CCS 2024) under replacement, or addition, of one point.

Every point is clipped into the ball of a public radius. Then, at each of L levels, every open box

1. is split at one of the positions of a public grid, drawn by the exponential mechanism: a good split has about as
   many points on either side (centreness) and few points next to it (emptiness);
2. has the points of its two halves counted, with noise; unless both halves are large enough it is not split.

The boxes at the end are the clusters: noisy count, and noisy sum of the points divided by it.

Where records share M slots, one record replaces one point. In each level this point leaves one box and enters another,
or moves inside one:

* counts: one falls by 1 and one rises by 1, at most: sqrt(2) in L2;
* sums, all clusters together: at most 2 * radius in L2, and that when both points are in one cluster;
* splits: see `split_scores`. Adding a point to a box moves its scores inside an interval of width
  R = w_centre * t/q + w_empty; removing one, inside the mirrored interval. Widths add up, over the two boxes or inside
  the one, and so do the widths of log-probabilities of independent draws: all splits of a level together are one
  bounded-range choice of epsilon' = 2R / temperature. Earlier levels are known to later ones: adaptive composition.

Where every sampled record has a slot of its own (``expected`` is given), one record adds one point: it enters one box
of each level, and nothing leaves. One count rises by 1, one sum moves by at most radius, and the splits are one choice
of epsilon' = R / temperature.

Unlike DPM, nothing is estimated from the points (the number of points, the grid and the divisors of scores are public
constants), and all levels are charged whether or not a box is left to split. This primitive releases noisy numbers;
its caller chooses among public things by them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpicl.accounting import dp_event as dp
from dpicl.accounting.events import bounded_range_choice, compose, gaussian
from dpicl.privacy.primitives import check_slots, clip_norm
from dpicl.privacy.private_set import Sample
from dpicl.privacy.release_hooks import Permit

#: DPM's constants: the outer quantile q earns the share t of the centreness; weights of the two scores.
OUTER_QUANTILE = 1 / 12
OUTER_SHARE = 0.3
CENTRE_WEIGHT = 1.0
EMPTY_WEIGHT = 5.0

#: R: how wide an interval holds the moves of all scores of a box when one point is added to it.
SCORE_RANGE = CENTRE_WEIGHT * OUTER_SHARE / OUTER_QUANTILE + EMPTY_WEIGHT


@dataclass(frozen=True)
class Cluster:
    """centre: float64[d], noisy. weight: noisy number of points."""

    centre: np.ndarray
    weight: float


@dataclass(frozen=True)
class _Box:
    """lower, upper: float64[d], public. members: int64[n], which of the M points are inside. weight: noisy count."""

    lower: np.ndarray
    upper: np.ndarray
    members: np.ndarray
    weight: float


@dataclass(frozen=True)
class ClusterTree:
    """noise_multiplier: sigma; the tree costs the zCDP of one Gaussian mechanism of that multiplier, 1/(2 sigma^2).

    levels: L, at most 2^L clusters. intervals: grid positions in each dimension.
    count_share, split_share, sum_share: how that cost is divided (DPM's code: .18, .18, .60 of epsilon); only
        their ratio counts.
    expected: None where the number of points is the constant M; M, the expected number of points, where every sampled
        record has a slot of its own. The number of points itself is then private and used nowhere.
    A box stays whole when one of its halves has a noisy count of at most M / 2^(L+1).
    """

    noise_multiplier: float
    radius: float
    levels: int = 2
    intervals: int = 8
    count_share: float = 0.18
    split_share: float = 0.18
    sum_share: float = 0.60
    expected: float | None = None

    @property
    def _share_of_bounds(self) -> float:
        """What adding a point moves, as a share of what replacing one moves: sums and splits."""
        return 1.0 if self.expected is None else 0.5

    @property
    def count_bound(self) -> float:
        """How far one record moves the counts of a level in L2."""
        return math.sqrt(2) if self.expected is None else 1.0

    @property
    def sum_bound(self) -> float:
        """How far one record moves all sums in L2."""
        return 2 * self.radius * self._share_of_bounds

    @property
    def split_width(self) -> float:
        """The range of the moves of all scores of a level."""
        return 2 * SCORE_RANGE * self._share_of_bounds

    @property
    def count_multiplier(self) -> float:
        """Noise multiplier of the counts of one level."""
        return self.noise_multiplier * math.sqrt(self.levels / self._share(self.count_share))

    @property
    def split_epsilon(self) -> float:
        """epsilon' of the splits of one level; infinite without noise."""
        sigma = self.noise_multiplier
        return (
            2 * math.sqrt(self._share(self.split_share) / self.levels) / sigma
            if sigma > 0
            else math.inf
        )

    @property
    def sum_multiplier(self) -> float:
        """Noise multiplier of the sums."""
        return self.noise_multiplier / math.sqrt(self._share(self.sum_share))

    @property
    def event(self) -> dp.DpEvent:
        if not self.noise_multiplier > 0:
            return dp.NonPrivateDpEvent()
        splits, counts, sums = self._parts()
        return compose([dp.SelfComposedDpEvent(compose([splits, counts]), self.levels), sums])

    def _parts(self) -> tuple[dp.DpEvent, dp.DpEvent, dp.DpEvent]:
        """(all splits of one level, all counts of one level, all sums)."""
        return (
            bounded_range_choice(self.split_epsilon),
            gaussian(self.count_multiplier),
            gaussian(self.sum_multiplier),
        )

    def clusters(self, points: np.ndarray, sample: Sample) -> list[Cluster]:
        """Clusters, heaviest first; points is [M, d], one for each slot, M a public constant unless it is ``expected``.

        Raises PluginError for an expected number of points where the sample has shared slots or not one slot a point.
        """
        check_slots(points, self.expected is not None, sample)
        points = clip_norm(points, self.radius)
        number = float(len(points)) if self.expected is None else self.expected
        split_event, count_event, sum_event = self._parts()
        levels = [
            (sample.spend(split_event), sample.spend(count_event)) for _ in range(self.levels)
        ]
        sums = sample.spend(sum_event)
        edge = np.full(points.shape[1], self.radius)
        open_boxes = [_Box(-edge, edge, np.arange(len(points)), number)]
        whole = []
        for level, (splits, counts) in enumerate(levels):
            halves = self._count(
                self._split(
                    open_boxes,
                    points,
                    number / 2**level,
                    splits,
                ),
                counts,
            )
            limit = number / 2 ** (self.levels + 1)
            both = [bool(pair) and min(half.weight for half in pair) > limit for pair in halves]
            whole += [box for box, split in zip(open_boxes, both, strict=True) if not split]
            open_boxes = [
                half for pair, split in zip(halves, both, strict=True) if split for half in pair
            ]
        return self._add_centres(whole + open_boxes, points, sums)

    def _split(
        self,
        boxes: list[_Box],
        points: np.ndarray,
        expected: float,
        permit: Permit,
    ) -> list[list[_Box]]:
        """The two halves of every box, not counted yet; none where the box is narrower than the grid.

        expected: the public constant that stands for the number of points of a box.
        """
        grid = grid_positions(self.radius, self.intervals)
        inside = [(grid > box.lower[:, None]) & (grid < box.upper[:, None]) for box in boxes]
        wide = [at for at, positions in enumerate(inside) if positions.any()]
        scores = [
            split_scores(
                points[boxes[at].members],
                grid,
                2 * self.radius / self.intervals,
                expected,
            )[inside[at]]
            for at in wide
        ]
        halves: list[list[_Box]] = [[] for _ in boxes]
        for at, chosen in zip(
            wide,
            permit.joint_choice(scores, self.split_width),
            strict=True,
        ):
            dimension, position = np.argwhere(inside[at])[chosen]
            halves[at] = _halves(boxes[at], points, int(dimension), grid[position])
        return halves

    def _count(
        self,
        halves: list[list[_Box]],
        permit: Permit,
    ) -> list[list[_Box]]:
        """The same boxes with their noisy counts."""
        counts = np.array([len(half.members) for pair in halves for half in pair], dtype=np.float64)
        drawn = iter(permit.noisy_sum(counts, self.count_bound).tolist())
        return [
            [
                _Box(
                    half.lower,
                    half.upper,
                    half.members,
                    next(drawn),
                )
                for half in pair
            ]
            for pair in halves
        ]

    def _add_centres(
        self,
        boxes: list[_Box],
        points: np.ndarray,
        permit: Permit,
    ) -> list[Cluster]:
        clean = np.array([points[box.members].sum(axis=0) for box in boxes])
        sums = permit.noisy_sum(clean, self.sum_bound)
        clusters = [
            Cluster(total / max(box.weight, 1.0), box.weight)
            for box, total in zip(boxes, sums, strict=True)
        ]
        return sorted(clusters, key=lambda cluster: -cluster.weight)

    def _share(self, share: float) -> float:
        return share / (self.count_share + self.split_share + self.sum_share)


def _halves(
    box: _Box,
    points: np.ndarray,
    dimension: int,
    position: float,
) -> list[_Box]:
    """The box on either side of a position of a dimension, not counted yet."""
    upper, lower = box.upper.copy(), box.lower.copy()
    upper[dimension] = lower[dimension] = position
    left = points[box.members, dimension] < position
    return [
        _Box(box.lower, upper, box.members[left], 0.0),
        _Box(lower, box.upper, box.members[~left], 0.0),
    ]


def grid_positions(radius: float, intervals: int) -> np.ndarray:
    """float64[intervals]: the middles of equal intervals that cover [-radius, radius]."""
    return radius * ((2 * np.arange(intervals) + 1) / intervals - 1)


def split_scores(
    points: np.ndarray,
    grid: np.ndarray,
    interval: float,
    expected: float,
) -> np.ndarray:
    """float64[d, P]: DPM's score of splitting a box at each position s of each dimension, in points.

    points: [n, d], those of the box. expected: D > 0, a public constant that stands for n. With m = min(number of
    points below s, number of the others) and e = number of points in [s - interval/2, s + interval/2):

        score = w_centre * D * g(m/D) + w_empty * max(0, D - e),

    where g rises from 0 by slope t/q to t at q, then to 1 at 1/2, and stays there. Adding one point raises one of the
    two numbers behind m by 1, so m by 0 or 1; g is not decreasing, and its slope is at most t/q = 3.6 (behind q it is
    (1-t)/(1/2-q) = 1.68); so D g(m/D) moves by a number in [0, t/q]. e rises by 0 or 1, so max(0, D - e) moves by a
    number in [-1, 0]. Hence every score moves inside [-w_empty, w_centre t/q], an interval of width `SCORE_RANGE`.
    """
    columns = points.T[:, None, :]
    below = (columns < grid[:, None]).sum(axis=2)
    near = (
        (columns >= grid[:, None] - interval / 2) & (columns < grid[:, None] + interval / 2)
    ).sum(axis=2)
    smaller = np.minimum(below, len(points) - below)
    centreness = np.interp(
        smaller / expected,
        [0, OUTER_QUANTILE, 0.5],
        [0, OUTER_SHARE, 1.0],
    )
    scores: np.ndarray = CENTRE_WEIGHT * expected * centreness + EMPTY_WEIGHT * np.maximum(
        0.0, expected - near
    )
    return scores
