"""Answers for likelihoods that know only `log_prob`: adaptive quadrature and safe numerical differentiation."""

from __future__ import annotations
