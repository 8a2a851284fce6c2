"""Words of the trade that reports and commands use, in plain words; docs/glossary.md has the same list."""

from __future__ import annotations

GLOSSARY: dict[str, str] = {
    "held-out rows": "Rows that a second model did not learn from. Errors on them tell what to expect of new rows.",
    "typical error (RMSE)": "Root of the mean squared error, in units of the target. A few gross errors move it.",
    "median error": "Half of the rows are predicted better than this, half worse. Gross errors do not move it.",
    "log loss": "Mean of minus the logarithm of the density, or probability, that was predicted for what happened; the "
    "unit is the nat (0.69 nats are a factor of 2). It judges intervals and probabilities as well. Lower is better.",
    "SMSE": "Mean squared error over the variance of the held-out targets: 1 for guessing their mean, 0 for a "
    "perfect model.",
    "MSLL": "Log loss less that of guessing: zero for guessing, the further below zero the better.",
    "guessing, linear regression, gradient boosting": "Plain models on the same rows: whether a Gaussian process "
    "was worth it. Guessing knows no inputs.",
    "90 % interval": "Holds nine of ten new rows, if the model is right. Calibration counts how many it held; "
    "of counts and ratings, values at its ends in part, because whole numbers make it wider than it says.",
    "calibration": "Whether things happen as often as the model says.",
    "share of the variation": "How much of the variance of predictions is due to an input, alone or together with "
    "others, if inputs varied independently of each other (total Sobol index). If inputs act together, shares add up "
    "to more than 1.",
    "average along an input": "Prediction as one input changes, averaged over rows (partial dependence).",
    "length scale": "Distance, in units of a column, over which the function changes; over much less it hardly does.",
    "outlier": "A row that all other rows make improbable. Under robust noise it hardly counts.",
    "degrees of freedom": "Of Student-t noise: the fewer, the more gross errors; from 30 on it is nearly Gaussian.",
    "log evidence": "Logarithm of the probability of all targets under the model. Differences between models count: 3 "
    "is a factor of 20.",
    "inference": "How what the rows say about the function is computed: exactly (Gaussian noise), or by an "
    "approximation such as expectation propagation (EP) or Laplace's, or by Markov chains. cavity assess checks "
    "approximations.",
    "jitter": "A tiny number added to the diagonal of a matrix that rounding errors had spoilt. Zero is best.",
}
"""Words and their meaning, in the order in which a reader meets them."""
