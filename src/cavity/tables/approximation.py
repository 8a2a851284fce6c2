"""What the representation of many rows loses of the model, in a sentence, and what would help."""

from __future__ import annotations

from typing import Any

import numpy as np

from cavity.latent.inducing import Inducing
from cavity.runtime.errors import Message, Setting

NATS, SHARE = 0.05, 0.1
"""Loss of evidence a row, and share of information lost, from which more inducing inputs are proposed."""

NAMES = {
    "inducing": "inducing inputs",
    "neighbors": "neighbours",
    "latent_neighbors": "neighbours",
    "committee": "a committee",
}
"""Representations in words."""


def approximation_of(estimator: Any) -> list[Message]:
    """A sentence for each approximate representation, and one for what was tried; none if nothing is approximate."""
    found: list[Message] = []
    for member in estimator.members_:
        status, representation = member.posterior.status, member.model.representation
        if not representation.approximates or status.gap_kind == "exact":
            continue
        held = NAMES.get(representation.name, representation.name)
        if status.gap_kind == "window":
            found.append(
                Message(
                    (
                        f"{status.approximation_gap:.2g} nats a row of the log evidence are lost, measured on "
                        "consecutive rows, because the kernel has no exact state-space form",
                    )
                )
            )
            continue
        many = f"{representation.m} {held}" if isinstance(representation, Inducing) else held
        found.append(
            Message(
                (f"{many} stand for {len(member.rows.index)} rows: {_lost(status)}",), remedy=_remedy(member)
            )
        )
        if status.trials:
            scores = ", ".join(
                f"{NAMES.get(name, name)} {'failed' if score == -np.inf else f'{score:.3f}'}"
                for name, score in status.trials
            )
            found.append(Message((f"log density of rows held out for the choice, a row: {scores}",)))
    return list(dict.fromkeys(found))


def _lost(status: Any) -> str:
    information = f"{status.lost_information:.2g} of the rows' information does not reach them"
    if not np.isfinite(status.approximation_gap):
        return f"{information}; how far the log evidence is off is not known"
    how = "at most" if status.gap_kind == "certified" else "by an estimate from some rows at most"
    return (
        f"the log evidence is too low by {how} {status.approximation_gap:.2g} nats a row, and {information}"
    )


def _remedy(member: Any) -> tuple[Any, ...]:
    status, representation = member.posterior.status, member.model.representation
    poor = status.approximation_gap > NATS or status.lost_information > SHARE
    if not poor or not isinstance(representation, Inducing):
        return ()
    return ("use ", Setting("n_inducing", 2 * representation.m), ", which takes about four times as long")
