// The panels of the picture, from top to bottom: each says its title, its keys (what a colour means), its height, and the
// series that are drawn in it.

import { lifePanels } from "./life.js";
import { findingsOf, hasClock, lateRows, rowsRead } from "./run.js";
import { bytes, duration, least, most, short } from "./words.js";

const INPUTS = 5; // colours of inputs, in report.css
const PHASES = 7;

// `life` is the row whose life is shown, if one is.
export function panelsOf(run, axis, colour, life) {
  const made = (asked) => asked.map((panel) => panel(run, axis, colour)).filter(Boolean);
  return [
    ...made([components, batches, eventTime]),
    ...lifePanels(run, axis, colour, life),
    ...made([heldBack, lag, rowsIn, rowsOut, state, durations]),
  ];
}

export const inputColour = (colour, number) => colour(`--input-${number % INPUTS}`);

function components(run, axis, colour) {
  const names = run.tracks.length ? run.tracks.map((track) => track.name)
    : [...new Set(run.faults.flatMap((fault) => fault.components))];
  if (!names.length) return undefined;
  const row = (name) => names.indexOf(name);
  const there = run.tracks.flatMap((track) => track.spans.map(([begin, end]) =>
    [axis.placeOf(begin), axis.placeOf(end), row(track.name) - 0.27, row(track.name) + 0.27]));
  const injected = run.faults.filter((fault) => fault.injected);
  const rows = (draw) => injected.flatMap((fault) => fault.components.filter((name) => row(name) >= 0).map((name) => draw(fault, row(name))));
  const recoveries = rows((fault, at) => fault.recovered_ms !== undefined && hasClock(run)
    ? [axis.placeOfFault(fault), axis.byClock ? fault.recovered_ms : axis.placeOf(fault.recovered_ms), at - 0.27, at + 0.27]
    : undefined).filter(Boolean);
  const marks = rows((fault, at) => [axis.placeOfFault(fault), at]);
  return {
    title: "Components",
    keys: [
      key("running", colour("--running")),
      ...(injected.length ? [key("fault injected", colour("--lost"), "▼")] : []),
      ...(recoveries.length ? [key("until its batch was committed", colour("--recovery"))] : []),
    ],
    lanes: names.map((name) => laneOf(run, axis, name)),
    height: 22 * names.length + 6,
    yAxis: {
      type: "value", min: -0.5, max: names.length - 0.5, inverse: true, interval: 1, splitLine: { show: false },
      axisLabel: { formatter: (value) => names[value] ?? "", customValues: names.map((_, at) => at) },
      axisTick: { show: false },
    },
    series: [
      boxes(there, colour("--running")),
      boxes(recoveries, colour("--recovery")),
      {
        type: "scatter", data: marks, symbol: "triangle", symbolRotate: 180, symbolSize: 13, z: 5,
        itemStyle: { color: colour("--lost") },
      },
      labels(rows((fault, at) => faultLabel(axis, fault, at)), colour),
    ],
  };
}

// What a component's lane says to who cannot see it, and the batches in which a fault was injected there.
function laneOf(run, axis, name) {
  const mine = run.faults.filter((fault) => fault.injected && fault.components.includes(name));
  const at = mine.map((fault) => axis.placeOfFault(fault)).filter((place) => place !== undefined).map((place) => axis.batchAt(place));
  return { name: [`component ${name}`, ...mine.map((fault) => `${faultText(fault)} in batch ${fault.batch}`)].join("; "), batches: at };
}

// Behind the recovery, or before the fault, whichever has room.
function faultLabel(axis, fault, row) {
  const place = axis.placeOfFault(fault);
  const recovered = fault.recovered_ms === undefined ? place : axis.byClock ? fault.recovered_ms : axis.placeOf(fault.recovered_ms);
  const isLate = place > axis.begin + (axis.end - axis.begin) * 0.6;
  return { value: [isLate ? place : Math.max(place, recovered), row], name: faultText(fault), label: { position: isLate ? "left" : "right" } };
}

function faultText(fault) {
  const took = fault.recovered_ms === undefined ? "" : `, committed after ${duration(fault.recovered_ms - fault.at_ms)}`;
  return `${fault.label} at ${fault.point}${took}`;
}

// Text without a mark, on the paper's colour, so that it can be read on a bar; of those that would overlap one is shown.
function labels(data, colour) {
  return {
    type: "scatter", data: data.filter((one) => one.value[0] !== undefined), symbolSize: 14, z: 6, itemStyle: { color: "transparent" },
    label: {
      show: true, formatter: (mark) => mark.name, color: colour("--ink"), fontSize: 11,
      backgroundColor: colour("--paper"), padding: [1, 3], borderRadius: 2,
    },
    labelLayout: { hideOverlap: true },
  };
}

function batches(run, axis, colour) {
  const of = { data: [], none: [], again: [], lost: [] };
  const marks = [];
  const wrong = [];
  const edge = axis.begin + (axis.end - axis.begin) * 0.7;
  run.batches.forEach((batch, at) => {
    if (findingsOf(batch)) wrong.push(at);
    const span = axis.spans[at];
    if (!span) return;
    const kind = !batch.committed ? "lost" : batch.restarted || batch.runs > 1 ? "again" : rowsRead(batch) ? "data" : "none";
    of[kind].push([...span, 0, 0.5]);
    if (findingsOf(batch)) {
      const middle = (span[0] + span[1]) / 2;
      const name = Object.entries(batch.findings).map(([property, number]) => `${number} × ${property}`).join(", ");
      marks.push({ value: [middle, 0.78], name, label: { position: middle > edge ? "left" : "right" } });
    }
  });
  return {
    title: "Batches",
    keys: [
      key("with data", colour("--data")), key("without", colour("--no-data")),
      ...(of.again.length ? [key("first after a restart, or run again", colour("--again"))] : []),
      ...(of.lost.length ? [key("not committed", colour("--lost"))] : []),
      ...(marks.length ? [key("findings", colour("--invalid"), "◆")] : []),
    ],
    height: marks.length ? 38 : 19,
    lanes: [{ name: `Batches${wrong.length ? `, ${wrong.length} with findings` : ""}`, batches: wrong }],
    yAxis: { type: "value", min: 0, max: marks.length ? 1 : 0.5, show: false },
    series: [
      boxes(of.data, colour("--data")), boxes(of.none, colour("--no-data")), boxes(of.again, colour("--again")),
      boxes(of.lost, colour("--lost")),
      { type: "scatter", data: marks, symbol: "diamond", symbolSize: 11, z: 5, itemStyle: { color: colour("--invalid") } },
      labels(marks, colour),
    ],
  };
}

function eventTime(run, axis, colour) {
  const limits = eventTimeLimits(run);
  if (!limits) return undefined;
  const known = (ms) => (ms ? ms : null);
  return {
    title: "Event time (UTC)",
    keys: [
      key("eviction watermark", colour("--watermark"), "line"), key("late watermark", colour("--watermark"), "dashed"),
      ...run.inputs.map((input, number) => key(`latest of ${input.name}`, inputColour(colour, number), "line")),
    ],
    height: 190,
    yAxis: { type: "time", min: limits[0], max: limits[1], axisLabel: { formatter: timeLabel(limits) } },
    series: [
      ...run.inputs.map((_, number) => steps(axis, run, (batch) => known(batch.inputs[number].latest_ms), {
        color: inputColour(colour, number), width: 1.6,
      })),
      steps(axis, run, (batch) => known(batch.late_watermark_ms), { color: colour("--watermark"), width: 1.3, type: "dashed" }),
      steps(axis, run, (batch) => known(batch.watermark_ms), { color: colour("--watermark"), width: 2.4 }),
    ],
  };
}

// Times of the day; the date, too, where there are several days.
function timeLabel([low, high]) {
  const days = high - low > 24 * 3_600_000;
  return (ms) => new Date(ms).toISOString().slice(days ? 5 : 11, days ? 16 : 19).replace("T", " ");
}

// The records of a flush are far in the future: what is beyond the last event of the trace is cut off at the top.
function eventTimeLimits(run) {
  const times = run.batches.flatMap((batch) => [batch.watermark_ms, ...batch.inputs.map((input) => input.latest_ms)]).filter((ms) => ms > 0);
  if (!times.length) return undefined;
  const before = run.batches.slice(0, -1).map((batch) => batch.watermark_ms).filter((ms) => ms > 0);
  const last = run.last_ms || most(before.length ? before : times); // the last batch is that of the flush
  const low = Math.min(least(times), last);
  const high = Math.max(last, low);
  const edge = Math.max((high - low) * 0.06, 1000);
  return [low - edge, high + edge];
}

function heldBack(run, axis, colour) {
  if (!run.batches.some((batch) => batch.held_by.length)) return undefined;
  const waits = [];
  const series = run.inputs.map((_, number) => boxes(run.batches.flatMap((batch, at) => {
    const span = axis.spans[at];
    if (!span || !batch.held_by.includes(number)) return [];
    const place = batch.held_by.indexOf(number);
    const part = 1 / batch.held_by.length;
    if (batch.waits && place === 0) waits.push([(span[0] + span[1]) / 2, 0.5]);
    return [[...span, place * part, (place + 1) * part]];
  }), inputColour(colour, number)));
  series.push({
    type: "scatter", data: waits, symbol: "circle", symbolSize: 7, z: 5,
    itemStyle: { color: colour("--paper"), borderColor: colour("--ink"), borderWidth: 1 },
  });
  return {
    title: "The watermark is held back by",
    keys: [
      ...run.inputs.map((input, number) => key(input.name, inputColour(colour, number))),
      ...(waits.length ? [key("no rows of it since a restart", colour("--ink"), "○")] : []),
    ],
    height: 16,
    yAxis: { type: "value", min: 0, max: 1, show: false },
    series,
  };
}

function lag(run, axis, colour) {
  const of = (batch, number) => {
    const latest = batch.inputs[number].latest_ms;
    return latest && batch.watermark_ms ? latest - batch.watermark_ms : null;
  };
  const all = run.batches.flatMap((batch) => run.inputs.map((_, number) =>
    !run.last_ms || batch.inputs[number].latest_ms <= run.last_ms ? of(batch, number) : null)).filter((ms) => ms !== null);
  if (!all.length) return undefined;
  return {
    title: "Watermark behind the latest event time",
    keys: run.inputs.map((input, number) => key(input.name, inputColour(colour, number), "line")),
    height: 84,
    yAxis: { type: "value", min: Math.min(0, least(all)), max: most(all) * 1.1, splitNumber: 2, axisLabel: { formatter: duration, showMaxLabel: false } },
    series: run.inputs.map((_, number) => steps(axis, run, (batch) => of(batch, number), { color: inputColour(colour, number), width: 1.6 })),
  };
}

function rowsIn(run, axis, colour) {
  const parts = run.inputs.map((_, number) => stacked(run, axis, (batch) => batch.inputs.slice(0, number + 1).map((input) => input.rows)));
  const late = overlaid(run, axis, lateRows);
  return {
    title: "Rows in",
    keys: [
      ...run.inputs.map((input, number) => key(input.name, inputColour(colour, number))),
      ...(late.length ? [key("late: dropped", colour("--late"))] : []),
    ],
    height: 90,
    yAxis: counted(run.batches.map(rowsRead)),
    series: [...parts.map((data, number) => boxes(data, inputColour(colour, number))), boxes(late, colour("--late"), 0.5)],
  };
}

function rowsOut(run, axis, colour) {
  if (run.batches.every((batch) => batch.joined === undefined)) {
    if (run.batches.every((batch) => batch.out === undefined)) return undefined;
    return {
      title: "Rows out",
      keys: [key("as Spark reports them", colour("--joined"))],
      height: 90,
      yAxis: counted(run.batches.map((batch) => batch.out ?? 0)),
      series: [boxes(overlaid(run, axis, (batch) => batch.out), colour("--joined"))],
    };
  }
  const nulls = stacked(run, axis, (batch) => [batch.joined ?? 0, batch.nulls ?? 0]);
  const repeated = overlaid(run, axis, (batch) => batch.repeated);
  return {
    title: run.is_by_reading ? "Rows out, by the batch that read the last of their records" : "Rows out",
    keys: [
      key(run.rows, colour("--joined")),
      ...(run.batches.some((batch) => batch.nulls) ? [key("NULL rows", colour("--nulls"))] : []),
      ...(repeated.length ? [key("came again", colour("--repeated"))] : []),
    ],
    height: 90,
    yAxis: counted(run.batches.map((batch) => (batch.joined ?? 0) + (batch.nulls ?? 0))),
    series: [
      boxes(overlaid(run, axis, (batch) => batch.joined), colour("--joined")), boxes(nulls, colour("--nulls")),
      boxes(repeated, colour("--repeated"), 0.5),
    ],
  };
}

function state(run, axis, colour) {
  if (run.batches.every((batch) => batch.state_rows === undefined)) return undefined;
  const limit = Math.max(1, most(run.batches.map((batch) => batch.state_bytes ?? 0)));
  return {
    title: "State",
    keys: [key("rows", colour("--state"), "line"), key("memory (right)", colour("--nulls"), "dashed")],
    height: 84,
    yAxis: counted(run.batches.map((batch) => batch.state_rows ?? 0)),
    second: { type: "value", min: 0, max: limit * 1.05, splitNumber: 2, splitLine: { show: false }, axisLabel: { formatter: bytes, showMaxLabel: false } },
    series: [
      steps(axis, run, (batch) => batch.state_rows ?? null, { color: colour("--state"), width: 2 }),
      { ...steps(axis, run, (batch) => batch.state_bytes ?? null, { color: colour("--nulls"), width: 1.5, type: "dashed" }), onSecond: true },
    ],
  };
}

function durations(run, axis, colour) {
  const sums = {};
  for (const batch of run.batches) for (const [name, ms] of Object.entries(batch.phases_ms)) sums[name] = (sums[name] ?? 0) + ms;
  const names = Object.keys(sums).sort((one, other) => sums[other] - sums[one]).slice(0, PHASES);
  if (!names.length) return undefined;
  const whole = (batch) => Object.values(batch.phases_ms).reduce((sum, ms) => sum + ms, 0);
  return {
    title: "Duration of a batch, by phase",
    keys: names.map((name, number) => key(name, colour(`--phase-${number}`))),
    height: 96,
    yAxis: { ...counted(run.batches.map(whole)), axisLabel: { formatter: duration, showMaxLabel: false } },
    series: names.map((_, number) => boxes(
      stacked(run, axis, (batch) => names.slice(0, number + 1).map((name) => batch.phases_ms[name] ?? 0)), colour(`--phase-${number}`),
    )),
  };
}

function counted(numbers) {
  return { type: "value", min: 0, max: Math.max(1, most(numbers)) * 1.05, splitNumber: 2, axisLabel: { formatter: short, showMaxLabel: false } };
}

export function key(name, colour, kind = "") {
  return { name, colour, kind };
}

// Boxes of the last of some numbers on top of the others.
function stacked(run, axis, numbers) {
  return run.batches.flatMap((batch, at) => {
    const found = numbers(batch);
    const top = found.reduce((sum, number) => sum + number, 0);
    const last = found[found.length - 1];
    return axis.spans[at] && last ? [[...axis.spans[at], top - last, top]] : [];
  });
}

function overlaid(run, axis, number) {
  return run.batches.flatMap((batch, at) => (axis.spans[at] && number(batch) ? [[...axis.spans[at], 0, number(batch)]] : []));
}

// A line that is level over each batch, and up to the next; null leaves a gap.
export function steps(axis, run, value, style) {
  const data = [];
  run.batches.forEach((batch, at) => {
    const span = axis.spans[at];
    if (!span) return;
    if (data.length) data.push([span[0], data[data.length - 1][1]]);
    data.push([span[0], value(batch)], [span[1], value(batch)]);
  });
  return { type: "line", data, showSymbol: false, lineStyle: style, itemStyle: { color: style.color }, connectNulls: false };
}

// Boxes [begin, end, low, high], a pixel apart; `share` of the width.
export function boxes(data, colour, share = 1) {
  return {
    type: "custom", data, encode: { x: [0, 1], y: [2, 3] }, clip: true, itemStyle: { color: colour },
    renderItem: (_, api) => {
      const [left, one] = api.coord([api.value(0), api.value(3)]);
      const [right, other] = api.coord([api.value(1), api.value(2)]);
      const width = Math.max((right - left) * share - (right - left > 4 ? 1 : 0), 1);
      const height = Math.max(Math.abs(other - one), 1);
      return { type: "rect", shape: { x: left, y: Math.min(one, other), width, height }, style: { fill: colour } };
    },
  };
}
