"""Semantic group aggregation: Joo et al., "Public Data Assisted Differentially Private In-Context Learning", arXiv
2509.10932, with the private clusters of Liebenow et al., "DPM: Clustering Sensitive Data through Separation", CCS 2024.

For every query:

1. public: the model's answers from slots of public records are the candidates. Their mean, the few principal directions
   of their embeddings, and the radius of the ball that holds them all are the space in which private answers are seen;
2. sample private records and assign them to M slots (with N = 1 every sampled record has a slot of its own, M in
   expectation, but not with `partition: once`); every slot writes an answer, whose embedding is projected into this
   space and clipped to the ball;
3. a DPM tree finds clusters of the M points: noisy counts, noisy splits, noisy means
   (dpicl.privacy.cluster_tree);
4. from the heaviest cluster on, the candidate nearest to its noisy mean is released, each once, k at most;
5. the model picks among them, in public, after one public example.

Privacy (unit: one record; neighbours: add/remove; proved mode). A record is sampled with q = MN/n and touches one slot,
whose point is replaced: sqrt(2) in L2 on the counts of a level, 2r on all sums, and one bounded-range choice for the
splits of a level. Where every record has its own slot it adds one point, and all three are what one point moves: 1, r
and half the range. All levels are charged. Unlike the released code: bounds and interval come from public answers and
not from private ones, counts are noisy (they have epsilon = 10000 there), no private answer is released verbatim,
clusters are ordered by noisy counts, and a point is replaced, not removed. Its authors' accounting is of another
mechanism (a joint exponential mechanism over groups), so there is no published epsilon to show.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpicl import ClusterTree, Knob, PublicChoice, Sample, check_positive, find_nearest
from dpicl import dp_event as dp

#: Directions of which public answers have less spread than this are drawn at random instead.
_FLAT = 1e-9
#: Options that go to the ClusterTree as they are.
_TREE = ("levels", "intervals", "count_share", "split_share", "sum_share")


@dataclass(frozen=True)
class SGA(PublicChoice):
    """public: 'in' or 'out', which public records. public_slots: how many slots of them. top: k, how many candidates
    are released. dimensions: of the projection. levels, intervals and the three shares: see ClusterTree. embedding:
    name of the embedding model."""

    name = "sga"
    knob: ClassVar[Knob | None] = Knob("noise_multiplier", low=0.05, high=5000.0, non_private=0.0)
    source = "Joo et al., arXiv 2509.10932"
    summary = "answers by public responses, ranked by noisy clusters of slots' answers"
    published = {
        "samsum": {"slots": 100, "examples_per_slot": 4, "public_slots": 100},
        "chatdoctor": {"slots": 100, "examples_per_slot": 4, "public_slots": 100},
    }

    dimensions: int = 2
    levels: int = 2
    intervals: int = 8
    count_share: float = 0.18
    split_share: float = 0.18
    sum_share: float = 0.60

    slot_per_record = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(**{name: getattr(self, name) for name in ("dimensions", *_TREE)})

    def release(self, knob: float) -> dp.DpEvent:
        return self._tree(knob, 1.0).event

    def rank(
        self, private: np.ndarray, public: np.ndarray, knob: float, sample: Sample
    ) -> list[int]:
        space = PublicSpace.of(public, self.dimensions)
        clusters = self._tree(knob, space.radius).clusters(space.project(private), sample)
        closest = find_nearest(
            np.array([cluster.centre for cluster in clusters]), space.project(public)
        )
        return list(dict.fromkeys(closest.tolist()))

    def _tree(self, knob: float, radius: float) -> ClusterTree:
        expected = float(self.slots) if self.scheme.own_slots else None
        return ClusterTree(
            knob, radius, **{name: getattr(self, name) for name in _TREE}, expected=expected
        )


@dataclass(frozen=True)
class PublicSpace:
    """centre: float64[D]. basis: float64[d, D], orthonormal rows. radius: of the ball that holds all public points."""

    centre: np.ndarray
    basis: np.ndarray
    radius: float

    @classmethod
    def of(cls, rows: np.ndarray, dimensions: int) -> PublicSpace:
        """From public embeddings [K, D], K >= 1: their principal directions, and random ones where these are too few.

        Points that are all one have radius 1.
        """
        centre = rows.mean(axis=0)
        _, spread, directions = np.linalg.svd(rows - centre, full_matrices=False)
        principal = directions[:dimensions][spread[:dimensions] > _FLAT]
        missing = min(dimensions, rows.shape[1]) - len(principal)
        random = np.random.default_rng(0).normal(size=(missing, rows.shape[1]))
        basis = np.linalg.qr(np.vstack([principal, random]).T)[0].T
        reach = float(np.linalg.norm((rows - centre) @ basis.T, axis=1).max())
        return cls(centre, basis, reach if reach > _FLAT else 1.0)

    def project(self, rows: np.ndarray) -> np.ndarray:
        """float64[n, d] of embeddings [n, D], one by one: their number may be private, and a product of matrices is
        rounded by it."""
        return np.array([(row - self.centre) @ self.basis.T for row in rows]).reshape(
            len(rows), len(self.basis)
        )
