"""Prediction at a Gaussian input x ~ N(m, S): mean, covariance and gain of the outputs, exactly or by points.

`predict` chooses; `gaussian_moments` (squared exponential and linear parts), `polynomial_moments` and
`trigonometric_moments` are exact, `cubature` evaluates models at points, `posterior_means` is the case S = 0.
"""
