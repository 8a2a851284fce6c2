"""Learned dynamics: transitions, a Gaussian process for each state variable, roll-outs, and systems drawn from them."""
