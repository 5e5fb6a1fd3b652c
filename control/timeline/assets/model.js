"use strict";
// What is known of groups and members: lanes of states over time.
//
// Times are ms since the first event. A lane has its states as two arrays, when and
// what, ascending; the last one goes on until now.

/** The index of the last of ascending `times` that is not after `time`; -1: none. */
function lastAtOrBefore(times, time) {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** A member over time; a static one (KIP-345) keeps its lane when its id changes. */
class Lane {
  constructor(group, memberId, at) {
    this.group = group;
    this.memberId = memberId;
    this.clientId = null;
    this.instanceId = null;
    this.host = null;
    this.first = at;
    this.times = [];
    this.states = [];
    this.ownedTimes = [];
    this.owned = [];
    this.beats = [];
    this.commits = [];
    this.marks = [];
    this.heard = null;
    this.pending = false;
  }

  get state() {
    return this.states.length ? this.states[this.states.length - 1] : GONE;
  }

  /** The member goes to a state. */
  go(at, state) {
    const last = this.times.length - 1;
    if (this.state === state) return;
    const time = last >= 0 ? Math.max(at, this.times[last]) : at;
    if (last >= 0 && this.times[last] === time) {
      this.states[last] = state;
      if (last > 0 && this.states[last - 1] === state) {
        this.times.pop();
        this.states.pop();
      }
    } else if (last >= 0 || state !== GONE) {
      this.times.push(time);
      this.states.push(state);
    }
  }

  own(at, parts) {
    this.ownedTimes.push(at);
    this.owned.push({ parts, count: partsCount(parts), texts: null });
  }

  ownedAt(at) {
    const index = lastAtOrBefore(this.ownedTimes, at);
    return index < 0 ? null : this.owned[index];
  }

  stateAt(at) {
    const index = lastAtOrBefore(this.times, at);
    return index < 0 ? GONE : this.states[index];
  }

  /** How long it was neither stable nor gone, in all of this time. */
  unsettled(from, to) {
    let sum = 0;
    for (let i = Math.max(0, lastAtOrBefore(this.times, from)); i < this.times.length && this.times[i] < to; i += 1) {
      if (this.states[i] === STABLE || this.states[i] === GONE) continue;
      const end = i + 1 < this.times.length ? this.times[i + 1] : to;
      sum += Math.max(0, Math.min(end, to) - Math.max(this.times[i], from));
    }
    return sum;
  }

  /** What people call it. */
  get name() {
    return this.group.names.of(this);
  }

  isLike(text) {
    return [this.memberId, this.clientId, this.instanceId, this.host].some((each) => each && each.toLowerCase().includes(text));
  }
}

/**
 * Names of a group's members: those that `kohort why` gives them.
 *
 * An instance id, else a client id. Where two of one client id were there at the same
 * time, the beginning of what makes their member ids different follows.
 */
class Names {
  constructor() {
    this.alike = new Map(); // name -> {lanes, isShared, length, made}
    this.bases = new Map(); // lane -> the name that it has in `alike`
  }

  /** A lane is new, or there again, or more is known of it. */
  learn(lane) {
    const base = lane.instanceId || lane.clientId || lane.memberId;
    if (this.bases.get(lane) !== base) this.forget(lane);
    this.bases.set(lane, base);
    let alike = this.alike.get(base);
    if (!alike) this.alike.set(base, alike = { lanes: new Set(), isShared: false });
    alike.isShared ||= [...alike.lanes].some((each) => each !== lane && each.state !== GONE);
    alike.lanes.add(lane);
    alike.length = null;
    alike.made = new Map();
  }

  forget(lane) {
    const base = this.bases.get(lane);
    const alike = this.alike.get(base);
    this.bases.delete(lane);
    if (!alike?.lanes.delete(lane)) return;
    alike.length = null;
    alike.made = new Map();
    if (!alike.lanes.size) this.alike.delete(base);
  }

  of(lane) {
    const base = this.bases.get(lane) ?? lane.memberId;
    const alike = this.alike.get(base);
    if (!alike) return shown(base);
    let name = alike.made.get(lane);
    if (name === undefined) alike.made.set(lane, name = shown(Names.make(base, alike, lane)));
    return name;
  }

  static make(base, alike, lane) {
    if (!alike.isShared || alike.lanes.size < 2) return base;
    const tailOf = ({ memberId }) => (memberId.startsWith(base) ? memberId.slice(base.length).replace(/^-+/, "") : memberId);
    if (alike.length === null) {
      const tails = [...alike.lanes].map(tailOf);
      const longest = Math.max(...tails.map((tail) => tail.length));
      alike.length = 4;
      while (alike.length < longest && new Set(tails.map((tail) => tail.slice(0, alike.length))).size < tails.length) alike.length += 1;
    }
    const tail = tailOf(lane).slice(0, alike.length);
    return tail ? `${base}-${tail}` : base;
  }
}

/** A group over time. */
class Group {
  constructor(name) {
    this.name = name;
    this.title = shown(name);
    this.node = null; // that coordinates it
    this.last = 0; // when its last event was
    this.state = null;
    this.generation = null;
    this.leader = null;
    this.lanes = [];
    this.byMember = new Map();
    this.known = new Map(); // ids of the past, too: only to name them
    this.byInstance = new Map();
    this.names = new Names();
    this.generations = [];
    this.rebalances = [];
    this.marks = [];
    this.owners = new Map();
    this.reasons = new Map(); // of members that left, by their ids
    this.mostOwned = 1;
    this.isOpen = true;
  }

  get current() {
    return this.rebalances.length ? this.rebalances[this.rebalances.length - 1] : null;
  }

  get alive() {
    return this.lanes.reduce((sum, lane) => sum + (lane.state === GONE || lane.pending ? 0 : 1), 0);
  }

  /** The name of a member by its id. */
  nameOf(memberId) {
    const lane = this.byMember.get(memberId) ?? this.known.get(memberId);
    return lane ? lane.name : shown(memberId || "somebody");
  }
}

const RUNS_APART = 1000; // ms, where the clock of the next run says less

/** What is owned, in texts that become shorter. */
function textsOf(owned) {
  const { parts } = owned;
  owned.texts ??= [partsText(parts), parts.length === 1 ? `p${ranges(parts[0].partitions)}` : "", count(owned.count, "partition")].filter(Boolean);
  return owned.texts;
}

/** Everything that the events have told. */
class Model {
  constructor() {
    this.groups = new Map();
    this.marks = []; // of no group
    this.origin = null; // ns since the epoch
    this.run = null; // the current one: its labels, and when it began
    this.end = 0;
    this.events = 0;
    this.rebalances = 0;
    this.lanes = 0;
    this.version = 0; // grows with each event
    this.shape = 0; // grows with groups and lanes
    this.runs = new Map();
    this.explanations = new Map(); // run/node/sequence -> sentences
    this.seen = new Map(); // run/node -> the sequence of its last event
    this.lastOf = new Map(); // run/node -> when that was
    this.last = 0; // when the last event was
    this.gaps = []; // {at, from}: events are missing
    this.shards = new Map(); // the latest marks of shards, by what and where
    this.nodes = new Set();
    this.start = 0; // what was before is forgotten
    this.counted = 0; // see `trim`
    this.arrivals = []; // when each thousandth event was
    this.isRealTime = false;
  }

  /**
   * A run of the broker begins. It is where its clock says, behind the run before; at
   * once if the clock says earlier, as a virtual one does that begins anew.
   */
  begin(run, ns, labels) {
    const since = this.origin === null ? 0 : (ns - this.origin) / 1e6;
    const begin = this.run ? Math.max(since, this.last + RUNS_APART) : 0;
    this.run = { id: run, labels, ns, begin };
    this.runs.set(run, this.run);
    this.origin ??= ns;
  }

  /** A moment of the current run's clock, in ms since the first event. */
  time(ns) {
    return this.run.begin + (ns - this.run.ns) / 1e6;
  }

  /** The other way around: what the clock of the run said then, ns since the epoch. */
  clockAt(at) {
    let found = null;
    for (const run of this.runs.values()) if (!found || run.begin <= at) found = run;
    return found.ns + (at - found.begin) * 1e6;
  }

  group(name) {
    let group = this.groups.get(name);
    if (!group) {
      group = new Group(name);
      this.groups.set(name, group);
      this.shape += 1;
    }
    return group;
  }

  /** The lane of a member, by its id; made if there is none. */
  lane(group, memberId, at, event = null) {
    const instanceId = event?.instance_id ?? null;
    let lane = group.byMember.get(memberId);
    if (!lane && instanceId) {
      lane = group.byInstance.get(instanceId);
      if (lane) this.rename(group, lane, memberId);
    }
    if (!lane) {
      lane = new Lane(group, memberId, at);
      group.byMember.set(memberId, lane);
      group.known.set(memberId, lane);
      group.lanes.push(lane);
      group.names.learn(lane);
      this.lanes += 1;
      this.shape += 1;
    }
    if (event && memberId === event.member_id) this.learn(group, lane, event);
    return lane;
  }

  rename(group, lane, memberId) {
    lane.memberId = memberId;
    group.byMember.set(memberId, lane);
    group.known.set(memberId, lane);
    group.names.learn(lane);
    this.shape += 1;
  }

  learn(group, lane, event) {
    const isNews = (event.client_id && !lane.clientId) || (event.instance_id && !lane.instanceId);
    lane.clientId ??= event.client_id ?? null;
    if (event.instance_id && !lane.instanceId) {
      lane.instanceId = event.instance_id;
      group.byInstance.set(event.instance_id, lane);
    }
    if (event.host) lane.host = event.host;
    if (isNews) group.names.learn(lane);
  }

  /** All marks that are no rebalances; of one group, where it is named. */
  everyMark(filter = null) {
    const groups = [...this.groups.values()].filter((group) => !filter || group.name === filter);
    const ofGroups = groups.flatMap((group) => [
      ...group.marks.filter((mark) => !mark.rebalance),
      ...group.lanes.flatMap((lane) => lane.marks),
    ]);
    return filter ? ofGroups : [...this.marks, ...ofGroups];
  }

  /** How many those are. */
  countMarks(filter = null) {
    let sum = filter ? 0 : this.marks.length;
    for (const group of this.groups.values()) {
      if (filter && group.name !== filter) continue;
      sum += group.marks.length - group.rebalances.length;
      for (const lane of group.lanes) sum += lane.marks.length;
    }
    return sum;
  }
}
