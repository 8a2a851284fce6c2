"""Noise that is correlated in time or space, as a term of a kernel (Rasmussen and Williams, 2006, section 9.2).

Observations are y = f + e + what the likelihood adds, e with a covariance function of its own. `k + NoiseTerm(c)` is
the covariance of f + e. The mark is all there is: inference sees a sum, predictions of f leave the term out, and
predictions of new observations take it in.
"""

from __future__ import annotations

from typing import Any

from cavity.kernels.algebra import Sum
from cavity.kernels.base import Kernel
from cavity.kernels.wrapper import Wrapper
from cavity.runtime.errors import InputError


class NoiseTerm(Wrapper):
    """A term of a sum that is correlated noise: predictions of the function leave it out.

    Parameters
    ----------
    kernel : Kernel
        Covariance of the noise.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP
    >>> from cavity.kernels import SE, Matern, NoiseTerm
    >>> from cavity.likelihoods import Gaussian
    >>> model = GP(1.0 * SE(3.0) + NoiseTerm(0.5 * Matern(0.2, nu=0.5)), Gaussian(0.01))
    >>> x = np.linspace(0, 6, 30)[:, None]
    >>> posterior = model.condition(x, np.sin(x[:, 0]) + 0.3 * np.cos(9 * x[:, 0]))
    >>> posterior.predict_f(x).sd.mean() > posterior.predict_y(x).sd.mean()  # y there is f plus a noise that was seen
    np.True_
    """


def without_noise(kernel: Kernel) -> Kernel:
    """The covariance of the function: a sum without its noise terms; the kernel itself if it has none."""
    terms = kernel.terms if isinstance(kernel, Sum) else (kernel,)
    kept = [term for term in terms if not isinstance(term, NoiseTerm)]
    if len(kept) == len(terms):
        return kernel
    return kept[0] if len(kept) == 1 else Sum(*kept)


def with_noise(kernel: Any, noise: Any) -> Any:
    """The kernel of a model with a noise kernel, if there is one; both are checked."""
    if noise is not None:
        if not isinstance(kernel, Kernel):
            raise InputError(
                "is for models of one latent function",
                parameter="noise_kernel",
                value=noise,
                remedy="leave it out",
            )
        if not isinstance(noise, Kernel):
            raise InputError(
                f"must be a kernel, such as 0.1 * Matern(1.0, nu=0.5), got {noise!r}",
                parameter="noise_kernel",
                value=noise,
            )
        kernel = kernel + NoiseTerm(noise)
    for one in kernel if isinstance(kernel, list | tuple) else [kernel]:
        _require_terms(one, single=one is kernel)
    return kernel


def _require_terms(kernel: Any, single: bool) -> None:
    """Refuse noise that is no term of a sum, or all there is of it."""
    if not isinstance(kernel, Kernel):
        return
    terms = kernel.terms if isinstance(kernel, Sum) else (kernel,)
    marked = [isinstance(term, NoiseTerm) for term in terms]
    inside = any(
        _contains(part) for term, mark in zip(terms, marked) for part in (term.parts if mark else (term,))
    )
    if inside or (any(marked) and (all(marked) or not single)):
        raise InputError(
            f"NoiseTerm must be a term of a sum, beside the kernel of the function, got {kernel!r}",
            parameter="kernel",
            remedy="write k + NoiseTerm(noise), with factors and columns inside",
        )


def _contains(part: Any) -> bool:
    return isinstance(part, NoiseTerm) or any(_contains(inner) for inner in part.parts)
