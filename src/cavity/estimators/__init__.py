"""scikit-learn estimators: the contract of that library around the models of this one."""

from cavity.estimators.classifier import GPClassifier
from cavity.estimators.regressor import GPRegressor
from cavity.estimators.stacking import StackedRegressor

__all__ = ["GPClassifier", "GPRegressor", "StackedRegressor"]
