"""A choice in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cavity import kernels
from cavity.gp import GP
from cavity.kernels import Kernel
from cavity.learning.choice.kinds import Kind, TargetKind
from cavity.learning.choice.result import Candidate, Choice
from cavity.learning.choice.screening import Trial
from cavity.likelihoods import Clipped, Likelihood, PositiveWarp, WarpedTarget
from cavity.parameters.per_latent import PerLatent
from cavity.runtime.errors import Message, Setting

NOISES = {
    "Gaussian": "Gaussian noise",
    "StudentT": "Student-t noise",
    "MixtureOfGaussians": "regular noise with gross errors",
    "IntervalWarp": "noise that shrinks towards both ends of the range (a logit of the target)",
    "Poisson": "Poisson counts",
    "NegativeBinomial": "negative binomial counts",
    "OrdinalProbit": "ordered categories",
    "HeteroscedasticGaussian": "Gaussian noise whose level changes with the inputs",
    "Probit": "class probabilities (probit)",
    "Logit": "class probabilities (logit)",
    "LapseProbit": "class probabilities (probit, with lapses)",
    "OneVsRest": "class probabilities, each class against the rest",
}
"""By class of the likelihood or its warp."""

NEARLY_LOG, NEARLY_STRAIGHT = 0.05, 5.0
"""Bends below which a warp is a logarithm for all purposes, and above which it is a straight line."""


def noise_in_words(likelihood: Likelihood) -> str:
    """The noise as a noun."""
    if isinstance(likelihood, WarpedTarget):
        robust = (
            "" if type(likelihood.noise).__name__ == "Gaussian" else f", {noise_in_words(likelihood.noise)}"
        )
        if isinstance(likelihood.warp, Clipped):
            return f"{noise_in_words(likelihood.noise)}, with intervals that end where the range does"
        if not isinstance(likelihood.warp, PositiveWarp):
            return NOISES[type(likelihood.warp).__name__] + robust
        bend = float(likelihood.warp.bend)
        if bend < NEARLY_LOG:
            return "noise proportional to the target (a logarithm of it)" + robust
        if bend > NEARLY_STRAIGHT:
            return "noise that shrinks near zero (a warp of the target)" + robust
        return "noise that grows with the target (a warp between its logarithm and itself)" + robust
    name = type(likelihood).__name__
    return NOISES.get(name, f"{name} noise")


def kernel_in_words(kernel: Any) -> str:
    """The kernel as a noun: its function, line and seasons."""
    if isinstance(kernel, PerLatent):
        kernel = next(iter(kernel.parts))
    parts = list(_parts(kernel))
    found = []
    own = [part for part in parts if isinstance(part, kernels.SE | kernels.Matern)]
    if own:
        shape = "a rough function" if isinstance(own[0], kernels.Matern) else "a smooth function"
        each = np.size(own[0].lengthscale) > 1
        columns = np.size(own[0].lengthscale) if each else _columns(parts)
        scales = " with a length scale for each column" if each else " with one length scale for all columns"
        found.append(shape + (scales if columns > 1 else ""))
    if any(isinstance(part, kernels.Linear) for part in parts):
        found.append("a linear trend")
    if any(isinstance(part, kernels.Periodic) for part in parts):
        found.append("a season")
    if not found:
        return f"the kernel {kernel!r}"
    return " and ".join([*([", ".join(found[:-1])] if found[1:] else []), found[-1]])


def _parts(kernel: Kernel) -> list[Kernel]:
    """All kernels that one is made of, in order; not those inside a season."""
    found = [kernel]
    if not isinstance(kernel, kernels.Periodic):
        for part in kernel.parts:
            found += _parts(part)  # type: ignore[arg-type]
    return found


def _columns(parts: Sequence[Kernel]) -> int:
    return max((len(part.scale) for part in parts if isinstance(part, kernels.Standardized)), default=1)


def chosen_in_words(model: GP) -> Message:
    """A sentence."""
    noise = noise_in_words(model.likelihood)
    return Message((f"{noise[:1].upper()}{noise[1:]}; {kernel_in_words(model.kernel)}.",))


def override(*names: str) -> Message:
    """How to have another."""
    listed = [part for i, name in enumerate(names) for part in ((" and ",) if i else ()) + (Setting(name),)]
    return Message(("Another is asked for by ", *listed, "."))


def in_sentences(
    trials: Sequence[Trial],
    best: Trial | None,
    model: GP,
    kind: TargetKind | None,
    seen: Sequence[Message],
) -> Choice:
    """The choice in sentences."""
    listed = sorted(trials, key=lambda trial: -trial.score)
    reasons = list(seen)
    if kind is not None and kind.kind is not Kind.REAL:
        reasons.insert(0, Message((f"The targets look like {kind.words}.",)))
    if len(listed) > 1:
        reasons.append(Message((f"{len(listed)} kinds of model were compared on rows left out.",)))
    return Choice(
        chosen_in_words(model),
        tuple(reasons),
        tuple(Candidate(one.name, one.score, best is not None and one.name == best.name) for one in listed),
        override("likelihood", "kernel") if kind is not None else override("kernel"),
    )
