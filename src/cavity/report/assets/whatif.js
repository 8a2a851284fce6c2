// What if: predictions of the model in this page, for inputs that the reader sets. See cavity/report/whatif.py.
const cavity = (() => {
  const numbers = (text) => {
    const raw = atob(text), bytes = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i += 1) { bytes[i] = raw.charCodeAt(i); }
    const view = new DataView(bytes.buffer), out = new Float64Array(bytes.length / 8);
    for (let i = 0; i < out.length; i += 1) { out[i] = view.getFloat64(8 * i, true); }
    return out;
  };

  // --- special functions ---
  const ROOT_PI = Math.sqrt(Math.PI);
  // exp(x^2) erfc(x) for x >= 2, by its continued fraction from the end
  const scaledErfc = (x) => {
    let t = 0;
    for (let k = Math.ceil(15 + 200 / (x * x)); k >= 1; k -= 1) { t = (k / 2) / (x + t); }
    return 1 / (ROOT_PI * (x + t));
  };
  // erf(x) for 0 <= x < 2, by its series of positive terms
  const erfSeries = (x) => {
    let term = x, sum = x;
    for (let k = 1; k < 80 && term > 1e-18 * sum; k += 1) { term *= 2 * x * x / (2 * k + 1); sum += term; }
    return 2 / ROOT_PI * Math.exp(-x * x) * sum;
  };
  const erfc = (x) => (x < 0 ? 2 - erfc(-x) : x < 2 ? 1 - erfSeries(x) : Math.exp(-x * x) * scaledErfc(x));
  const normalCdf = (z) => 0.5 * erfc(-z / Math.SQRT2);
  const logNormalCdf = (z) => {
    if (z > -2 * Math.SQRT2) { return Math.log(normalCdf(z)); }
    const x = -z / Math.SQRT2;
    return -x * x + Math.log(0.5 * scaledErfc(x));
  };
  // nodes and weights of E[g(f)], f ~ N(m, v): a trapezoid rule of a given step in standard deviations
  const normalNodes = (m, v, step) => {
    if (!(v > 0)) { return [[m, 1]]; }
    const sd = Math.sqrt(v), half = Math.ceil(9 / step), nodes = [];
    let total = 0;
    for (let i = -half; i <= half; i += 1) {
      const t = i * step, w = Math.exp(-0.5 * t * t);
      nodes.push([m + sd * t, w]);
      total += w;
    }
    return nodes.map(([f, w]) => [f, w / total]);
  };

  // --- kernels: a tree becomes { k(x, y), own(x) } ---
  const RADIAL = {
    se: (r2) => Math.exp(-0.5 * r2),
    matern12: (r2) => Math.exp(-Math.sqrt(r2)),
    matern32: (r2) => { const t = Math.sqrt(3 * r2); return (1 + t) * Math.exp(-t); },
    matern52: (r2) => { const t = Math.sqrt(5 * r2); return (1 + t + t * t / 3) * Math.exp(-t); },
    rq: (r2, alpha) => Math.exp(-alpha * Math.log1p(0.5 * r2 / alpha)),
    gamma: (r2, gamma) => Math.exp(-Math.pow(r2, 0.5 * gamma)),
  };
  const TURN = 2 * Math.PI;
  const phase = (x, period) => TURN * ((x % period) / period);
  const compile = (node) => {
    const { dims } = node;
    switch (node.type) {
      case "sum": case "product": {
        const of = node.of.map(compile), sum = node.type === "sum";
        const join = (values) => values.reduce((a, b) => (sum ? a + b : a * b), sum ? 0 : 1);
        return { k: (x, y) => join(of.map((o) => o.k(x, y))), own: (x) => join(of.map((o) => o.own(x))) };
      }
      case "scaled": {
        const of = compile(node.of);
        return { k: (x, y) => node.by * of.k(x, y), own: (x) => node.by * of.own(x) };
      }
      case "power": {
        const of = compile(node.of);
        return { k: (x, y) => Math.pow(of.k(x, y), node.by), own: (x) => Math.pow(of.own(x), node.by) };
      }
      case "constant": return { k: () => node.value, own: () => node.value };
      case "white": return { k: () => 0, own: () => node.value };
      case "stationary": {
        const g = RADIAL[node.form];
        const k = (x, y) => {
          let r2 = 0;
          for (let d = 0; d < dims.length; d += 1) {
            const z = (x[dims[d]] - y[dims[d]]) / node.scale[d];
            r2 += z * z;
          }
          return g(r2, node.shape);
        };
        return { k, own: () => 1 };
      }
      case "inner": {
        const k = (x, y) => {
          let u = node.bias;
          for (let d = 0; d < dims.length; d += 1) { u += node.variance[d] * (x[dims[d]] - node.center[d]) * (y[dims[d]] - node.center[d]); }
          return Math.pow(u, node.degree);
        };
        return { k, own: (x) => k(x, x) };
      }
      case "cosine": {
        const f = (x) => dims.reduce((sum, column, d) => sum + phase(x[column] - node.center[d], node.period[d]), 0);
        return { k: (x, y) => Math.cos(f(x) - f(y)), own: () => 1 };
      }
      case "periodic": {
        const of = compile(node.of);
        const circle = (x) => dims.flatMap((column, d) => {
          const f = phase(x[column] - node.center[d], node.period[d]);
          return [Math.cos(f), Math.sin(f)];
        });
        return { k: (x, y) => of.k(circle(x), circle(y)), own: (x) => of.own(circle(x)) };
      }
      case "categorical": {
        const code = (x) => node.levels.indexOf(x[dims[0]]);
        return { k: (x, y) => node.table[code(x)][code(y)], own: (x) => node.table[code(x)][code(x)] };
      }
      default: throw new Error(`unknown kernel ${node.type}`);
    }
  };

  // --- the posterior of f ---
  const times = (matrix, k) => { // M k
    const out = new Float64Array(matrix.rows);
    let at = 0;
    for (let i = 0; i < matrix.rows; i += 1) {
      const columns = matrix.lower ? i + 1 : k.length;
      for (let j = 0; j < columns; j += 1) { out[i] += matrix.values[at + j] * k[j]; }
      at += columns;
    }
    return out;
  };
  const dot = (a, b) => a.reduce((sum, v, i) => sum + v * b[i], 0);
  const latent = (f, rows, x) => {
    const k = new Float64Array(rows.length);
    let mean = f.mean.level;
    f.mean.slopes.forEach((slope, d) => { mean += slope * x[d]; });
    for (let i = 0; i < rows.length; i += 1) { k[i] = f.kernel.k(rows[i], x); mean += k[i] * f.weights[i]; }
    const prior = f.kernel.own(x);
    const known = times(f.minus, k);
    let variance = (f.degenerate ? 0 : prior) - dot(known, f.minus.form ? k : known);
    if (f.plus) { const gained = times(f.plus, k); variance += dot(gained, gained); }
    return { mean, variance: Math.max(variance, Number.EPSILON * prior), prior, k };
  };

  // --- what the likelihood makes of it ---
  const quantile = (cdf, density, p, start, width) => { // Newton's method; by bisection where it would leave its bracket
    let low = start - width, high = start + width, step = width;
    while (cdf(low) > p) { step *= 2; low -= step; }
    while (cdf(high) < p) { step *= 2; high += step; }
    let y = 0.5 * (low + high);
    for (let i = 0; i < 100; i += 1) {
      const gap = cdf(y) - p;
      if (gap < 0) { low = y; } else { high = y; }
      let next = y - gap / density(y);
      if (!(next > low && next < high)) { next = 0.5 * (low + high); }
      if (Math.abs(next - y) <= 1e-13 * (Math.abs(y) + width)) { return next; }
      y = next;
    }
    return y;
  };
  const logOdds = (answer, f) => { // of "yes" against "no"
    if (answer.kind === "logit") {
      const step = Math.min(0.1, 0.9 / Math.sqrt(Math.max(f.variance, 1e-300)));
      let yes = 0, no = 0;
      for (const [v, w] of normalNodes(f.mean, f.variance, step)) {
        yes += w / (1 + Math.exp(-v));
        no += w / (1 + Math.exp(v));
      }
      return Math.log(yes) - Math.log(no);
    }
    const z = f.mean / Math.sqrt(1 + f.variance);
    if (!answer.lapse) { return logNormalCdf(z) - logNormalCdf(-z); }
    const share = (side) => answer.lapse / 2 + (1 - answer.lapse) * normalCdf(side * z);
    return Math.log(share(1)) - Math.log(share(-1));
  };
  const softmax = (values) => {
    const top = Math.max(...values), e = values.map((v) => Math.exp(v - top));
    const total = e.reduce((a, b) => a + b, 0);
    return e.map((v) => v / total);
  };
  const MOST_COUNTS = 20000;
  const counts = (shape, f, level) => {
    const mean = Math.exp(f.mean + f.variance / 2);
    const step = Math.min(0.1, 0.5 / Math.sqrt(f.variance * (mean + 1) + 1e-300));
    const nodes = normalNodes(f.mean, f.variance, Math.max(step, 0.01));
    const logs = nodes.map(([v, w]) => {
      const rate = Math.exp(v);
      return shape === null ? [v, -rate, w] : [v - Math.log(shape + rate), shape * Math.log(shape / (shape + rate)), w];
    });
    const ends = [0.5 - level / 2, 0.5 + level / 2], found = [];
    let below = 0, constant = 0;
    for (let k = 0; k <= MOST_COUNTS && found.length < 2; k += 1) {
      if (k > 0) { constant += (shape === null ? 0 : Math.log(k - 1 + shape)) - Math.log(k); }
      for (const [slope, offset, w] of logs) { below += w * Math.exp(constant + k * slope + offset); }
      while (found.length < 2 && below >= ends[found.length] - 1e-9) { found.push(k); }
    }
    return { mean, lower: found.length > 0 ? found[0] : NaN, upper: found.length > 1 ? found[1] : NaN };
  };
  // --- targets of another range: y of z = f + noise ---
  const logExpm1 = (x) => x + Math.log(-Math.expm1(-x));
  const softplus = (x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)));
  const WARPS = {
    positive: ({ bend, center, shift }) => {
      const scale = -Math.expm1(-bend) / bend, offset = logExpm1(bend);
      return (z) => {
        const y = center * softplus((z / center - 1) / scale + offset) / bend - shift;
        return shift ? Math.max(y, 0) : y;
      };
    },
    interval: ({ lower, upper, squeeze }) => (z) => {
      const v = 1 / (1 + Math.exp(-4 * ((z - lower) / (upper - lower) - 0.5)));
      return lower + (upper - lower) * Math.min(Math.max((v - squeeze) / (1 - 2 * squeeze), 0), 1);
    },
    clipped: ({ lower, upper }) => (z) => Math.min(Math.max(z, lower ?? -Infinity), upper ?? Infinity),
  };
  const warped = (warp, f, variances, found) => { // the mean by the trapezoid rule of Python
    const back = WARPS[warp.kind](warp), lower = back(found.lower), upper = back(found.upper);
    if (variances.length > 1) { return { mean: back(f.mean), lower, upper }; } // the median: there may be no mean
    const sd = Math.sqrt(f.variance + variances[0]);
    let mean = 0, total = 0;
    for (let i = -32; i <= 32; i += 1) {
      const t = i / 4, w = Math.exp(-0.5 * t * t);
      mean += w * back(f.mean + sd * t);
      total += w;
    }
    return { mean: mean / total, lower, upper };
  };
  const ordered = ({ thresholds, lowest }, f, level) => { // categories between thresholds on f plus standard normal noise
    const below = thresholds.map((b) => normalCdf((b - f.mean) / Math.sqrt(1 + f.variance)));
    const reached = (p) => lowest + below.filter((share) => share < p - 1e-15).length;
    const mean = below.reduce((sum, share) => sum + 1 - share, lowest);
    return { mean, lower: reached(0.5 - level / 2), upper: reached(0.5 + level / 2) };
  };
  const byLevel = (variance, f, g) => { // normal noise of variance exp(g) given g: nodes over g, as in Python
    const sd = Math.sqrt(g.variance), cov = g.beside[0], slope = cov / g.variance;
    return normalNodes(0, 1, Math.min(0.3, 0.3 / sd)).map(([x, weight]) => ({
      weight, mean: f.mean + slope * sd * x, sd: Math.sqrt(f.variance - slope * cov + variance * Math.exp(g.mean + sd * x)),
    }));
  };
  const central = (parts, mean, level) => { // mean and interval of a mixture of normal densities
    const cdf = (y) => parts.reduce((sum, p) => sum + p.weight * normalCdf((y - p.mean) / p.sd), 0);
    const density = (y) => parts.reduce((sum, p) => {
      const z = (y - p.mean) / p.sd;
      return sum + p.weight * Math.exp(-0.5 * z * z) / (p.sd * Math.sqrt(TURN));
    }, 0);
    const width = parts.reduce((a, b) => (b.weight > a.weight ? b : a)).sd;
    const end = (p) => quantile(cdf, density, p, mean, width);
    return { mean, lower: end(0.5 - level / 2), upper: end(0.5 + level / 2) };
  };
  const answerTo = (model, fs) => {
    const { response, level } = model, f = fs[0];
    if (response.kind === "one_vs_rest") {
      const C = fs.length;
      return { probabilities: softmax(fs.map((one) => (C - 1) / C * logOdds(response.answer, one))) };
    }
    if (response.kind === "probit" || response.kind === "logit") {
      return { probabilities: softmax([0, logOdds(response, f)]) };
    }
    if (response.kind === "count") { return counts(response.shape, f, level); }
    if (response.kind === "ordinal") { return ordered(response, f, level); }
    const parts = response.kind === "level" ? byLevel(response.variance, ...fs)
      : response.variances.map((v, i) => ({ weight: response.weights[i], mean: f.mean, sd: Math.sqrt(v + f.variance) }));
    const found = central(parts, f.mean, level);
    return response.warp ? warped(response.warp, f, response.variances, found) : found;
  };

  const load = (content) => {
    const values = numbers(content.X), width = content.width, rows = [];
    for (let i = 0; i < values.length; i += width) { rows.push(values.subarray(i, i + width)); }
    const unpack = (matrix) => matrix && { ...matrix, values: numbers(matrix.values) };
    const functions = content.functions.map((f) => ({
      ...f, kernel: compile(f.kernel), weights: numbers(f.weights), minus: unpack(f.minus), plus: unpack(f.plus), beside: f.beside.map(unpack),
    }));
    const predict = (x) => {
      const fs = functions.map((f) => latent(f, rows, x));
      fs.forEach((f, c) => { f.beside = functions[c].beside.map((R, d) => -dot(f.k, times(R, fs[d].k))); }); // covariances
      return { ...answerTo(content, fs), latent: fs.map(({ mean, variance, prior }) => ({ mean, variance, prior })) };
    };
    return { content, predict };
  };
  return { load };
})();

for (const box of document.querySelectorAll(".whatif")) {
  const model = cavity.load(JSON.parse(box.querySelector("script").textContent));
  const { content } = model, { controls, classes } = content;
  box.predict = model.predict; // for those who want numbers: document.querySelector(".whatif").predict([...])
  const at = Float64Array.from(content.at);
  const labels = Array.from(box.querySelectorAll("[data-control]"));
  const SVG = "http://www.w3.org/2000/svg";
  const COLORS = ["#2b8cc4", "#e07b28", "#1b9e77", "#cc79a7", "#b8860b", "#7d858d"];
  let last = 0;

  const put = (x, control, value) => { control.places.forEach((place, i) => { x[place] = control.codes ? control.codes[value][i] : value; }); };
  const number = (v) => (Number.isFinite(v) ? String(Number(v.toPrecision(4))) : "unknown");
  const percent = (p) => `${(100 * p).toFixed(p > 0.1 && p < 0.9 ? 0 : 1)} %`;
  const setting = (k) => Number(labels[k].querySelector("input, select").value);

  const say = (found) => {
    const said = box.querySelector(".said"), strong = document.createElement("strong");
    said.textContent = "";
    if (found.probabilities) {
      const order = found.probabilities.map((p, i) => [p, i]).sort((a, b) => b[0] - a[0]).slice(0, 4);
      strong.textContent = `${classes[order[0][1]]}: ${percent(order[0][0])}`;
      said.append(strong, order.slice(1).map(([p, i]) => `, ${classes[i]}: ${percent(p)}`).join(""));
    } else {
      strong.textContent = `${content.target} = ${number(found.mean)}`;
      said.append(strong, `, ${Math.round(100 * content.level)} % between ${number(found.lower)} and ${number(found.upper)}`);
    }
    const judged = content.response.kind === "level" ? found.latent.slice(0, 1) : found.latent; // noise is hardly ever known well
    const unknown = Math.max(...judged.map((f) => f.variance / f.prior));
    const trust = box.querySelector(".trust");
    trust.textContent = unknown > 0.5 ? "Far from all rows of the data: mostly a guess." : "";
    trust.hidden = unknown <= 0.5;
  };

  const add = (parent, name, attributes, text) => {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) { node.setAttribute(key, value); }
    if (text !== undefined) { node.textContent = text; }
    parent.append(node);
    return node;
  };
  const ticks = (low, high, count) => {
    const span = high - low || 1, power = Math.pow(10, Math.floor(Math.log10(span / count)));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => span / s <= count);
    const out = [];
    for (let v = Math.ceil(low / step) * step; v <= high + 1e-9 * span; v += step) { out.push(Number(v.toPrecision(12))); }
    return out;
  };

  const along = () => { // places of the input last changed, and predictions there
    const control = controls[last], x = Float64Array.from(at), places = [];
    if (control.codes) { control.codes.forEach((_, i) => places.push(i)); }
    else {
      const whole = control.step >= 1 && control.high - control.low <= 60;
      const count = whole ? control.high - control.low : 60;
      for (let i = 0; i <= count; i += 1) { places.push(control.low + (control.high - control.low) * (count ? i / count : 0)); }
    }
    return places.map((value) => { put(x, control, value); return { value, found: model.predict(x) }; });
  };

  const draw = () => {
    const holder = box.querySelector(".curve"), width = Math.max(holder.clientWidth, 240), height = 230;
    const control = controls[last], curve = along(), levels = Boolean(control.codes);
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("width", width);
    svg.setAttribute("height", height);
    const left = 56, right = 14, top = 12, bottom = 44;
    let low = 0, high = 1;
    if (!classes) {
      const ends = curve.flatMap(({ found }) => [found.lower, found.upper, found.mean]).filter(Number.isFinite);
      low = Math.min(...ends); high = Math.max(...ends);
      if (!(high > low)) { low -= 0.5; high += 0.5; }
    }
    const first = curve[0].value, end = curve[curve.length - 1].value;
    const across = (v) => (levels ? left + (v + 0.5) / curve.length * (width - left - right)
      : left + (end > first ? (v - first) / (end - first) : 0.5) * (width - left - right));
    const up = (v) => top + (1 - (v - low) / (high - low)) * (height - top - bottom);
    for (const v of ticks(low, high, 5)) {
      add(svg, "line", { x1: left, x2: width - right, y1: up(v), y2: up(v), class: "grid" });
      add(svg, "text", { x: left - 6, y: up(v) + 4, "text-anchor": "end" }, number(v));
    }
    const most = Math.max(2, Math.floor((width - left) / 70));
    if (levels) {
      const every = Math.ceil(curve.length / most), room = Math.max(4, Math.floor((width - left) / Math.min(curve.length, most) / 8));
      curve.forEach(({ value }, i) => {
        const name = control.levels[value];
        if (i % every === 0) { add(svg, "text", { x: across(value), y: height - bottom + 16, "text-anchor": "middle" }, name.length > room ? `${name.slice(0, room - 1)}…` : name); }
      });
    } else {
      for (const v of ticks(first, end, most)) { add(svg, "text", { x: across(v), y: height - bottom + 16, "text-anchor": "middle" }, number(v)); }
    }
    const shown = control.name.length > 40 ? `${control.name.slice(0, 39)}…` : control.name;
    add(svg, "text", { x: (left + width - right) / 2, y: height - 8, "text-anchor": "middle", class: "name" }, shown);
    const path = (pick) => curve.map(({ value, found }, i) => `${i ? "L" : "M"}${across(value).toFixed(1)},${up(pick(found)).toFixed(1)}`).join("");
    const lines = classes ? classes.map((name, c) => ({ name, c, pick: (found) => found.probabilities[c] })).slice(classes.length === 2 ? 1 : 0)
      : [{ name: "", c: 0, pick: (found) => found.mean }];
    if (!classes && !levels) {
      const back = curve.slice().reverse().map(({ value, found }) => `L${across(value).toFixed(1)},${up(found.lower).toFixed(1)}`).join("");
      add(svg, "path", { d: `${path((found) => found.upper)}${back}Z`, fill: COLORS[0], "fill-opacity": 0.2, stroke: "none" });
    }
    for (const { c, pick } of lines) {
      const color = COLORS[c % COLORS.length];
      if (levels) {
        for (const { value, found } of curve) {
          if (!classes) { add(svg, "line", { x1: across(value), x2: across(value), y1: up(found.lower), y2: up(found.upper), stroke: color, "stroke-width": 6, "stroke-opacity": 0.25 }); }
          add(svg, "circle", { cx: across(value), cy: up(pick(found)), r: 4, fill: color });
        }
      } else { add(svg, "path", { d: path(pick), fill: "none", stroke: color, "stroke-width": 2 }); }
    }
    const here = setting(last), now = model.predict(at);
    add(svg, "line", { x1: across(here), x2: across(here), y1: top, y2: height - bottom, class: "here" });
    for (const { c, pick } of lines) { add(svg, "circle", { cx: across(here), cy: up(pick(now)), r: 5, fill: COLORS[c % COLORS.length], class: "now" }); }
    holder.textContent = "";
    holder.append(svg);
    if (classes) {
      const legend = document.createElement("p");
      legend.className = "legend";
      for (const { name, c } of lines.slice(0, 6)) {
        const key = document.createElement("span");
        key.textContent = classes.length === 2 ? `probability of ${name}` : name;
        key.style.setProperty("--key", COLORS[c % COLORS.length]);
        legend.append(key);
      }
      holder.append(legend);
    }
  };

  const show = () => {
    controls.forEach((control, k) => {
      const value = setting(k), output = labels[k].querySelector("output");
      put(at, control, value);
      if (output) { output.textContent = value.toFixed(control.digits); }
      labels[k].classList.toggle("shown", k === last);
    });
    say(model.predict(at));
    draw();
  };
  let waiting = false;
  const soon = () => {
    if (waiting) { return; }
    waiting = true;
    requestAnimationFrame(() => { waiting = false; show(); });
  };
  labels.forEach((label, k) => {
    const change = () => { last = k; soon(); };
    label.querySelector("input, select").addEventListener("input", change);
    label.querySelector("input, select").addEventListener("focus", change);
  });
  box.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
  window.addEventListener("resize", soon);
  show();
}
