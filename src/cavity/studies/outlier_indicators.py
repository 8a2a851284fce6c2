"""Which points are outliers, draw by draw (thesis figure 5.15): indicators of the Gibbs sampler on one Friedman set.

One hundred points, ten of them with replaced outputs. The picture has a row for each point and a column for each draw:
dark where the draw attributes the point to the outlier component. Points that are outliers beyond doubt are nearly
continuous stripes. Replaced outputs fall into the range of the function by chance, and such a point is no outlier to
anyone who does not know how it came about.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cavity.datasets import make_friedman
from cavity.estimators import GPRegressor
from cavity.gp import GP
from cavity.kernels import SE
from cavity.likelihoods import MixtureOfGaussians
from cavity.numerics.arrays import Array
from cavity.sampling import diagnostics
from cavity.sampling.outlier_gibbs import gibbs
from cavity.studies.base import Cell, Outcome, Results, Study
from cavity.studies.pictures import COLORS, new_panels, save

CHAINS = 4


def start_model(X: Array, y: Array, seed: int) -> GP:
    """Gaussian noise, evidence maximized; outliers begin as five percent with ten times its standard deviation."""
    plain = GPRegressor(1.0 * SE(np.ones(X.shape[1])), mean="zero", n_restarts=1, random_state=seed).fit(X, y)
    noise = float(np.sqrt(plain.likelihood_.variance))
    return GP(plain.kernel_, MixtureOfGaussians(0.05, noise, 3.0), inference="mcmc")


def sample_indicators(seed: int, draws: int, warmup: int) -> Outcome:
    """Chains over indicators, fraction and hyperparameters."""
    data = make_friedman(n_test=2, rng=seed)
    center, scale = data.y.mean(), data.y.std()
    y = (data.y - center) / scale
    found = gibbs(
        start_model(data.X, y, seed),
        data.X,
        y,
        n_draws=draws // CHAINS,
        warmup=warmup,
        chains=CHAINS,
        rng=seed,
        progress=False,
    )
    drawn, probability, trace = found.indicators, found.probability, found.trace
    assert drawn is not None
    assert probability is not None
    outlier = np.asarray(data.extra["outlier"], dtype=bool)
    count = drawn.sum(axis=2).astype(float)
    natural = [_noise(found.model, theta) for theta in trace.pooled[:: max(1, draws // 200)]]
    fraction, regular, inflation = np.array(natural).T
    measures = {
        "replaced points called outliers": float(np.sum(probability[outlier] > 0.5)),
        "other points called outliers": float(np.sum(probability[~outlier] > 0.5)),
        "mean number of outliers": float(count.mean()),
        "fraction, percent": 100 * float(fraction.mean()),
        "regular noise sd": scale * float(regular.mean()),
        "outlier sd over regular": float(inflation.mean()),
        "R-hat of the number": float(diagnostics.rhat(count[:, :, None])[0]),
        "ESS of the number": float(diagnostics.ess_bulk(count[:, :, None])[0]),
        "acceptance": float(trace.acceptance.mean()),
    }
    return Outcome(
        measures, {"indicators": drawn.reshape(-1, len(y)), "probability": probability, "outlier": outlier}
    )


def _noise(model: GP, theta: Array) -> tuple[float, float, float]:
    """Fraction, regular standard deviation and inflation at unconstrained values."""
    noise = model.replace(theta).likelihood
    assert isinstance(noise, MixtureOfGaussians)
    return float(noise.fraction), float(noise.scale), float(noise.inflation)


def draw(results: Results, folder: Path) -> list[Path]:
    """Stripes, with the replaced points marked, and the probability of each point beside them."""
    s = results.arrays(method="mnMCMC")
    drawn, probability, outlier = s["indicators"], s["probability"], s["outlier"]
    n = len(outlier)
    figure, (stripes, bars) = new_panels(
        1, 2, width=4.6, height=5.6, sharey=True, gridspec_kw={"width_ratios": [4, 1]}
    )
    stripes.imshow(
        drawn.T, cmap="Greys", vmin=0, vmax=1, aspect="auto", interpolation="antialiased", origin="lower"
    )
    for cut in range(1, CHAINS):
        stripes.axvline(cut * len(drawn) / CHAINS, color=COLORS[0], linewidth=0.6)
    stripes.plot(
        np.full(outlier.sum(), -0.012 * len(drawn)),
        np.flatnonzero(outlier),
        ">",
        color=COLORS[1],
        markersize=4,
        clip_on=False,
    )
    stripes.set(
        xlabel=f"draw ({CHAINS} chains, one after the other)",
        ylabel="point",
        title="dark: attributed to the outliers; triangles: replaced outputs",
        xlim=(-0.5, len(drawn) - 0.5),
        ylim=(-0.5, n - 0.5),
    )
    stripes.tick_params(axis="y", pad=8)
    color = np.where(outlier, COLORS[1], COLORS[6])
    bars.barh(np.arange(n), probability, color=color, height=0.9)
    bars.set(xlabel="probability", xlim=(0, 1))
    return [save(figure, folder / "outlier_indicators.png", few_colors=True)]


def remarks(results: Results) -> list[str]:
    """What the stripes say in numbers."""
    s, found = results.arrays(method="mnMCMC"), results.frame.iloc[0]
    sure = int(np.sum(s["probability"] > 0.95))
    likely = int(np.sum((s["probability"] > 0.5) & (s["probability"] <= 0.95)))
    return [
        f"{found['replaced points called outliers']:.0f} of {int(s['outlier'].sum())} replaced outputs have a "
        f"posterior probability above one half, and {found['other points called outliers']:.0f} of "
        f"{int((~s['outlier']).sum())} others.",
        f"{sure} points have a probability above 0.95 ({len(s['indicators'])} draws), {likely} one between 0.5 and "
        "0.95.",
        f"The number of outliers has R-hat {found['R-hat of the number']:.2f} and {found['ESS of the number']:.0f} "
        "effective draws over all chains.",
    ]


STUDY = Study(
    "outlier-indicators",
    "Posterior samples of outlier indicators on one Friedman set",
    "thesis figure 5.15 (4000 samples; no numbers in print, the set is random)",
    lambda quick: [
        Cell(
            {"method": "mnMCMC"},
            sample_indicators,
            {"seed": 0, "draws": 400 if quick else 4000, "warmup": 100 if quick else 500},
        )
    ],
    measures=(
        "replaced points called outliers",
        "other points called outliers",
        "mean number of outliers",
        "fraction, percent",
        "regular noise sd",
        "outlier sd over regular",
        "R-hat of the number",
        "ESS of the number",
        "acceptance",
    ),
    draw=draw,
    remarks=remarks,
    quick_note="400 draws of 4000.",
)
