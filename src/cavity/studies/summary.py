"""Summary of a study: *ours | published | difference*, with the noise of folds beside it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from cavity.studies.base import Results, Study

COLUMNS = ("measure", "ours", "fold noise", "cells", "failed", "published", "difference", "target")


def summarize(study: Study, results: Results) -> pd.DataFrame:
    """One row per group of labels and measure.

    "fold noise" is the standard error of the mean over the cells of a group (folds or data sets); "difference" is ours
    minus the published number. Cells that failed are counted, never left out silently. Targets are for the study, so
    that the cut-down version is not judged by them.
    """
    frame = results.frame
    judged = not (results.quick and study.quick_note)
    rows = []
    if frame.empty:
        return pd.DataFrame(columns=[*study.by, *COLUMNS])
    for values, group in frame.groupby(list(study.by), sort=False, dropna=False):
        labels = dict(zip(study.by, values))
        failed = int((group["error"] != "").sum())
        for measure in study.measures:
            if measure not in group:
                continue
            found = group[measure].dropna().to_numpy(dtype=float)
            if not len(found) and not failed:
                continue
            beside = _beside(study, labels, measure, found, judged)
            rows.append({**labels, **_row(found, measure, failed), **beside})
    return pd.DataFrame(rows, columns=[*study.by, *COLUMNS])


def _row(found: np.ndarray, measure: str, failed: int) -> dict[str, object]:
    noise = float(np.std(found, ddof=1) / np.sqrt(len(found))) if len(found) > 1 else np.nan
    ours = float(np.mean(found)) if len(found) else np.nan
    return {"measure": measure, "ours": ours, "fold noise": noise, "cells": len(found), "failed": failed}


def _beside(
    study: Study, labels: dict[str, object], measure: str, found: np.ndarray, judged: bool
) -> dict[str, float | str]:
    """The published number and the target for these labels, if there are any."""
    ours = float(np.mean(found)) if len(found) else np.nan
    out: dict[str, float | str] = {"published": np.nan, "difference": np.nan, "target": ""}
    for p in study.published:
        if p.measure == measure and all(labels.get(k) == v for k, v in p.labels.items()):
            out["published"], out["difference"] = p.value, ours - p.value
    for t in study.targets:
        if t.measure == measure and all(labels.get(k) == v for k, v in t.labels.items()):
            value = t.of(found)
            shown = "" if t.statistic == "mean" else f"{t.statistic} {value:.4g} "
            verdict = "not judged" if not judged else "met" if t.met(value) else "missed"
            out["target"] = f"{shown}{t.sense} {t.bound:g}: {verdict}"
    return out


def cpu_per_fit(frame: pd.DataFrame) -> str:
    """A remark: mean processor time of a cell of each method."""
    times = frame.groupby("method", sort=False)["cpu_seconds"].mean().dropna()
    return "CPU seconds per fit: " + ", ".join(f"{m} {v:.3g}" for m, v in times.items())


def as_markdown(table: pd.DataFrame) -> str:
    """The summary as a table of a text page; numbers with four digits, gaps if nothing was published."""

    def text(value: object) -> str:
        if isinstance(value, float | np.floating):
            return "" if np.isnan(value) else f"{value:.4g}"
        return str(value).replace("|", "\\|")

    head = list(table.columns)
    lines = ["| " + " | ".join(map(str, head)) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(text(v) for v in row) + " |" for row in table.itertuples(index=False)]
    return "\n".join(lines)
