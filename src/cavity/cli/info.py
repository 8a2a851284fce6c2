"""`cavity info`: what is in a model file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cavity.cli.shared import Debug, load_model, one_sentence, say


def info(
    model: Annotated[Path, typer.Argument(help="Model file.", show_default=False)], debug: Debug = False
) -> None:
    """Show what is in a model file: data, model, hyperparameters, scores, outliers.

    Example: cavity info houses.cavity
    """
    with one_sentence(debug):
        from cavity.cli.summary import show, show_verdict
        from cavity.io import header
        from cavity.tables import OutputsModel, TableModel

        loaded = load_model(model)
        written = header(model)
        by = written["written_by"]
        say(
            f"{model}: format {written['version']}, written by cavity {by.get('cavity', 'unknown')}, "
            f"{model.stat().st_size / 1024:.1f} kB."
        )
        if isinstance(loaded, TableModel):
            show(loaded)
            show_verdict(loaded)
        elif isinstance(loaded, OutputsModel):
            from cavity.cli.outputs import show_outputs, show_outputs_verdict

            show_outputs(loaded)
            show_outputs_verdict(loaded)
        else:
            for line in _describe(loaded):
                say(line)


def _describe(model: Any) -> list[str]:
    """A model that was saved from Python."""
    if hasattr(model, "family_"):
        return _mixture(model)
    posteriors = [member.posterior for member in getattr(model, "members_", [])] or [model]
    lines = [f"{type(model).__name__} saved from Python."]
    for one in (getattr(posterior, "model", posterior) for posterior in posteriors):
        lines += [f"kernel: {one.kernel!r}", f"noise model: {one.likelihood!r}", f"mean: {one.mean!r}"]
    for posterior in posteriors:
        if hasattr(posterior, "draws"):
            verdict = "the chains have converged" if posterior.problem is None else posterior.problem
            lines.append(f"{posterior!r}: {verdict}")
    evidence = getattr(model, "log_evidence_", getattr(model, "log_evidence", None))
    if evidence is not None and evidence == evidence:
        lines.append(f"log evidence: {evidence:.4g}")
    return lines


def _mixture(model: Any) -> list[str]:
    """A mixture or a hidden Markov model."""
    states = hasattr(model, "transmat_")
    size = model.n_states_ if states else model.n_components_
    lines = [
        f"{type(model).__name__} saved from Python.",
        f"{size} {'state' if states else 'component'}{'' if size == 1 else 's'} of {type(model.family_).__name__}, "
        f"{model.n_features_in_} columns",
    ]
    shares = model.startprob_ if states else model.weights_
    lines.append(f"{'start probabilities' if states else 'weights'}: {', '.join(f'{w:.3g}' for w in shares)}")
    if hasattr(model, "log_likelihood_"):
        lines.append(f"log likelihood: {model.log_likelihood_:.4g} ({model.status_})")
    return lines
