"""What `dask.distributed` adds to an evaluation of inducing inputs: processor time of client and scheduler over that of
two workers, at n m^2 = 1.5e10 (60,000 rows of 8 columns, m = 500), evidence with its gradient.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from cavity import GP
from cavity.kernels import SE
from cavity.latent.inducing import Inducing
from cavity.likelihoods import Gaussian

ROWS, COLUMNS, INDUCING, PARTS = 60_000, 8, 500, 4


def write(folder: Path, rows: int, parts: int) -> None:
    """Parquet files of a smooth function with noise."""
    rng = np.random.default_rng(0)
    for k in range(parts):
        X = rng.uniform(-2, 2, size=(rows // parts, COLUMNS))
        y = np.sin(2 * X[:, 0]) * np.cos(X[:, 1]) + 0.3 * X[:, 2] ** 2 + 0.1 * rng.standard_normal(len(X))
        frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(COLUMNS)])
        frame.assign(y=y).to_parquet(folder / f"{k:03d}.parquet")


def dask_overhead(rounds: int = 3) -> float:
    """Median over rounds."""
    from distributed import Client, LocalCluster

    from cavity.rows import DaskRows, read_parquet

    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        write(Path(folder), ROWS, PARTS)
        rows, y = read_parquet(folder, "y")
        source = DaskRows.of_parquet(rows, client)
        kernel = 1.0 * SE(np.full(COLUMNS, 1.5))
        model = GP(kernel, Gaussian(0.01), representation=Inducing(INDUCING, learn=True))
        bound, data = model.training(source, y)
        bound.evidence_of(data)  # compiles
        found = []
        for _ in range(rounds):
            begin, theirs = time.process_time(), sum(client.run(time.process_time).values())
            bound.evidence_of(data)
            own = time.process_time() - begin
            found.append(own / (sum(client.run(time.process_time).values()) - theirs))
    return float(np.median(found))


if __name__ == "__main__":
    print(f"dask_overhead={dask_overhead():.3f}")
