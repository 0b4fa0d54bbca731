// Rates, quantiles and gauges from the metrics of the server at two times.

/** The key of a version of a model. The key of a model is its name, and of the server "". */
export const keyOf = (name, version) => `${name}\n${version ?? ""}`;

/** The metrics of the server, of each model and of each version, summed over the processes, and the last failed call of each version. */
export function sampleOf({ processes, bounds }, time) {
  const sums = new Map();
  const failures = new Map();
  for (const [name, version, numbers, failure] of processes.flat()) {
    const id = keyOf(name, version);
    if (failure && !(failures.get(id)?.[0] > failure[0])) failures.set(id, failure); // a time and a text
    for (const key of name ? ["", name, id] : [""]) {
      const sum = sums.get(key) ?? {};
      sums.set(key, sum);
      for (const [metric, values] of Object.entries(numbers)) sum[metric] = values.map((value, index) => value + (sum[metric]?.[index] ?? 0));
    }
  }
  return { time, sums, failures, bounds, processes: processes.length };
}

/** The point of a chart for one key at the time of `after`. Without `before`, rates are null. */
export function pointOf(before, after, key) {
  const now = after.sums.get(key);
  const past = before?.sums.get(key);
  const value = (name) => now[`inferstream_${name}`]?.[0] ?? null;
  const grown = (name) => past && now[`inferstream_${name}`]?.map((each, index) => Math.max(0, each - (past[`inferstream_${name}`]?.[index] ?? 0)));
  const growth = (names) => (past ? names.reduce((sum, name) => sum + (grown(name)?.[0] ?? 0), 0) : null);
  const rate = (...names) => (past ? (growth(names) / (after.time - before.time)) * 1000 : null);
  const quantile = (name, share) => quantileOf(grown(name), after.bounds[`inferstream_${name}`], share);
  const ends = Object.keys(now).filter((name) => name.startsWith("inferstream_calls:")).map((name) => name.replace("inferstream_", ""));
  const ofServer = (name) => (now[name] && past?.[name] ? ((now[name][0] - past[name][0]) / (after.time - before.time)) * 1000 : null);
  const waiting = (value("queue_depth") ?? 0) + (value("streams_waiting") ?? 0);
  const hits = growth(["cache_lookups:hit", "cache_lookups:joined"]);
  return {
    time: after.time,
    requests: rate(...ends),
    errors: rate(...ends.filter((name) => !/:(success|cancelled)$/.test(name))),
    median: quantile("call_seconds", 0.5),
    highest: quantile("call_seconds", 0.99),
    clientErrors: ofServer("client_errors"),
    serverErrors: ofServer("server_errors"),
    running: Math.max(0, (value("calls_in_progress") ?? 0) - waiting),
    waiting,
    streaming: now.streaming?.[0],
    items: value("stream_items") ? rate("stream_items") : null,
    tokens: value("output_tokens") ? rate("output_tokens") : null,
    firstMedian: quantile("time_to_first_item_seconds", 0.5),
    firstHighest: quantile("time_to_first_item_seconds", 0.99),
    size: mean(grown("step_size") ?? grown("batch_size")),
    hits: ratio(hits, hits + growth(["cache_lookups:miss"])),
    cache: ratio(value("kv_caches_used"), value("kv_caches")),
    memory: now.resident_bytes?.[0] ?? value("model_memory_bytes"),
    workersMemory: value("workers") ? value("workers_memory_bytes") : null,
    workers: value("workers") || null,
  };
}

const ratio = (part, whole) => (whole ? part / whole : null);
const countOf = (numbers) => numbers.slice(0, -1).reduce((sum, each) => sum + each, 0); // the last number is the sum
const mean = (numbers) => (numbers ? ratio(numbers.at(-1), countOf(numbers)) : null);

/** The quantile of a histogram, interpolated in its bucket. */
function quantileOf(numbers, bounds, share) {
  let wanted = numbers ? share * countOf(numbers) : 0;
  if (wanted === 0) return null;
  for (const [index, bound] of bounds.entries()) {
    const lower = bounds[index - 1] ?? 0;
    if (numbers[index] >= wanted) return lower + ((bound - lower) * wanted) / numbers[index];
    wanted -= numbers[index];
  }
  return bounds.at(-1);
}
