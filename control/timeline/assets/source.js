"use strict";
// Where events come from: the page itself, or a running broker.

const PAUSE_MS = 12; // of work, before the page may answer to its reader

const nextTask = () => new Promise((resolve) => { setTimeout(resolve, 0); });

/** Reads the events that the page brings along. */
async function readPage(model, progress) {
  const packed = byId("events").textContent;
  const bytes = Uint8Array.from(atob(packed), (each) => each.charCodeAt(0));
  byId("events").remove();
  const text = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")).pipeThrough(new TextDecoderStream());
  const events = [];
  const bad = { lines: 0 };
  let rest = "";
  let worked = performance.now();
  for await (const chunk of readerOf(text)) {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop();
    for (const line of lines) take(line, events, bad);
    if (performance.now() - worked > PAUSE_MS) {
      progress(`reading, ${numbers.format(events.length)} events`);
      await nextTask();
      worked = performance.now();
    }
  }
  take(rest, events, bad);
  if (!isInOrder(events)) events.sort((a, b) => a.time_ns - b.time_ns);
  for (let i = 0; i < events.length; i += 1) {
    fold(model, events[i]);
    if (i % 256 === 0 && performance.now() - worked > PAUSE_MS) {
      progress(`${Math.round((i / events.length) * 100)} %`);
      await nextTask();
      worked = performance.now();
    }
  }
  return bad.lines;
}

async function* readerOf(stream) {
  const reader = stream.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}

function take(line, events, bad) {
  if (!line.trim()) return;
  try {
    const event = JSON.parse(line);
    if (typeof event.time_ns === "number") events.push(event);
    else bad.lines += 1;
  } catch {
    bad.lines += 1;
  }
}

function isInOrder(events) {
  for (let i = 1; i < events.length; i += 1) if (events[i].time_ns < events[i - 1].time_ns) return false;
  return true;
}

/** Follows a broker; what came in is taken into the model before the next frame. */
class LiveSource {
  constructor(model, url, { changed, status }) {
    Object.assign(this, { model, url, changed, status, waiting: [], isScheduled: false });
    this.heardAt = null; // {time, real}: the broker's time and ours
    this.connect();
  }

  connect() {
    this.source = new EventSource(`${this.url}?heard=true`);
    this.source.onopen = () => this.status("live");
    this.source.onmessage = (message) => this.take(message.data);
    this.source.addEventListener("heard", (message) => this.hear(message.data));
    this.source.onerror = () => {
      this.status("lost");
      if (this.source.readyState === EventSource.CLOSED) {
        this.source.close();
        setTimeout(() => this.connect(), 3000);
      }
    };
  }

  take(data) {
    try {
      this.waiting.push(JSON.parse(data));
    } catch {
      return; // no event of ours
    }
    if (this.isScheduled) return;
    this.isScheduled = true;
    setTimeout(() => this.work(), 16);
  }

  work() {
    const began = performance.now();
    let done = 0;
    while (done < this.waiting.length && performance.now() - began < PAUSE_MS) {
      const event = this.waiting[done];
      if (fold(this.model, event)) this.heardAt = { time: this.model.time(event.time_ns), real: performance.now() };
      done += 1;
    }
    this.waiting.splice(0, done);
    trim(this.model);
    this.isScheduled = this.waiting.length > 0;
    if (this.isScheduled) setTimeout(() => this.work(), 0);
    this.changed();
  }

  /** The last signs of life, where heartbeats are no events. */
  hear(data) {
    let message;
    try {
      message = JSON.parse(data);
    } catch {
      return;
    }
    if (this.model.origin === null) return;
    const time = this.model.time(message.time_ns);
    this.heardAt = { time, real: performance.now() };
    this.model.end = Math.max(this.model.end, time);
    for (const [group, member, heard] of message.members ?? []) {
      const lane = this.model.groups.get(group)?.byMember.get(member);
      if (lane) lane.heard = Math.max(lane.heard ?? -Infinity, this.model.time(heard));
    }
    this.model.version += 1;
    this.changed();
  }

  /** The broker's time now: it goes on with ours, unless it is moved by hand. */
  now() {
    if (!this.heardAt) return this.model.end;
    const passed = this.model.isRealTime && this.source.readyState === EventSource.OPEN ? performance.now() - this.heardAt.real : 0;
    return this.heardAt.time + passed;
  }
}

/** Asks a broker for what `kohort why` says; false: it says nothing of this group. */
async function askWhy(model, group) {
  try {
    const answer = await fetch(`why.json?group=${encodeURIComponent(group)}`, { signal: AbortSignal.timeout(10_000) });
    if (!answer.ok) return false;
    for (const [key, sentences] of Object.entries(await answer.json())) model.explanations.set(key, sentences);
    return true;
  } catch {
    return false; // the page has words of its own
  }
}

const MOST_EVENTS = 300_000;

/** Forgets the older half of what a page that is left open has seen. */
function trim(model) {
  model.arrivals ??= [];
  if (model.events - (model.counted ?? 0) >= 1000) {
    model.counted = model.events;
    model.arrivals.push(model.end);
  }
  if (model.arrivals.length * 1000 < MOST_EVENTS) return;
  const [before] = model.arrivals.splice(0, model.arrivals.length >> 1).slice(-1);
  model.begin = before;
  model.marks = model.marks.filter((mark) => mark.at >= before);
  for (const group of model.groups.values()) trimGroup(group, before);
  model.shape += 1;
}

function trimGroup(group, before) {
  const fromLast = (items, key) => items.splice(0, Math.max(0, firstReaching(items, before, key)));
  fromLast(group.generations, "at");
  fromLast(group.rebalances, "start");
  group.rebalances.forEach((each, i) => { each.number = i + 1; });
  group.marks = group.marks.filter((mark) => mark.at >= before);
  group.lanes = group.lanes.filter((lane) => lane.state !== GONE || lane.times[lane.times.length - 1] >= before);
  const kept = new Set(group.lanes);
  for (const [id, lane] of group.byMember) if (!kept.has(lane)) group.byMember.delete(id);
  for (const [id, lane] of group.known) if (!kept.has(lane)) group.known.delete(id);
  for (const [id, lane] of group.byInstance) if (!kept.has(lane)) group.byInstance.delete(id);
  for (const lane of group.lanes) {
    const states = Math.max(0, lastAtOrBefore(lane.times, before));
    lane.times.splice(0, states);
    lane.states.splice(0, states);
    const owned = Math.max(0, lastAtOrBefore(lane.ownedTimes, before));
    lane.ownedTimes.splice(0, owned);
    lane.owned.splice(0, owned);
    lane.beats.splice(0, Math.max(0, lastAtOrBefore(lane.beats, before)));
    lane.commits.splice(0, Math.max(0, lastAtOrBefore(lane.commits, before)));
    lane.marks = lane.marks.filter((mark) => mark.at >= before);
  }
}
