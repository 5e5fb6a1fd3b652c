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
    this.owned.push({ parts, count: partsCount(parts), text: null });
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
    if (this.instanceId) return this.instanceId;
    if (!this.clientId) return this.memberId;
    if (this.group.clients.get(this.clientId) === 1) return this.clientId;
    return `${this.clientId} \u2026${this.memberId.slice(-4)}`;
  }

  isLike(text) {
    return [this.memberId, this.clientId, this.instanceId, this.host].some((each) => each && each.toLowerCase().includes(text));
  }
}

/** A group over time. */
class Group {
  constructor(name) {
    this.name = name;
    this.state = null;
    this.generation = null;
    this.leader = null;
    this.lanes = [];
    this.byMember = new Map();
    this.known = new Map(); // ids of the past, too: only to name them
    this.byInstance = new Map();
    this.clients = new Map();
    this.generations = [];
    this.rebalances = [];
    this.marks = [];
    this.owners = new Map();
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
    return lane ? lane.name : (memberId ?? "somebody");
  }
}

/** Everything that the events have told. */
class Model {
  constructor() {
    this.groups = new Map();
    this.marks = []; // of no group
    this.origin = null; // ns since the epoch
    this.end = 0;
    this.events = 0;
    this.rebalances = 0;
    this.lanes = 0;
    this.version = 0; // grows with each event
    this.shape = 0; // grows with groups and lanes
    this.runs = new Map(); // run -> labels
    this.explanations = new Map(); // run/node/sequence -> sentences
    this.seen = new Map();
    this.isRealTime = false;
  }

  time(ns) {
    return (ns - this.origin) / 1e6;
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
    this.shape += 1;
  }

  learn(group, lane, event) {
    if (event.client_id && !lane.clientId) {
      lane.clientId = event.client_id;
      group.clients.set(event.client_id, (group.clients.get(event.client_id) ?? 0) + 1);
    }
    if (event.instance_id && !lane.instanceId) {
      lane.instanceId = event.instance_id;
      group.byInstance.set(event.instance_id, lane);
    }
    if (event.host) lane.host = event.host;
  }

  /** The events that a page shows, whose marks it lists. */
  *everyMark(filter = null) {
    if (!filter) for (const mark of this.marks) yield mark;
    for (const group of this.groups.values()) {
      if (filter && group.name !== filter) continue;
      for (const mark of group.marks) if (!mark.rebalance) yield mark;
      for (const lane of group.lanes) yield* lane.marks;
    }
  }
}
