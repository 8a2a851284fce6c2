"""Representations of the Gaussian process at the training inputs: sites in, marginals out."""
