"""The kernels that the property tests run through, with inputs that suit them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cavity.kernels import (
    SE,
    Additive,
    Autoregressive,
    Blurred,
    BoxAverages,
    Categorical,
    Celerite,
    Constant,
    Convolved,
    Coregionalized,
    Cosine,
    DampedOscillator,
    GammaExponential,
    Gappy,
    Gibbs,
    IntegratedOU,
    IntegratedWiener,
    Invariant,
    Kernel,
    Linear,
    Matern,
    Mismatch,
    NeuralNetwork,
    NoiseTerm,
    Normalized,
    OnCircle,
    PaciorekSchervish,
    Periodic,
    PiecewisePolynomial,
    Polynomial,
    RandomWalk,
    RationalQuadratic,
    Rescaled,
    Seasonal,
    SpectralMixture,
    Standardized,
    Subsets,
    Substrings,
    ThinPlate,
    Warped,
    WeisfeilerLehman,
    White,
    Wiener,
    WithSlopes,
    Words,
    ard,
)
from cavity.parameters.param import Param, fixed

LOADINGS = [[0.5, -0.3], [0.2, 0.9], [-0.4, 0.1]]


@dataclass(frozen=True)
class Case:
    """A kernel with the inputs it is tested on."""

    kernel: Kernel
    columns: int = 3
    inputs: str = "normal"
    smooth_inputs: bool = True

    def draw(self, n: int, seed: int = 0) -> np.ndarray:
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((n, self.columns))
        if self.inputs == "positive":
            X = np.abs(X) + 0.1
        if self.inputs == "codes":
            X = rng.integers(0, 3, (n, self.columns)).astype(float)
        if self.inputs == "whole":
            X = rng.integers(-4, 9, (n, self.columns)).astype(float)
        if self.inputs == "bits":
            X = rng.integers(0, 2, (n, self.columns)).astype(float)
        if self.inputs == "mixed":
            X[:, 0] = rng.integers(0, 3, n)
        return X


def everything() -> dict[str, Case]:
    stationary = {
        "SE": SE,
        "Matern12": lambda *a, **k: Matern(*a, nu=0.5, **k),
        "Matern32": lambda *a, **k: Matern(*a, nu=1.5, **k),
        "Matern52": lambda *a, **k: Matern(*a, nu=2.5, **k),
        "MaternAny": lambda *a, **k: Matern(*a, nu=Param(1.2), **k),
        "GammaExponential": lambda *a, **k: GammaExponential(*a, gamma=1.3, **k),
        "RationalQuadratic": lambda *a, **k: RationalQuadratic(*a, alpha=0.7, **k),
        **{
            f"PiecewisePolynomial{q}": (lambda *a, q=q, **k: PiecewisePolynomial(*a, q=q, **k))
            for q in range(4)
        },
    }
    cases: dict[str, Case] = {}
    for name, make in stationary.items():
        wide = 3.0 if name.startswith("Piecewise") else 1.0
        cases[f"{name}-one"] = Case(make(1.3 * wide), columns=1)
        cases[f"{name}-iso"] = Case(make(1.7 * wide))
        cases[f"{name}-ard"] = Case(make([0.8 * wide, 1.5 * wide, 2.5 * wide]))
        cases[f"{name}-factors"] = Case(make(2.0 * wide, loadings=np.array(LOADINGS) / wide))
    for q in range(4):  # with pairs beyond the edge
        cases[f"PiecewisePolynomial{q}-narrow"] = Case(PiecewisePolynomial(0.6, q=q), columns=1)
    cases |= {
        "Matern-rough": Case(Matern([1.0, 2.0, 1.5], nu=Param(0.3))),
        "Matern-one": Case(Matern(1.0, nu=Param(1.0))),
        "Matern-half-free": Case(Matern(1.0, nu=Param(1.5))),
        "Matern-large": Case(Matern(1.0, nu=Param(55.0))),
        "Gamma-two": Case(GammaExponential(1.0, gamma=fixed(2.0))),
        "Constant": Case(Constant(0.7)),
        "White": Case(White(0.4)),
        "Linear": Case(Linear(0.7, 0.3)),
        "Linear-ard": Case(Linear([0.7, 0.2, 1.4], bias=0)),
        "Polynomial": Case(Polynomial(3, variance=[0.3, 0.5, 0.2], bias=0.8)),
        "Polynomial-homogeneous": Case(Polynomial(2, 0.6, bias=0)),
        "NeuralNetwork": Case(NeuralNetwork([2.0, 0.5, 10.0], bias=1.5)),
        "NeuralNetwork-iso": Case(NeuralNetwork(3.0, bias=0)),
        "Cosine": Case(Cosine(2.1), columns=1),
        "Cosine-ard": Case(Cosine([2.1, 3.0, 1.1])),
        "SpectralMixture": Case(SpectralMixture([0.6, 1.1], [0.4, 0.0], [0.2, 0.1]), columns=1),
        "SpectralMixture-3": Case(
            SpectralMixture(
                [0.6, 1.1], [[0.4, -0.2, 0.1], [0.0, 0.3, 0.2]], [[0.2, 0.1, 0.3], [0.1, 0.1, 0.05]]
            )
        ),
        "Periodic": Case(Periodic(SE(0.9), period=1.7), columns=1),
        "Periodic-ard": Case(Periodic(SE([0.9, 1.4, 2.0]), period=[1.7, 2.2, 3.1])),
        "Periodic-shared": Case(Periodic(RationalQuadratic(1.1, 0.6), period=2.5)),
        "Periodic-matern": Case(
            Periodic(Matern([1.0, 2.0], nu=2.5) + 0.5 * Linear(0.3), period=2.0), columns=2
        ),
        "Periodic-on": Case(Periodic(SE([1.0, 2.0]).on([2, 0]) * NeuralNetwork(0.8), period=2.0)),
        "Gibbs": Case(Gibbs([0.8, 1.2, 2.0], slope=[0.3, -0.2, 0.1])),
        "Gibbs-shared": Case(Gibbs(1.4, slope=0.2)),
        "Gibbs-function": Case(Gibbs(function="exp"), columns=2),
        "PaciorekSchervish": Case(PaciorekSchervish(Matern([0.8, 1.2, 2.0], nu=1.5), slope=[0.3, -0.2, 0.1])),
        "PaciorekSchervish-shared": Case(PaciorekSchervish(SE(1.4), slope=0.2)),
        "PaciorekSchervish-function": Case(
            PaciorekSchervish(RationalQuadratic(1.1, fixed(0.7)), function="exp"), columns=2
        ),
        "Wiener": Case(Wiener(), columns=1, inputs="positive"),
        "Wiener-start": Case(Wiener(start=-5.0), columns=1),
        "IntegratedWiener": Case(IntegratedWiener(), columns=1, inputs="positive"),
        "IntegratedWiener-3": Case(IntegratedWiener(order=3), columns=1, inputs="positive"),
        "IntegratedOU": Case(IntegratedOU(0.8), columns=1, inputs="positive"),
        "ThinPlate": Case(2.0 * ThinPlate([[0.1, 0.0], [1.0, -0.2], [0.2, 1.3]]), columns=2),
        "ThinPlate-3": Case(ThinPlate([[0.0], [0.6], [-1.0]], order=3), columns=1),
        "Seasonal": Case(Seasonal(1.7, 0.8, harmonics=3), columns=1),
        "DampedOscillator": Case(DampedOscillator(1.9, 2.0), columns=1),
        "DampedOscillator-creeping": Case(DampedOscillator(1.9, 0.3), columns=1),
        "DampedOscillator-critical": Case(DampedOscillator(1.9, 0.5), columns=1),
        "Celerite": Case(Celerite(1.9, 1.3, 0.6), columns=1),
        "Celerite-velocity": Case(Celerite(1.9, 1.3, -0.7), columns=1),
        "Autoregressive": Case(Autoregressive(-0.6), columns=1, inputs="whole", smooth_inputs=False),
        "Autoregressive-3": Case(
            Autoregressive([0.6, -0.4, 0.3]), columns=1, inputs="whole", smooth_inputs=False
        ),
        "Autoregressive-moving": Case(
            Autoregressive([0.6, -0.4], [0.5, -0.3]), columns=1, inputs="whole", smooth_inputs=False
        ),
        "OnCircle": Case(OnCircle(1.9, 0.7), columns=1),
        "Categorical": Case(Categorical(3, -0.3), columns=1, inputs="codes", smooth_inputs=False),
        "Categorical-open": Case(
            Categorical(correlation=0.3), columns=1, inputs="codes", smooth_inputs=False
        ),
        "Categorical-table": Case(
            Categorical(3, loadings=[[1.0, 0.2], [-0.5, 0.3], [0.1, 0.9]], variances=[0.2, 0.5, 1.0]),
            columns=1,
            inputs="codes",
            smooth_inputs=False,
        ),
        "Categorical-table-shared": Case(
            Categorical(3, loadings=[[1.0], [-0.5], [0.1]], variances=0.3),
            columns=1,
            inputs="codes",
            smooth_inputs=False,
        ),
        "Sum": Case(SE(1.0) + 0.5 * Matern([1.0, 2.0, 3.0], nu=2.5) + White(0.1) + 0.3),
        "Product": Case(SE(1.0) * Linear([1.0, 0.5, 0.2]) * (1.0 + RationalQuadratic(2.0, 1.5))),
        "Scaled-scaled": Case(2.0 * (0.5 * Matern(1.3, nu=0.5))),
        "Scaled-white": Case(2.0 * (White(0.3) + 3.0 * Constant(0.2))),
        "Scaled-any": Case(2.0 * Matern(1.3, nu=Param(0.8))),
        "Power": Case((0.7 + Linear(0.5)) ** 3),
        "Power-two": Case((0.5 * NeuralNetwork(1.0)) ** 2),
        "On": Case(SE([1.0, 2.0]).on([2, 0]) + Linear().on(1)),
        "On-on": Case(Matern(0.9).on([1]).on([2, 1, 0])),
        "On-mixed": Case(
            SE([1.0, 2.0]).on([1, 2]) * Categorical(3, 0.4).on(0), inputs="mixed", smooth_inputs=False
        ),
        "Coregionalized": Case(
            Coregionalized(SE([1.0, 2.0]), 3, loadings=[[1.0], [-0.5], [0.1]], variances=[0.2, 0.5, 1.0]),
            inputs="mixed",
            smooth_inputs=False,
        ),
        "Coregionalized-sum": Case(
            Coregionalized(SE(1.0), 3) + Coregionalized(Matern(2.0, nu=2.5), 3, 2),
            inputs="mixed",
            smooth_inputs=False,
        ),
        "Convolved": Case(Convolved([0.5, 1.0, 2.0], [1.0, 0.7, -0.4]), inputs="mixed", smooth_inputs=False),
        "Invariant": Case(
            1.3 * Invariant(SE([1.2, 0.7]), [np.eye(2), [[0, 1], [1, 0]], -np.eye(2)]), columns=2
        ),
        "NoiseTerm": Case(1.2 * SE(0.8) + NoiseTerm(0.4 * Matern([0.5, 1.3], nu=1.5)), columns=2),
        "BoxAverages": Case(1.3 * BoxAverages([1.2, 0.7]), columns=4, inputs="positive"),
        "BoxAverages-one": Case(BoxAverages(0.8), columns=4, inputs="positive"),
        "Blurred": Case(Blurred([1.2, 0.7]), columns=4, inputs="positive"),
        "Blurred-uncertain": Case(1.3 * Blurred(0.8, uncertain=True), columns=4, inputs="positive"),
        "Substrings": Case(Substrings([0.5, 1.3]), inputs="codes", smooth_inputs=False),
        "Words": Case(Words(variance=0.7), inputs="codes", smooth_inputs=False),
        "Mismatch": Case(Mismatch(2, 1, 3, variance=0.7), inputs="codes", smooth_inputs=False),
        "Gappy": Case(Gappy(2, 0.4), inputs="codes", smooth_inputs=False),
        "WeisfeilerLehman": Case(WeisfeilerLehman([0.5, 1.3]), columns=6, inputs="bits", smooth_inputs=False),
        "RandomWalk": Case(RandomWalk(0.4), columns=6, inputs="bits", smooth_inputs=False),
        "Subsets": Case(Subsets([0.5, 0.2, 1.3]), inputs="bits", smooth_inputs=False),
        "Standardized": Case(1.5 * Standardized(SE([1.0, 0.5, 2.0]), [0.5, 2.0, 3.0], [1.0, 0.0, -2.0])),
        "Standardized-line": Case(Standardized(Linear(0.3) + Matern(1.2), [0.5, 2.0, 3.0])),
        "Warped": Case(Warped(SE([1.0, 0.5, 2.0]), "log"), inputs="positive"),
        "Warped-sum": Case(0.7 * Warped(SE(1.0) + Linear(), "tanh")),
        "WithSlopes": Case(WithSlopes(1.7 * SE(1.2)), columns=4),
        "WithSlopes-sum": Case(WithSlopes(0.7 * Matern([1.2, 0.8], nu=2.5) + Linear(0.3)), columns=6),
        "Rescaled": Case(Rescaled(1.7 * SE(1.2), "square"), columns=1),
        "Normalized": Case(Normalized(Linear([0.5, 1.0, 2.0], bias=0.7) + 0.5 * SE(1.0))),
        "Normalized-white": Case(Normalized(Polynomial(2) + White(0.5))),
        "Additive": Case(Additive(SE(1.1), order=2, variances=[0.6, 1.4])),
        "Additive-one": Case(Additive(0.5 * Matern(0.8, nu=1.5), variances=0.3)),
        "Additive-list": Case(
            Additive(
                [SE(0.7), Linear(0.4, 0.2), Periodic(SE(1.0), period=3.0)], order=3, variances=[0.6, 1.4, 0.2]
            )
        ),
        "Mauna-Loa": Case(
            66.0**2 * SE(67.0)
            + 2.4**2 * SE(90.0) * Periodic(SE(1.3), period=fixed(1.0))
            + 0.66**2 * RationalQuadratic(1.2, 0.78)
            + 0.18**2 * SE(1.6 / 12)
            + White(0.19**2),
            columns=1,
        ),
        "Free-ard": Case(SE(ard(1.4)) + Linear(ard) * Periodic(Matern(ard), period=ard(2.0)) + Gibbs(ard)),
    }
    return cases


CASES = everything()
