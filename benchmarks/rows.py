"""Rows that are more than numbers: slopes, several outputs, strings, uncertain inputs.

`python -m benchmarks rows [--quick] [--seed S]`. Processor time on one thread, medians of repeated evaluations.

- `slopes_cost`: log evidence with gradient of 500 values and 500 slopes of a function of 5 inputs, beside that of 1000
  values (squared exponential with a length scale for each column).
- `kronecker`: the same of 7 outputs at 500 inputs, dense in long form beside the Kronecker form.
- `grad_vs_gpytorch`: processor time of a fit of Franke's function with gradients at 10 x 10 inputs, start-up of the
  interpreter included, GPyTorch's `RBFKernelGrad` (100 steps of Adam) beside `GP.learn`; errors too, and the time of
  `GPRegressor.fit(slopes=...)`, half of which is the import of scikit-learn. A first fit of each is not counted: it
  leaves bytecode on disk, as installed packages have it. The median of three; the peer runs in `.venv-peers`, else nan.
- `strings_error`, `svm_error`: strings of 20 letters out of 4, half of them with a planted substring of 3; the model of
  higher evidence of two, `Substrings` of lengths 1 to 4 and a weight for each substring (`SubstringCounts` with
  `Linear(ard)`), both under EP, beside a linear support vector machine on n-grams, n and C by
  cross-validation; and how often `Substrings` gives the planted length the largest weight.
- outputs: series of statsmodels (in `.venv-peers`; else simulated), half of the entries left out at random: MSLL of
  correlated outputs beside a model for each.
- uncertain inputs: coverage of 95 % intervals for the function, with and without `input_sd`, and with sampled inputs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from benchmarks.peers import environment, interpreter
from cavity import GP, CoregionalizedRegressor, GPClassifier, GPRegressor, SubstringCounts
from cavity.assessment import latent_inputs
from cavity.inference import Kronecker
from cavity.kernels import (
    SE,
    Coregionalized,
    Linear,
    Matern,
    Substrings,
    WithSlopes,
    ard,
    encode,
    slopes,
    values,
)
from cavity.likelihoods import Gaussian, Switch

Array = NDArray[np.float64]
HERE = Path(__file__).resolve().parent


def median_time(run: Callable[[], Any], repeats: int) -> float:
    """Median processor time of calls, after one that is not counted."""
    run()
    found = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return float(np.median(found))


def slopes_cost(rng: np.random.Generator, repeats: int) -> float:
    """Values and slopes beside as many values."""
    n, D = 500, 5
    X, y = rng.standard_normal((2 * n, D)), rng.standard_normal(2 * n)
    U = rng.standard_normal((n, D))
    U /= np.linalg.norm(U, axis=1, keepdims=True)
    rows = np.vstack([values(X[:n]), slopes(X[n:], U)])
    plain, plain_data = GP(1.0 * SE(ard), Gaussian(0.1)).training(X, y)
    sloped, sloped_data = GP(WithSlopes(1.0 * SE(ard)), Gaussian(0.1)).training(rows, y)
    one = median_time(lambda: plain.evidence_of(plain_data), repeats)
    other = median_time(lambda: sloped.evidence_of(sloped_data), repeats)
    print(f"1000 values {1e3 * one:.1f} ms, 500 values and 500 slopes {1e3 * other:.1f} ms")
    return other / one


def kronecker(rng: np.random.Generator, repeats: int) -> float:
    """Dense beside Kronecker."""
    n, p, D = 500, 7, 5
    X, Y = rng.standard_normal((n, D)), rng.standard_normal((n, p))
    kernel, noise = Coregionalized(SE(ard), p, rank=2).bind(D + 1), np.linspace(0.1, 0.4, p)

    def small() -> float:
        found = Kronecker.of(kernel, noise, X, Y)
        of_K, _, _ = found.gradient()
        kernel.kernel.forward(X)[1](of_K)
        return found.log_evidence

    rows = np.vstack([np.column_stack([np.full(n, o), X]) for o in range(p)])
    model, data = GP(kernel, Switch({o: Gaussian(v) for o, v in enumerate(noise)}, by=0)).training(
        rows, Y.T.ravel()
    )
    start = time.process_time()
    large = model.evidence_of(data)[0]
    dense, fast = time.process_time() - start, median_time(small, repeats)
    apart = abs(large - small())
    print(
        f"7 outputs at 500 inputs: dense {dense:.2f} s, Kronecker {1e3 * fast:.0f} ms, apart by {apart:.1e}"
    )
    return dense / fast


MODEL = """
import sys, numpy as np
from cavity import GP
from cavity.kernels import SE, WithSlopes, ard, slopes, values
from cavity.likelihoods import Gaussian, Switch
from cavity.means import as_mean, with_slopes
given = np.load(sys.argv[1])
X, Y, T = given["X"], given["Y"], given["T"]
rows = np.vstack([values(X, 0), slopes(X, 0, kind=1), slopes(X, 1, kind=1)])
noise = Switch({0: Gaussian(0.01), 1: Gaussian(0.01)}, by=-1)
model = GP(WithSlopes(1.0 * SE(ard)), noise, mean=with_slopes(as_mean("constant")))
learned = model.learn(rows, Y.T.ravel(), n_restarts=0, rng=0)
np.save(sys.argv[1].replace(".npz", "-mean.npy"), learned.posterior.mean(values(T, 0)))
"""

ESTIMATOR = """
import sys, numpy as np
from cavity import GPRegressor
from cavity.kernels import SE, ard
given = np.load(sys.argv[1])
X, Y, T = given["X"], given["Y"], given["T"]
model = GPRegressor(1.0 * SE(ard), random_state=0, n_restarts=0).fit(X, Y[:, 0], slopes=(X, Y[:, 1:]))
np.save(sys.argv[1].replace(".npz", "-mean.npy"), model.predict(T))
"""


def franke(x: Array) -> Array:
    """Franke's function and its gradient, (n, 3)."""
    a, b = 9 * x[:, 0], 9 * x[:, 1]
    terms = [
        (0.75, (a - 2) ** 2 / 4 + (b - 2) ** 2 / 4, (a - 2) / 2, (b - 2) / 2),
        (0.75, (a + 1) ** 2 / 49 + (b + 1) / 10, 2 * (a + 1) / 49, np.full_like(b, 0.1)),
        (0.5, (a - 7) ** 2 / 4 + (b - 3) ** 2 / 4, (a - 7) / 2, (b - 3) / 2),
        (-0.2, (a - 4) ** 2 + (b - 7) ** 2, 2 * (a - 4), 2 * (b - 7)),
    ]
    value, d_a, d_b = (np.zeros(len(x)) for _ in range(3))
    for weight, exponent, one, other in terms:
        part = weight * np.exp(-exponent)
        value += part
        d_a -= 9 * part * one
        d_b -= 9 * part * other
    return np.column_stack([value, d_a, d_b])


def against_gpytorch(rng: np.random.Generator) -> float:
    """Processor time of the peer beside that of `GP`, from the start of the interpreter."""
    line = np.linspace(0, 1, 10)
    X, T = np.array([[a, b] for a in line for b in line]), rng.uniform(0, 1, (400, 2))
    Y, truth = franke(X) + 0.05 * rng.standard_normal((100, 3)), franke(T)[:, 0]
    found = {}
    one_thread = environment(threads=1)
    one_thread.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        np.savez(path, X=X, Y=Y, T=T)
        for name, command in (
            ("GP", [sys.executable, "-c", MODEL, str(path)]),
            ("GPRegressor", [sys.executable, "-c", ESTIMATOR, str(path)]),
            ("gpytorch", [str(interpreter()), str(HERE / "rows_peer.py"), str(path)]),
        ):
            taken = []
            for _ in range(4):
                before = os.times()
                done = subprocess.run(command, capture_output=True, text=True, check=False, env=one_thread)
                after = os.times()
                taken.append(sum(after[2:4]) - sum(before[2:4]))
            if done.returncode:
                print(f"{name}: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else 'failed'}")
                return float("nan")
            found[name] = float(np.median(taken[1:]))
            error = float(np.sqrt(np.mean((np.load(str(path).replace(".npz", "-mean.npy")) - truth) ** 2)))
            print(f"{name}: 100 values and gradients, {found[name]:.1f} s with start-up, RMSE {error:.4f}")
    return found["gpytorch"] / found["GP"]


def planted(
    n: int, rng: np.random.Generator, length: int = 20, motif: str = "abc"
) -> tuple[list[str], Array]:
    """Strings of which every second holds a substring."""
    texts: list[str] = []
    while len(texts) < n:
        text, wanted = "".join(rng.choice(list("abcd"), length)), len(texts) % 2 == 1
        if wanted and motif not in text:
            at = rng.integers(0, length - len(motif) + 1)
            text = text[:at] + motif + text[at + len(motif) :]
        if (motif in text) == wanted:
            texts.append(text)
    return texts, np.arange(n) % 2.0


def strings(seeds: int, first: int) -> tuple[float, float]:
    """Errors of ours and of a support vector machine."""
    ours, alone, peers, found = [], [], [], 0
    for seed in range(first, first + seeds):
        rng = np.random.default_rng(seed)
        (texts, labels), (new, truth) = planted(80, rng), planted(400, rng)
        shared = GPClassifier(Substrings(np.ones(4)), random_state=0, n_restarts=1).fit(encode(texts), labels)
        found += int(np.argmax(shared.kernel_.weights)) == 2
        counts = SubstringCounts(range(1, 5)).fit(texts)
        each = GPClassifier(Linear(ard), random_state=0, n_restarts=0).fit(counts.transform(texts), labels)
        errors = [float(np.mean(shared.predict(encode(new)) != truth))]
        errors.append(float(np.mean(each.predict(counts.transform(new)) != truth)))
        alone.append(errors[0])
        ours.append(errors[int(each.log_evidence_ > shared.log_evidence_)])
        machine = make_pipeline(CountVectorizer(analyzer="char"), Normalizer(), LinearSVC(max_iter=20_000))
        grid = {
            "countvectorizer__ngram_range": [(k, k) for k in range(1, 5)],
            "linearsvc__C": [0.1, 1, 10, 100],
        }
        peers.append(
            float(np.mean(GridSearchCV(machine, grid, cv=5).fit(texts, labels).predict(new) != truth))
        )
    print(f"planted length found in {found} of {seeds}; errors, with their standard errors:")
    for name, e in (("the model of higher evidence", ours), ("Substrings", alone), ("linear SVM", peers)):
        print(f"  {name}: {np.mean(e):.4f} +- {np.std(e, ddof=1) / np.sqrt(seeds):.4f}")
    return float(np.mean(ours)), float(np.mean(peers))


def long_strings(rng: np.random.Generator) -> None:
    """Time of a fit of 1000 strings of 60 letters."""
    texts, labels = planted(1000, rng, 60, "abcda")
    start = time.process_time()
    GPClassifier(Substrings(np.ones(5)), random_state=0, n_restarts=0).fit(encode(texts), labels)
    print(f"1000 strings of 60 letters: a fit takes {time.process_time() - start:.1f} s of processor time")


SHIPPED = """
import sys, numpy as np
from statsmodels.datasets import elnino, macrodata
columns = ["unemp", "infl", "tbilrate", "realint", "realgdp", "realcons", "realinv"]
macro, ocean = (one.load_pandas().data for one in (macrodata, elnino))
np.savez(sys.argv[1], macro=macro[columns].to_numpy(float), ocean=ocean.to_numpy(float))
"""


def series() -> dict[str, Array]:
    """Standardized series at equal steps, a column for each output: of statsmodels, else simulated."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "series.npz"
        done = subprocess.run(
            [str(interpreter()), "-c", SHIPPED, str(path)], capture_output=True, check=False
        )
        if done.returncode == 0:
            given = np.load(path)
            macro, ocean = given["macro"], given["ocean"]
            # rates as they are, growth of the others; the ocean by month, a row for each year
            growth = 100 * np.diff(np.log(macro[:, 4:]), axis=0)
            found = {"economy": np.hstack([macro[1:, :4], growth])[-120:], "ocean": ocean[:, 1:]}
        else:
            rng = np.random.default_rng(0)
            t = np.linspace(0, 12, 120)
            parts = np.column_stack([np.sin(t), np.cos(0.7 * t), np.sin(2.1 * t)])
            found = {"simulated": parts @ rng.standard_normal((3, 5)) + 0.3 * rng.standard_normal((120, 5))}
    return {name: (Y - Y.mean(axis=0)) / Y.std(axis=0) for name, Y in found.items()}


def outputs(name: str, Y: Array, subsets: int) -> tuple[float, float]:
    """Mean log loss of correlated outputs less that of models apart, and its standard error."""
    X, gains = np.arange(len(Y), dtype=float)[:, None], []
    for seed in range(subsets):
        hidden = np.random.default_rng(seed).random(Y.shape) < 0.5
        seen = np.where(hidden, np.nan, Y)
        together = CoregionalizedRegressor(Matern(10.0, nu=1.5), rank=3, random_state=0, n_restarts=0).fit(
            X, seen
        )
        mean, sd = together.predict(X, return_std=True)
        loss = 0.5 * ((Y - mean) / sd) ** 2 + np.log(sd)
        apart = np.empty_like(loss)
        for o in range(Y.shape[1]):
            there = ~hidden[:, o]
            model = GPRegressor(1.0 * Matern(10.0, nu=1.5), random_state=0, n_restarts=0).fit(
                X[there], Y[there, o]
            )
            m, s = model.predict(X, return_std=True)
            apart[:, o] = 0.5 * ((Y[:, o] - m) / s) ** 2 + np.log(s)
        gains.append(float(np.mean((loss - apart)[hidden])))
    gain, error = float(np.mean(gains)), float(np.std(gains, ddof=1) / np.sqrt(subsets))
    print(f"{name}, {Y.shape[1]} outputs, half missing: MSLL {gain:+.3f} +- {error:.3f} beside models apart")
    return gain, error


def coverage(draws: int, sampled: int, first: int) -> None:
    """Share of the function inside 95 % intervals, by how errors of inputs are taken into account."""
    grid, line = np.linspace(0.5, 5.5, 25)[:, None], np.linspace(-1, 7, 400)
    found: dict[str, list[tuple[float, float]]] = {}
    for seed in range(first, first + draws):
        rng = np.random.default_rng(seed)
        drawn = GP(1.0 * SE(1.0)).sample_prior(line[:, None], rng=rng)[0]
        true = rng.uniform(0, 6, 40)
        X = (true + 0.15 * rng.standard_normal(40))[:, None]
        y = np.interp(true, line, drawn) + 0.1 * rng.standard_normal(40)
        truth = np.interp(grid[:, 0], line, drawn)

        def fitted(X: Array = X, y: Array = y, **errors: Any) -> Any:
            regressor = GPRegressor(1.0 * SE(1.0), likelihood=Gaussian(0.01), objective=None, mean="zero")
            return regressor.fit(X, y, **errors).predict_latent(grid)

        ways = {
            "slopes": fitted(input_sd=0.15),
            "expected kernel": fitted(input_sd=0.15, input_errors="expected"),
            "errors ignored": fitted(),
        }
        if seed < first + sampled:
            model = GP(1.0 * SE(1.0), Gaussian(0.01))
            inputs = latent_inputs(model, X, y, 0.15, n_draws=300, warmup=200, chains=2, rng=seed)
            ways["sampled inputs"] = inputs.predict_f(grid)
        for name, one in ways.items():
            low, high = one.interval(0.95)
            share = float(np.mean((truth > low) & (truth < high)))
            found.setdefault(name, []).append((share, float(np.mean(one.log_prob(truth)))))
    print(f"95 % intervals of f, input errors of 0.15 length scales, seeds {first} to {first + draws - 1}:")
    for name, values_ in found.items():
        share, density = np.mean(values_, axis=0)
        error = np.std(values_, axis=0, ddof=1)[0] / np.sqrt(len(values_))
        print(f"  {name}, {len(values_)} draws: {share:.3f} +- {error:.3f}, mean log density {density:.3f}")


def main(argv: list[str] | None = None) -> int:
    """Run all and print the RESULT line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    rng = np.random.default_rng(options.seed)
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        cost = slopes_cost(rng, 5 if options.quick else 15)
        ratio = kronecker(rng, 3 if options.quick else 9)
        peer = against_gpytorch(rng)
        ours, svm = strings(3 if options.quick else 10, 1000 * options.seed + 300)
        coverage(20 if options.quick else 200, 2 if options.quick else 100, 20_000 + 1000 * options.seed)
        if not options.quick:
            long_strings(rng)
            for name, table in series().items():
                outputs(name, table, 10)
    print(
        f"RESULT slopes_cost={cost:.2f} kronecker={ratio:.1f} grad_vs_gpytorch={peer:.1f} strings_error={ours:.4f} "
        f"svm_error={svm:.4f}"
    )
    return 0
