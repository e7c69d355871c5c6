from __future__ import annotations

import numpy as np
import pytest

from dpicl.evaluation.contextual_calibration import content_free_probabilities, label_probabilities, predictions

DOCUMENTS = np.log([[0.6, 0.3, 0.1], [0.5, 0.1, 0.4], [0.2, 0.25, 0.05]])


def test_probabilities_are_normalised_over_the_labels() -> None:
    assert label_probabilities(DOCUMENTS) == pytest.approx(
        np.array([[0.6, 0.3, 0.1], [0.5, 0.1, 0.4], [0.4, 0.5, 0.1]])
    )


def test_tiny_probabilities_do_not_underflow() -> None:
    assert label_probabilities(DOCUMENTS - 5000.0) == pytest.approx(label_probabilities(DOCUMENTS))


def test_content_free_probabilities_are_the_mean_of_normalised_rows() -> None:
    rows = np.log([[0.2, 0.2], [0.03, 0.01]])
    assert content_free_probabilities(rows) == pytest.approx([0.625, 0.375])


def test_calibration_divides_by_the_content_free_probabilities() -> None:
    assert predictions(DOCUMENTS).tolist() == [0, 0, 1]
    # .6/.7 .3/.2 .1/.1 -> 1;  .5/.7 .1/.2 .4/.1 -> 2;  .4/.7 .5/.2 .1/.1 -> 1
    assert predictions(DOCUMENTS, np.array([0.7, 0.2, 0.1])).tolist() == [1, 2, 1]


def test_content_free_probability_of_zero_does_not_divide_by_zero() -> None:
    assert predictions(DOCUMENTS, np.array([1.0, 0.0, 0.0])).tolist() == [1, 2, 1]
