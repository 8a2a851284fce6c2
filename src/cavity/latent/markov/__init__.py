"""The latent process as a Gaussian Markov process of one input: exact for kernels with a state-space form, O(n) time.

A covariance filter and one backward pass answer everything that the latent protocol asks (`passes` has
the recursions); the form of the kernel comes from `kernels.state_space`. Times may be irregular, repeated and in any
order. Sites may have either sign. With g_k = 1 + tau_k s_k the pivots of the filter, the posterior is proper if and
only if as many of the negative pivots belong to positive sites as to negative ones: g_k <= 0 alone says nothing, since
a later site may rescue an earlier one.

A derivative in the precisions, as Newton methods and gradients of marginal variances need it, is the imaginary part
of a pass with complex precisions.

Nothing is subtracted that is nearly equal: at long length scales and tiny noise this has more digits than a Cholesky
factorization of the covariance matrix.

`times` sorts the training times, `transitions` moves the state from one to the next, `passes` has the recursions,
`filtered` what the filter leaves; `prior`, `conditioning` and `process` are the latent protocol.
"""

from cavity.latent.markov.representation import Markov, has_exact_markov_form
from cavity.latent.markov.window import WINDOW

__all__ = ["WINDOW", "Markov", "has_exact_markov_form"]
