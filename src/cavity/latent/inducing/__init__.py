"""Inducing inputs: m values u of the process stand for it at n training inputs, in O(n m^2) time and O(m^2) memory.

With K_uu = L L', V = L^-1 K_uf (m x n, made in blocks of rows), Q = V'V and d_i = k_ii - q_ii, what m values do not
know of f_i. `kinds` has the family of approximations, which differ in what they do with d, `choice` the choice of
inducing inputs, `prior` and `conditioning` the latent protocol, `pullback` its gradients, `certificate` what was lost.
Formulas: Quinonero-Candela and Rasmussen (2005), Titsias (2009), Bui, Yan and Turner (2017), Titsias (2025).
"""

from cavity.latent.inducing.certificate import EvidenceInterval
from cavity.latent.inducing.kinds import KINDS, Kind
from cavity.latent.inducing.representation import Inducing

__all__ = ["KINDS", "EvidenceInterval", "Inducing", "Kind"]
