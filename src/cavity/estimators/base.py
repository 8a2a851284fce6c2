"""What the estimators share: nested parameters by name.

Models are immutable values, so `set_params(kernel__se__lengthscale=2.0)` puts an updated kernel in place of
the old one instead of changing it.
"""

from __future__ import annotations

from typing import Any, Self, cast

from sklearn.base import BaseEstimator

from cavity.hyper import Parametrized


class NestedParameters(BaseEstimator):  # type: ignore[misc]
    """get_params and set_params that reach into kernels, means and likelihoods by name."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of the estimator and, if `deep`, those of its parts, e.g. `kernel__se__lengthscale`."""
        params = cast("dict[str, Any]", super().get_params(deep=False))
        if deep:
            for name, value in list(params.items()):
                if isinstance(value, Parametrized):
                    params.update(
                        {f"{name}__{k.replace('.', '__')}": p.value for k, p in value._paths().items()}
                    )
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters; those of parts by their path, e.g. `kernel__se__lengthscale=2.0`."""
        direct = {k: v for k, v in params.items() if "__" not in k}
        super().set_params(**direct)
        nested: dict[str, dict[str, Any]] = {}
        for key, value in params.items():
            if "__" in key:
                name, _, path = key.partition("__")
                nested.setdefault(name, {})[path.replace("__", ".")] = value
        for name, changes in nested.items():
            part = getattr(self, name, None)
            if not isinstance(part, Parametrized):
                raise ValueError(
                    f"Invalid parameter {name!r} for estimator {self}. Valid parameters are: "
                    f"{sorted(self.get_params(deep=False))!r}; {name}={part!r} has no parameters of its own."
                )
            setattr(self, name, part.update(changes))
        return self
