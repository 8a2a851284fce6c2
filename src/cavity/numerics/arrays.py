"""The type of numerical arrays that every module uses: double precision, shape in the docstrings."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
