"""Markov chain Monte Carlo and importance sampling: samplers, diagnostics, posteriors made of draws."""
