"""The estimators keep scikit-learn's contract, with no exemption."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from cavity import GPRegressor


@parametrize_with_checks([GPRegressor(n_restarts=0), GPRegressor(mean="zero", n_restarts=1, random_state=3)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
