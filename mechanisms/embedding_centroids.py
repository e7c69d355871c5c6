"""Class means of public sentence embeddings with noise: a control without a language model.

Who knows private linear models asks for it first: what does a method for large language models add to a few noisy
vectors? With ``head: centroid``:

1. embed every private record with a public embedding model: a vector of length 1;
2. sum the vectors of each class; + N(0, sigma^2) on every coordinate; this is all that is released;
3. the answer to a query is the class whose noisy sum has the largest cosine with the query's embedding. So the answer
   needs no class size, and of two equal classes it is the first.

With ``head: logistic`` step 2 is full-batch gradient descent for a multinomial logistic model of the embeddings (Abadi
et al. 2016, without sampling), and the answer is the class with the largest score:

2. W = 0; in each of T steps every record's gradient (softmax(scale W x) - y) x^T is clipped to ``clip`` in Frobenius
   norm; the sum over all records + N(0, (clip sigma)^2) on every coordinate is released, divided by n, and W moves
   against it.

Privacy (unit: one record; neighbours: add/remove; proved mode). Every record is in the one sample (rate 1) with a slot
of its own. Centroid: a record has one class and adds one vector, which `NoisySum` scales into the unit ball: the sum of
its class moves by at most 1 in L2 and no other class's sum moves. So each class is one Gaussian(sigma) of its own
records, and classes compose in parallel: sigma = 3.73 at epsilon = 1, delta = 1e-5, whatever the number of classes,
records and queries. Logistic: given what was released before, W is fixed and a record adds one matrix of Frobenius norm
at most ``clip``. It touches the rows of all classes, so nothing is parallel: all records are one group, and the run
costs T x Gaussian(sigma), which is one Gaussian of sigma / sqrt(T). The embedding of a record is a function of this
record alone (each text is embedded by itself), class names, n and all options are public, and every answer is computed
from what was released and from the query: any number of queries is covered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpicl import (
    Knob,
    NoisySum,
    PreparedContext,
    PreparedMechanism,
    PrivateSet,
    PublicTask,
    Query,
    Reader,
    Sample,
    Sizes,
    check_embedding_name,
    check_positive,
    parallel,
)
from dpicl import dp_event as dp

#: Above any number that is released here, and small enough for an inner product.
_LARGEST = 1e100


@dataclass(frozen=True)
class EmbeddingCentroids(PreparedMechanism):
    """head: 'centroid' or 'logistic'. embedding: name of the embedding model. Of the logistic head: steps T, clip,
    learning rate, and the scale of the embeddings."""

    name = "embedding_centroids"
    knob = Knob("noise_multiplier", low=0.05, high=2000.0, non_private=0.0)
    source = "a control; private class means are folklore, the logistic head is Abadi et al. 2016, arXiv 1607.00133"
    summary = "answers by noisy class means of sentence embeddings; no language model"
    needs = "nothing"

    head: Literal["centroid", "logistic"] = "centroid"
    embedding: str = "embedded"
    steps: int = 30
    clip: float = 0.5
    learning_rate: float = 2.0
    scale: float = 10.0

    def __post_init__(self) -> None:
        check_embedding_name(self.embedding)
        check_positive(clip=self.clip, learning_rate=self.learning_rate, scale=self.scale)
        self.require_at_least(steps=1)

    @property
    def by_label(self) -> bool:
        """A gradient moves the rows of all classes, a vector the sum of one."""
        return self.head == "centroid"

    def skip(self, task: PublicTask) -> str | None:
        if task.kind != "classification":
            return "it answers with the class of the nearest centroid, and this task has no classes"
        if task.shown_by is not None:
            return "it answers the task's own question alone, whatever else is asked"
        return None

    def events(self, knob: float, sizes: Sizes) -> dp.DpEvent:
        return parallel(dict.fromkeys(sizes.records, self._releases(knob)))

    def prepare(self, private: PrivateSet, context: PreparedContext) -> Linear:
        reader, knob = context.reader, context.knob
        samples = {group: self._all_records(private, group, knob) for group in private.groups}
        if self.head == "logistic":
            weights = self._logistic(samples[None], private.size(None), context)
            return Linear(weights, context.task.labels, context, self.embedding)
        sums = [
            self._noisy_sum(knob).release(self._embed(each, reader), each)[0]
            for each in samples.values()
        ]
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        centroids = np.divide(sums, lengths, out=np.zeros_like(sums), where=lengths > 0)
        return Linear(centroids, [str(group) for group in samples], context, self.embedding)

    def restore(self, state: Mapping[str, np.ndarray], context: PreparedContext) -> Linear:
        vectors, known = state["vectors"], dict(enumerate(context.task.labels))
        (dimension,) = context.reader.embed([""], self.embedding)[0].shape
        if vectors.shape != (len(state["classes"]), dimension) or not len(vectors):
            raise ValueError(f"its vectors are not {dimension} numbers for each class")
        if (np.abs(vectors) > _LARGEST).any() or not {*state["classes"].tolist()} <= {*known}:
            raise ValueError("its vectors are too large, or of other classes")
        return Linear(
            vectors,
            [known[number] for number in state["classes"].tolist()],
            context,
            self.embedding,
        )

    def _releases(self, knob: float) -> dp.DpEvent:
        """Everything that is released from the one sample of a group."""
        return dp.SelfComposedDpEvent(
            self._noisy_sum(knob).event, 1 if self.head == "centroid" else self.steps
        )

    def _noisy_sum(self, knob: float) -> NoisySum:
        return NoisySum(knob, 1.0 if self.head == "centroid" else self.clip)

    def _all_records(self, private: PrivateSet, group: str | None, knob: float) -> Sample:
        size = private.size(group)
        return private.poisson_slots(
            size, None, partition=group, releases=self._releases(knob)
        ).draw()

    def _embed(self, sample: Sample, reader: Reader) -> np.ndarray:
        return reader.embed([record.text for (record,) in sample.slots], self.embedding)

    def _logistic(self, sample: Sample, size: int, context: PreparedContext) -> np.ndarray:
        """float64[L, d]: the weights after the last step."""
        from scipy.special import softmax  # scipy takes a while to load

        vectors, labels = self._embed(sample, context.reader), context.task.labels
        truth = np.array(
            [[record.label == label for label in labels] for (record,) in sample.slots],
            dtype=np.float64,
        )
        truth = truth.reshape(len(vectors), len(labels))
        weights = np.zeros((len(labels), vectors.shape[1]))
        for _ in range(self.steps):
            residuals = softmax(self.scale * _products(vectors, weights), axis=1) - truth
            noisy = self._noisy_sum(context.knob).release(vectors, sample, residuals)
            weights = weights - self.learning_rate * noisy / size
        return weights


def _products(vectors: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """float64[n, L]: the inner product of each vector [n, d] with each row [L, d], summed by itself: a product of
    matrices rounds a row by how many others there are, and one record would change the gradients of the others."""
    products = np.empty((len(vectors), len(weights)))
    for at, row in enumerate(weights):
        products[:, at] = (vectors * row).sum(axis=1)
    return products


@dataclass(frozen=True)
class Linear:
    """Released vectors, one a class: the answer is the class whose vector has the largest inner product."""

    vectors: np.ndarray
    labels: Sequence[str]
    context: PreparedContext
    embedding: str

    def answer(self, query: Query) -> str:
        scores = self.vectors @ self.context.reader.embed([query.text], self.embedding)[0]
        return self.labels[int(scores.argmax())]

    def state(self) -> Mapping[str, np.ndarray]:
        """float64[L, d], and the number of each vector's class among the labels of the task."""
        return {
            "vectors": self.vectors,
            "classes": np.array([*map(self.context.task.labels.index, self.labels)]),
        }
