"""Annealed importance sampling: the evidence as a gold standard, with a certificate."""
