// What is known of one batch, as text beside the picture, and in short beside the pointer.

import { lateRows, rowsRead } from "./run.js";
import { bytes, count, duration, element, moment } from "./words.js";

export function inShort(run, at) {
  const batch = run.batches[at];
  const lines = [
    batch.started_ms === undefined ? "" : `${moment(batch.started_ms)}, ${duration(batch.duration_ms)}`,
    `${count(rowsRead(batch))} rows in${late(batch)}`,
    written(run, batch),
    `eviction watermark ${moment(batch.watermark_ms)}${heldBack(run, batch)}`,
    ...faultsOf(run, batch).map((fault) => `${fault.label} at ${fault.point}`),
    ...Object.entries(batch.findings).map(([name, number]) => `${count(number)} × ${name}`),
  ].filter(Boolean);
  return [element("b", {}, `Batch ${batch.batch}`), ...lines.map((line) => element("div", {}, line))];
}

export function inFull(run, at) {
  const batch = run.batches[at];
  return [
    element("h3", {}, `Batch ${batch.batch}`),
    ...headOf(batch),
    ...listed("Findings here (examples)", Object.entries(batch.findings).map(([name, number]) =>
      element("a", { href: "#findings", class: "bad" }, `${count(number)} × ${name}`))),
    ...listed("Faults", faultsOf(run, batch).map((fault) => faultText(fault))),
    ...table("Watermarks", watermarks(run, batch)),
    ...run.inputs.flatMap((input, number) => inputOf(run, at, input, number)),
    ...table(run.is_by_reading ? "Rows out whose last record was read here" : "Rows out", rowsOut(run, batch)),
    ...batch.operators.flatMap((operator) => table(`State: ${operator.name}`, stateOf(operator))),
    ...table("Time", Object.entries(batch.phases_ms).sort((one, other) => other[1] - one[1])
      .map(([name, ms]) => [name, duration(ms)])),
    ...listed("Executors", executorsOf(batch)),
  ];
}

function headOf(batch) {
  const said = [
    rowsRead(batch) ? "with data" : "no-data batch",
    batch.runs > 1 ? `ran ${batch.runs} times` : batch.restarted ? "first after a restart" : "",
    batch.failed_tasks ? `${count(batch.failed_tasks)} failed tasks` : "",
    batch.committed ? "" : "not committed",
  ];
  const when = batch.started_ms === undefined ? "no progress report, so no wall clock"
    : `${moment(batch.started_ms)}, took ${duration(batch.duration_ms)}`;
  return [element("p", {}, said.filter(Boolean).join(", ")), element("p", { class: "quiet" }, when)];
}

function watermarks(run, batch) {
  return [
    ["late (rows at or before it are dropped)", moment(batch.late_watermark_ms)],
    ["eviction", moment(batch.watermark_ms)],
    ...run.inputs.map((input, number) => [`state of ${input.name}`, batch.inputs[number].state_ms])
      .filter(([, ms]) => ms !== undefined).map(([name, ms]) => [name, moment(ms)]),
    ...(batch.held_by.length
      ? [[batch.waits ? "waits for rows of" : "held back by", batch.held_by.map((one) => run.inputs[one].name).join(", ")]]
      : []),
  ];
}

function inputOf(run, at, input, number) {
  const mine = run.batches[at].inputs[number];
  const before = at ? run.batches[at - 1] : undefined;
  const follows = before && before.batch === run.batches[at].batch - 1;
  const offsets = Object.entries(mine.ends).map(([partition, end]) => {
    const begin = follows ? before.inputs[number].ends[partition] : undefined;
    return [`offsets of partition ${partition}`, begin === undefined ? `up to ${count(end)}` : `${count(begin)} to ${count(end)}`];
  });
  return table(`Input ${input.name}`, [
    ["rows", count(mine.rows)],
    ...(mine.late === undefined ? [] : [["late", count(mine.late)]]),
    ...(mine.latest_ms === undefined ? [] : [["latest event time so far", moment(mine.latest_ms)]]),
    ["watermark delay", input.delay_ms === null ? "no watermark" : duration(input.delay_ms)],
    ...offsets,
  ]);
}

function rowsOut(run, batch) {
  return [
    [run.rows, batch.joined], ["NULL rows", run.batches.some((one) => one.nulls) ? batch.nulls : undefined], ["came again", batch.repeated], ["as Spark reports", batch.out],
    ["late, as Spark reports", batch.dropped],
  ].filter(([, number]) => number !== undefined).map(([name, number]) => [name, count(number)]);
}

function stateOf(operator) {
  return [
    ["rows kept", count(operator.kept)], ["stored", count(operator.stored)], ["removed", count(operator.removed)],
    ["dropped as late", count(operator.dropped)], ["memory", bytes(operator.bytes)],
    ...Object.entries(operator.times_ms).map(([name, ms]) => [name, duration(ms)]),
  ];
}

function executorsOf(batch) {
  const lost = batch.lost_executors.map((one) => element("span", { class: "bad" }, `${one} ended here`));
  return [...(batch.executors.length ? [batch.executors.join(", ")] : []), ...lost];
}

function faultsOf(run, batch) {
  return run.faults.filter((fault) => fault.batch === batch.batch);
}

function faultText(fault) {
  const took = fault.recovered_ms === undefined ? "" : `, recovered after ${duration(fault.recovered_ms - fault.at_ms)}`;
  return `${fault.label} (${fault.components.join(", ")}) at ${fault.point}${took}`;
}

function written(run, batch) {
  if (batch.joined === undefined) return batch.out === undefined ? "" : `${count(batch.out)} rows out`;
  const nulls = batch.nulls ? `, ${count(batch.nulls)} NULL rows` : "";
  return `${count(batch.joined)} ${run.rows}${nulls}${batch.repeated ? `, ${count(batch.repeated)} came again` : ""}`;
}

function late(batch) {
  const number = lateRows(batch);
  return number ? `, ${count(number)} late` : "";
}

function heldBack(run, batch) {
  if (!batch.held_by.length) return "";
  const names = batch.held_by.map((one) => run.inputs[one].name).join(", ");
  return batch.waits ? `, waits for rows of ${names}` : `, held back by ${names}`;
}

function table(title, rows) {
  if (!rows.length) return [];
  const shown = rows.map(([name, value]) => element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, String(value))));
  return [element("h4", {}, title), element("table", {}, ...shown)];
}

function listed(title, items) {
  if (!items.length) return [];
  return [element("h4", {}, title), ...items.map((item) => element("div", {}, item))];
}
