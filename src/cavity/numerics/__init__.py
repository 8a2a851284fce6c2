"""Numerical building blocks: Cholesky factors, tiles, threads, compiled passes, quadrature, special functions."""
