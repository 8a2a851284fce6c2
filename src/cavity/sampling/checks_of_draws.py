"""Whether draws may be believed: diagnostics of all quantities that were drawn, and the verdict.

Draws are believed if R-hat is at most 1.01 and both effective sample sizes, of bulk and tails, are at least 100 per
chain, for every hyperparameter and every latent value (Vehtari et al. 2021); for the log density only R-hat counts.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from cavity.inference.base import Stage, Status
from cavity.numerics.arrays import Array
from cavity.runtime.errors import InPython, Message, Part, Setting
from cavity.sampling.diagnostics import ess_bulk, ess_tail, mcse_mean, rhat
from cavity.sampling.draws import Draws

WORST_RHAT = 1.01
LEAST_ESS_PER_CHAIN = 100
MOST_DIVERGENT = 0.01
"""Largest share of divergent trajectories."""

LOG_DENSITY = "log_density"

PRIORS = "give the hyperparameters more informative priors"
SHOWN = InPython("; diagnostics() and plot_trace show which of them mix badly")


class DiagnosticTable(NamedTuple):
    """Diagnostics of k quantities, one column each: names, and arrays (k,)."""

    name: list[str]
    mean: Array
    sd: Array
    rhat: Array
    ess_bulk: Array
    ess_tail: Array
    mcse_mean: Array


class Convergence:
    """Checks of the chains that made some draws."""

    def __init__(self, draws: Draws) -> None:
        self.draws, self.trace = draws, draws.trace

    @cached_property
    def table(self) -> DiagnosticTable:
        """Hyperparameters in natural units, the log density, the number of outliers, and latent values last."""
        names, x = self._quantities()
        mean = x.mean(axis=(0, 1))
        sd = x.std(axis=(0, 1), ddof=1) if x.shape[0] * x.shape[1] > 1 else np.zeros(x.shape[2])
        if self.trace.draws < 4:
            unknown = np.full(len(names), np.nan)
            return DiagnosticTable(names, mean, sd, unknown, unknown, unknown, unknown)
        with np.errstate(all="ignore"):
            return DiagnosticTable(names, mean, sd, rhat(x), ess_bulk(x), ess_tail(x), mcse_mean(x))

    def _quantities(self) -> tuple[list[str], Array]:
        """Names and draws (C, T, k) of everything that is diagnosed."""
        d, t = self.draws, self.trace
        names = [*d.model.names, LOG_DENSITY]
        columns = [d.natural, t.log_density[:, :, None]]
        if d.indicators is not None:
            names.append("outliers")
            columns.append(d.indicators.sum(axis=2, dtype=float)[:, :, None])
        if d.latent is not None:
            names += [f"f[{','.join(map(str, index))}]" for index in np.ndindex(d.latent.shape[2:])]
            columns.append(d.latent.reshape(t.chains, t.draws, -1))
        return names, np.concatenate(columns, axis=2)

    def frame(self, latent: bool = False) -> Any:
        """The table as a DataFrame with the names as its index; latent values only on request."""
        import pandas as pd

        table = pd.DataFrame(self.table._asdict()).set_index("name")
        return table if latent else table[~table.index.str.startswith("f[")]

    @cached_property
    def problem(self) -> Message | None:
        """Why the draws should not be believed yet, with the remedy; None if they may."""
        found = self._failed_checks()
        if not found:
            return None
        because = () if self.trace.stopped is None else (*self._stopped_early, ", and ")
        failed = (*because, f"the chains have not converged: {'; '.join(found)}")
        return Message(failed, remedy=(*self._how_to_sample_longer, PRIORS, SHOWN))

    @property
    def notice(self) -> Message | None:
        """What a user should know about the draws: the `problem`, or that there are fewer than were asked for."""
        if self.problem is not None or self.trace.stopped is None:
            return self.problem
        return Message((*self._stopped_early, "; the draws made so far are kept"))

    def _failed_checks(self) -> list[str]:
        table, t = self.table, self.trace
        constant = table.sd == 0
        least = LEAST_ESS_PER_CHAIN * t.chains
        found = []
        if t.draws < 4:
            found.append(f"only {t.draws} draws per chain were made")
        worst = np.where(constant, 1.0, np.nan_to_num(table.rhat, nan=1.0))
        if np.max(worst, initial=1.0) > WORST_RHAT:
            at = int(np.argmax(worst))
            found.append(f"R-hat of {table.name[at]} is {worst[at]:.3f}, above {WORST_RHAT}")
        ess = np.fmin(table.ess_bulk, table.ess_tail)
        ess = np.where(constant | np.isnan(ess) | (np.array(table.name) == LOG_DENSITY), np.inf, ess)
        if np.min(ess, initial=np.inf) < least:
            at = int(np.argmin(ess))
            found.append(f"the effective sample size of {table.name[at]} is {ess[at]:.0f}, below {least}")
        diverged = int(np.sum(t.divergences))
        if diverged > MOST_DIVERGENT * t.chains * t.draws:
            found.append(f"{diverged} of {t.chains * t.draws} trajectories diverged")
        return found

    @property
    def _how_to_sample_longer(self) -> tuple[Part, ...]:
        if self.trace.stopped is not None:
            return ("let them run longer, or ",)
        draws = 2 * max(self.trace.draws, 500)
        longer = Setting("draws", draws, f"inference=MCMC(n_draws={draws}, extend_to={4 * draws})")
        return ("sample longer, as in ", longer, InPython(", which goes on until all checks pass"), ", or ")

    @property
    def _stopped_early(self) -> tuple[Part, ...]:
        """That there are fewer draws than were asked for, and why; nothing if that is not so."""
        t = self.trace
        if t.stopped is None:
            return ()
        return "sampling was stopped early (", *t.stopped.parts, f"), after {t.draws} draws of each chain"

    @cached_property
    def status(self) -> Status:
        """The verdict in the form of every inference rule; the residual is the worst R-hat."""
        total = self.trace.draws + self.trace.warmup
        worst = float(np.nanmax(self.table.rhat, initial=1.0))
        message = "" if self.notice is None else str(self.notice)
        return Status(
            self.problem is None, Stage.SAMPLING, total, worst, message=message, detail=self.draws.method
        )
