"""`Assessment`: the numbers as a table for people, a DataFrame for programs, and a picture.

The picture is in the manner of figures 6.9 and 6.10 of Kuss (2006). A row per method: posterior means, posterior sds
and predictive probabilities against those of the chains, with the line of equality, and the marginal that is most
skewed under the chains as a histogram with the method's normal density.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cavity.assessment.comparison import MethodResult, Predictive
from cavity.assessment.gold import GoldStandard
from cavity.assessment.verdict import gold_words, label, verdict
from cavity.numerics.arrays import Array

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

SHOWN = {
    "log_evidence": ("evidence", "{:.2f}"),
    "evidence_error": ("error", "{:+.2f}"),
    "mean_error": ("means", "{:.2f}"),
    "sd_error": ("sds", "{:.2f}"),
    "total_variation": ("TV", "{:.2f}"),
    "probability_error": ("prob.", "{:.3f}"),
    "log_loss": ("loss", "{:.3f}"),
    "k_hat": ("k-hat", "{:.1f}"),
    "seconds": ("s", "{:.2f}"),
}


@dataclass(frozen=True)
class Assessment:
    """How good approximations are on the user's own data.

    Attributes
    ----------
    methods : tuple of MethodResult
    gold : GoldStandard
    gold_predictive : Predictive
        The chains' own log loss and calibration.
    y : array (n,)
    seconds : float

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP, assess
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import Probit
    >>> X, y = np.linspace(0, 3, 6)[:, None], np.array([1.0, 1.0, -1.0, -1.0, 1.0, 1.0])
    >>> model = GP(1.0 * SE(1.0), Probit())
    >>> found = assess(model, X, y, inference=["ep"], max_time=1.0, rng=0, progress=False)
    >>> found["ep"].name, sorted(found.verdicts)
    ('ep', ['ep'])
    """

    methods: tuple[MethodResult, ...]
    gold: GoldStandard
    gold_predictive: Predictive
    y: Array = field(repr=False)
    seconds: float = np.nan

    @property
    def certified(self) -> bool:
        """Whether the gold standard can be believed."""
        return self.gold.certified

    @property
    def verdicts(self) -> dict[str, str]:
        """One sentence per method."""
        return {method.name: verdict(method, self.gold) for method in self.methods}

    def __getitem__(self, name: str) -> MethodResult:
        for method in self.methods:
            if method.name == name:
                return method
        raise KeyError(f"no method {name!r} here, only {', '.join(m.name for m in self.methods)}")

    @property
    def frame(self) -> pd.DataFrame:
        """All numbers, one row per method and one for the gold standard."""
        import pandas as pd

        skip = {"predictive", "mean", "sd"}
        rows = [
            {k: v for k, v in vars(m).items() if k not in skip}
            | {k: v for k, v in vars(m.predictive).items() if k != "probability"}
            for m in self.methods
        ]
        rows.append(
            {
                "name": "MCMC",
                "converged": self.certified,
                "stage": "AIS and HMC",
                "failure": "",
                "log_evidence": self.gold.evidence.log_evidence,
                "evidence_standard_error": self.gold.evidence.standard_error,
                "seconds": self.gold.evidence.time + self.gold.chains.seconds,
                "log_loss": self.gold_predictive.log_loss,
                "calibration_error": self.gold_predictive.calibration_error,
            }
        )
        return pd.DataFrame(rows).set_index("name")

    def __rich__(self) -> Any:
        from rich import box
        from rich.console import Group
        from rich.table import Table

        table = Table(
            box=box.SIMPLE_HEAD,
            padding=(0, 1, 0, 0),
            pad_edge=False,
            title_justify="left",
            caption_justify="left",
            title="approximations against the gold standard",
            caption="error: nats; means: posterior sds; sds: relative; TV: marginals; loss: log loss",
        )
        table.add_column("method", no_wrap=True)
        frame = self.frame
        shown = {k: v for k, v in SHOWN.items() if k in frame and frame[k].notna().any()}
        for head, _ in shown.values():
            table.add_column(head, justify="right", no_wrap=True)
        for name, row in frame.iterrows():
            cells = ["" if np.isnan(row[k]) else form.format(row[k]) for k, (_, form) in shown.items()]
            table.add_row(label(str(name)), *cells)
        return Group(table, gold_words(self.gold) + ".", *self.verdicts.values())

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(width=110, color_system=None, highlight=False)
        with console.capture() as captured:
            console.print(self.__rich__())
        return captured.get().rstrip()

    def plot(self) -> Figure:
        """Means, sds and probabilities of each method against the chains, and the most skewed marginal."""
        return draw(self)


COLOR, GOLD = "#0072b2", "#999999"


def draw(assessment: Assessment) -> Figure:
    """The figure; save it with `figure.savefig(path)`."""
    from matplotlib.figure import Figure

    methods = [m for m in assessment.methods if not m.failure]
    if not methods:
        raise ValueError("no method of this assessment gave a result, so that there is nothing to draw")
    predictive = assessment.gold_predictive.probability
    columns = 3 + bool(len(predictive))
    figure = Figure(figsize=(3.2 * columns, 2.9 * len(methods)), dpi=130, layout="constrained")
    axes = figure.subplots(len(methods), columns, squeeze=False)
    F = assessment.gold.chains.pooled
    mean, sd = F.mean(axis=0), F.std(axis=0)
    skewed = int(np.argmax(np.abs(np.mean(((F - mean) / sd) ** 3, axis=0))))
    for row, method in zip(axes, methods):
        name = label(method.name)
        _scatter(row[0], mean, method.mean, "posterior mean of f", name)
        _scatter(row[1], sd, method.sd, "posterior sd of f", name)
        _marginal(row[2], F[:, skewed], method.mean[skewed], method.sd[skewed], skewed, name)
        if len(predictive):
            _scatter(row[3], predictive, method.predictive.probability, "predictive probability", name)
    return figure


def _scatter(axis: Any, gold: NDArray[Any], ours: NDArray[Any], what: str, name: str) -> None:
    low, high = (f(np.concatenate([gold, ours])) for f in (np.min, np.max))
    pad = 0.04 * (high - low) or 0.1
    axis.plot([low - pad, high + pad], [low - pad, high + pad], color="0.6", linewidth=1)
    axis.plot(gold, ours, "o", color=COLOR, markersize=3, alpha=0.6)
    axis.set(xlabel=f"{what}, MCMC", ylabel=f"{what}, {name}")
    axis.spines[["top", "right"]].set_visible(False)


def _marginal(axis: Any, draws: NDArray[Any], mean: float, sd: float, row: int, name: str) -> None:
    axis.hist(draws, bins=40, density=True, color=GOLD, label="MCMC")
    low, high = min(draws.min(), mean - 3 * sd), max(draws.max(), mean + 3 * sd)
    x = np.linspace(low, high, 200)
    axis.plot(x, np.exp(-0.5 * ((x - mean) / sd) ** 2) / (sd * np.sqrt(2 * np.pi)), color=COLOR, label=name)
    axis.set(xlabel=f"f at training row {row}, the most skewed", ylabel="density")
    axis.legend(frameon=False, fontsize=8)
    axis.spines[["top", "right"]].set_visible(False)
