"""What pictures draw: the numbers in their lines, bands and bars, their labels, and names that are not mathematics."""

from __future__ import annotations

import io
import itertools
import subprocess
import sys

import matplotlib as mpl

mpl.use("Agg")

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from cavity import GP, GPClassifier, GPRegressor
from cavity import plots as P
from cavity.kernels import SE, Linear, Periodic
from cavity.likelihoods import Gaussian, StudentT
from cavity.measures.kernel_components import additive_components
from cavity.plots import style
from cavity.plots.contours import expected_losses
from cavity.plots.style import MARKERS, PALETTE, panels_or_new, plain
from cavity.plots.view import View
from cavity.sampling.mcmc import MCMC

HOSTILE = ["$x_1$^^", "_hidden", "\\frac{a}{", "a\nb\x00" + "z" * 80]


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def render(axes):
    """Draw for real: text is parsed and laid out only now."""
    first = axes[0] if isinstance(axes, list) else axes
    out = io.BytesIO()
    first.figure.savefig(out, dpi=40)
    assert out.getvalue().startswith(b"\x89PNG")


def fill_edges(collection):
    """x, low and high of a band."""
    vertices = collection.get_paths()[0].vertices
    x = np.unique(vertices[:, 0])
    return (
        x,
        np.array([vertices[vertices[:, 0] == v, 1].min() for v in x]),
        np.array([vertices[vertices[:, 0] == v, 1].max() for v in x]),
    )


def legend_texts(ax):
    return [t.get_text() for t in ax.get_legend().get_texts()]


@pytest.fixture(scope="module")
def one_input():
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 6, 25))
    y = np.sin(x) + 0.1 * rng.standard_normal(25)
    y[7] += 3.0
    return x[:, None], y


@pytest.fixture(scope="module")
def robust(one_input):
    kernel = 1.0 * SE(1.2)
    return GPRegressor(kernel, likelihood=StudentT(0.1, df=3.0), objective=None).fit(*one_input)


@pytest.fixture(scope="module")
def several():
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.uniform(-2, 2, (40, 4)), columns=HOSTILE)
    X[HOSTILE[3]] = rng.integers(0, 3, 40).astype(float)
    y = np.sin(X[HOSTILE[0]]) + 0.5 * X[HOSTILE[1]] + 0.2 * X[HOSTILE[3]]
    kernel = 1.0 * SE([1.0, 2.0, 50.0, 3.0])
    model = GPRegressor(kernel, likelihood=Gaussian(0.01), objective=None)
    return model.fit(X, y), X, y.to_numpy()


@pytest.fixture(scope="module")
def two_classes():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((40, 2))
    y = np.where(X[:, 0] + X[:, 1] > 0, "$yes", "_no")
    return GPClassifier(2.0 * SE(1.5), objective=None).fit(X, y), X, y


# --- fit ----------------------------------------------------------------------------------------------------


def test_fit_draws_mean_bands_and_data(robust, one_input):
    grid = np.linspace(0, 6, 31)
    ax = P.plot_fit(robust, grid=grid, truth=np.sin(grid), levels=(0.5, 0.9), title="$broken")
    mean, truth, data = ax.lines
    np.testing.assert_allclose(mean.get_ydata(), robust.predict(grid[:, None]))
    np.testing.assert_allclose(truth.get_ydata(), np.sin(grid))
    np.testing.assert_array_equal(
        np.column_stack(data.get_data()), np.column_stack([one_input[0], one_input[1]])
    )
    for band, level in zip(ax.collections, (0.9, 0.5)):
        x, low, high = fill_edges(band)
        np.testing.assert_allclose(x, grid)
        truth_low, truth_high = robust.predict_dist(grid[:, None]).interval(level)
        np.testing.assert_allclose(low, truth_low, atol=1e-9)
        np.testing.assert_allclose(high, truth_high, atol=1e-9)
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == ("x", "y", "$broken")
    assert {"mean", "data", "90% of y", "50% of y", "true function"} <= set(legend_texts(ax))
    render(ax)


def test_outliers_get_rings_that_grow_with_their_probability(robust, one_input):
    rings = P.plot_fit(robust).collections[-1]
    p = robust.outlier_probability_
    some = p >= 0.25
    assert some[7]
    np.testing.assert_allclose(
        rings.get_offsets(), np.column_stack([one_input[0][some, 0], one_input[1][some]])
    )
    np.testing.assert_array_equal(np.argsort(rings.get_sizes()), np.argsort(p[some]))
    given = np.linspace(0, 1, 25)
    rings = P.plot_fit(robust, outlier_probability=given).collections[-1]
    assert len(rings.get_offsets()) == np.sum(given >= 0.25)
    assert np.all(np.diff(rings.get_linewidths()) > 0)
    assert len(P.plot_fit(robust, outlier_probability=False).collections) == 2


def test_gaussian_noise_calls_nothing_an_outlier_and_data_can_be_others(one_input):
    posterior = GP(1.0 * SE(1.0), Gaussian(0.1)).condition(*one_input)
    ax = P.plot_fit(posterior, [1.0, 2.0], [0.5, 0.6], of="both")
    assert len(ax.collections) == 2
    np.testing.assert_array_equal(ax.lines[-1].get_xdata(), [1.0, 2.0])
    low = next(line for line in ax.lines if line.get_label() == "95% of f")
    x = np.asarray(low.get_xdata())[:, None]
    np.testing.assert_allclose(low.get_ydata(), posterior.predict_f(x).interval(0.95)[0])
    band = P.plot_fit(posterior, of="f", levels=[0.95]).collections[0]
    places, edge, _ = fill_edges(band)
    np.testing.assert_allclose(edge, posterior.predict_f(places[:, None]).interval(0.95)[0], atol=1e-9)


def test_fit_of_one_of_several_targets(one_input):
    X, y = one_input
    model = GPRegressor(1.0 * SE(1.0), objective=None).fit(X, np.column_stack([y, 10 + y]))
    grid = np.array([1.0, 2.0])
    ax = P.plot_fit(model, grid=grid, target=1)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), model.predict(grid[:, None])[:, 1])
    with pytest.raises(ValueError, match="target must be between 0 and 1"):
        P.plot_fit(model, target=2)


def test_fit_of_classes_draws_their_probabilities(one_input):
    X = one_input[0]
    labels = np.where(np.sin(X[:, 0]) > 0, "$up", "_down")
    model = GPClassifier(2.0 * SE(1.0), objective=None).fit(X, labels)
    grid = np.linspace(0, 6, 9)
    ax = P.plot_fit(model, grid=grid)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), model.predict_proba(grid[:, None])[:, 1])
    f = model.predict_latent(grid[:, None])
    from scipy.stats import norm

    _, low, high = fill_edges(ax.collections[0])
    np.testing.assert_allclose(low, norm.cdf(f.mean - 1.959964 * f.sd), atol=1e-6)
    np.testing.assert_allclose(high, norm.cdf(f.mean + 1.959964 * f.sd), atol=1e-6)
    assert "class _down" in legend_texts(ax)
    render(ax)
    three = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [2, 4])]
    model = GPClassifier(2.0 * SE(1.0), objective=None).fit(X, three)
    ax = P.plot_fit(model, grid=grid)
    total = sum(np.asarray(line.get_ydata()) for line in ax.lines[:3])
    np.testing.assert_allclose(total, 1.0)
    assert len({line.get_linestyle() for line in ax.lines[:3]}) == 3


def test_wrong_arguments_of_a_fit(robust, several):
    with pytest.raises(ValueError, match="one input, but the model has 4"):
        P.plot_fit(several[0])
    with pytest.raises(ValueError, match="of must be"):
        P.plot_fit(robust, of="z")
    with pytest.raises(ValueError, match="y was given without X"):
        P.plot_fit(robust, y=[1.0])
    with pytest.raises(ValueError, match="as many rows"):
        P.plot_fit(robust, [1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="outlier_probability must have shape"):
        P.plot_fit(robust, outlier_probability=[0.5])
    with pytest.raises(ValueError, match="not fitted"):
        P.plot_fit(GPRegressor())
    with pytest.raises(ValueError, match="fitted GPRegressor or GPClassifier"):
        P.plot_fit("model")
    with pytest.raises(ValueError, match="ax must be"):
        P.plot_fit(robust, ax="here")


# --- many inputs --------------------------------------------------------------------------------------------


def test_slices_go_through_the_point(several):
    model, X, _ = several
    at = X.iloc[3].to_numpy()
    panels = P.plot_slices(model, columns=[0, HOSTILE[3]], at=at, levels=(0.9,))
    smooth, codes = panels
    x, y = np.asarray(smooth.lines[0].get_xdata()), smooth.lines[0].get_ydata()
    rows = np.repeat(at[None], len(x), axis=0)
    rows[:, 0] = x
    np.testing.assert_allclose(y, model.posterior_.mean(rows))
    np.testing.assert_array_equal(codes.lines[0].get_xdata(), [0.0, 1.0, 2.0])
    assert smooth.get_ylim() == codes.get_ylim()
    assert smooth.get_xlabel() == HOSTILE[0]
    assert len(codes.get_xlabel()) <= 24
    render(panels)
    with pytest.raises(ValueError, match="no column is called"):
        P.plot_slices(model, columns=["other"])
    with pytest.raises(ValueError, match="at must have"):
        P.plot_slices(model, at=[1.0])
    with pytest.raises(ValueError, match="at least one"):
        P.plot_slices(model, columns=[])
    with pytest.raises(ValueError, match="between 0 and 3"):
        P.plot_slices(model, columns=[4])


def test_slices_of_many_inputs_are_the_nine_most_relevant():
    X = np.random.default_rng(0).standard_normal((30, 11))
    posterior = GP(1.0 * SE(np.r_[np.full(10, 50.0), 1.0]), Gaussian(0.01)).condition(X, X[:, 10])
    panels = P.plot_slices(posterior)
    assert len(panels) == 9
    assert panels[0].get_xlabel() == "x11"


def test_partial_dependence_is_an_average_of_its_rows(several):
    model, X, _ = several
    panels = P.plot_partial_dependence(model, columns=[0, 3], lines=5, max_rows=30)
    average = next(line for line in panels[0].lines if line.get_label() == "average")
    g = float(average.get_xdata()[7])
    rows = X.to_numpy()[np.linspace(0, 39, 30).astype(int)]
    rows[:, 0] = g
    np.testing.assert_allclose(average.get_ydata()[7], model.posterior_.mean(rows).mean())
    assert sum(line.get_linewidth() == 0.5 for line in panels[0].lines) == 5
    assert panels[0].get_ylabel() == "average of f"
    render(panels)


def test_partial_dependence_of_classes_averages_probabilities(two_classes):
    model, X, _ = two_classes
    (panel,) = P.plot_partial_dependence(model, columns=[1], lines=0)
    line = panel.lines[0]
    rows = X.copy()
    rows[:, 1] = line.get_xdata()[5]
    np.testing.assert_allclose(line.get_ydata()[5], model.predict_proba(rows)[:, 1].mean())
    assert line.get_label() == "P(_no)"
    render(panel)


def test_partial_dependence_of_several_targets_is_refused(one_input):
    X, y = one_input
    model = GPRegressor(1.0 * SE(1.0), objective=None).fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="one target"):
        P.plot_partial_dependence(model)


# --- contours -----------------------------------------------------------------------------------------------


def test_boundary_is_where_probabilities_are_even_and_rejects_where_they_are_close(two_classes):
    model, _, y = two_classes
    ax = P.plot_contours(model, reject=0.2, resolution=60)
    boundary = next(c for c in ax.collections if np.allclose(c.get_linewidths(), 1.6))
    points = np.vstack([p.vertices for p in boundary.get_paths() if len(p.vertices)])
    assert len(points) > 10
    np.testing.assert_allclose(model.predict_proba(points)[:, 1], 0.5, atol=0.01)
    assert [len(line.get_xdata()) for line in ax.lines] == [np.sum(y == "$yes"), np.sum(y == "_no")]
    assert len({line.get_marker() for line in ax.lines}) == 2
    assert legend_texts(ax) == ["class $yes", "class _no", "decision boundary", "declined at cost 0.2"]
    hatched = next(c for c in ax.collections if getattr(c, "hatches", [None])[0] == "////")
    edge = np.vstack([p.vertices for p in hatched.get_paths()])
    certainty = model.predict_proba(edge).max(axis=1)
    assert certainty.max() < 0.82  # the outline, and where it meets the frame anything below it
    assert np.median(certainty) > 0.75
    render(ax)


def test_boundary_follows_the_loss(two_classes):
    model, _, _ = two_classes
    loss = [
        [0.0, 1.0],
        [3.0, 0.0],
    ]  # missing the second class costs three times as much: decide for it above 1/4
    ax = P.plot_contours(model, loss=loss, resolution=60)
    boundary = next(c for c in ax.collections if np.allclose(c.get_linewidths(), 1.6))
    points = np.vstack([p.vertices for p in boundary.get_paths() if len(p.vertices)])
    np.testing.assert_allclose(model.predict_proba(points)[:, 1], 0.25, atol=0.01)


def test_margins_of_decisions_by_hand():
    p = np.array([[0.6, 0.3, 0.1]])
    margins, smallest = expected_losses(p, 1.0 - np.eye(3))
    np.testing.assert_allclose(margins, [[0.3, -0.3, -0.5]])
    np.testing.assert_allclose(smallest, [0.4])


def test_contours_of_three_classes(two_classes):
    X = two_classes[1]
    labels = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    for how in ("softmax", "one_vs_rest", "one_vs_one"):
        model = GPClassifier(2.0 * SE(1.5), objective=None, multi_class=how).fit(X, labels)
        given, found = View(model).data
        order, own = np.lexsort(X.T), np.lexsort(given.T)
        np.testing.assert_array_equal(given[own], X[order])
        np.testing.assert_array_equal(found[own], labels[order])
    ax = P.plot_contours(model, reject=0.3, resolution=20)
    assert len(ax.images) == 1
    assert len(ax.lines) == 3
    without = P.plot_contours(model, X, resolution=10)
    assert "class a" in legend_texts(without)
    render(ax)


def test_contours_of_numbers(several):
    model, X, _ = several
    ax = P.plot_contours(model, columns=(HOSTILE[1], 0), resolution=20)
    assert (ax.get_xlabel(), ax.get_ylabel()) == (HOSTILE[1], HOSTILE[0])
    np.testing.assert_allclose(ax.collections[-1].get_offsets(), X.iloc[:, [1, 0]].to_numpy())
    render(ax)
    with pytest.raises(ValueError, match="for classifiers"):
        P.plot_contours(model, reject=0.1)
    with pytest.raises(ValueError, match="two different"):
        P.plot_contours(model, columns=(0, 0))
    with pytest.raises(ValueError, match="at must have"):
        P.plot_contours(model, at=[0.0])


def test_contours_need_two_inputs(robust):
    with pytest.raises(ValueError, match="needs two inputs"):
        P.plot_contours(robust)


# --- relevance ----------------------------------------------------------------------------------------------


def test_relevance_bars_are_sorted_and_named(several):
    model, X, _ = several
    ax = P.plot_relevance(model, top=3)
    widths = [bar.get_width() for bar in ax.patches]
    assert widths == sorted(widths, reverse=True)
    value = P.relevance_of(model).value
    np.testing.assert_allclose(widths, np.sort(value)[::-1][:3])
    names = [t.get_text() for t in ax.get_yticklabels()]
    assert names == [plain(HOSTILE[d], 24) for d in np.argsort(-value)[:3]]
    assert "1 more not shown" in ax.get_xlabel()
    render(ax)
    ax = P.plot_relevance(model, measure="lengthscale")
    sd = X.to_numpy().std(axis=0) / [1.0, 2.0, 50.0, 3.0]
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], np.sort(sd)[::-1])
    with pytest.raises(ValueError, match="measure must be"):
        P.plot_relevance(model, measure="love")


# --- learning -----------------------------------------------------------------------------------------------


def test_starts_show_every_run(one_input):
    model = GPRegressor(n_restarts=2, random_state=0).fit(*one_input)
    ax = P.plot_runs(model)
    finite = [run.value for run in model.runs_ if np.isfinite(run.value)]
    gaps = sorted(max(finite) - v for v in finite)
    drawn = [float(line.get_ydata()[0]) for line in ax.lines if line.get_marker() in MARKERS]
    np.testing.assert_allclose(drawn, gaps)
    kinds = {t.get_text() for t in ax.get_xticklabels()}
    assert kinds <= {"data", "given", "random", "relocated"}
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the best on top
    render(ax)


def test_runs_far_apart_failed_and_not_converged():
    from types import SimpleNamespace

    def run(kind, theta, value, converged=True):
        return SimpleNamespace(kind=kind, theta=np.array([theta]), value=value, converged=converged)

    def estimator(*runs):
        return SimpleNamespace(members_=[SimpleNamespace(runs=one) for one in runs])

    runs = (run("data", 0.0, -5.0), run("random", 3.0, -300.0, False), run("given", 0.0, -np.inf))
    ax = P.plot_runs(estimator(runs))
    assert ax.get_yscale() == "symlog"
    assert [line.get_fillstyle() for line in ax.lines[:2]] == ["full", "none"]
    assert [t.get_text() for t in ax.texts] == ["failed"]
    render(ax)
    grouped = estimator(runs, runs[:1])
    assert len(P.plot_runs(grouped, problem=1).get_xticklabels()) == 1
    with pytest.raises(ValueError, match="problem must be"):
        P.plot_runs(grouped, problem=2)
    with pytest.raises(ValueError, match="no runs"):
        P.plot_runs(estimator(()))
    with pytest.raises(ValueError, match="fitted estimator"):
        P.plot_runs(3)


def test_hyperparameter_contours_mark_the_model(one_input, two_classes):
    X, y = one_input
    model = GPRegressor(1.0 * SE(1.0), objective=None).fit(X, y)
    names = model.model_.names
    ax = P.plot_hyperparameters(model, pair=(names[1], names[-1]), resolution=5)
    star = next(line for line in ax.lines if line.get_marker() == "*")
    np.testing.assert_allclose([star.get_xdata()[0], star.get_ydata()[0]], [1.0, model.likelihood_.variance])
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert (ax.get_xlabel(), ax.get_ylabel()) == (names[1], names[-1])
    assert f"{model.log_evidence_:.2f}" in legend_texts(ax)[0]
    render(ax)
    gp = GP(1.0 * SE(1.0), Gaussian(0.1))
    assert P.plot_hyperparameters(gp, X, y, resolution=3).get_xlabel() == "se.variance"
    with pytest.raises(ValueError, match="give X and y"):
        P.plot_hyperparameters(gp)
    classifier, Xc, yc = two_classes
    with_data = P.plot_hyperparameters(classifier, Xc, yc, resolution=3)
    assert legend_texts(with_data) == legend_texts(P.plot_hyperparameters(classifier, resolution=3))
    with pytest.raises(ValueError, match="y must be given"):
        P.plot_hyperparameters(classifier, Xc)
    with pytest.raises(ValueError, match="two free hyperparameters"):
        P.plot_hyperparameters(GP(SE(1.0).freeze(), Gaussian(0.1)), X, y)


# --- calibration --------------------------------------------------------------------------------------------


def test_pit_bars_and_band(robust, one_input):
    rng = np.random.default_rng(4)
    X = rng.uniform(0, 6, (200, 1))
    y = robust.predict_dist(X).sample(1, 5)[0]
    ax = P.plot_calibration(robust, X, y, bins=5)
    heights = [bar.get_height() for bar in ax.patches if hasattr(bar, "get_height") and bar.get_x() > -1]
    bars = heights[-5:]
    u = robust.predict_dist(X).cdf(y)
    np.testing.assert_allclose(bars, np.histogram(u, 5, (0, 1), density=True)[0])
    assert "200 rows" in ax.get_title()
    render(ax)
    assert "25 rows, leave-one-out" in P.plot_calibration(robust).get_title()
    with pytest.raises(ValueError, match="not seen"):
        P.plot_calibration(robust.posterior_)
    with pytest.raises(ValueError, match="y must be given"):
        P.plot_calibration(robust, X)


def test_reliability_diagram(two_classes):
    model, X, y = two_classes
    ax = P.plot_calibration(model, X, y, bins=2, event="$yes")
    p = model.predict_proba(X)[:, 0]
    points = ax.collections[-1].get_offsets()
    truth = [
        [p[p < 0.5].mean(), np.mean(y[p < 0.5] == "$yes")],
        [p[p >= 0.5].mean(), np.mean(y[p >= 0.5] == "$yes")],
    ]
    np.testing.assert_allclose(points, truth)
    assert ax.get_xlabel() == "stated probability of $yes"
    render(ax)
    with pytest.raises(ValueError, match="held-out data"):
        P.plot_calibration(model)


def test_residuals_and_their_quantiles(one_input):
    X, y = one_input
    model = GPRegressor(1.0 * SE(1.0), objective=None).fit(X, y)
    left, right = P.plot_residuals(model)
    loo = model.leave_one_out()
    z = (y - loo.mean) / loo.sd
    np.testing.assert_allclose(left.lines[-1].get_ydata(), z)
    np.testing.assert_allclose(left.lines[-1].get_xdata(), loo.mean)
    np.testing.assert_allclose(right.lines[-1].get_ydata(), np.sort(z))
    render([left, right])


def test_residuals_of_counts_and_of_one_target():
    X = np.linspace(0, 3, 12)[:, None]
    counts = np.arange(12.0)
    model = GPRegressor(1.0 * SE(1.0), likelihood="poisson", objective=None, inference="laplace").fit(
        X, counts
    )
    left, _ = P.plot_residuals(model, X, counts)
    assert len(left.lines[-1].get_ydata()) == 12
    both = GPRegressor(1.0 * SE(1.0), objective=None).fit(X, np.column_stack([counts, -counts]))
    a, b = (np.asarray(P.plot_residuals(both, target=t)[0].lines[-1].get_ydata()) for t in (0, 1))
    np.testing.assert_allclose(a, -b, atol=1e-9)


def test_residuals_beyond_all_digits_are_counted():
    from types import SimpleNamespace

    from cavity.prediction import MixturePrediction

    X = np.arange(3.0)[:, None]
    posterior = GP(1.0 * SE(1.0), Gaussian(0.1)).condition(X, np.zeros(3))
    far = MixturePrediction([0.0], np.zeros((1, 3)), np.ones((1, 3)))
    model = SimpleNamespace(
        get_params=None,
        predict=None,
        members_=[SimpleNamespace(posterior=posterior)],
        leave_one_out=lambda: far,
        rows_=SimpleNamespace(X=X, y=np.array([0.0, 1.0, 1e6]), index=np.arange(3)),
    )
    _, right = P.plot_residuals(model)
    assert right.get_title().startswith("1 residuals beyond")


def test_residuals_of_classes_are_refused(two_classes):
    with pytest.raises(ValueError, match="plot_calibration"):
        P.plot_residuals(two_classes[0])


def test_names_of_a_classifier_are_not_missed(two_classes, recwarn):
    _, X, y = two_classes
    model = GPClassifier(2.0 * SE(1.5), objective=None).fit(pd.DataFrame(X, columns=HOSTILE[:2]), y)
    ax = P.plot_contours(model, resolution=10)
    assert (ax.get_xlabel(), ax.get_ylabel()) == (HOSTILE[0], HOSTILE[1])
    assert not [w for w in recwarn if "feature names" in str(w.message)]
    panels = P.plot_slices(model)
    np.testing.assert_allclose(panels[0].get_ylim(), (-0.06, 1.06))
    with pytest.raises(ValueError, match="2 columns of the fit, got 3"):
        P.plot_contours(model, np.zeros((4, 3)))


# --- kernels and terms --------------------------------------------------------------------------------------


def test_kernel_curve_and_draws():
    left, right = P.plot_kernel("2.0 * SE(1.5)", paths=3, rng=1)
    x, k = left.lines[0].get_data()
    np.testing.assert_allclose(k, 2.0 * np.exp(-0.5 * (np.asarray(x) / 1.5) ** 2), atol=1e-12)
    np.testing.assert_allclose([x[0], x[-1]], [-6.0, 6.0])
    draws = GP(2.0 * SE(1.5)).sample_prior(np.asarray(x)[:, None], 3, 1)
    for line, f in zip(right.lines, draws):
        np.testing.assert_allclose(line.get_ydata(), f)
    assert len({line.get_linestyle() for line in right.lines}) == 3
    render([left, right])


def test_kernels_that_depend_on_the_place_get_three_curves():
    left, _ = P.plot_kernel(Linear(1.0) + SE(1.0).on(2), column=0, reach=4.0, paths=0)
    curves = [line for line in left.lines if len(line.get_xdata()) > 2]
    assert len(curves) == 3
    assert legend_texts(left)[0] == "from x = -2"
    with pytest.raises(ValueError, match="reach"):
        P.plot_kernel(SE(1.0), reach=-1.0)
    with pytest.raises(ValueError, match="cavity kernel"):
        P.plot_kernel(3)


def test_components_are_drawn_term_by_term(one_input):
    X, y = one_input
    posterior = GP(1.0 * SE(3.0) + 0.5 * Periodic(SE(1.0), period=2.0), Gaussian(0.05)).condition(X, y)
    panels = P.plot_components(posterior, centered=False)
    assert len(panels) == 2
    x = np.asarray(panels[0].lines[0].get_xdata())
    for panel, one in zip(panels, additive_components(posterior, x[:, None])):
        np.testing.assert_allclose(panel.lines[0].get_ydata(), one.mean)
        _, low, _ = fill_edges(panel.collections[0])
        np.testing.assert_allclose(low, one.mean - 1.959964 * one.sd, atol=1e-5)
        assert panel.get_title() == one.name
    render(panels)


def test_components_along_a_column_of_codes(several):
    _, X, y = several
    fitted = GPRegressor(1.0 * SE(1.0).on(0) + 1.0 * Linear().on(3), objective=None).fit(X, y)
    panels = P.plot_components(fitted, column=HOSTILE[3])
    assert len(panels) == 3  # two terms and the mean function
    np.testing.assert_array_equal(panels[1].lines[0].get_xdata(), [0.0, 1.0, 2.0])
    render(panels)
    with pytest.raises(ValueError, match="at must have"):
        P.plot_components(fitted, at=[1.0])
    with pytest.raises(ValueError, match="problem must be"):
        P.plot_components(fitted, problem=1)


# --- the sensible one, axes, text ---------------------------------------------------------------------------


def test_model_plot_chooses(robust, several, two_classes):
    assert robust.plot().get_ylabel() == "y"
    assert robust.posterior_.plot(title="here").get_title() == "here"
    assert two_classes[0].plot(resolution=10).get_xlabel() == "x1"
    assert len(several[0].plot()) == 4
    X = np.random.default_rng(0).standard_normal((20, 7))
    wide = GPRegressor(1.0 * SE(1.0), objective=None).fit(X, X[:, 0])
    assert len(wide.plot().patches) == 7
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        GPRegressor().plot()


def test_draws_are_plotted_as_traces():
    X = np.linspace(0, 5, 10)[:, None]
    rule = MCMC(n_draws=20, warmup=10, rng=0, warn=False, progress=False)
    posterior = GP(1.0 * SE(1.0), inference=rule).condition(X, np.sin(X[:, 0]))
    panels = posterior.plot()
    assert [p.get_ylabel() for p in panels] == list(posterior.draws.model.names)
    np.testing.assert_array_equal(panels[1].lines[0].get_ydata(), posterior.natural[0, :, 1])
    assert panels[1].get_legend() is None
    ax = P.plot_fit(posterior, grid=[1.0, 2.0])
    np.testing.assert_allclose(ax.lines[0].get_ydata(), posterior.mean([[1.0], [2.0]]))
    with pytest.raises(ValueError, match="no log evidence"):
        P.plot_hyperparameters(posterior)
    with pytest.raises(ValueError, match="one latent function"):
        P.plot_components(posterior)


def test_given_axes_are_used_and_divided(several, robust):
    figure = Figure()
    axes = figure.subplots(1, 2)
    assert P.plot_fit(robust, ax=axes[0]) is axes[0]
    panels = P.plot_slices(several[0], ax=axes[1])
    assert len(panels) == 4
    assert all(p.figure is figure for p in panels)
    inside = axes[1].get_position()
    assert all(inside.x0 - 1e-9 <= p.get_position().x0 <= inside.x1 for p in panels)
    by_hand = Figure().add_axes((0.1, 0.1, 0.8, 0.8))
    assert len(panels_or_new(by_hand, 3)) == 3
    two = list(Figure().subplots(1, 2))
    assert P.plot_residuals(robust, ax=two)[0] is two[0]
    with pytest.raises(ValueError, match="or 4 of them"):
        P.plot_slices(several[0], ax=two)


def test_what_looks_alike_in_grey_differs_in_line_and_marker():
    """Luminance of sRGB colors, as WCAG defines it: some pairs of the palette are close, so color is never alone."""
    channels = np.array([to_rgb(shade) for shade in PALETTE])
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    luminance = linear @ [0.2126, 0.7152, 0.0722]
    close = [
        (i, j)
        for i, j in itertools.combinations(range(len(PALETTE)), 2)
        if (max(luminance[[i, j]]) + 0.05) / (min(luminance[[i, j]]) + 0.05) < 1.5
    ]
    assert close
    assert luminance.max() < 0.5  # a line is seen on white
    for i, j in close:
        assert style.color(i) != style.color(j)
        assert style.line(i) != style.line(j)
        assert style.marker(i) != style.marker(j)


def test_names_are_shown_as_they_are():
    assert plain("$x_1$^^") == "$x_1$^^"
    assert plain("a\nb\x00c") == "a b c"
    assert len(plain("z" * 99)) == 40


def test_importing_plots_does_not_import_matplotlib():
    code = "import sys, cavity.plots; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
