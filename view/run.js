// The data of a run as the page holds it (tidemark/reports/run_view.py), with the defaults that JSON leaves out.

import { least, most } from "./words.js";

export async function readRun(text) {
  const bytes = Uint8Array.from(atob(text.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return withDefaults(await new Response(stream).json());
}

function withDefaults(run) {
  const batches = run.batches.map((batch) => ({
    watermark_ms: 0, late_watermark_ms: 0, held_by: [], waits: false, committed: true, runs: 1, restarted: false,
    failed_tasks: 0, phases_ms: {}, operators: [], executors: [], lost_executors: [], findings: {},
    ...batch,
    inputs: batch.inputs.map((input) => ({ rows: 0, ends: {}, ...input })),
  }));
  const operators = (batch) => batch.operators.map((one) => ({
    kept: 0, stored: 0, removed: 0, dropped: 0, bytes: 0, times_ms: {}, ...one,
  }));
  const lives = { rows: [], findings: [], of_rows: 0, notes: [], ...run.lives };
  const step = (one) => ({ expected: "", observed: "", wrong: false, ...one });
  lives.rows = lives.rows.map((row) => ({
    more: 0, ...row,
    steps: (row.steps ?? []).map(step),
    candidates: (row.candidates ?? []).map((one) => ({ matches: false, outside_us: 0, ...one })),
    made: (row.made ?? []).map((one) => ({ wrong: false, ...one, came: one.came ?? [] })),
  }));
  return { notes: [], last_ms: 0, ...run, lives, batches: batches.map((one) => ({ ...one, operators: operators(one) })) };
}

export function rowsRead(batch) {
  return batch.inputs.reduce((sum, input) => sum + input.rows, 0);
}

export function lateRows(batch) {
  if (batch.inputs.every((input) => input.late === undefined)) return batch.dropped;
  return batch.inputs.reduce((sum, input) => sum + (input.late ?? 0), 0);
}

export function findingsOf(batch) {
  return Object.values(batch.findings).reduce((sum, count) => sum + count, 0);
}

export function hasClock(run) {
  return run.batches.some((batch) => batch.started_ms !== undefined);
}

// Where batches are on the axis: by their order, or by the wall clock. A span is [begin, end], or undefined.
export class Axis {
  constructor(run, byClock) {
    this.run = run;
    this.byClock = byClock;
    this.spans = run.batches.map((batch, at) => {
      if (!byClock) return [at - 0.5, at + 0.5];
      if (batch.started_ms === undefined) return undefined;
      return [batch.started_ms, batch.started_ms + Math.max(batch.duration_ms ?? 0, 1)];
    });
    const known = this.spans.filter(Boolean);
    const times = byClock ? run.faults.flatMap((one) => [one.at_ms, one.recovered_ms]).filter(Boolean) : [];
    this.begin = least([...known.map((span) => span[0]), ...times]);
    this.end = most([...known.map((span) => span[1]), ...times]);
  }

  // The batch at a place of the axis, or the nearest one.
  batchAt(place) {
    let best = -1;
    let least = Infinity;
    this.spans.forEach((span, at) => {
      if (!span) return;
      const distance = place < span[0] ? span[0] - place : Math.max(place - span[1], 0);
      if (distance < least) [best, least] = [at, distance];
    });
    return best;
  }

  // The place of a moment of the wall clock; between two batches it is where they meet.
  placeOf(moment) {
    if (this.byClock) return moment;
    let place = -0.5;
    this.run.batches.forEach((batch, at) => {
      if (batch.started_ms === undefined || batch.started_ms > moment) return;
      const part = (moment - batch.started_ms) / Math.max(batch.duration_ms ?? 0, 1);
      place = at - 0.5 + Math.min(part, 1);
    });
    return place;
  }

  // The place of a fault: its time, or the middle of its batch where there is none.
  placeOfFault(fault) {
    const at = this.run.batches.findIndex((batch) => batch.batch === fault.batch);
    if (this.byClock) return fault.at_ms;
    if (at < 0) return fault.at_ms === undefined ? undefined : this.placeOf(fault.at_ms);
    const inside = fault.at_ms === undefined ? at : this.placeOf(fault.at_ms);
    return Math.min(Math.max(inside, at - 0.5), at + 0.5); // a batch that ran again has the time of its last run
  }
}
