"""Inference rules: how the likelihood factors become Gaussian sites."""
