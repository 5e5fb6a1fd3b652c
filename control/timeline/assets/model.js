"use strict";
// Groups and their members: lanes of states over time.
//
// Times are ms since the first event. A lane has its states as two arrays, when and
// what, ascending; the last one goes on until now.

/** The index of the last of ascending moments, or items with `at`, that is not after `time`; -1: none. */
function lastAtOrBefore(items, time) {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((items[middle].at ?? items[middle]) <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** Adds an item with `at` to ascending ones: nearly always at the end. */
function insert(items, item) {
  items.splice(lastAtOrBefore(items, item.at) + 1, 0, item);
}

/** A process over time: it keeps its lane when it comes back under another member id. */
class Lane {
  constructor(group, memberId, at) {
    this.group = group;
    this.memberId = memberId;
    this.ids = [{ memberId, at }];
    this.clientId = null;
    this.instanceId = null;
    this.host = null;
    this.connection = null; // "run/number"
    this.first = at;
    this.times = [];
    this.states = [];
    this.owned = []; // {at, parts, count, texts}
    this.beats = [];
    this.commits = [];
    this.marks = [];
    this.heard = null;
    this.sessionMs = null;
    this.pausedMs = 0; // with partitions, in rebalances that are over
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

  /** Marks the time, now known, for which the broker had heard nothing from the member. */
  silence(at, ns) {
    if (!ns || this.state === GONE) return;
    const from = Math.max(at - ns / 1e6, this.first);
    let kept = this.times.length;
    while (kept > 0 && this.times[kept - 1] >= from) kept -= 1;
    this.times.length = kept;
    this.states.length = kept;
    this.go(from, SILENT);
  }

  /** Since when it is silent now: half of its session timeout or longer; or null. */
  silentSince(now) {
    const isSilent = this.heard !== null && this.sessionMs && this.state !== GONE && now - this.heard > this.sessionMs / 2;
    return isSilent ? this.heard : null;
  }

  /** Its state now. Only a running broker tells heartbeats: a file may not have them. */
  stateName({ isLive, now }) {
    return isLive && this.silentSince(now) !== null ? "silent" : STATES[this.state];
  }

  own(at, parts) {
    this.owned.push({ at, parts, count: partsCount(parts), texts: null });
  }

  ownedAt(at) {
    return this.owned[lastAtOrBefore(this.owned, at)] ?? null;
  }

  stateAt(at) {
    return this.states[lastAtOrBefore(this.times, at)] ?? GONE;
  }

  /** Its name, where no other member has the same. */
  get base() {
    return this.instanceId || this.clientId || this.memberId;
  }

  /** The part of its member id that differs from those of others with this name. */
  get tail() {
    const { base, memberId } = this;
    return memberId.startsWith(base) ? memberId.slice(base.length).replace(/^-+/, "") : memberId;
  }

  get name() {
    this.group.nameLanes();
    return this.title;
  }

  isLike(text) {
    return [this.memberId, this.clientId, this.instanceId, this.host].some((each) => each && each.toLowerCase().includes(text));
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
    this.isConsumer = false; // of KIP-848, by its last rebalance
    this.generation = null;
    this.leader = null;
    this.lanes = [];
    this.byMember = new Map();
    this.known = new Map(); // ids of the past, too: only to name them
    this.shared = new Set(); // names that two members had at the same time
    this.isNamed = false;
    this.generations = [];
    this.rebalances = [];
    this.holds = []; // {at, end}: a test held it; end null: it still does
    this.unread = []; // {at, end}: partitions had no reader; ascending, apart from each other
    this.marks = [];
    this.unreadNs = 0; // partition-time without a reader, by all accounts
    this.delivered = null; // the sentence of the latest account of delivery
    this.deliveries = []; // its rows
    this.mostOwned = 1;
    this.isOpen = true;
  }

  get current() {
    return this.rebalances.length ? this.rebalances[this.rebalances.length - 1] : null;
  }

  /** The hold in force. */
  get held() {
    return this.holds.findLast(({ end }) => end === null) ?? null;
  }

  get alive() {
    return this.lanes.reduce((sum, lane) => sum + (lane.state === GONE || lane.pending ? 0 : 1), 0);
  }

  /**
   * The lane of the process that joins under a new id: of the same instance id; or,
   * where its member is gone, of the same client id and connection, or host.
   */
  processOf({ run, connection, instance_id: instance, client_id: client, host }) {
    if (instance) return this.lanes.findLast((lane) => lane.instanceId === instance);
    const gone = this.lanes.filter((lane) => lane.state === GONE && !lane.instanceId && !lane.pending && client && lane.clientId === client);
    const onHost = gone.filter((lane) => host && lane.host === host);
    return gone.findLast((lane) => lane.connection === `${run}/${connection}`)
      ?? onHost.reduce((last, lane) => (last?.times.at(-1) >= lane.times.at(-1) ? last : lane), undefined);
  }

  /** Partitions had no reader: joins times that overlap. */
  addUnread(at, end) {
    const isApart = (each) => each.end < at || each.at > end;
    const joined = [{ at, end }, ...this.unread.filter((each) => !isApart(each))];
    this.unread = this.unread.filter(isApart);
    insert(this.unread, { at: Math.min(...joined.map((each) => each.at)), end: Math.max(...joined.map((each) => each.end)) });
  }

  /** A lane is new, or there again, or more is known of it. */
  noteName(lane) {
    this.isNamed = false;
    const { base } = lane;
    if (this.lanes.some((each) => each !== lane && each.state !== GONE && each.base === base)) this.shared.add(base);
  }

  /**
   * Gives the lanes the names that `kohort why` gives their members.
   *
   * An instance id, else a client id. Where two of one client id were there at the same
   * time, the first characters in which their member ids differ follow.
   */
  nameLanes() {
    if (this.isNamed) return;
    this.isNamed = true;
    for (const [base, lanes] of grouped(this.lanes, (lane) => lane.base)) {
      const tails = this.shared.has(base) && lanes.length > 1 ? lanes.map(({ tail }) => tail) : [];
      const longest = Math.max(...tails.map((tail) => tail.length));
      let length = 4;
      while (length < longest && new Set(tails.map((tail) => tail.slice(0, length))).size < tails.length) length += 1;
      lanes.forEach((lane, i) => {
        lane.title = shown(tails[i] ? `${base}-${tails[i].slice(0, length)}` : base);
      });
    }
  }

  /** The name of a member by its id. */
  nameOf(memberId) {
    const lane = this.byMember.get(memberId) ?? this.known.get(memberId);
    return lane ? lane.name : shown(memberId || "a client");
  }
}

const WORTH_A_MARK = 1000; // ms for which a transaction is open: consumers have polled in vain
const RUNS_APART = 1000; // ms, where the clock of the next run says less

/** Owned partitions, in texts that become shorter. */
function textsOf(owned) {
  const { parts } = owned;
  owned.texts ??= [partsText(parts), parts.length === 1 ? `p${ranges(parts[0].partitions)}` : "", count(owned.count, "partition")].filter(Boolean);
  return owned.texts;
}

/** Everything that the page knows from events. */
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
    this.findings = new Map(); // group -> findings of `kohort why`
    this.seen = new Map(); // run/node -> the sequence of its last event
    this.lastOf = new Map(); // run/node -> when that was
    this.last = 0; // when the last event was
    this.gaps = []; // {at, from}: events are missing
    this.shards = new Map(); // the latest marks of shards, by what and where
    this.transactions = new Map(); // open ones, by run and transactional id
    this.nodes = new Set();
    this.start = 0; // events before it are forgotten
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

  /** A moment of a run's clock, in ms since the first event. */
  time(ns, run = this.run.id) {
    const { begin, ns: since } = this.runs.get(run);
    return begin + (ns - since) / 1e6;
  }

  /** The reverse: the time of the run's clock, ns since the epoch. */
  clockAt(at) {
    let found = null;
    for (const run of this.runs.values()) if (!found || run.begin <= at) found = run;
    if (!found) return NaN;
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
    let lane = group.byMember.get(memberId);
    if (!lane && event && memberId === event.member_id) {
      lane = group.processOf(event);
      if (lane) this.rename(group, lane, memberId, at);
    }
    if (!lane) {
      lane = new Lane(group, memberId, at);
      group.byMember.set(memberId, lane);
      group.known.set(memberId, lane);
      group.lanes.push(lane);
      group.noteName(lane);
      this.lanes += 1;
      this.shape += 1;
    }
    if (event && memberId === event.member_id) this.learn(group, lane, event);
    return lane;
  }

  rename(group, lane, memberId, at) {
    group.byMember.delete(lane.memberId);
    lane.memberId = memberId;
    lane.ids.push({ memberId, at });
    group.byMember.set(memberId, lane);
    group.known.set(memberId, lane);
    group.noteName(lane);
    this.shape += 1;
  }

  learn(group, lane, event) {
    const isNews = (event.client_id && !lane.clientId) || (event.instance_id && !lane.instanceId);
    lane.clientId ??= event.client_id ?? null;
    lane.instanceId ??= event.instance_id ?? null;
    if (event.host) lane.host = event.host;
    if (Number.isInteger(event.connection)) lane.connection = `${event.run}/${event.connection}`;
    if (isNews) group.noteName(lane);
  }

  /** The groups that pass a filter. */
  groupsLike(filter) {
    return [...this.groups.values()].filter((group) => !filter.group || group.name === filter.group);
  }

  /** The marks of no group, with those of transactions that have been open for a while. */
  get brokerMarks() {
    const open = [...this.transactions.values()].filter(({ at }) => this.end - at >= WORTH_A_MARK);
    return open.length ? [...this.marks, ...open.map(({ mark }) => mark)].sort((a, b) => a.at - b.at) : this.marks;
  }

  /** The marks that are no rebalances, of the groups that pass a filter. */
  marksLike(filter) {
    return [...(filter.group ? [] : this.brokerMarks), ...this.groupsLike(filter).flatMap((group) => [
      ...group.marks.filter((mark) => !mark.rebalance),
      ...group.lanes.flatMap((lane) => lane.marks),
    ])];
  }

  /** How many those are. */
  countMarks(filter) {
    const ofGroup = (group) => group.lanes.reduce((sum, lane) => sum + lane.marks.length, group.marks.length - group.rebalances.length);
    return this.groupsLike(filter).reduce((sum, group) => sum + ofGroup(group), filter.group ? 0 : this.brokerMarks.length);
  }
}
