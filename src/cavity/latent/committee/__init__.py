"""A committee of exact Gaussian processes, each of which knows a random part of the rows: O(n m^2) time.

A priori the parts count as independent: f ~ N(m, diag(K_1, .., K_P)), so that every inference rule runs part by part,
and the evidence is the product of theirs. What the members say elsewhere is combined (`process`). A baseline: with as
much time, inducing inputs or neighbors nearly always predict better.

Tresp (2000), the Bayesian committee machine (Rasmussen and Williams 2006, section 8.3.5); Cao and Fleet (2014),
generalized products of experts; Deisenroth and Ng (2015), robust ones.
"""

from cavity.latent.committee.representation import Committee

__all__ = ["Committee"]
