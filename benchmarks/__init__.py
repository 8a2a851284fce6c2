"""Benchmarks against the floor of the numerical library and other packages: `python -m benchmarks NAME`."""
