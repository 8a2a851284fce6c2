"""Golden values of the EM tutorial's formulas, computed independently and recorded to ten digits."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from cavity.em import HMM, Gaussian, GaussianMixture, run_em
from cavity.em.components import responsibilities
from cavity.em.forward_backward import forward_backward
from cavity.em.mixture_problem import MixtureProblem, MixtureTheta

CLOSE = {"rtol": 0.0, "atol": 2e-8}


def bound(family, x, k):
    return family.bind(x, np.ones(len(x)), k)


def test_one_dimensional_mixture_steps_and_limit():
    x = np.array([-2, -1.5, -1, 0, 1, 2.5, 3.0])[:, None]
    family = bound(Gaussian("full", reg_covar=0.0), x, 2)
    problem = MixtureProblem(family, x, np.ones(7))
    theta = MixtureTheta(
        np.array([0.5, 0.5]), {"means": np.array([[-1.0], [2.0]]), "covariances": np.ones((2, 1, 1))}
    )
    logs, resp = responsibilities(family.log_prob(theta.params, x) + np.log(theta.weights))
    assert_allclose(logs.sum(), -13.114668462, rtol=0, atol=1e-9)
    expected = [0.99944722, 0.99752738, 0.98901306, 0.81757448, 0.18242552, 0.00247262, 0.00055278]
    assert_allclose(resp[:, 0], expected, rtol=0, atol=5e-9)
    trace = run_em(problem, theta, max_iter=3, tol=-1.0).trace
    assert_allclose(trace, [-13.114668462, -12.875973724, -12.854235950, -12.850881919], rtol=0, atol=1e-9)
    one = run_em(problem, theta, max_iter=1, tol=-1.0).theta
    assert_allclose(one.weights, [0.5698590082, 0.4301409918], rtol=0, atol=1e-10)
    assert_allclose(one.params["means"].ravel(), [-1.076439983, 2.0903222989], rtol=0, atol=1e-9)
    assert_allclose(one.params["covariances"].ravel(), [0.7049191371, 0.9663137975], rtol=0, atol=1e-10)
    two = run_em(problem, theta, max_iter=2, tol=-1.0).theta
    assert_allclose(two.weights[0], 0.5686607212, rtol=0, atol=1e-10)
    assert_allclose(two.params["means"].ravel(), [-1.0988937272, 2.1111269714], rtol=0, atol=1e-10)
    assert_allclose(two.params["covariances"].ravel(), [0.6420502475, 0.8877476145], rtol=0, atol=1e-10)


@pytest.mark.parametrize("accelerate", [False, True])
def test_one_dimensional_mixture_converges_to_the_recorded_maximum(accelerate):
    x = np.array([-2, -1.5, -1, 0, 1, 2.5, 3.0])[:, None]
    model = GaussianMixture(
        2,
        reg_covar=0.0,
        weights_init=[0.5, 0.5],
        means_init=[[-1.0], [2.0]],
        covariances_init=np.ones((2, 1, 1)),
        tol=1e-15,
        max_iter=3000,
        accelerate=accelerate,
    ).fit(x)
    assert_allclose(model.log_likelihood_, -12.846744134, rtol=0, atol=1e-9)
    # Root of the score in 40-digit arithmetic. The digits recorded in the reference (0.53990681, -1.18008929,
    # 2.0057948, 0.53009427, 1.01720378) come from an EM run and are up to 7e-6 away: the likelihood is flat.
    assert_allclose(model.weights_, [0.5399057796, 0.4600942204], rtol=0, atol=3e-6)
    assert_allclose(model.means_.ravel(), [-1.1800916891, 2.0057904845], rtol=0, atol=6e-6)
    assert_allclose(model.covariances_.ravel(), [0.5300918310, 1.0172103253], rtol=0, atol=1e-5)
    if accelerate:
        assert model.n_iter_ < 300  # plain EM needs about 1100 steps


def test_two_dimensional_mixture_step():
    x = np.array([(0, 0), (1, 0), (0, 1), (4, 4), (5, 4), (4, 6)], dtype=float)
    family = bound(Gaussian("full", reg_covar=0.0), x, 2)
    theta = MixtureTheta(
        np.array([0.4, 0.6]),
        {"means": np.array([[0, 0], [4.0, 4.0]]), "covariances": np.array([np.eye(2), 2 * np.eye(2)])},
    )
    run = run_em(MixtureProblem(family, x, np.ones(6)), theta, max_iter=1, tol=-1.0)
    assert_allclose(run.trace, [-19.633032807, -13.418961029], rtol=0, atol=1e-9)
    assert_allclose(run.theta.weights, [0.4991643028, 0.5008356972], rtol=0, atol=1e-10)
    expected = [[0.3330964723, 0.3330964716], [4.3268949816, 4.6596721138]]
    assert_allclose(run.theta.params["means"], expected, rtol=0, atol=1e-10)
    expected = [
        [[0.222143828, -0.1109524436], [-0.1109524436, 0.2221438221]],
        [[0.2470679711, -0.19528481], [-0.19528481, 0.9170923975]],
    ]
    assert_allclose(run.theta.params["covariances"], expected, rtol=0, atol=1e-9)


def test_missing_values_in_one_gaussian():
    nan = np.nan
    x = np.array([(1, 2), (2, 1), (3, 4), (4, nan), (nan, 3)])
    family = bound(Gaussian("full", reg_covar=0.0), x, 1)
    problem = MixtureProblem(family, x, np.ones(5))
    start = MixtureTheta(
        np.ones(1), {"means": np.nanmean(x, axis=0)[None], "covariances": np.diag(np.nanvar(x, axis=0))[None]}
    )
    one = run_em(problem, start, max_iter=1, tol=-1.0)
    assert_allclose(one.theta.params["means"][0], [2.5, 2.5], **CLOSE)
    assert_allclose(one.theta.params["covariances"][0], [[1.25, 0.45], [0.45, 1.25]], **CLOSE)
    assert_allclose(one.objective, -11.738085, rtol=0, atol=1e-6)
    final = run_em(problem, start, max_iter=2000, tol=0.0)
    assert_allclose(final.theta.params["means"][0], [2.53072558, 2.79420557], rtol=0, atol=2e-7)
    expected = [[1.1207019, 0.8976315], [0.8976315, 1.503044]]
    assert_allclose(final.theta.params["covariances"][0], expected, rtol=0, atol=1e-6)
    assert_allclose(final.objective, -11.4183019, rtol=0, atol=1e-7)


PI = np.array([0.6, 0.4])
A = np.array([[0.7, 0.3], [0.4, 0.6]])
B = np.array([[0.5, 0.4, 0.1], [0.1, 0.3, 0.6]])


def categorical_model(**settings):
    model = HMM(2, "categorical", init_params="", **settings)
    model.startprob_, model.transmat_, model.emissionprob_ = PI, A, B
    return model


def test_forward_backward_and_viterbi():
    x = np.array([[0], [1], [2]])
    model = categorical_model()
    assert_allclose(model.score(x), np.log(0.03628), rtol=1e-12)
    logprob, path = model.decode(x)
    assert path.tolist() == [0, 0, 1]
    assert_allclose(logprob, np.log(0.01512), rtol=1e-12)
    loglik, gamma = model.score_samples(x)
    assert_allclose(loglik, -3.316488654, rtol=0, atol=1e-9)
    expected = [
        [0.8765159868, 0.1234840132],
        [0.6229327453, 0.3770672547],
        [0.2121278942, 0.7878721058],
    ]
    assert_allclose(gamma, expected, rtol=0, atol=1e-10)
    # filtered probabilities are the normalized forward variables of the reference
    alpha = np.array([(0.3, 0.04), (0.0904, 0.0342), (0.007696, 0.028584)])
    assert_allclose(model.filter_proba(x), alpha / alpha.sum(axis=1, keepdims=True), rtol=1e-12)


def test_expected_transitions():
    log_b = np.log(B[:, [0, 1, 2]].T)
    posterior = forward_backward(PI, A, lambda i, j: log_b[i:j].copy(), np.array([0, 3]))
    xi1 = np.array([[0.578831312, 0.2976846748], [0.0441014333, 0.0793825799]])
    xi2 = np.array([[0.1744211687, 0.4485115766], [0.0377067255, 0.3393605292]])
    assert_allclose(posterior.transitions, xi1 + xi2, rtol=0, atol=1e-9)


def test_baum_welch_step_of_one_sequence():
    x = np.array([[0], [1], [2]])
    model = categorical_model(max_iter=1, tol=-1.0).fit(x)
    assert_allclose(model.startprob_, [0.8765159868, 0.1234840132], rtol=0, atol=1e-10)
    expected = [[0.5023529412, 0.4976470588], [0.1634361233, 0.8365638767]]
    assert_allclose(model.transmat_, expected, rtol=0, atol=1e-10)
    expected = [[0.5121102809, 0.3639525895, 0.1239371296], [0.0958411775, 0.2926578812, 0.6115009413]]
    assert_allclose(model.emissionprob_, expected, rtol=0, atol=1e-10)
    assert_allclose(model.score(x), np.log(0.0666499245), rtol=0, atol=1e-9)
    assert_allclose(model.history_, [-3.316488654, -2.708301364], rtol=0, atol=1e-9)


def test_baum_welch_step_of_three_sequences_uses_the_corrected_update():
    sequences = [np.array(s)[:, None] for s in ((0, 1, 2), (2, 2, 1, 0), (0, 0))]
    model = categorical_model(max_iter=1, tol=-1.0).fit(sequences)
    assert_allclose(model.history_, [-9.802974360, -9.317697025], rtol=0, atol=1e-9)
    assert_allclose(model.startprob_, [0.6440938954, 0.3559061046], rtol=0, atol=1e-10)
    expected = [[0.7011507866, 0.2988492134], [0.3843077864, 0.6156922136]]
    assert_allclose(model.transmat_, expected, rtol=0, atol=1e-10)
    expected = [[0.6739865911, 0.2318357161, 0.0941776928], [0.1179112673, 0.2085466304, 0.6735421024]]
    assert_allclose(model.emissionprob_, expected, rtol=0, atol=1e-10)


@pytest.mark.filterwarnings("ignore:states")
def test_baum_welch_step_with_a_mixture_in_each_state():
    x = np.array([0.1, 1.9, 2.2, -0.3, 0.4])[:, None]
    model = HMM(
        2, "gmm", n_mix=2, covariance_type="diag", reg_covar=0.0, init_params="", max_iter=1, tol=-1.0
    )
    model.startprob_, model.transmat_ = PI, A
    model.weights_ = [[0.6, 0.4], [0.5, 0.5]]
    model.means_ = np.array([[-0.5, 0.5], [1.5, 2.5]])[:, :, None]
    model.covars_ = np.full((2, 2, 1), 0.25)
    model.fit(x)
    assert_allclose(model.history_, [-7.172098974, -2.943744533], rtol=0, atol=1e-9)
    assert_allclose(model.startprob_, [0.9780206792, 0.0219793208], rtol=0, atol=1e-10)
    expected = [[0.4915662374, 0.5084337626], [0.4985062689, 0.5014937311]]
    assert_allclose(model.transmat_, expected, rtol=0, atol=1e-10)
    expected = [[0.5227159151, 0.4772840849], [0.469251673, 0.530748327]]
    assert_allclose(model.weights_, expected, rtol=0, atol=1e-9)
    expected = [[-0.0717105442, 0.232520659], [1.8966665654, 2.090437214]]
    assert_allclose(model.means_[:, :, 0], expected, rtol=0, atol=1e-9)
    expected = [[0.0696588869, 0.0903842738], [0.1933994169, 0.0210529459]]
    assert_allclose(model.covars_[:, :, 0, 0], expected, rtol=0, atol=1e-9)
