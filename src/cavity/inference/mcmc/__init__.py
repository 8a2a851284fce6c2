"""Markov chain Monte Carlo on the same model objects as the approximations."""
