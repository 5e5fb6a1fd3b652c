"use strict";
// Where events come from: the page itself, or a running broker.

const TURN_MS = 40; // of reading a file; then the page may answer to its reader
const LIVE_TURN_MS = 12; // the same, while it also draws
const SCHEMA = Number(document.documentElement.dataset.schema);
const GATHER_MS = 50; // events that come in so short a time are taken, and drawn, together

const nextTask = () => new Promise((resolve) => { setTimeout(resolve, 0); });

/** Reads the events that the page brings along. */
async function readPage(model, progress) {
  const packed = atob(byId("events").textContent);
  byId("events").remove();
  const bytes = new Uint8Array(packed.length);
  for (let i = 0; i < packed.length; i += 1) bytes[i] = packed.charCodeAt(i);
  const text = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")).pipeThrough(new TextDecoderStream());
  const taken = { good: 0, bad: 0 };
  let rest = "";
  let worked = performance.now();
  for await (const chunk of readerOf(text)) {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      takeLine(model, line, taken);
      if (performance.now() - worked < TURN_MS) continue;
      progress(`${count(taken.good, "event")} read`);
      await nextTask();
      worked = performance.now();
    }
  }
  takeLine(model, rest, taken);
  return taken.bad;
}

async function* readerOf(stream) {
  const reader = stream.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}

function takeLine(model, line, taken) {
  if (!line) return;
  try {
    const event = JSON.parse(line);
    if (event.schema !== SCHEMA) throw new RangeError(`schema version ${event.schema}`);
    fold(model, event);
    taken.good += 1;
  } catch {
    taken.bad += 1;
  }
}

/** Follows a broker; the model takes new events before the next frame. */
class LiveSource {
  constructor(model, url, { changed, status }) {
    Object.assign(this, { model, url, changed, status, waiting: [], bad: 0, isScheduled: false });
    this.isOpen = false;
    this.heardAt = null; // {time, real}: the broker's time and ours
    this.connect();
  }

  connect() {
    this.source = new EventSource(`${this.url}?heard=true&transactions=true`);
    this.source.onopen = () => this.tell(true);
    this.source.onmessage = (message) => this.take(message.data);
    this.source.addEventListener("heard", (message) => this.hear(message.data));
    this.source.onerror = () => {
      this.tell(false);
      if (this.source.readyState === EventSource.CLOSED) {
        this.source.close();
        setTimeout(() => this.connect(), 3000);
      }
    };
  }

  tell(isOpen = this.isOpen) {
    this.isOpen = isOpen;
    if (!isOpen) this.status("lost", "connection lost");
    else if (this.bad) this.status("lost", `${count(this.bad, "event")} could not be read: reload the page`);
    else this.status("live");
  }

  take(data) {
    this.waiting.push(data);
    if (this.isScheduled) return;
    this.isScheduled = true;
    setTimeout(() => this.work(), GATHER_MS);
  }

  work() {
    const began = performance.now();
    const taken = { good: 0, bad: 0 };
    let done = 0;
    // A hidden page has its turn once a minute: it takes all waiting events.
    while (done < this.waiting.length && (document.hidden || performance.now() - began < LIVE_TURN_MS)) {
      takeLine(this.model, this.waiting[done], taken);
      done += 1;
    }
    this.waiting.splice(0, done);
    this.bad += taken.bad;
    if (taken.good) this.heardAt = { time: this.model.last, real: performance.now() };
    if (this.bad) this.tell();
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
    if (!this.model.run) return;
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
    const passed = this.model.isRealTime && this.isOpen ? performance.now() - this.heardAt.real : 0;
    return this.heardAt.time + passed;
  }
}

/** Asks a broker for the findings of `kohort why`; false: it has none. */
async function askFindings(model, group) {
  try {
    const answer = await fetch(`why.json?group=${encodeURIComponent(group)}`, { signal: AbortSignal.timeout(10_000) });
    if (!answer.ok) return false;
    model.findings.set(group, (await answer.json()).findings);
    return true;
  } catch {
    return false; // the page has the accounts
  }
}
