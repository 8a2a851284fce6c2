"""Rows in batches on inducing inputs: what is found batch by batch against all rows at once."""

from __future__ import annotations

import numpy as np
import pytest

from cavity import GP, Inducing
from cavity.io import load, save
from cavity.kernels import SE
from cavity.latent.base import Inputs
from cavity.latent.inducing.batches import GivenOthers, Knowledge
from cavity.latent.prior_times_sites import Conditioned
from cavity.latent.sites import Sites
from cavity.learning import minibatches
from cavity.learning.large_data import Size, learn_any_size
from cavity.learning.minibatches import condition_in_batches
from cavity.likelihoods import Gaussian, Probit, StudentT
from cavity.means import Basis, Constant
from cavity.rows import ArrayRows, PartedRows
from cavity.runtime.errors import InputError

RNG = np.random.default_rng(0)
N, M = 60, 7
X = RNG.uniform(-3, 3, (N, 2))
F = np.sin(X[:, 0]) + 0.5 * X[:, 1]
Y = F + 0.1 * RNG.standard_normal(N)
LABELS = np.where(F + 0.3 * RNG.standard_normal(N) > 0, 1.0, -1.0)
WILD = np.where(RNG.random(N) < 0.1, Y + 5.0, Y)
NEW = RNG.uniform(-4, 4, (5, 2))
Z = RNG.uniform(-3, 3, (M, 2))
KERNEL = (1.5 * SE([1.0, 2.0])).bind(2)


class Parts(PartedRows):
    def parts(self):
        first = 0
        for size in self.sizes:
            yield X[first : first + size]
            first += size


@pytest.mark.parametrize("share", ["fitc", "dtc", 0.5])
def test_a_batch_given_sites_of_others_is_the_process_given_them(share):
    """Of all rows with those sites, conditioned at once; sites of either sign."""
    held = Inducing(kind=share, inputs=Z)
    tau = np.where(np.arange(N) % 7 == 0, -0.05, RNG.uniform(0.5, 2.0, N))
    nu = RNG.standard_normal(N)
    first, rest = slice(0, 40), slice(40, N)
    whole = Conditioned(held.prior(KERNEL, Constant(0.3), Inputs(X)), Sites(nu, tau))
    known = Knowledge.nothing(M)
    for rows in (first, rest):
        batch = GivenOthers(held.prior(KERNEL, Constant(0.3), Inputs(X[rows])), known)
        q = Conditioned(batch, Sites(nu[rows], tau[rows]))
        known = known.after(batch, q.weights, q.conditioning)
    np.testing.assert_allclose(q.mean, whole.mean[rest], atol=1e-9)
    np.testing.assert_allclose(q.var, whole.var[rest], rtol=1e-8)
    at = whole.process().conditioning
    np.testing.assert_allclose(np.tril(known.B.lower), np.tril(at.B.lower), atol=1e-9)
    # and the first batch taken out again leaves what the second alone has said
    prior = held.prior(KERNEL, Constant(0.3), Inputs(X[first]))
    left = known.without(prior, Sites(nu[first], tau[first]))
    alone = Conditioned(held.prior(KERNEL, Constant(0.3), Inputs(X[rest])), Sites(nu[rest], tau[rest]))
    process = alone.process()
    np.testing.assert_allclose(left.mean, Knowledge.of(process).mean, atol=1e-8)
    np.testing.assert_allclose(np.tril(left.B.lower), np.tril(process.conditioning.B.lower), atol=1e-8)


CASES = {
    "probit by ep": (Probit(), "ep", LABELS),
    "probit by laplace": (Probit(), "laplace", LABELS),
    "probit, variational": (Probit(), "variational", LABELS),
    "student-t by ep": (StudentT(0.1, 4.0), "ep", WILD),
}


@pytest.mark.parametrize("name", CASES)
def test_visits_end_at_the_sites_of_all_rows_together(name):
    likelihood, rule, y = CASES[name]
    model = GP(KERNEL, likelihood, inference=rule, representation=Inducing(inputs=Z))
    whole = model.condition(X, y)
    batched = condition_in_batches(model, X, y, visits=12, batch_rows=20)
    assert batched.status.converged
    assert batched.log_evidence == pytest.approx(whole.log_evidence, abs=2e-3)
    np.testing.assert_allclose(batched.mean(NEW), whole.mean(NEW), atol=0.01)
    np.testing.assert_allclose(batched.variance(NEW), whole.variance(NEW), rtol=0.01)
    once = condition_in_batches(model, X, y, visits=1, batch_rows=20)
    assert not once.status.converged
    assert "moved marginals" in once.status.message


def test_parts_of_files_are_batches_too():
    model = GP(KERNEL, Probit(), representation=Inducing(inputs=Z))
    from_parts = condition_in_batches(model, Parts([20, 30, 10], 2), LABELS, batch_rows=20)
    from_array = condition_in_batches(model, X, LABELS, batch_rows=20)
    assert from_parts.log_evidence == pytest.approx(from_array.log_evidence, abs=1e-3)
    assert [rows for rows, _ in Parts([20, 30, 10], 2).batches(20)] == [
        slice(0, 20),
        slice(20, 35),
        slice(35, 50),
        slice(50, 60),
    ]
    assert np.concatenate([block for _, block in ArrayRows(X).batches(25)]).shape == X.shape


def test_much_arithmetic_is_done_in_batches(monkeypatch):
    model = GP(KERNEL, Probit(), inference="ep", representation=Inducing(inputs=Z))
    asked = {"size": Size(Inducing(inputs=Z)), "objective": None, "rng": RNG}
    whole = learn_any_size(model, Parts([30, 30], 2), LABELS, **asked).posterior
    monkeypatch.setattr(minibatches, "MUCH", 1.0)
    batched = learn_any_size(model, Parts([30, 30], 2), LABELS, **asked).posterior
    assert batched.status.residual != whole.status.residual
    assert batched.log_evidence == pytest.approx(whole.log_evidence, abs=0.01)


# --- streams ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["tight", "vfe", "fitc", "dtc", "sor"])
def test_a_stream_with_gaussian_noise_loses_nothing(kind, tmp_path):
    model = GP(KERNEL, Gaussian(0.01), "constant", representation=Inducing(kind=kind, inputs=Z))
    whole = model.condition(X, Y)
    stream = model.condition(X[:20], Y[:20]).without_rows(X[:5], Y[:5])
    save(stream.update(X[20:21], Y[20:21]), tmp_path / "stream.cavity")
    stream = load(tmp_path / "stream.cavity").update(X[21:], Y[21:])
    assert stream.log_evidence == pytest.approx(whole.log_evidence, abs=1e-7)
    np.testing.assert_allclose(stream.mean(NEW), whole.mean(NEW), atol=1e-8)
    np.testing.assert_allclose(stream.variance(NEW), whole.variance(NEW), rtol=1e-7)


@pytest.mark.parametrize("name", CASES)
def test_a_stream_of_other_noise_is_near_all_rows_together(name):
    """Early batches are never visited again."""
    likelihood, rule, y = CASES[name]
    model = GP(KERNEL, likelihood, inference=rule, representation=Inducing(inputs=Z))
    stream = model.condition(X[:30], y[:30]).without_rows(X[:5], y[:5])
    for start in range(30, N, 10):
        stream = stream.update(X[start : start + 10], y[start : start + 10])
    whole = model.condition(X, y)
    assert stream.log_evidence == pytest.approx(whole.log_evidence, abs=1.5)
    np.testing.assert_allclose(stream.mean(NEW), whole.mean(NEW), atol=0.3)


def test_what_a_stream_cannot_have_is_refused():
    model = GP(KERNEL, Gaussian(0.01), Basis("linear"), representation=Inducing(inputs=Z))
    with pytest.raises(InputError, match="one target and no basis functions"):
        model.condition(X, Y).without_rows(X[:5], Y[:5]).update(X, Y)
    stream = GP(KERNEL, Gaussian(0.01), representation=Inducing(inputs=Z)).condition(X, Y).without_rows(X, Y)
    with pytest.raises(InputError, match="not kept"):
        stream.update(X, Y, noise_variance=0.1)
