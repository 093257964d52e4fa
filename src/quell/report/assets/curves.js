// Curves over seeds: mean and standard deviation at common steps.
const POINTS = 120;
const remembered = new Map();

/** Points of one run that have a value. */
function pointsOf(run, metric) {
  const xs = [], ys = [];
  (run[metric] || []).forEach((value, i) => {
    if (value !== null && run.steps[i] !== null) {
      xs.push(run.steps[i]);
      ys.push(value);
    }
  });
  return { seed: run.seed, xs, ys };
}

/** Mean and sample standard deviation of the seeds; behind `common`, where a seed has ended well before others, of the rest. */
function curveOf(series, metric) {
  const key = DATA.series.indexOf(series) + metric;
  if (remembered.has(key)) return remembered.get(key);
  const runs = series.runs.map((run) => pointsOf(run, metric)).filter((run) => run.xs.length);
  let curve = null;
  if (runs.length) {
    const low = Math.max(...runs.map((run) => run.xs[0]));
    const ends = runs.map((run) => run.xs[run.xs.length - 1]);
    const common = Math.max(low, Math.min(...ends));
    const high = common < 0.95 * Math.max(...ends) ? Math.max(...ends) : common;
    const count = high > low ? POINTS : 1;
    const xs = Array.from({ length: count }, (_, i) => (i === count - 1 ? high : low + ((high - low) * i) / (count - 1)));
    const at = xs.map((x) => statisticsAt(runs, x));
    curve = { runs, xs, common, mean: at.map((s) => s.mean), std: at.map((s) => s.std) };
  }
  remembered.set(key, curve);
  return curve;
}

/** Over the seeds that have a value at x. */
function statisticsAt(runs, x) {
  const values = runs.map((run) => interpolate(run.xs, run.ys, x)).filter((value) => value !== null);
  const count = values.length;
  if (!count) return null;
  const mean = values.reduce((sum, value) => sum + value, 0) / count;
  const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return { mean, std: count > 1 ? Math.sqrt(squares / (count - 1)) : 0, count };
}
