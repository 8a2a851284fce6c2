"""Models made of draws and models fitted by EM in files: the same to the bit, and as hard to fool as the others."""

from __future__ import annotations

import json
import re
import warnings

import numpy as np
import pytest

import cavity
from cavity import GP, GPClassifier, GPRegressor
from cavity.em import (
    HMM,
    GaussianMixture,
    Mixture,
    MixtureEmission,
    NormalInverseWishart,
    Plugin,
    StudentTMixture,
)
from cavity.io import ModelFileError, dumps, loads
from cavity.kernels import SE
from cavity.likelihoods import Gaussian, Poisson, Probit, StudentT
from cavity.sampling.mcmc import MCMC
from tests.io.model_archives import archive, contents, mutated

RNG = np.random.default_rng(5)
X = RNG.uniform(-2, 2, (12, 2))
SIGNAL = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 3.0 * (np.arange(12) == 4)
NEW = RNG.uniform(-2.5, 2.5, (7, 2))
SHORT = {"n_draws": 8, "warmup": 6, "chains": 2, "warn": False, "progress": False, "rng": 1}


# --- draws --------------------------------------------------------------------------------------------------

SAMPLED = {
    "integrated": (Gaussian(0.1), SIGNAL, {}),
    "exact": (Gaussian(0.1), SIGNAL, {"hyperparameters": False}),
    "scale-mixture": (StudentT(0.2, 3.0), SIGNAL, {}),
    "gibbs": (cavity.likelihoods.MixtureOfGaussians(0.1, 0.2, 8.0), SIGNAL, {}),
    "joint": (Poisson(), np.round(np.exp(SIGNAL)), {}),
    "latent": (Probit(), np.sign(SIGNAL), {"hyperparameters": False}),
    "elliptical": (Probit(), np.sign(SIGNAL), {"hyperparameters": False, "method": "elliptical"}),
}


def sampled(name: str):
    likelihood, y, options = SAMPLED[name]
    rule = MCMC(**{**SHORT, **options})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return GP(1.0 * SE([1.0, 2.0]), likelihood, mean="constant", inference=rule).condition(X, y)


def assert_same_draws(old, new):
    assert repr(new) == repr(old)
    assert repr(new.model) == repr(old.model)
    assert new.model.flat.tobytes() == old.model.flat.tobytes()
    assert new.model.entries == old.model.entries
    assert new.model.inference == old.model.inference
    assert new.status == old.status
    assert new.problem == old.problem
    for name in ("positions", "log_density", "acceptance", "divergences", "step_size"):
        assert np.array_equal(getattr(new.trace, name), getattr(old.trace, name)), name
    assert new.diagnostics(latent=True).equals(old.diagnostics(latent=True))
    for name in ("mean", "variance", "covariance", "mean_gradient", "variance_gradient"):
        np.testing.assert_allclose(getattr(new, name)(NEW), getattr(old, name)(NEW), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(new.sample_y(NEW, 3, 0), old.sample_y(NEW, 3, 0), rtol=1e-8, atol=1e-10)
    for mine, other in zip(new.predict_y(NEW).interval(0.8), old.predict_y(NEW).interval(0.8)):
        np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-11)
    if old.outlier_probability is not None:
        np.testing.assert_allclose(new.outlier_probability, old.outlier_probability, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", sorted(SAMPLED))
def test_every_way_of_sampling_comes_back(name, tmp_path):
    posterior = sampled(name)
    assert posterior.draws.method == name
    posterior.save(tmp_path / "draws.cavity")
    again = cavity.load(tmp_path / "draws.cavity")
    assert_same_draws(posterior, again)
    assert dumps(again) == dumps(posterior)


def test_a_loaded_posterior_samples_on():
    posterior = sampled("integrated")
    more = loads(dumps(posterior)).update(NEW[:2], [0.1, 0.2])
    assert more.mean(NEW).tobytes() == posterior.update(NEW[:2], [0.1, 0.2]).mean(NEW).tobytes()


@pytest.mark.filterwarnings("ignore")
def test_estimators_that_sample_come_back(tmp_path):
    rule = MCMC(**{**SHORT, "rng": None, "progress": lambda done, total: None})
    regressor = GPRegressor(
        likelihood="laplace", objective=None, inference=rule, learn_rows=11, n_restarts=0, random_state=0
    ).fit(X, SIGNAL)
    regressor.save(tmp_path / "m.cavity")
    again = cavity.load(tmp_path / "m.cavity")
    for old, new in zip(regressor.predict(NEW, return_std=True), again.predict(NEW, return_std=True)):
        np.testing.assert_allclose(old, new, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(
        again.outlier_probability_, regressor.outlier_probability_, rtol=1e-8, atol=1e-10
    )
    assert np.isnan(again.log_evidence_)
    assert again.get_params()["inference"].n_draws == SHORT["n_draws"]
    for labels in (SIGNAL > 0, np.digitize(SIGNAL, [-0.3, 0.4])):
        model = GPClassifier(SE(1.0), objective=None, inference=MCMC(**SHORT)).fit(X, labels)
        np.testing.assert_allclose(
            loads(dumps(model)).predict_proba(NEW), model.predict_proba(NEW), rtol=1e-8, atol=1e-10
        )


# --- mixtures and hidden Markov models ----------------------------------------------------------------------

TWO = np.concatenate([RNG.normal(-3, 1, (30, 2)), RNG.normal(3, 1, (20, 2))])
COUNTS = RNG.poisson(np.repeat([[2.0], [20.0]], 25, axis=0)).astype(float)
WITH_GAPS = np.where(RNG.random(TWO.shape) < 0.1, np.nan, TWO)

FITTED = {
    "full": (GaussianMixture(range(1, 4), n_init=2), TWO),
    "tied": (GaussianMixture(2, "tied", weight_concentration=2.0), TWO),
    "diag": (GaussianMixture(2, "diag", means_init=[[-3.0, -3.0], [3.0, 3.0]]), TWO),
    "spherical": (GaussianMixture("bic", "spherical"), TWO),
    "factor": (GaussianMixture(2, "factor", n_factors=1), TWO),
    "prior": (GaussianMixture(2, prior=NormalInverseWishart([1.0, 2.0], 5.0, [0.0, 0.0], 1.0)), TWO),
    "gaps": (GaussianMixture(2, allow_nan=True), WITH_GAPS),
    "t fixed": (StudentTMixture(2, dof=4.0), TWO),
    "t estimated": (StudentTMixture(2, "diag"), TWO),
    "poisson": (Mixture(2, "poisson"), COUNTS),
    "exponential": (Mixture(2, "exponential"), COUNTS + 0.1),
    "bernoulli": (Mixture(2, "bernoulli"), (TWO > 0).astype(float)),
    "categorical": (Mixture(2, "categorical"), np.minimum(COUNTS, 5)),
    "product": (Mixture(2, [("gaussian", [0, 2]), ("poisson", [1])]), np.c_[TWO[:, :1], COUNTS, TWO[:, 1:]]),
    "hmm": (HMM(2, n_init=2), TWO),
    "hmm t": (HMM(2, "student-t", covariance_type="diag", algorithm="map"), TWO),
    "hmm gmm": (HMM(2, "gmm"), TWO),
    "hmm gmm of poissons": (HMM(2, MixtureEmission(2, cavity.em.Poisson())), COUNTS),
    "hmm symbols": (HMM(2, "categorical", topology=np.array([[True, True], [False, True]])), np.minimum(COUNTS, 3)),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(FITTED))
def test_every_family_comes_back(name, tmp_path):
    model, data = FITTED[name]
    model = model.set_params(random_state=0, max_iter=30).fit(data)
    model.save(tmp_path / "m.cavity")
    again = cavity.load(tmp_path / "m.cavity")
    assert vars(again).keys() == vars(model).keys()  # nothing was forgotten
    assert vars(again.family_).keys() == vars(model.family_).keys()
    np.testing.assert_allclose(again.predict_proba(data), model.predict_proba(data), rtol=1e-8, atol=1e-10)
    assert np.array_equal(again.predict(data), model.predict(data))
    assert again.score(data) == model.score(data)
    assert again.bic(data) == model.bic(data)
    for mine, other in zip(again.sample(5, random_state=2), model.sample(5, random_state=2)):
        np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-11)
    assert again.selection_ == model.selection_ or np.isnan(model.selection_[0].icl)
    assert [run.trace for run in again.runs_] == [run.trace for run in model.runs_]
    assert dumps(again) == dumps(model)
    if name in (
        "poisson",
        "categorical",
        "diag",
        "hmm symbols",
    ):  # what a family knows of its data is used there
        errors, same = (one.standard_errors(data).errors for one in (model, again))
        assert all(np.array_equal(errors[key], same[key], equal_nan=True) for key in errors)


def test_a_hidden_markov_model_set_by_hand_comes_back(tmp_path):
    model = HMM(2)
    model.startprob_, model.transmat_ = np.array([0.5, 0.5]), np.array([[0.9, 0.1], [0.2, 0.8]])
    model.means_, model.covars_ = [[0.0], [4.0]], np.ones((2, 1, 1))
    model.save(tmp_path / "m.cavity")
    again = cavity.load(tmp_path / "m.cavity")
    path = [[0.1], [3.9], [4.2]]
    assert again.predict(path).tolist() == [0, 1, 1]
    assert again.score(path) == model.score(path)


def test_column_names_of_mixtures_come_back():
    import pandas as pd

    frame = pd.DataFrame(TWO, columns=["a", "b"])
    again = loads(dumps(GaussianMixture(2, random_state=0).fit(frame)))
    assert again.feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="feature names"):
        again.predict(frame.rename(columns={"a": "z"}))


class Own:
    """A component of a user's own."""

    n_parameters = 0

    def log_prob(self, x):
        return -0.5 * x[:, 0] ** 2

    def fit_weighted(self, x, w):
        return self


def test_components_of_ones_own_and_unfitted_mixtures_are_refused(tmp_path):
    model = Mixture(1, Plugin([Own()])).fit(TWO)
    with pytest.raises(ModelFileError, match=re.escape("objects of one's own (Own)")):
        model.save(tmp_path / "m.cavity")
    from sklearn.exceptions import NotFittedError

    for new in (GaussianMixture(2), HMM(2)):
        with pytest.raises(NotFittedError):
            new.save(tmp_path / "m.cavity")
    with pytest.raises(ModelFileError, match="random number generator"):
        dumps(GaussianMixture(1, random_state=np.random.RandomState(0)).fit(TWO))


# --- wrong places -------------------------------------------------------------------------------------------


def changed(data: bytes, path: str, value) -> bytes:
    """A file with one place of its document changed; keys of tables are written with a colon before them."""
    members = contents(data)
    document = json.loads(members["model.json"])
    node = document["model"]
    *way, last = path.split("/")
    for key in way:
        node = next(pair for pair in node["dict"] if pair[0] == key[1:])[1] if key[0] == ":" else node[key]
    if last[0] == ":":
        next(pair for pair in node["dict"] if pair[0] == last[1:])[1] = value
    else:
        node[last] = value
    members["model.json"] = json.dumps(document).encode()
    return archive(members)


DRAWS = dumps(sampled("scale-mixture"))
LATENT = dumps(sampled("joint"))
MIXTURE = dumps(StudentTMixture(2, random_state=0, max_iter=20, tol=-1.0).fit(TWO))
CHAIN = dumps(HMM(2, "gmm", random_state=0, max_iter=5, tol=-1.0).fit(TWO))
PARTS = dumps(
    Mixture(2, [("gaussian", [0]), ("bernoulli", [1])], random_state=0).fit(
        np.c_[TWO[:, 0], TWO[:, 1] > 0].astype(float)
    )
)

WRONG = [
    (DRAWS, "with/max_draws", 0, "max_draws must be a count"),
    (DRAWS, "with/draws", None, "draws must be Draws"),
    (DRAWS, "with/draws/with/y", {"array": 0}, "samples one target"),
    (DRAWS, "with/draws/with/noise", {"values": [[[1.0]]]}, "noise must be a finite number for each draw"),
    (DRAWS, "with/draws/with/nugget", -1.0, "the nugget must be a small number"),
    (DRAWS, "with/draws/with/probability", {"values": [0.1]}, "probabilities must be those of the rows"),
    (DRAWS, "with/draws/with/indicators", {"values": [0.1]}, "indicators must be true or false"),
    (DRAWS, "with/draws/with/latent", {"values": [0.1]}, "latent must be a finite number"),
    (LATENT, "with/draws/with/white", None, "latent values are drawn white"),
    (DRAWS, "with/draws/with/method", 3, "draws have a trace"),
    (DRAWS, "with/draws/with/trace/with/positions", {"values": [[[0.0, 1.0]]]}, "every draw must have a density"),
    (DRAWS, "with/draws/with/trace/with/positions", {"values": [0.0]}, "a trace must hold draws"),
    (DRAWS, "with/draws/with/trace/with/names", {"tuple": ["a"]}, "names must be those of the coordinates"),
    (DRAWS, "with/draws/with/trace/with/warmup", -3, "warmup of Trace must be a count"),
    (DRAWS, "with/draws/with/trace/with/divergences", {"values": [0.0, 0.0]}, "divergences of Trace must be an array"),
    (DRAWS, "with/draws/with/trace/with/evaluations", 0.5, "evaluations of Trace must be a count"),
    (DRAWS, "with/draws/with/trace/with/jumps", 3, "jumps of Trace must be JumpCounts or nothing"),
    (DRAWS, "with/draws/with/model/with/inference/with/n_draws", 10**12, "draws must be counts"),
    (DRAWS, "with/draws/with/model/with/inference/with/chains", "x", "inference"),
    (DRAWS, "with/draws/with/model/with/inference/with/rng", "x", "rng must be a whole number"),
    (DRAWS, "with/draws/with/model/with/inference/with/progress", "x", "progress must be true or false"),
    (DRAWS, "with/draws/with/model/with/inference", {"part": "inference.EP", "with": {}}, "samples one target"),
    (MIXTURE, "with/settings", {"dict": [["colour", 1]]}, "'colour'.* are no settings"),
    (MIXTURE, "with/settings/:n_jobs", 10**6, "n_jobs must be a small number"),
    (MIXTURE, "with/settings/:n_jobs", 0, "n_jobs must be a small number"),
    (MIXTURE, "with/settings/:random_state", 0.5, "random_state must be a seed"),
    (MIXTURE, "with/settings/:allow_nan", "yes", "allow_nan must be true or false"),
    (MIXTURE, "with/settings/:covariance_type", "diag", "the family must be the one of the settings"),
    (MIXTURE, "with/family", None, "a model has a family"),
    (MIXTURE, "with/family/part", "em.Gaussian", "cannot be made|the family must be"),
    (MIXTURE, "with/family/part", "em.Plugin", "not stored"),
    (MIXTURE, "with/family/with/bound/:n_components", 10**9, "a family must know its sizes"),
    (MIXTURE, "with/family/with/bound/:n_features", 3, "of shape"),
    (MIXTURE, "with/family/with/bound", {"dict": []}, "a family must know its data"),
    (MIXTURE, "with/family/with/n_factors", 10**9, "n_factors must be at most"),
    (MIXTURE, "with/family/with/prior", 3, "prior must be a prior"),
    (MIXTURE, "with/theta/:weights_", {"values": [0.5, 0.6]}, "shares that add up to one"),
    (MIXTURE, "with/theta/:weights_", {"values": [0.5, 0.3, 0.2]}, "weights_ must be finite numbers of shape"),
    (MIXTURE, "with/theta/:params_/:means", {"values": [[0.0], [1.0]]}, "means must be finite numbers of shape"),
    (MIXTURE, "with/theta/:params_/:dofs", {"values": [3.0, -1.0]}, "dofs must be positive"),
    (MIXTURE, "with/theta/:params_/:covariances", {"values": [[[1.0, 2.0], [2.0, 1.0]]] * 2}, "cannot be made"),
    (MIXTURE, "with/theta/:params_", {"dict": []}, "all its parameters"),
    (MIXTURE, "with/found/:n_components_", 3, "sizes must be those of the family"),
    (MIXTURE, "with/found/:n_features_in_", 5, "the number of columns must be known"),
    (MIXTURE, "with/found/:history_", "x", "history_ is not what a fit finds"),
    (MIXTURE, "with/found/:runs_", [1], "runs_ is not what a fit finds"),
    (CHAIN, "with/theta/:transmat_", {"values": [[0.5, 0.6], [0.5, 0.5]]}, "must sum to one"),
    (CHAIN, "with/theta/:startprob_", {"values": [1.0]}, "startprob_ must be finite numbers of shape"),
    (CHAIN, "with/settings/:algorithm", "x", "algorithm must be viterbi or map"),
    (CHAIN, "with/family/with/n_mix", 3, "the densities of states must fit"),
    (CHAIN, "with/family/with/components", 3, "components must be a family"),
    (PARTS, "with/family/with/bound/:_bound", [], "a product must have parts"),
    (PARTS, "with/theta/:params_/:probabilities@1", {"values": [[0.5], [1.0]]}, "must be below one"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("data", "path", "value", "message"), WRONG, ids=lambda v: v[-50:] if isinstance(v, str) else ""
)
def test_files_with_a_wrong_place(data, path, value, message):
    with pytest.raises(ModelFileError, match=message) as caught:
        loads(changed(data, path, value))
    assert "\n" not in str(caught.value)


def test_files_that_need_more_memory_than_there_is(monkeypatch):
    monkeypatch.setattr("cavity.io.posterior.LARGE", 5)
    monkeypatch.setattr("cavity.numerics.memory.available_memory", lambda: 100.0)
    with pytest.raises(ModelFileError, match="12 rows need more memory than is free"):
        loads(DRAWS)


# --- mutations ----------------------------------------------------------------------------------------------

SCRAPS = [
    None, True, 0, -1, 10**30, 0.5, -2.5, "", "ep", "full", [], {}, {"array": 0}, {"array": 1},
    {"number": "inf"}, {"number": "nan"}, {"values": [1.0]}, {"values": []}, {"tuple": []}, {"dict": []},
    {"objects": ["a"]}, {"function": "f"}, {"part": "kernels.SE", "with": {}}, {"part": "em.Gaussian", "with": {}},
    {"part": "Param", "with": {"value": 3.0}}, {"part": "likelihoods.StudentT", "with": {}}, "em.Poisson",
]  # fmt: skip


def works(model) -> None:
    """A model that was loaded can be used."""
    if hasattr(model, "predict_y"):
        assert model.mean(NEW[:2]).shape == (2,)
    else:
        assert model.predict_proba(TWO[:2] if model.n_features_in_ == 2 else TWO[:2, :1]).shape[0] == 2


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("data", [DRAWS, LATENT, MIXTURE, CHAIN], ids=["draws", "latent", "mixture", "chain"])
def test_mutated_documents_and_arrays(data):
    """Loading gives a model that can be used, or a ModelFileError, and nothing else."""
    rng = np.random.default_rng(3)
    loaded = 0
    for _ in range(400):
        try:
            model = loads(mutated(data, rng, SCRAPS, 0.3))
        except ModelFileError:
            continue
        works(model)
        loaded += 1
    assert 5 < loaded < 330


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("data", [DRAWS, MIXTURE], ids=["draws", "mixture"])
def test_mutated_bytes(data):
    rng = np.random.default_rng(4)
    for _ in range(400):
        raw = bytearray(data)
        at = int(rng.integers(len(raw)))
        if rng.random() < 0.5:
            raw[at] = rng.integers(256)
        else:
            del raw[at : at + int(rng.integers(1, 60))]
        try:
            works(loads(bytes(raw)))
        except ModelFileError:
            continue
