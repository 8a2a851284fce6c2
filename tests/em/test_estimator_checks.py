"""The scikit-learn estimator contract."""

from __future__ import annotations

from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

from cavity.em import HMM, GaussianMixture, Mixture, StudentTMixture

# State probabilities of a sequence depend on the neighbors of each row: these two checks, which cut the data
# into pieces or shuffle them, ask for something that no sequence model can give.
SEQUENCE = "rows of a sequence are not independent"


def expected_failures(estimator: Any) -> dict[str, str]:
    if isinstance(estimator, HMM):
        return {
            "check_methods_subset_invariance": SEQUENCE,
            "check_methods_sample_order_invariance": SEQUENCE,
        }
    return {}


@parametrize_with_checks(
    [
        GaussianMixture(),
        GaussianMixture(2, "diag", allow_nan=True),
        StudentTMixture(),
        Mixture(components="exponential"),
        HMM(),
        HMM(2, "student-t", accelerate=True),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_contract(estimator: Any, check: Any) -> None:
    check(estimator)
