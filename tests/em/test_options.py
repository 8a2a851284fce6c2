"""Options that are not what they should be: the error names the option, the value and what is allowed."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from cavity.em import (
    HMM,
    Categorical,
    GaussianMixture,
    Mixture,
    NormalInverseWishart,
    Poisson,
    StudentTMixture,
)

X = np.random.default_rng(0).normal(size=(40, 2))
COUNTS = np.random.default_rng(0).poisson(3.0, size=(40, 1))

WRONG = [
    *((model, name, value) for model in (GaussianMixture, HMM) for name, value in [
        ("n_init", None), ("n_init", "2"), ("n_init", np.inf), ("n_init", 0), ("max_iter", None), ("max_iter", 1.5),
        ("tol", "a"), ("tol", None), ("tol", np.nan), ("reg_covar", "a"), ("reg_covar", None), ("reg_covar", np.inf),
        ("n_jobs", "a"), ("n_jobs", 1.5), ("n_jobs", 0), ("prior", 3),
    ]),
    *((StudentTMixture, "dof", value) for value in (None, [1.0], np.nan, -1.0, "many")),
    *((StudentTMixture, "dof_bounds", value) for value in (3, None, ("a", "b"), (1, 2, 3), (2.0, 1.0))),
    *((HMM, "params", value) for value in (None, 3)),
    (HMM, "init_params", None),
    (HMM, "startprob_prior", "a"),
    (GaussianMixture, "weight_concentration", "a"),
    *((GaussianMixture, "n_components", value) for value in ([1.5, 2.7], ["a"], [None], 2.0, None)),
    *((HMM, "n_states", value) for value in ([1.5, 2.7], [True, 2], "many")),
]  # fmt: skip


@pytest.mark.parametrize(("model", "name", "value"), WRONG)
def test_options_are_named_with_their_value(model, name, value):
    with pytest.raises(ValueError, match=re.escape(f"{name}={value!r} ")):
        model(**{name: value}).fit(X)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (HMM(2, "gmm", n_mix="a"), "n_mix='a' must be a whole number"),
        (HMM(2, "gmm", n_mix=1.5), "n_mix=1.5 must be a whole number"),
        (GaussianMixture(1, "factor", n_factors=None), "n_factors=None must be a whole number"),
        (GaussianMixture(1, prior=NormalInverseWishart("a", 4.0)), "scale='a' must be a number"),
        (GaussianMixture(1, prior=NormalInverseWishart(1.0, None)), "dof=None must exceed"),
        (
            GaussianMixture(1, prior=NormalInverseWishart(1.0, 4.0, kappa="a")),
            "kappa='a' must be a finite number",
        ),
        (
            Mixture(2, [("gaussian", ["a"]), ("gaussian", ["b"])]),
            r"the part \('gaussian', \['a'\]\) must be a pair",
        ),
        (Mixture(2, [("gaussian", [0.5]), ("gaussian", [1])]), "list of column numbers"),
        (Mixture(2, ["gaussian", "gaussian"]), "the part 'gaussian' must be a pair"),
    ],
)
def test_options_of_families_are_named_with_their_value(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(X)


@pytest.mark.parametrize(
    ("family", "message"),
    [
        (Poisson(pseudo_count="a"), "pseudo_count='a' must be a finite number"),
        (Categorical(n_symbols="a"), "n_symbols='a' must be a whole number"),
        (Categorical(concentration=None), "concentration=None must be at least 1"),
    ],
)
def test_options_of_counts_and_symbols_are_named_with_their_value(family, message):
    with pytest.raises(ValueError, match=message):
        Mixture(1, family).fit(COUNTS)


def test_whole_numbers_may_be_floats():
    expected = GaussianMixture(2, n_init=2, max_iter=50, tol=-1.0, random_state=0).fit(X).means_
    found = GaussianMixture(2, n_init=2.0, max_iter=np.float64(50), tol=-1.0, random_state=0).fit(X).means_
    assert_allclose(found, expected)


@pytest.mark.parametrize("family", ["gaussian", "categorical", "poisson"])
@pytest.mark.parametrize("model", [Mixture, HMM])
def test_features_without_any_entry_are_named(model, family):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=r"feature 0 of X is missing \(NaN\) in every row"):
            model(1, family, allow_nan=True).fit(np.full((5, 1), np.nan))


def test_a_list_of_data_frames_is_a_list_of_sequences():
    pd = pytest.importorskip("pandas")
    frames = [pd.DataFrame(X[:15], columns=["a", "b"]), pd.DataFrame(X[15:], columns=["a", "b"])]
    found = HMM(2, random_state=0, max_iter=5, tol=-1.0).fit(frames)
    expected = HMM(2, random_state=0, max_iter=5, tol=-1.0).fit(X, lengths=[15, 25])
    assert_allclose(found.means_, expected.means_)
    assert found.feature_names_in_.tolist() == ["a", "b"]
    assert_allclose(found.predict_proba(frames), expected.predict_proba(X, lengths=[15, 25]))
    with pytest.raises(ValueError, match="sequence 1 has the columns"):
        HMM(2).fit([frames[0], frames[1][["b", "a"]]])
