"""The estimators keep scikit-learn's contract, with no exemption."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from cavity import GPClassifier, GPRegressor, StackedRegressor


@parametrize_with_checks(
    [
        GPRegressor(n_restarts=0),
        GPRegressor("1.0 * SE(1.0)", mean="zero", n_restarts=0),
        # robust noise: inference alone, since learning takes a second a fit
        GPRegressor(likelihood="laplace", objective=None),
        GPRegressor(likelihood="student-t", objective=None),
        GPRegressor(likelihood="mixture", objective=None),
        GPClassifier(n_restarts=0),
        StackedRegressor(
            [
                ("smooth", GPRegressor(n_restarts=0)),
                ("robust", GPRegressor(likelihood="laplace", objective=None)),
            ]
        ),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
