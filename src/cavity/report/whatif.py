"""What if: controls for the inputs of a model, whose predictions are computed in the page itself.

The page holds what a prediction needs (`payload`): for each latent function a tree of its kernel, the rows X, weights
a and a matrix M with M'M = R, so that at new inputs, k = k(X, x),

    mean = m(x) + k'a,    variance = k(x, x) - |M k|^2,

the same sums as in Python, in double precision; and what the likelihood makes of them. Noise that is a mixture of
normal densities over its variance (Gaussian, Student-t, Laplace, mixtures) is given by the weights and variances of
its parts, so that the distribution function of y is a sum of normal ones; if its level is a function too, they are the
nodes of a rule over that. Functions that the data couple have R itself: cov_cd = [c = d] k_c(x, x) - k_c' R_cd k_d.
Probit, logit, lapse and one-vs-rest classes, ordered categories, Poisson and negative binomial counts are known as
well. Anything else is refused by name, and so are models with more numbers than a page should hold: an interpolation of
predictions would not be them.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import gammaln

from cavity.frames.columns import Column
from cavity.kernels import Kernel
from cavity.latent.base import Conditioning
from cavity.latent.dense_multi_latent import BlockConditioning
from cavity.latent.posterior_process import PosteriorProcess
from cavity.latent.separate_functions import SeparateConditioning
from cavity.latent.several_process import SeveralPosteriorProcess
from cavity.likelihoods import (
    BinaryLikelihood,
    Clipped,
    Gaussian,
    HeteroscedasticGaussian,
    IntervalWarp,
    Laplace,
    LapseProbit,
    Likelihood,
    Logit,
    MixtureOfGaussians,
    NegativeBinomial,
    OneVsRest,
    OrdinalProbit,
    Poisson,
    PositiveWarp,
    Probit,
    StudentT,
    WarpedTarget,
)
from cavity.means import Constant, Linear, Zero
from cavity.numerics.arrays import Array
from cavity.plots.view import View, central_row
from cavity.report.kernel_tree import Frame, NotInPage, kernel_tree
from cavity.runtime.sentences import counted
from cavity.sampling.posterior import SamplePosterior
from cavity.tables.description import NO_INFLUENCE

if TYPE_CHECKING:
    from cavity.tables import TableModel

MOST_NUMBERS = 600_000
"""Of a model in a page: 6 MB; one latent function of a thousand rows."""

MOST_CONTROLS = 12
"""Inputs with a control, the most relevant of those that matter; others stay as they are in a typical row."""

LEVEL = 0.9
"""Probability of the intervals."""

STEPS = 200
"""Places of a slider."""


# --- numbers ------------------------------------------------------------------------------------------------


def packed(values: Any) -> str:
    """Numbers as text: little-endian doubles in base 64."""
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f8").tobytes()).decode("ascii")


def _matrix(M: Array, form: bool = False) -> dict[str, Any]:
    """A matrix, by rows; only its lower triangle if it has no other, or if it is that of a quadratic form."""
    if form:
        M = np.tril(M + M.T) - np.diag(np.diag(M))
    lower = M.shape[0] == M.shape[1] and not np.triu(M, 1).any()
    values = M[np.tril_indices(len(M))] if lower else M.ravel()
    return {"rows": len(M), "lower": lower, "form": form, "values": packed(values), "size": int(values.size)}


def mean_tree(mean: Any, width: int) -> dict[str, Any]:
    """A mean function as level and slopes."""
    if mean is None or isinstance(mean, Zero):
        return {"level": 0.0, "slopes": [0.0] * width}
    if isinstance(mean, Constant):
        return {"level": float(mean.value), "slopes": [0.0] * width}
    if isinstance(mean, Linear):
        slopes = np.broadcast_to(np.asarray(mean.slopes, dtype=float), width)
        return {"level": float(mean.intercept), "slopes": [float(s) for s in slopes]}
    raise NotInPage(f"the mean function {type(mean).__name__}")


def functions(posterior: Any) -> list[dict[str, Any]]:
    """What predictions of each latent function need."""
    if isinstance(posterior, SamplePosterior):
        raise NotInPage("an average over draws")
    if posterior.approximation.scale is not None:
        raise NotInPage("an overall scale that was integrated out")
    process = posterior.process
    n, width = process.X.shape
    several = isinstance(process, SeveralPosteriorProcess)
    if (process.n_latent if several else 1) * n * (n + 1) // 2 > MOST_NUMBERS:
        raise NotInPage(f"{counted(n, 'row')}, more than a page should hold")
    if isinstance(process, PosteriorProcess) and process.basis is None and process.weights.ndim == 1:
        parts = [(process.kernel, process.mean_function, process.weights)]
        forms, degenerate = [_root(process.conditioning, n)], process.degenerate
    elif several:
        given = process.mean_function
        means: list[Any] = [None] * process.n_latent if given is None else list(given)
        kernels: Sequence[Kernel] = [function.kernel for function in process.functions]
        parts, degenerate = list(zip(kernels, means, process.weights.T)), False
        if isinstance(process.conditioning, SeparateConditioning):
            forms = [_root(function, n) for function in process.conditioning.functions]
        elif isinstance(process.conditioning, BlockConditioning):
            forms = [_coupled(process.conditioning, c) for c in range(process.n_latent)]
        else:
            raise NotInPage("latent functions that depend on each other in this representation")
    else:
        raise NotInPage("basis functions, or several targets at once")
    found: list[dict[str, Any]] = []
    for (kernel, mean, weights), form in zip(parts, forms):
        found.append(
            {
                "kernel": kernel_tree(kernel, Frame.of(width)),
                "mean": mean_tree(mean, width),
                "weights": packed(weights),
                "degenerate": bool(degenerate),
                **form,
            }
        )
    matrices = [matrix for f in found for matrix in (f["minus"], f["plus"], *f["beside"]) if matrix]
    sizes = sum(matrix["size"] for matrix in matrices)
    if sizes > MOST_NUMBERS:
        raise NotInPage(f"{counted(n, 'row')}, more than a page should hold")
    return found


def _root(conditioning: Conditioning, n: int) -> dict[str, Any]:
    """M with M'M = R; two of them, if some sites are negative."""
    minus, plus = conditioning.reduce(np.eye(n))
    return {"minus": _matrix(minus), "plus": None if plus is None else _matrix(plus), "beside": []}


def _coupled(conditioning: BlockConditioning, c: int) -> dict[str, Any]:
    """R_cc, and R_cd of the functions d before it."""
    beside = [_matrix(conditioning.matrix(c, d)) for d in range(c)]
    return {"minus": _matrix(conditioning.matrix(c, c), form=True), "plus": None, "beside": beside}


# --- likelihoods --------------------------------------------------------------------------------------------


def response(likelihood: Likelihood) -> dict[str, Any]:
    """What becomes of the mean and variance of f."""
    if isinstance(likelihood, OneVsRest):
        return {"kind": "one_vs_rest", "answer": response(likelihood.answer)}
    if isinstance(likelihood, Logit):
        return {"kind": "logit"}
    if isinstance(likelihood, Probit | LapseProbit):
        return {
            "kind": "probit",
            "lapse": float(likelihood.lapse) if isinstance(likelihood, LapseProbit) else 0.0,
        }
    if isinstance(likelihood, Poisson):
        return {"kind": "count", "shape": None}
    if isinstance(likelihood, NegativeBinomial):
        return {"kind": "count", "shape": float(likelihood.shape)}
    if isinstance(likelihood, OrdinalProbit):
        return {
            "kind": "ordinal",
            "thresholds": [float(b) for b in likelihood.thresholds],
            "lowest": likelihood.lowest,
        }
    if isinstance(likelihood, HeteroscedasticGaussian):
        return {"kind": "level", "variance": float(likelihood.variance)}
    noise, warp = likelihood, None
    if isinstance(likelihood, WarpedTarget):
        noise, warp = likelihood.noise, warp_of(likelihood)
    weights, variances = noise_parts(noise)
    parts = {"weights": list(map(float, weights)), "variances": list(map(float, variances))}
    return {"kind": "noise", **parts, "warp": warp}


def warp_of(likelihood: WarpedTarget) -> dict[str, Any]:
    """From z = f + noise back to the target."""
    warp = likelihood.warp
    if isinstance(warp, PositiveWarp):
        return {"kind": "positive", "bend": float(warp.bend), "center": warp.center, "shift": warp.shift}
    ends = {
        end: value if np.isfinite(value) else None
        for end, value in (("lower", warp.lower), ("upper", warp.upper))
    }
    if isinstance(warp, IntervalWarp):
        return {"kind": "interval", **ends, "squeeze": warp.squeeze}
    if isinstance(warp, Clipped):
        return {"kind": "clipped", **ends}
    raise NotInPage(f"the warp {type(warp).__name__}")


STEP, FEWEST = 0.35, 150
"""Largest step and fewest nodes of the trapezoid rule for a continuous mixture, which converges geometrically."""


def noise_parts(likelihood: Likelihood) -> tuple[Array, Array]:
    """Weights and variances of normal densities whose mixture is the noise."""
    if isinstance(likelihood, Gaussian):
        return np.ones(1), np.array([likelihood.variance])
    if isinstance(likelihood, MixtureOfGaussians):
        share = float(likelihood.fraction)
        return np.array([1.0 - share, share]), np.array([likelihood.scale, likelihood.outlier_scale]) ** 2
    if isinstance(likelihood, StudentT):  # variance nu s^2 / (2 u), u ~ Gamma(nu / 2, 1); x = log u
        a = 0.5 * likelihood.df
        low, high = np.log(a) - 36.0 / a - 12.0 / np.sqrt(a), np.log(a + 10.0 * np.sqrt(a) + 40.0)
        x = np.linspace(low, high, max(FEWEST, int((high - low) / STEP)))
        weights = np.exp(a * x - np.exp(x) - gammaln(a))
        return weights / weights.sum(), likelihood.scale**2 * a * np.exp(-x)
    if isinstance(likelihood, Laplace):  # the variance is exponential with mean 2 s^2; x is its logarithm
        x = np.linspace(-36.0, 4.0, FEWEST)
        weights = np.exp(x - np.exp(x))
        return weights / weights.sum(), 2.0 * likelihood.scale**2 * np.exp(x)
    raise NotInPage(f"the likelihood {type(likelihood).__name__}")


# --- controls -----------------------------------------------------------------------------------------------


def control(column: Column, X: Array, features: Sequence[str], at: Array) -> dict[str, Any]:
    """How a column of the table is set: a slider or a choice of levels."""
    places = [features.index(name) for name in column.features]
    if column.levels is not None:
        codes = column.coded_levels()
        chosen = int(np.argmin(np.sum((codes - at[places]) ** 2, axis=1)))
        return {
            "name": column.name,
            "places": places,
            "codes": codes.tolist(),
            "levels": list(column.levels),
            "chosen": chosen,
        }
    values = X[:, places[0]]
    low, high, whole = float(values.min()), float(values.max()), bool((values == np.round(values)).all())
    if whole and high - low <= STEPS:
        step = 1.0
    else:
        exponent = np.floor(np.log10(high - low)) - 2 if high > low else 0.0
        step = float(10.0**exponent)  # round numbers, a hundred places or more
        low, high = float(np.floor(low / step) * step), float(np.ceil(high / step) * step)
    value = float(np.clip(np.round(at[places[0]] / step) * step, low, high))
    digits = max(0, -int(np.floor(np.log10(step))))
    return {
        "name": column.name,
        "places": places[:1],
        "low": low,
        "high": high,
        "step": step,
        "digits": digits,
        "value": value,
        "unit": column.unit,
    }


def _flags(columns: Sequence[Column]) -> set[str]:
    """Columns of X that say where a number is missing: in a page it never is."""
    return {column.features[1] for column in columns if column.flag}


def payload(model: TableModel) -> dict[str, Any]:
    """Everything that the script of the page needs.

    Raises
    ------
    NotInPage
        Naming what a page cannot compute.
    """
    estimator, preparation = model.estimator, model.preparation
    if len(estimator.members_) > 1:
        raise NotInPage("several models side by side")
    posterior = estimator.members_[0].posterior
    likelihood = posterior.model.likelihood
    known = response(likelihood)
    found = functions(posterior)
    X, y = View(estimator).data
    at = central_row(X)
    at[[k for k, name in enumerate(preparation.features) if name in _flags(preparation.columns)]] = 0.0
    relevant = [one.column for one in model.report.relevance or () if one.share >= NO_INFLUENCE]
    columns = {column.name: column for column in preparation.columns}
    shown = (relevant or list(columns))[:MOST_CONTROLS]
    classes = getattr(estimator, "classes_", None)
    binary = isinstance(likelihood, BinaryLikelihood)
    return {
        "target": preparation.target,
        "width": int(X.shape[1]),
        "X": packed(posterior.process.X),
        "functions": found,
        "response": known,
        "controls": [control(columns[name], X, preparation.features, at) for name in shown],
        "others": len(columns) - len(shown),
        "at": [float(v) for v in at],
        "classes": None if classes is None else [str(c) for c in classes],
        "binary": binary,
        "level": LEVEL,
        "range": None if classes is not None else [float(np.min(y)), float(np.max(y))],
    }


def as_json(value: Any) -> str:
    """JSON that no text can end or leave: the signs of markup are written as escapes."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


@dataclass(frozen=True)
class WhatIf:
    """Controls and the answer to them; `content` is that of `payload`."""

    content: dict[str, Any]
    scripts: ClassVar[tuple[str, ...]] = ("whatif.js",)

    def html(self) -> str:
        """Controls, with all names escaped, and the numbers as JSON."""
        controls = "".join(_control(k, one) for k, one in enumerate(self.content["controls"]))
        others = self.content["others"]
        note = (
            f'<p class="note">{counted(others, "other input")} with little or no influence: as in a typical row.</p>'
            if others
            else ""
        )
        return (
            f'<div class="whatif"><script type="application/json">{as_json(self.content)}</script>'
            f'<form class="controls" autocomplete="off">{controls}{note}</form>'
            '<div class="answer"><p class="said" aria-live="polite"></p><p class="trust"></p>'
            '<div class="curve" role="img" aria-label="prediction along the input last changed"></div></div></div>'
        )


def _control(k: int, one: dict[str, Any]) -> str:
    name = escape(one["name"] + (f" ({one['unit']})" if one.get("unit") else ""))
    if "codes" in one:
        options = "".join(
            f'<option value="{i}"{" selected" if i == one["chosen"] else ""}>{escape(level)}</option>'
            for i, level in enumerate(one["levels"])
        )
        return f'<label data-control="{k}"><span>{name}</span><select>{options}</select></label>'
    ends = f'min="{one["low"]!r}" max="{one["high"]!r}" step="{one["step"]!r}" value="{one["value"]!r}"'
    return (
        f'<label data-control="{k}"><span>{name}</span><output>{one["value"]:.{one["digits"]}f}</output>'
        f'<input type="range" {ends}></label>'
    )
