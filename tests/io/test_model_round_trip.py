"""Whatever is saved comes back the same: predictions bit for bit, values, flags, texts, fitted attributes."""

from __future__ import annotations

import importlib.util
import json
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cavity
from cavity import GP, GPClassifier, GPRegressor
from cavity.inference.base import UnsupportedPairError
from cavity.inference.ep import SequentialEP
from cavity.inference.function_by_function import FunctionByFunction
from cavity.inference.registry import RULES, as_inference
from cavity.inference.variational.rule import Variational
from cavity.io import dumps, loads
from cavity.io.registry import codec_named
from cavity.kernels import SE, Categorical, Linear, Matern, Warped, ard
from cavity.likelihoods import (
    Binomial,
    Clipped,
    EpsilonInsensitive,
    Gaussian,
    Heaviside,
    HeteroscedasticGaussian,
    IntervalWarp,
    KnownNoise,
    Laplace,
    LapseProbit,
    LeastSquares,
    Logit,
    Mixture,
    MixtureOfGaussians,
    NegativeBinomial,
    Noiseless,
    OneVsRest,
    OrdinalProbit,
    Poisson,
    PositiveWarp,
    Probit,
    Softmax,
    StudentT,
    Switch,
    WarpedTarget,
)
from cavity.means.basis import Basis
from cavity.means.basis_features import Harmonics, Powers
from cavity.means.functions import Constant, Polynomial
from cavity.means.functions import Linear as LinearMean
from cavity.parameters.param import Log, Param, fixed
from cavity.parameters.priors import Gamma, HalfCauchy, LogNormal, Normal, Uniform

CASES_FILE = Path(__file__).parents[1] / "kernels" / "kernel_cases.py"


def kernel_cases():
    spec = importlib.util.spec_from_file_location("kernel_cases_of_io", CASES_FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.CASES


CASES = kernel_cases()
RNG = np.random.default_rng(7)
X = RNG.uniform(-2, 2, (14, 2))
SIGNAL = np.sin(X[:, 0]) + 0.3 * X[:, 1]
X_NEW = RNG.uniform(-2.5, 2.5, (9, 2))


def near(mine, other):
    """Equal up to the rounding errors of a factorization that is done again."""
    np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-11)


def assert_same_posterior(old, new, at):
    assert repr(new.model) == repr(old.model)
    assert new.model.flat.tobytes() == old.model.flat.tobytes()
    assert new.model.entries == old.model.entries
    assert new.log_evidence == old.log_evidence
    assert new.status == old.status
    for name in ("mean", "variance", "covariance"):
        near(getattr(new, name)(at), getattr(old, name)(at))
    np.testing.assert_allclose(new.sample(at, 2, 0), old.sample(at, 2, 0), rtol=1e-5, atol=1e-5)


# --- every kernel, likelihood, mean, rule -------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(CASES))
def test_every_kernel_comes_back(name):
    case = CASES[name]
    data, new = case.draw(10), case.draw(5, seed=1)
    y = np.random.default_rng(2).standard_normal(10)
    model = GP(case.kernel, Gaussian(0.3))
    again = loads(dumps(model))
    assert again == model
    assert again.entries == model.entries  # priors, bounds, ties, fixed flags
    assert again.kernel(data).tobytes() == model.kernel(data).tobytes()
    posterior = model.condition(data, y)
    assert_same_posterior(posterior, loads(dumps(posterior)), new)


def test_the_cases_cover_every_kernel_class():
    seen = set()

    def walk(part):
        seen.add(type(part))
        for inner in part.parts:
            walk(inner)

    for case in CASES.values():
        walk(case.kernel)
    public = {getattr(cavity.kernels, n) for n in cavity.kernels.__all__}
    classes = {c for c in public if isinstance(c, type)} - {cavity.kernels.Kernel, cavity.kernels.Stationary}
    assert classes <= seen


def test_flags_priors_bounds_ties_and_transforms_come_back():
    kernel = Param(2.0, prior=HalfCauchy(3.0), bounds=(0.1, np.inf)) * SE(
        ard(Param(1.5, prior=LogNormal(0.1, 0.7), tie="scale"))
    ) + Param(0.3, fixed=True) * Matern(ard(Param(1.5, tie="scale")), nu=Param(0.8, prior=Uniform(0.3, 5.0)))
    likelihood = StudentT(Param(0.2, prior=Gamma(2.0, 3.0)), Param(4.0, transform=Log(1.0)))
    model = GP(kernel, likelihood, mean=Constant(Param(0.5, prior=Normal(0.0, 2.0))))
    for one in (model, model.bind(2)):
        again = loads(dumps(one))
        assert again.entries == one.entries
        assert repr(again) == repr(one)
        assert again.theta.tobytes() == one.theta.tobytes()
        assert again.theta_bounds == one.theta_bounds
        assert again._columns == one._columns


LIKELIHOODS = {
    "gaussian": (Gaussian(0.2), SIGNAL),
    "warped": (WarpedTarget(Gaussian(0.2), PositiveWarp(0.4, 2.0, 0.1)), np.exp(SIGNAL)),
    "interval": (WarpedTarget(StudentT(0.2, 3.0), IntervalWarp(-9.0, 9.0, 0.01)), SIGNAL),
    "clipped": (WarpedTarget(Gaussian(0.2), Clipped(upper=50.0)), SIGNAL),
    "known": (KnownNoise(np.linspace(0.1, 0.4, 14)), SIGNAL),
    "known-and-learned": (KnownNoise(np.linspace(0.0, 0.4, 14), variance=0.1), SIGNAL),
    "noiseless": (Noiseless(), SIGNAL),
    "student-t": (StudentT(0.2, 3.0), SIGNAL + 3.0 * (np.arange(14) == 4)),
    "laplace": (Laplace(0.2), SIGNAL),
    "epsilon": (EpsilonInsensitive(0.2, 0.1), SIGNAL),
    "outliers": (MixtureOfGaussians(0.1, 0.2, 8.0), SIGNAL + 3.0 * (np.arange(14) == 4)),
    "mixture": (Mixture([Gaussian(0.1), Laplace(1.0)], [0.8, 0.2]), SIGNAL),
    "probit": (Probit(), np.sign(SIGNAL)),
    "logit": (Logit(), np.sign(SIGNAL)),
    "lapse": (LapseProbit(0.05), np.sign(SIGNAL)),
    "least-squares": (LeastSquares(0.2, 0.5, 0.1), np.sign(SIGNAL)),
    "one-vs-rest, least-squares": (OneVsRest(3, LeastSquares(0.2, 0.5)), np.arange(14) % 3.0),
    "heaviside": (Heaviside(), np.sign(SIGNAL)),
    "poisson": (Poisson(), np.round(np.exp(SIGNAL))),
    "negative-binomial": (NegativeBinomial(2.0), np.round(np.exp(SIGNAL))),
    "binomial": (Binomial(np.arange(3, 17)), np.arange(14) % 4.0),
    "binomial-shared": (Binomial(5), np.arange(14) % 4.0),
    "ordinal": (OrdinalProbit([-0.5, 0.5]), np.digitize(SIGNAL, [-0.5, 0.5]).astype(float)),
    "switch": (Switch({0: Gaussian(0.1), 1: StudentT(0.2, 4.0)}, by=0), SIGNAL),
    "switch-gaussian": (Switch({0: Gaussian(0.1), 1: Gaussian(0.3)}, by=0), SIGNAL),
    "softmax": (Softmax(3), np.arange(14) % 3.0),
    "one-vs-rest": (OneVsRest(3), np.arange(14) % 3.0),
    "one-vs-rest, lapse": (OneVsRest(3, LapseProbit(0.05)), np.arange(14) % 3.0),
    "heteroscedastic": (HeteroscedasticGaussian(0.2), SIGNAL),
}
PAIRS = [
    (name, rule)
    for name, (likelihood, _) in LIKELIHOODS.items()
    for rule in RULES
    if rule in ("exact", "laplace", "ep", "variational", "scale-mixture-em")
    and FunctionByFunction.if_separable(as_inference(rule), likelihood).supports(likelihood)
    and (name, rule) not in {("noiseless", "ep"), ("noiseless", "laplace"), ("noiseless", "variational")}
]


@pytest.mark.parametrize(("name", "rule"), PAIRS)
def test_every_likelihood_with_every_rule_comes_back(name, rule):
    likelihood, y = LIKELIHOODS[name]
    at, new_at = X, X_NEW
    if name.startswith("switch"):  # the first column is the group
        at, new_at = (np.column_stack([np.arange(len(rows)) % 2.0, rows[:, 1]]) for rows in (X, X_NEW))
    try:
        posterior = GP(1.2 * SE([1.0, 2.0]), likelihood, inference=rule).condition(at, y)
    except UnsupportedPairError:
        pytest.skip("not a pair")
    again = loads(dumps(posterior))
    assert_same_posterior(posterior, again, new_at)
    if name not in ("known", "known-and-learned", "binomial", "noiseless"):
        old, new = posterior.predict_y(new_at), again.predict_y(new_at)
        assert np.asarray(new.mean).tobytes() == np.asarray(old.mean).tobytes()


def test_the_cases_cover_every_likelihood_class():
    seen = {type(likelihood) for likelihood, _ in LIKELIHOODS.values()}
    from cavity.io.parts import FAMILIES

    public = {getattr(cavity.likelihoods, n) for n in cavity.likelihoods.__all__}
    every = {c for c in public if isinstance(c, type) and issubclass(c, cavity.likelihoods.Likelihood)}
    assert every - set(FAMILIES) <= seen


@pytest.mark.parametrize(
    "rule", [SequentialEP(sweeps=40, damping=0.8), Variational(tolerance=1e-5, max_evaluations=500)], ids=repr
)
def test_options_of_rules_come_back(rule):
    model = GP(SE(1.0), Probit(), inference=rule)
    assert repr(loads(dumps(model)).inference) == repr(rule)


MEANS = {
    "constant": "constant",
    "linear": LinearMean(0.3, [0.1, -0.2]),
    "polynomial": Polynomial(2, 0.1, [[0.1, 0.2], [0.3, 0.4]]),
    "sum": LinearMean(0.3, [0.1, -0.2]) + 2.0,
    "vague": Basis("linear"),
    "prior": Basis(Powers(2), prior_mean=0.5, prior_covariance=4.0),
    "matrix": Basis("constant", prior_mean=[1.0], prior_covariance=[[2.0]]),
    "harmonics": Basis(["constant", Harmonics(3.0, 2, 1)]) + Constant(fixed(0.7)),
}


@pytest.mark.parametrize("name", sorted(MEANS))
@pytest.mark.parametrize("rule", ["exact", "laplace"])
def test_every_mean_comes_back(name, rule):
    likelihood = Gaussian(0.2) if rule == "exact" else Laplace(0.3) if rule == "ep" else StudentT(0.3, 5.0)
    posterior = GP(SE(1.0), likelihood, MEANS[name], inference=rule).condition(X, SIGNAL)
    assert_same_posterior(posterior, loads(dumps(posterior)), X_NEW)


def test_a_model_of_several_kernels_and_means_comes_back():
    model = GP([SE(1.0), 0.5 * SE(2.0)], HeteroscedasticGaussian(0.1), ["constant", None], "laplace")
    posterior = model.condition(X, SIGNAL)
    assert_same_posterior(posterior, loads(dumps(posterior)), X_NEW)


def test_weights_and_functions_by_name_come_back():
    model = GP(Warped(SE(1.0), "tanh"), Gaussian(0.1))
    posterior = model.condition(X, SIGNAL, sample_weight=np.linspace(0.5, 2.0, 14))
    again = loads(dumps(posterior))
    assert_same_posterior(posterior, again, X_NEW)
    more = [p.update(X_NEW, X_NEW[:, 0]).mean(X) for p in (posterior, again)]
    near(more[0], more[1])


# --- bit for bit, in small files ----------------------------------------------------------------------------


def members(data: bytes) -> dict[str, bytes]:
    import io

    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_a_file_holds_no_matrix_and_the_same_model_gives_the_same_bytes():
    data = np.random.default_rng(0).uniform(0, 9, (300, 1))
    posterior = GP(SE(1.0), Gaussian(0.1)).condition(data, np.sin(data[:, 0]))
    first = dumps(posterior)
    assert len(first) < 3 * data.nbytes + 6000  # X, y and text; the factor alone would be 720 kB
    assert dumps(posterior) == first
    assert dumps(loads(first)) == first


def test_an_updated_posterior_comes_back():
    start = GP(SE(1.0), Gaussian(0.1)).condition(X, SIGNAL)
    extended = start.update(X_NEW, X_NEW[:, 0])
    assert_same_posterior(extended, loads(dumps(extended)), X_NEW)


@pytest.mark.parametrize("name", ["gaussian", "student-t", "softmax", "heteroscedastic"])
def test_weights_are_stored_as_they_are(name):
    likelihood, y = LIKELIHOODS[name]
    rule = "exact" if name == "gaussian" else "laplace"
    posterior = GP(1.2 * SE(1.0), likelihood, inference=rule).condition(X, y)
    again = loads(dumps(posterior))
    np.testing.assert_array_equal(again.process.weights, posterior.process.weights)


def test_arrays_in_column_order_keep_their_order():
    posterior = GP(SE([1.0, 2.0]), Gaussian(0.1)).condition(np.asfortranarray(X), SIGNAL)
    again = loads(dumps(posterior))
    assert again.data.X.flags.f_contiguous
    assert_same_posterior(posterior, again, X_NEW)


# --- estimators ---------------------------------------------------------------------------------------------


def assert_same_regressor(old, new, at):
    for mine, other in zip(new.predict(at, return_std=True), old.predict(at, return_std=True)):
        near(mine, other)
    assert repr(new.get_params(deep=False)) == repr(old.get_params(deep=False))
    assert new.kernel_ == old.kernel_
    assert new.likelihood_ == old.likelihood_
    assert new.mean_ == old.mean_
    assert new.log_evidence_ == old.log_evidence_
    assert [r.value for r in new.runs_] == [r.value for r in old.runs_]
    assert [r.message for r in new.runs_] == [r.message for r in old.runs_]
    assert new.n_features_in_ == old.n_features_in_


def bumpy(n=30, seed=0):
    rng = np.random.default_rng(seed)
    data = rng.uniform(-3, 3, (n, 2))
    y = np.sin(data[:, 0]) + 0.1 * rng.standard_normal(n)
    y[4] += 4.0
    return data, y


@pytest.mark.parametrize("likelihood", ["gaussian", "student-t", "mixture"])
def test_regressors_come_back(likelihood, tmp_path):
    data, y = bumpy()
    model = GPRegressor(likelihood=likelihood, n_restarts=0, random_state=0).fit(data, y)
    model.save(tmp_path / "model.cavity")
    again = cavity.load(tmp_path / "model.cavity")
    assert isinstance(again, GPRegressor)
    assert_same_regressor(model, again, X_NEW)
    near(again.outlier_probability_, model.outlier_probability_)
    third = loads(dumps(model))  # with what was computed on the way
    assert third._cavities is None or np.allclose(third._cavities[0], model._cavities[0])
    near(again.update(X_NEW, X_NEW[:, 0]).predict(data), model.update(X_NEW, X_NEW[:, 0]).predict(data))
    assert_same_regressor(model, loads(dumps(model)), data)


def test_several_targets_weights_repeats_subsets_and_column_names_come_back():
    data, y = bumpy(24)
    data = np.vstack([data, data[:3]])
    y = np.concatenate([y, y[:3]])
    frame = pd.DataFrame(data, columns=["age", "weight"])
    weight = np.linspace(0.0, 2.0, len(y))
    cases = [
        GPRegressor(n_restarts=0, random_state=0).fit(frame, np.column_stack([y, -2.0 * y])),
        GPRegressor("SE(ard).on(['age'])", n_restarts=0, random_state=1, standardize=False).fit(
            frame, y, weight
        ),
        GPRegressor(1.0 * SE(ard), n_restarts=0, random_state=2, learn_rows=12, mean=None).fit(frame, y),
        GPRegressor(objective=None, kernel=SE(1.0), likelihood=Gaussian(0.2)).fit(data, y),
        GPRegressor(kernel=2.0 * Categorical(3).on(0) + Linear(), n_restarts=0, random_state=0).fit(
            np.column_stack([np.arange(27) % 3, data[:, 0]]), y
        ),
    ]
    for model in cases:
        again = loads(dumps(model))
        named = hasattr(model, "feature_names_in_")
        at = pd.DataFrame(X_NEW, columns=["age", "weight"]) if named else X_NEW
        if model is cases[-1]:
            at = np.column_stack([np.arange(9) % 3, X_NEW[:, 0]])
        assert_same_regressor(model, again, at)
        if named:
            assert again.feature_names_in_.tolist() == ["age", "weight"]
            with pytest.raises(ValueError, match="feature names"):
                again.predict(pd.DataFrame(X_NEW, columns=["age", "height"]))
        assert np.array_equal(again.outlier_probability_, model.outlier_probability_, equal_nan=True)


LABELS = {
    "text": np.array(["low", "middle", "high"]),
    "objects": np.array(["low", "middle", "high"], dtype=object),
    "integers": np.array([3, 7, 5]),
    "truth": np.array([False, True, True]),
}


@pytest.mark.parametrize("strategy", ["softmax", "one_vs_rest", "one_vs_one"])
@pytest.mark.parametrize("labels", sorted(LABELS))
def test_classifiers_come_back(strategy, labels):
    data, y = bumpy(24)
    classes = LABELS[labels][np.digitize(y, [-0.4, 0.4])]
    model = GPClassifier(multi_class=strategy, n_restarts=0, random_state=0, objective=None, kernel=SE(1.0))
    model.fit(data, classes)
    again = loads(dumps(model))
    near(again.predict_proba(X_NEW), model.predict_proba(X_NEW))
    assert again.predict(X_NEW).tolist() == model.predict(X_NEW).tolist()
    assert again.classes_.dtype == model.classes_.dtype
    assert again.classes_.tolist() == model.classes_.tolist()
    assert again.problems_ == model.problems_
    assert again.log_evidence_ == model.log_evidence_
    assert [m.kernel for m in again.members_] == [m.kernel for m in model.members_]


def test_a_learned_classifier_with_options_comes_back():
    data, y = bumpy(24)
    model = GPClassifier(
        n_restarts=0,
        random_state=0,
        class_weight={-1: 2.0, 1: 1.0},
        signal_prior=HalfCauchy(50.0),
        mean="constant",
    ).fit(data, np.where(y > 0, 1, -1))
    again = loads(dumps(model))
    assert again.class_weight == model.class_weight
    assert again.signal_prior == model.signal_prior
    near(again.predict_log_proba(X_NEW), model.predict_log_proba(X_NEW))
    assert len(again.runs_) == len(model.runs_)


def test_estimators_pickle():
    data, y = bumpy(16)
    for mean in (Basis("constant", prior_mean=1.0, prior_covariance=2.0), "constant"):
        model = GPRegressor(1.0 * SE(1.0), likelihood=Laplace(0.3), mean=mean, objective=None).fit(data, y)
        again = pickle.loads(pickle.dumps(model))
        near(again.predict(X_NEW), model.predict(X_NEW))
        assert_same_regressor(model, loads(dumps(model)), X_NEW)
    classifier = GPClassifier(SE(1.0), objective=None).fit(data, y > 0)
    again = pickle.loads(pickle.dumps(classifier))
    near(again.predict_proba(X_NEW), classifier.predict_proba(X_NEW))


def test_another_process_predicts_the_same(tmp_path):
    data, y = bumpy(40)
    model = GPRegressor(n_restarts=0, random_state=0).fit(data, y)
    model.save(tmp_path / "m.cavity")
    np.save(tmp_path / "X.npy", X_NEW)
    program = (
        "import cavity, numpy as np, sys\n"
        f"X = np.load({str(tmp_path / 'X.npy')!r})\n"
        f"m = cavity.load({str(tmp_path / 'm.cavity')!r})\n"
        "mean, sd = m.predict(X, return_std=True)\n"
        "sys.stdout.write((mean.tobytes() + sd.tobytes()).hex())\n"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    mean, sd = model.predict(X_NEW, return_std=True)
    near(np.frombuffer(bytes.fromhex(out)), np.concatenate([mean, sd]))


def test_the_document_can_be_read_by_people():
    model = GP(2.0 * SE([1.0, 3.0]), Gaussian(0.25))
    document = json.loads(members(dumps(model))["model.json"])
    assert document["format"] == "cavity model"
    assert document["version"] == 1
    assert document["written_by"]["cavity"] == cavity.__version__
    kernel = document["model"]["with"]["kernel"]
    assert kernel["part"] == "kernels.Scaled"
    assert kernel["with"]["kernel"]["with"]["lengthscale"]["with"]["value"] == {"values": [1.0, 3.0]}
    assert codec_named("kernels.SE").kind is SE
