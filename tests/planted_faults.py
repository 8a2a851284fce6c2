"""How many planted faults the tests find: signs, factors, limits off by one, swapped arguments, one at a time.

    python tests/planted_faults.py [--only TEXT] [--jobs N] [--first] [--list]

Each fault replaces one piece of text, which must occur exactly once in its file, in a copy of the project. The tests
that should notice first run there until one fails; only if all pass, those of the wider folders. A fault is found if a
test fails, and missed if all pass. The answers are "found", "missed", "text not found" (the code has changed: choose
another fault) and "not run" (no test ran). The exit code is 1 unless at least `LEAST` of the faults are found and the
text of each exists.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

ROOT = Path(__file__).resolve().parents[1]
LEAST = 78
"""Faults to be found, of the 82 below."""
COPIED = ("src", "tests", "benchmarks", "docs", "examples", "pyproject.toml", "README.md")
LONGEST = 240
"""Seconds for the tests of one fault; one that makes them run on for ever is found."""


@dataclass(frozen=True)
class Fault:
    """A replacement in a file of the package, the tests that should notice first, and folders that also might."""

    path: str
    old: str
    new: str
    first: str
    others: str = ""

    @property
    def wider(self) -> str:
        """Folders of tests; that of the file's package if none are named."""
        return self.others or self.path.split("/")[0]


FAULTS = [
    # --- kernels
    Fault(
        "kernels/squared_exponential.py",
        "H *= -0.5",
        "H *= -1.0",
        "kernels/test_kernel_properties.py -k pullback",
    ),
    Fault(
        "kernels/squared_exponential.py",
        "-0.5 * self._from_moments(sums[:-1])",
        "self._from_moments(sums[:-1])",
        "numerics/test_compiled.py",
        "kernels latent numerics inference",
    ),
    Fault("kernels/matern.py", "t * (1.0 / 3.0)", "t * (1.0 / 2.0)", "kernels/test_kernel_values.py"),
    Fault("kernels/matern.py", "t *= -1.5", "t *= -0.5", "kernels/test_kernel_properties.py -k pullback"),
    Fault(
        "kernels/bessel.py",
        "- gammaln(nu) + nu * np.log(safe)",
        "- gammaln(nu) - nu * np.log(safe)",
        "kernels/test_kernel_values.py",
    ),
    Fault(
        "kernels/periodic.py",
        "-TURN * each / period**2",
        "-TURN * each / period",
        "kernels/test_kernel_properties.py -k pullback",
    ),
    Fault(
        "kernels/gibbs.py",
        "0.5 * columns / lb + lb *",
        "0.5 * columns / lb - lb *",
        "kernels/test_kernel_properties.py -k pullback",
    ),
    Fault(
        "kernels/neural_network.py",
        "/ ((1.0 + 2.0 * q)",
        "/ ((1.0 + 1.0 * q)",
        "kernels/test_kernel_properties.py -k pullback",
    ),
    Fault(
        "kernels/rescaling.py",
        "g * a[1] ** 2)\n\n",
        "g * a[1])\n\n",
        "kernels/test_kernel_properties.py -k pullback",
    ),
    Fault(
        "kernels/gamma_exponential.py",
        "d_gamma = -0.5 *",
        "d_gamma = 0.5 *",
        "kernels/test_kernel_properties.py -k pullback",
    ),
    Fault(
        "kernels/jets/radial.py",
        "second = -0.5 * (a + 1.0)",
        "second = -0.5 * (a + 2.0)",
        "kernels/test_slopes.py -k derivatives",
    ),
    Fault(
        "kernels/jets/leaves.py",
        "0.5 * D * np.log(2.0)",
        "0.5 * np.log(2.0)",
        "kernels/test_slopes.py -k derivatives",
    ),
    # --- likelihoods
    Fault(
        "likelihoods/gaussian.py",
        "0.5 * np.log(tau / total)",
        "0.5 * np.log(total / tau)",
        "likelihoods/test_tilted.py",
    ),
    Fault(
        "likelihoods/student_t.py",
        "self._log_constant() - 0.5 * (self.df + 1)",
        "self._log_constant() - 0.5 * self.df",
        "likelihoods/test_likelihood_derivatives.py",
    ),
    Fault(
        "likelihoods/student_t.py",
        "nu / (nu - 2) if nu > 2",
        "nu / (nu - 1) if nu > 2",
        "likelihoods/test_likelihood_predictive.py likelihoods/test_multi_latent.py",
    ),
    Fault(
        "likelihoods/exponential_tails.py",
        "-0.5 * density / (sd * s)",
        "-density / (sd * s)",
        "likelihoods/test_likelihood_derivatives.py -k expected",
    ),
    Fault(
        "likelihoods/mixture_of_gaussians.py",
        "out[0, 0], out[0, 1] = -1 / (1 - pi), 1 / pi",
        "out[0, 0], out[0, 1] = 1 / pi, -1 / (1 - pi)",
        "likelihoods/test_likelihood_derivatives.py",
    ),
    Fault(
        "likelihoods/scale_mixture_loops.py",
        "6.0 * v * g2g",
        "3.0 * v * g2g",
        "likelihoods/test_compiled_moments.py",
    ),
    Fault(
        "likelihoods/exponential_tail_loops.py",
        "(-c3_down + z *",
        "(c3_down + z *",
        "likelihoods/test_compiled_moments.py",
    ),
    Fault(
        "likelihoods/log_concave_loops.py",
        "0.5 * t0 * (tau * t0)",
        "t0 * (tau * t0)",
        "likelihoods/test_compiled_moments.py",
    ),
    Fault(
        "likelihoods/binomial.py",
        "N * (N - 1) * p2",
        "N * N * p2",
        "likelihoods/test_likelihood_predictive.py",
    ),
    Fault(
        "likelihoods/poisson.py",
        "np.exp(f) - gammaln(y + 1)",
        "np.exp(f) - gammaln(y)",
        "likelihoods/test_likelihood_derivatives.py",
    ),
    Fault(
        "likelihoods/heteroscedastic.py",
        "np.exp(-mean[:, 1] + 0.5 * v_g)",
        "np.exp(-mean[:, 1] - 0.5 * v_g)",
        "likelihoods/test_likelihood_predictive.py likelihoods/test_multi_latent.py",
    ),
    Fault(
        "likelihoods/probit.py",
        "ds = -s * (1 - s)",
        "ds = s * (1 - s)",
        "likelihoods/test_likelihood_derivatives.py",
    ),
    Fault(
        "likelihoods/ordinal.py",
        "rest = 1 / (1 + precision)",
        "rest = 1 / (2 + precision)",
        "likelihoods/test_tilted.py",
    ),
    # --- latent
    Fault(
        "latent/prior_times_sites.py",
        "c * a, -0.5 * c * self.mean**2",
        "c * a, 0.5 * c * self.mean**2",
        "latent/test_contract.py",
    ),
    Fault(
        "latent/prior_times_sites.py",
        "sites.shift @ m - 0.5 * sites.precision",
        "sites.shift @ m - sites.precision",
        "latent/test_contract.py",
        "latent inference",
    ),
    Fault(
        "latent/prior_times_sites.py",
        "self.mean - cavity_var * self.weights",
        "self.mean + cavity_var * self.weights",
        "latent/test_contract.py",
        "latent inference",
    ),
    Fault(
        "latent/negative_sites.py",
        "np.eye(len(q)) - 0.5 * (inner + inner.T)",
        "np.eye(len(q)) + 0.5 * (inner + inner.T)",
        "latent/test_contract.py",
        "latent inference",
    ),
    Fault(
        "latent/negative_sites.py",
        "base.log_det + factor.log_det",
        "base.log_det - factor.log_det",
        "latent/test_contract.py",
        "latent inference",
    ),
    Fault(
        "latent/dense_conditioning.py",
        "explained[self.P] / self.root**2",
        "explained[self.P] / self.root",
        "latent/test_contract.py",
        "latent inference",
    ),
    Fault(
        "latent/posterior_process.py",
        "mean[:, None] + extra",
        "mean[:, None] - extra",
        "inference/test_exact.py",
        "latent means inference",
    ),
    Fault(
        "latent/posterior_process.py",
        "self._features(X).T - basis.projection.T @ cross",
        "self._features(X).T + basis.projection.T @ cross",
        "latent/test_posterior_process.py",
        "latent means inference",
    ),
    Fault(
        "latent/dense_multi_latent.py",
        "self.M.log_det - float(",
        "self.M.log_det + float(",
        "latent/test_several_functions.py inference/test_multilatent.py",
        "latent inference",
    ),
    Fault(
        "latent/prior_times_sites.py",
        "self.conditioning.log_det - explained + float(",
        "self.conditioning.log_det + explained + float(",
        "latent/test_contract.py",
        "latent inference",
    ),
    Fault(
        "latent/inducing/pullback.py",
        "- self.c * self.B_inverse",
        "+ self.c * self.B_inverse",
        "latent/test_inducing.py -k gradients",
    ),
    Fault(
        "latent/inducing/certificate.py",
        "0.5 * v.shape[1] * kind.excess(x)",
        "0.25 * v.shape[1] * kind.excess(x)",
        "latent/test_inducing.py -k gap",
    ),
    Fault(
        "latent/neighbors/cliques.py",
        "slope[x] = -0.5 * value[x] / base",
        "slope[x] = 0.5 * value[x] / base",
        "latent/test_neighbors.py -k definition",
    ),
    Fault(
        "latent/neighbors/gap.py",
        "lost = 0.5 * np.log(v / exact)",
        "lost = np.log(v / exact)",
        "latent/test_neighbors.py -k gap",
    ),
    Fault(
        "latent/markov/single.py",
        "-0.5 * (log_det + quadratic +",
        "-0.5 * (log_det - quadratic +",
        "latent/test_markov.py -k single",
    ),
    Fault(
        "latent/markov/single_matern.py",
        "0.5 * d_variance / variance, d_rate",
        "d_variance / variance, d_rate",
        "latent/test_markov.py -k single",
    ),
    # --- inference
    Fault(
        "inference/exact.py",
        "(LOG_2PI + np.log(noise)) - np.log(weight)",
        "(LOG_2PI + np.log(noise)) + np.log(weight)",
        "inference/test_exact.py",
    ),
    Fault(
        "inference/exact.py",
        "np.sum(1.0 / d[:, None] + scaled**2, axis=1)",
        "np.sum(1.0 / d[:, None] - scaled**2, axis=1)",
        "inference/test_exact.py",
    ),
    Fault(
        "inference/exact.py",
        "d_noise + 0.5 * T * (1.0 - w)",
        "d_noise - 0.5 * T * (1.0 - w)",
        "inference/test_exact.py",
    ),
    Fault(
        "inference/laplace/rule.py",
        "mode.a, -by_W * d.d3",
        "mode.a, by_W * d.d3",
        "inference/test_laplace.py",
    ),
    Fault(
        "inference/laplace/mode_search.py",
        "mode.value - 0.5 * float(",
        "mode.value - float(",
        "inference/test_laplace.py",
    ),
    Fault(
        "inference/laplace/several_functions.py",
        "-0.5 * weight[:, None] * likelihood.curvature_gradient",
        "0.5 * weight[:, None] * likelihood.curvature_gradient",
        "inference/test_multilatent.py",
    ),
    Fault(
        "inference/ep/state.py",
        "- 0.5 * (LOG_2PI + np.log(q.var[at]))",
        "+ 0.5 * (LOG_2PI + np.log(q.var[at]))",
        "inference/test_ep.py",
    ),
    Fault(
        "inference/ep/sequential.py",
        "mean[i] / variance - shift[i]",
        "mean[i] / variance + shift[i]",
        "inference/test_ep_sequential.py",
    ),
    Fault(
        "inference/variational/natural_gradient.py",
        "-2.0 * self.local.d_var",
        "-self.local.d_var",
        "inference/test_variational.py",
    ),
    # --- sampling
    Fault(
        "sampling/_indicators_compiled.py",
        "-0.5 * math.log(q) + 0.5 * delta",
        "-0.5 * math.log(q) - 0.5 * delta",
        "sampling/test_indicators.py",
    ),
    Fault(
        "sampling/hmc.py",
        "c * x + sine_out * q, c * q - sine_in * x",
        "c * x + sine_out * q, c * q + sine_in * x",
        "sampling/test_hmc.py",
    ),
    Fault(
        "sampling/hmc.py",
        "        if i < count - 1:\n            q += step",
        "        if i < count:\n            q += step",
        "sampling/test_hmc.py",
    ),
    Fault(
        "sampling/elliptical_slice.py",
        "other[left] * np.sin(a)",
        "other[left] * np.cos(a)",
        "sampling/test_calibration.py",
    ),
    Fault("sampling/psis.py", "np.sqrt(m / (grid - 0.5))", "np.sqrt(m / grid)", "sampling/test_psis.py"),
    Fault("sampling/diagnostics.py", "(C * T + 0.25)", "(C * T + 2.5)", "sampling/test_diagnostics.py"),
    Fault(
        "sampling/scale_mixture.py",
        "rng.standard_gamma(0.5 * (nu + 1.0)",
        "rng.standard_gamma(0.5 * nu",
        "sampling/test_scale_mixture.py",
    ),
    Fault(
        "sampling/annealing/runs.py",
        "(schedule[t] - schedule[t - 1])",
        "(schedule[t] - schedule[0])",
        "sampling/test_ais.py",
    ),
    Fault(
        "sampling/annealing/path.py",
        "float(nu @ m - 0.5 * tau @ m**2)",
        "float(nu @ m + 0.5 * tau @ m**2)",
        "sampling/test_annealing_parts.py",
        "sampling assessment",
    ),
    Fault(
        "sampling/slice_sampling.py",
        "level = value + np.log(rng.random())",
        "level = value - np.log(rng.random())",
        "sampling/test_calibration.py",
    ),
    # --- em
    Fault(
        "em/gaussian.py",
        "float(self.prior.dof) + d + 1",
        "float(self.prior.dof) + d",
        "em/test_mixture.py",
    ),
    Fault(
        "em/student_t.py",
        "u = (nu + d) / (nu + distance)",
        "u = nu / (nu + distance)",
        "em/test_mixture.py",
    ),
    Fault(
        "em/compiled_recursions.py",
        "xi[i, j] += math.exp(gamma[t, i] + work[j] - evidence)",
        "xi[i, j] += math.exp(gamma[t, j] + work[j] - evidence)",
        "em/test_compiled_passes.py",
    ),
    Fault(
        "em/selection.py",
        "float(np.log(n_data)) - 2.0 * loglik",
        "float(np.log(n_data)) - loglik",
        "em/test_mixture.py",
    ),
    Fault("em/baum_welch.py", "counts + concentration - 1.0", "counts + concentration", "em/test_hmm.py"),
    Fault(
        "em/covariances.py",
        "rotations = q * (q - 1) // 2",
        "rotations = q * (q + 1) // 2",
        "em/test_mixture.py",
    ),
    # --- control
    Fault(
        "control/uncertain_inputs/gaussian_bumps.py",
        "self.log_heights - 0.5 * np.linalg.slogdet(R)[1]",
        "self.log_heights - np.linalg.slogdet(R)[1]",
        "control/test_moments.py",
    ),
    Fault(
        "control/losses.py",
        "(inverse - v[..., :, None] * v",
        "(inverse + v[..., :, None] * v",
        "control/test_losses.py",
    ),
    Fault(
        "control/uncertain_inputs/trigonometric_moments.py",
        "np.exp(1j * theta - 0.5 * own)",
        "np.exp(1j * theta - own)",
        "control/test_trigonometric.py",
    ),
    Fault(
        "control/uncertain_inputs/cubature.py",
        "weights[0] = kappa / (r + kappa)",
        "weights[0] = 1.0 / (r + kappa)",
        "control/test_uncertain.py",
    ),
    Fault(
        "control/policies.py",
        "y @ c.T - 0.5 * np.einsum",
        "y @ c.T + 0.5 * np.einsum",
        "control/test_policies.py",
    ),
    # --- design
    Fault(
        "design/acquisition/improvement.py",
        "-ratio / s, -0.5 * ratio * z / variance",
        "-ratio / s, -ratio * z / variance",
        "design/test_improvement.py",
    ),
    Fault(
        "design/acquisition/entropy.py",
        "value = 0.5 * g * r - log_ndtr(g)",
        "value = 0.5 * g * r + log_ndtr(g)",
        "design/test_acquisitions.py",
    ),
    Fault("design/information.py", "gain += 0.5 * float(", "gain += float(", "design/test_acquisitions.py"),
    # --- forecasting
    Fault(
        "forecasting/scales.py",
        "+ 0.5 * self._scale.unit * self._of_z.variance",
        "+ self._scale.unit * self._of_z.variance",
        "forecasting/test_forecaster.py -k lognormal",
    ),
    Fault(
        "forecasting/time_axis.py",
        "12.0 / self.step if name",
        "6.0 / self.step if name",
        "forecasting/test_time_axis.py",
    ),
    # --- bayes
    Fault(
        "bayes/conjugate.py",
        "self.a + 0.5 * len(targets)",
        "self.a + len(targets)",
        "bayes/test_conjugate.py",
    ),
    Fault(
        "bayes/laplace_method.py",
        "(len(mode) * LOG_2PI - factor.log_det)",
        "(len(mode) * LOG_2PI + factor.log_det)",
        "bayes/test_gaussian_and_laplace.py",
    ),
    # --- theory
    Fault(
        "theory/spectral.py", "np.exp(-0.5 * level**2 / variance)", "np.exp(-(level**2) / variance)", "theory"
    ),
    Fault(
        "theory/kernel_comparison.py",
        "value += 0.5 * float(d @",
        "value += float(d @",
        "theory -k divergence",
    ),
    # --- rows
    Fault("rows/base.py", "found.append(X[here - first])", "found.append(X[here])", "rows"),
    Fault(
        "rows/parquet.py", "Part(file, group, a, b, first + a)", "Part(file, group, a, b, first + b)", "rows"
    ),
]


def copy_of_the_project(folder: Path) -> Path:
    """A copy without results of builds, in a folder of its own."""
    target = folder / "project"
    target.mkdir(parents=True)
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            # with machine code that Numba has kept, which is valid while times of files are
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("_build"))
        elif source.exists():
            shutil.copy2(source, target / name)
    return target


def compiled_with(path: Path, source: Path) -> list[Path]:
    """Modules whose kept machine code may contain that of a module: itself, and compiled ones that import it in turn.

    Numba compiles a function again if its own file has changed, not if one of those that it calls has.
    """
    compiled = {p: p.read_text("utf-8") for p in source.rglob("*.py")}
    compiled = {p: text for p, text in compiled.items() if "njit" in text}
    found = [path] if path in compiled else []
    for known in found:
        name = ".".join(known.relative_to(source).with_suffix("").parts)
        imports = f"from {name} import"
        found += [p for p, text in compiled.items() if imports in text and p not in found]
    return found


def forget(modules: list[Path]) -> None:
    """Delete the machine code that was kept of some modules."""
    for module in modules:
        for index in (module.parent / "__pycache__").glob(f"{module.stem}.*.nbi"):
            index.unlink()


def run_tests(project: Path, tests: str) -> tuple[str, str]:
    """("found" | "missed" | "not run", the first test that failed) of the tests in the copy."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not slow"]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    environment = {**os.environ, **threads, "PYTHONPATH": str(project / "src")}
    try:
        done = subprocess.run(
            [
                *command,
                *(f"tests/{word}" if (project / "tests" / word).exists() else word for word in tests.split()),
            ],
            cwd=project,
            env=environment,
            capture_output=True,
            text=True,
            timeout=LONGEST,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "found", f"not done within {LONGEST} s"
    answer = {0: "missed", 1: "found"}.get(done.returncode)
    if answer is None and "error" in done.stdout:  # a module that cannot be imported
        answer = "found"
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return answer or "not run", lines[0].split(" - ")[0] if lines else ""


def plant(fault: Fault, project: Path, parts: str) -> tuple[str, str]:
    """The answer for one fault by tests of these parts; the copy is as before afterwards."""
    path = project / "src" / "cavity" / fault.path
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if text.count(fault.old) != 1:
        return "text not found", f"{text.count(fault.old)} times in {fault.path}"
    answer, times, stale = ("text found", ""), path.stat(), compiled_with(path, project / "src")
    forget(stale)
    path.write_text(text.replace(fault.old, fault.new), encoding="utf-8")
    try:
        for part in parts.split():
            answer = run_tests(project, getattr(fault, part))
            if answer[0] == "found":
                break
    finally:
        path.write_text(text, encoding="utf-8")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        forget(stale)
    return answer


def main() -> int:
    """Plant each fault, print what became of it, and count."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="faults whose file contains this text")
    parser.add_argument(
        "--jobs", type=int, default=1, help="faults at the same time, each in a copy of its own"
    )
    parser.add_argument("--first", action="store_true", help="only the tests that should notice first")
    parser.add_argument("--list", action="store_true", help="say only whether the text of each fault exists")
    options = parser.parse_args()
    faults = [fault for fault in FAULTS if options.only in fault.path]
    parts = "" if options.list else "first" if options.first else "first wider"
    counts: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        copies: Queue[Path] = Queue()
        for k in range(1 if options.list else options.jobs):
            copies.put(copy_of_the_project(Path(folder) / str(k)))

        def one(fault: Fault) -> None:
            project, began = copies.get(), time.monotonic()
            answer, detail = plant(fault, project, parts)
            copies.put(project)
            counts[answer] = counts.get(answer, 0) + 1
            seconds = time.monotonic() - began
            print(f"{answer:<15}{seconds:6.0f} s  {fault.path}: {fault.old.strip()!r}  {detail}", flush=True)

        with ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(one, faults))
    print("RESULT", ", ".join(f"{answer}: {count}" for answer, count in sorted(counts.items())))
    least = LEAST * len(faults) / len(FAULTS)
    return int(not options.list and (counts.get("found", 0) < least or "text not found" in counts))


if __name__ == "__main__":
    sys.exit(main())
