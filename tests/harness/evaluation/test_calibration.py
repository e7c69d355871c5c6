import numpy as np
import pytest

from dpicl.evaluation.contextual_calibration import content_free_probabilities, predictions

DOCUMENTS = np.log(
    [
        [0.6, 0.3, 0.1],
        [0.5, 0.1, 0.4],
        [0.2, 0.25, 0.05],
    ]
)


def test_tiny_probabilities_do_not_underflow():
    assert content_free_probabilities(DOCUMENTS - 5000.0) == pytest.approx(
        content_free_probabilities(DOCUMENTS)
    )


def test_a_content_free_probability_of_zero_is_no_division():
    assert predictions(
        DOCUMENTS,
        np.array([1.0, 0.0, 0.0]),
    ).tolist() == [1, 2, 1]
