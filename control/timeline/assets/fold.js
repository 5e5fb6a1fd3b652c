"use strict";
// Takes events into the model: one function for each kind that changes it.

/** Takes an event into the model; false: it was there already, or cannot be taken. */
function fold(model, event) {
  if (typeof event?.kind !== "string" || typeof event.time_ns !== "number") return false;
  const source = `${event.run}/${event.node}`;
  // An account without a number was made for the page: the stream ends before it.
  const isOfStream = Number.isInteger(event.sequence);
  if (isOfStream && event.sequence <= model.seen.get(source)) return false; // a stream that was taken up again
  if (isOfStream) model.seen.set(source, event.sequence);
  if (!model.runs.has(event.run)) {
    forget(model, model.end); // a broker that was killed did not say so
    model.begin(event.run, event.time_ns, event.labels ?? {});
  }
  const at = model.time(event.time_ns, event.run);
  model.end = Math.max(model.end, at);
  model.last = Math.max(model.last, at);
  model.isRealTime = Math.abs(event.time_ns - event.wall_ns) < 60e9;
  if (isOfStream) model.events += 1;
  model.version += 1;
  if (!model.nodes.has(event.node)) {
    model.nodes.add(event.node);
    model.shape += 1;
  }
  if (event.kind === "events_lost") loseEvents(model, event, at, source);
  model.lastOf.set(source, at);
  if (event.group === null || event.group === undefined) {
    if (event.kind === "node_stopped") forget(model, at, event.node);
    if (event.kind.startsWith("shard_")) markShard(model, event, at);
    else if (event.kind === "transaction_state") keepTransaction(model, event, at);
    else if (!UNMARKED.has(event.kind)) model.marks.push(eventMark(at, event, null, null));
    return true;
  }
  const group = model.group(event.group);
  if (event.kind === "rebalance_account") return keepAccount(model, group, event);
  if (event.kind === "finding") return keepFinding(model, group, event);
  if (Number.isInteger(event.generation)) group.generation = event.generation;
  group.node = event.node;
  group.last = at;
  entry(FOLDS, event.kind)?.(model, group, event, at);
  mark(model, group, event, at);
  return true;
}

const OPEN_STATES = new Set(["Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"]);
const BAD_ENDS = new Set(["timeout", "fenced", "operator"]);

/** Keeps a transaction while it is open; one that was open for long, or ended badly, stays as a mark. */
function keepTransaction(model, event, at) {
  const key = `${event.run}/${event.transactional_id}`;
  let found = model.transactions.get(key);
  if (OPEN_STATES.has(event.state)) {
    if (!found) {
      const start = Number.isFinite(event.started_ns) ? Math.min(at, Math.max(model.start, model.time(event.started_ns, event.run))) : at;
      found = { at: start, end: null, decided: null, isBad: false, event };
      found.mark = { ...eventMark(start, event, null, null), transaction: found };
      model.transactions.set(key, found);
    }
    const isDecided = event.state.startsWith("Prepare") && event.cause !== "loaded";
    if (isDecided) found.decided ??= event.cause;
    found.isBad = BAD_ENDS.has(found.decided);
    found.event = { ...event, client_id: event.client_id ?? found.event.client_id };
    found.mark.event = found.event;
  } else if (found) {
    model.transactions.delete(key);
    found.end = at;
    if (found.isBad || at - found.at >= WORTH_A_MARK) insert(model.marks, found.mark);
  }
}

/** After a gap the states of a node's groups are unknown; the chart marks the gap. */
function loseEvents(model, event, at, source) {
  model.transactions.clear(); // their ends may be missing
  model.gaps.push({ from: model.lastOf.get(source) ?? model.time(model.run.ns), at });
  for (const group of model.groups.values()) {
    if (group.node !== event.node) continue;
    closeRebalance(group, at);
    group.state = null;
  }
}

/** A node is away, or all were: the members of its groups are known once they are loaded. */
function forget(model, at, node = null) {
  if (node === null) model.transactions.clear(); // a new broker loads those that go on
  for (const group of model.groups.values()) {
    if (node !== null && group.node !== node) continue;
    for (const lane of group.lanes) {
      lane.go(at, GONE);
      if (lane.owned.at(-1)?.count) lane.own(at, []);
    }
    closeRebalance(group, at);
    group.state = null;
    if (node === null && group.held) group.held.end = at; // a new broker holds nothing
  }
}

function closeRebalance(group, at) {
  const { current } = group;
  if (current && current.end === null) current.end = at;
}

/** Keeps the latest revision of a finding. */
function keepFinding(model, group, event) {
  const found = [...(model.findings.get(group.name) ?? [])];
  const at = found.findIndex(({ finding }) => finding === event.finding);
  if (at >= 0) found.splice(at, 1, ...(event.is_withdrawn ? [] : [event]));
  else if (!event.is_withdrawn) found.push(event);
  model.findings.set(group.name, found);
  return true;
}

/** Keeps the account of a rebalance; its start may be missing, or forgotten. */
function keepAccount(model, group, event) {
  const key = `${event.run}/${event.node}/${event.started_sequence}`;
  let rebalance = group.rebalances.findLast((each) => each.key === key);
  if (rebalance?.account) return false;
  if (!rebalance) {
    const start = model.time(event.started_ns, event.run);
    if (start < model.start) return false;
    rebalance = addRebalance(model, group, { ...event, sequence: event.started_sequence }, start);
    rebalance.joined = event.joined_ns === null ? null : model.time(event.joined_ns, event.run);
    rebalance.generation = event.generation;
  }
  rebalance.account = event;
  rebalance.generation ??= event.generation;
  rebalance.end = model.time(event.ended_ns, event.run);
  keepUnread(model, group, event);
  for (const [id, ms] of pausesOf(event)) {
    const lane = group.known.get(id);
    if (lane) lane.pausedMs += ms;
  }
  return true;
}

/** The times of an account in which partitions had no reader. */
function keepUnread(model, group, event) {
  group.unreadNs += event.unread_ns;
  for (const row of event.unread ?? []) {
    if (isDowntime(row)) group.addUnread(model.time(row.since_ns, event.run), model.time(row.until_ns, event.run));
  }
}

/** Keeps an account: the latest sentence, and the rows that it adds. */
function keepDelivery(group, event, at) {
  group.delivered = event.words;
  const rows = [
    ...event.again.map((row) => ({ ...row, what: row.is_certain ? "again_certain" : "again_possible", reason: row.reason_again })),
    ...event.skips.map((row) => ({ ...row, what: "skipped", reason: row.reason_skipped })),
  ];
  group.deliveries.push(...rows.map((row) => ({ at, group, ...row })));
}

/** Keeps commits that went back. */
function keepRewinds(group, event, at) {
  const reader = event.member_id ?? event.client_id;
  const rows = event.rewinds.map((row) => ({ ...row, first: row.offset, end: row.previous_offset, records: null, reader }));
  group.deliveries.push(...rows.map((row) => ({ at, group, what: "went_back", reason: event.cause, ...row })));
}

function addRebalance(model, group, event, at) {
  const rebalance = {
    at,
    group,
    key: `${event.run}/${event.node}/${event.sequence}`,
    event,
    joined: null,
    end: null,
    generation: null,
    account: null,
  };
  insert(group.rebalances, rebalance);
  insert(group.marks, { at, group, lane: null, event, rebalance });
  model.rebalances += 1;
  return rebalance;
}

function gone(model, group, event, at) {
  if (!event.member_id) return;
  const lane = model.lane(group, event.member_id, at, event);
  lane.pending = false;
  const isSilent = event.cause !== "commanded";
  if (isSilent && (event.kind === "member_expired" || event.kind === "member_kicked")) lane.silence(at, event.silent_ns);
  lane.go(at, GONE);
}

const FOLDS = {
  member_id_given(model, group, event, at) {
    if (!event.member_id) return;
    const lane = model.lane(group, event.member_id, at, event);
    if (lane.state === GONE) {
      lane.pending = true;
      lane.go(at, JOINING);
    }
  },
  member_joined(model, group, event, at) {
    const lane = model.lane(group, event.member_id, at, event);
    lane.pending = false;
    lane.heard = at;
    lane.sessionMs = event.session_timeout_ms ?? null;
    if (event.group_type === "consumer") {
      if (lane.state === GONE) lane.go(at, SYNCING); // its first partitions come with the answer
    } else if (event.cause === "repeated") {
      if (group.state === "CompletingRebalance") lane.go(at, SYNCING);
      else if (lane.state === GONE) lane.go(at, group.state === "Stable" ? STABLE : WAITING);
    } else lane.go(at, WAITING);
  },
  unread_account: keepUnread,
  pending_member_expired: gone,
  member_left: gone,
  member_expired: gone,
  member_kicked: gone,
  member_replaced(model, group, event, at) {
    const old = group.byMember.get(event.replaced_member_id);
    if (old) {
      old.silence(at, event.silent_ns);
      model.rename(group, old, event.member_id, at);
    }
    const lane = model.lane(group, event.member_id, at, event);
    lane.heard = at;
    if (lane.state === SILENT) lane.go(at, group.state === "Stable" ? STABLE : WAITING);
    if (group.state === "PreparingRebalance") lane.go(at, WAITING);
    else if (lane.state === GONE) lane.go(at, group.state === "Stable" ? STABLE : WAITING);
  },
  leader_chosen(model, group, event) {
    group.leader = event.member_id;
  },
  heartbeat(model, group, event, at) {
    if (!event.member_id) return;
    const known = group.byMember.get(event.member_id);
    if (!known && event.error && event.error !== "NONE") return;
    const lane = known ?? model.lane(group, event.member_id, at, event);
    if (!known) lane.go(at, STABLE);
    lane.beats.push(at);
    lane.heard = at;
  },
  commanded(model, group, event, at) {
    const held = group.held;
    if (event.cause === "hold" && !held) group.holds.push({ at, end: null });
    if (event.cause === "release" && held) held.end = at;
  },
  group_state(model, group, event, at) {
    group.state = event.state;
    if (group.isConsumer && (event.state === "Stable" || event.state === "Empty")) closeRebalance(group, at);
  },
  group_converted(model, group, event) {
    group.isConsumer = event.group_type === "consumer";
  },
  member_reconciled(model, group, event, at) {
    const states = { unrevoked_partitions: JOINING, unreleased_partitions: WAITING, stable: STABLE };
    const lane = model.lane(group, event.member_id, at, event);
    lane.heard = at;
    lane.go(at, event.member_epoch < 0 ? SILENT : states[event.cause] ?? STABLE);
  },
  rebalance_started(model, group, event, at) {
    closeRebalance(group, at);
    group.isConsumer = event.group_type === "consumer";
    group.state = group.isConsumer ? "Assigning" : "PreparingRebalance";
    for (const id of event.members ?? []) {
      const lane = model.lane(group, id, at, event);
      const isBack = event.cause === "static_member_replaced" && id === event.member_id;
      if (isBack) lane.go(at, WAITING); // that it is back is its JoinGroup
      else if (lane.state !== WAITING) lane.go(at, JOINING);
    }
    if (event.member_id && group.byMember.has(event.member_id)) model.learn(group, group.byMember.get(event.member_id), event);
    addRebalance(model, group, event, at);
  },
  join_completed(model, group, event, at) {
    const isConsumer = event.cause === "target_due";
    group.state = !event.members?.length ? "Empty" : isConsumer ? "Reconciling" : "CompletingRebalance";
    group.leader = event.leader ?? null;
    const members = new Set(event.members);
    for (const lane of group.lanes) if (!lane.pending && !members.has(lane.memberId)) lane.go(at, GONE);
    for (const id of members) {
      const lane = model.lane(group, id, at, event);
      lane.pending = false;
      if (!isConsumer) lane.go(at, SYNCING);
    }
    beginGeneration(group, at, event.generation, members.size);
    const { current } = group;
    if (!current || current.joined !== null || current.account) return;
    current.joined = at;
    current.generation = event.generation;
    if (!event.members?.length) closeRebalance(group, at);
  },
  assignment_made(model, group, event, at) {
    if (!event.leader) return; // of a consumer group: its members have to get there
    group.state = "Stable";
    closeRebalance(group, at);
  },
  member_synced(model, group, event, at) {
    if (!event.member_id) return;
    const lane = model.lane(group, event.member_id, at, event);
    lane.heard = at;
    lane.go(at, STABLE);
  },
  partitions_changed(model, group, event, at) {
    if (!event.member_id) return;
    const past = group.known.get(event.member_id);
    if (past && past.memberId !== event.member_id) return; // its new id has them
    const lane = model.lane(group, event.member_id, at, event);
    lane.own(at, event.owned ?? []);
    group.mostOwned = Math.max(group.mostOwned, partsCount(event.owned ?? []));
  },
  offsets_committed(model, group, event, at) {
    const lane = event.member_id ? group.byMember.get(event.member_id) : null;
    if (lane) lane.commits.push(at);
  },
  delivery_account: (_, group, event, at) => keepDelivery(group, event, at),
  offsets_went_back: (_, group, event, at) => keepRewinds(group, event, at),
  group_loaded(model, group, event, at) {
    group.state = event.state;
    group.leader = event.leader ?? null;
    const state = { Stable: STABLE, PreparingRebalance: JOINING, CompletingRebalance: SYNCING, Assigning: STABLE, Reconciling: STABLE }[event.state] ?? GONE;
    const members = new Set(event.members ?? []);
    for (const lane of group.lanes) if (!members.has(lane.memberId)) lane.go(at, GONE);
    for (const id of members) model.lane(group, id, at, event).go(at, state);
    beginGeneration(group, at, event.generation, members.size);
  },
};

function beginGeneration(group, at, number, size) {
  const last = group.generations[group.generations.length - 1];
  if (!Number.isInteger(number) || (last?.number === number && last.size === size)) return;
  group.generations.push({ at, number, size });
}

/** The name in an event of a member that has no lane. */
const nameIn = (event) => shown(event.instance_id || event.client_id || event.member_id || "a client");

/** Adds a mark for an event, unless its kind has none. */
function mark(model, group, event, at) {
  if (UNMARKED.has(event.kind) || (event.kind === "unread_account" && !event.unread_ns)) return;
  const lane = group.byMember.get(event.member_id) ?? group.known.get(event.member_id) ?? null;
  (lane ?? group).marks.push(eventMark(at, event, group, lane));
}

const eventMark = (at, event, group, lane) => ({ at, group, lane, event, rebalance: null });

/** One mark of all shards that a node takes, or gives up, at a time: there are 50. */
function markShard(model, event, at) {
  const what = `${event.kind}/${event.run}/${event.node}/${event.cause}`;
  const last = model.shards.get(what);
  if (last && at - last.shards.until < TOGETHER) {
    last.shards.partitions.push(event.partition);
    last.shards.groups += event.groups ?? 0;
    last.shards.until = at;
    return;
  }
  const made = eventMark(at, event, null, null);
  made.shards = { partitions: [event.partition], groups: event.groups ?? 0, until: at };
  model.shards.set(what, made);
  model.marks.push(made);
}

const TOGETHER = 1000; // ms

/** The sign of a mark, and whether it is something bad. */
function signOf(mark) {
  if (mark.rebalance) {
    const { cause } = mark.event;
    return [entry(REBALANCE_SIGNS, cause) ?? "\u2022", BAD_CAUSES.has(cause)];
  }
  const known = entry(EVENT_MARKS, mark.event.kind);
  const isBad = mark.event.cause !== "admin" && known?.[1];
  return known ? [known[0], isBad || Boolean(mark.transaction?.isBad)] : ["\u2022", false];
}

/** A mark in one line. */
function titleOf(mark) {
  const { event, rebalance, group } = mark;
  if (rebalance) {
    const to = rebalance.generation === null ? "" : `, to generation ${rebalance.generation}`;
    const unread = rebalance.account?.unread_ns ? ` ${partitionTime(rebalance.account.unread_ns)} unread.` : "";
    return `Rebalance${to}: ${causeText(rebalance)}${unread}`;
  }
  const known = entry(EVENT_MARKS, event.kind);
  if (known) return known[2](event, mark.lane ? mark.lane.name : nameIn(event), mark);
  return shown(`${plain(event.kind)}${event.cause ? `: ${plain(event.cause)}` : ""}${group ? ` (${group.title})` : ""}`, 200);
}
