"use strict";
// What each kind of event changes in the model.

/** Takes an event into the model; false: it was there already, or cannot be taken. */
function fold(model, event) {
  if (typeof event?.kind !== "string" || typeof event.time_ns !== "number") return false;
  const source = `${event.run}/${event.node}`;
  if (event.sequence <= model.seen.get(source)) return false; // a stream that was taken up again
  if (Number.isInteger(event.sequence)) model.seen.set(source, event.sequence);
  if (!model.runs.has(event.run)) {
    forget(model, model.end); // a broker that was killed did not say so
    model.begin(event.run, event.time_ns, event.labels ?? {});
  }
  const at = model.time(event.time_ns);
  model.end = Math.max(model.end, at);
  model.last = Math.max(model.last, at);
  model.isRealTime = Math.abs(event.time_ns - event.wall_ns) < 60e9;
  model.events += 1;
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
    else if (!SILENT.has(event.kind)) model.marks.push(eventMark(at, event, null, null));
    return true;
  }
  const group = model.group(event.group);
  if (Number.isInteger(event.generation)) group.generation = event.generation;
  group.node = event.node;
  group.last = at;
  entry(FOLDS, event.kind)?.(model, group, event, at);
  mark(model, group, event, at);
  return true;
}

/** What is not known any more: the states of a node's groups; the chart says from when. */
function loseEvents(model, event, at, source) {
  model.gaps.push({ from: model.lastOf.get(source) ?? model.time(model.run.ns), at });
  for (const group of model.groups.values()) {
    if (group.node !== event.node) continue;
    closeRebalance(group, at, "lost");
    group.state = null;
  }
}

/** A node is away, or all were: who is in its groups is known once they are loaded. */
function forget(model, at, node = null) {
  for (const group of model.groups.values()) {
    if (node !== null && group.node !== node) continue;
    for (const lane of group.lanes) {
      lane.go(at, GONE);
      if (lane.owned.at(-1)?.count) lane.own(at, []);
    }
    closeRebalance(group, at, "cut");
    group.state = null;
  }
}

function closeRebalance(group, at, how) {
  const current = group.current;
  if (current && current.end === null) {
    current.end = at;
    current.how = how;
  }
}

function gone(model, group, event, at) {
  if (!event.member_id) return;
  const lane = model.lane(group, event.member_id, at, event);
  lane.pending = false;
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
    if (event.cause === "repeated") {
      if (group.state === "CompletingRebalance") lane.go(at, SYNCING);
      else if (lane.state === GONE) lane.go(at, group.state === "Stable" ? STABLE : WAITING);
    } else lane.go(at, WAITING);
  },
  pending_member_expired: gone,
  member_left: gone,
  member_expired: gone,
  member_kicked: gone,
  member_replaced(model, group, event, at) {
    const old = group.byMember.get(event.replaced_member_id);
    if (old) {
      group.byMember.delete(event.replaced_member_id);
      model.rename(group, old, event.member_id);
    }
    const lane = model.lane(group, event.member_id, at, event);
    lane.heard = at;
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
  group_state(model, group, event) {
    group.state = event.state;
  },
  rebalance_started(model, group, event, at) {
    closeRebalance(group, at, "cut");
    group.state = "PreparingRebalance";
    for (const id of event.members ?? []) {
      const lane = model.lane(group, id, at, event);
      const isBack = event.cause === "static_member_replaced" && id === event.member_id;
      if (isBack) lane.go(at, WAITING); // that it is back is its JoinGroup
      else if (lane.state !== WAITING) lane.go(at, JOINING);
    }
    if (event.member_id && group.byMember.has(event.member_id)) model.learn(group, group.byMember.get(event.member_id), event);
    const rebalance = {
      group,
      number: group.rebalances.length + 1,
      key: `${event.run}/${event.node}/${event.sequence}`,
      start: at,
      joined: null,
      end: null,
      how: null,
      generation: null,
      cause: event.cause,
      culprit: event.member_id,
      culpritName: culpritName(group, event),
      reason: event.reason ?? group.reasons.get(event.member_id) ?? null,
      expected: event.members ?? [],
      windows: [],
      from: event.previous_state,
      completed: null,
      assigned: null,
      moved: 0,
      back: 0,
      fresh: 0,
      changes: [],
    };
    group.rebalances.push(rebalance);
    model.rebalances += 1;
    group.marks.push({ at, group, lane: null, event, rebalance });
  },
  window_opened(model, group, event, at) {
    if (group.current && group.current.joined === null) group.current.windows.push({ at, event });
  },
  join_completed(model, group, event, at) {
    group.state = event.members?.length ? "CompletingRebalance" : "Empty";
    group.leader = event.leader ?? null;
    const members = new Set(event.members);
    for (const lane of group.lanes) if (!lane.pending && !members.has(lane.memberId)) lane.go(at, GONE);
    for (const id of members) {
      const lane = model.lane(group, id, at, event);
      lane.pending = false;
      lane.go(at, SYNCING);
    }
    beginGeneration(group, at, event.generation, members.size);
    const { current } = group;
    if (current?.how === "lost") current.end = current.how = null; // it went on
    if (!current || current.joined !== null || current.end !== null) return;
    current.joined = at;
    current.generation = event.generation;
    current.completed = event;
    if (!event.members?.length) closeRebalance(group, at, "empty");
  },
  assignment_made(model, group, event, at) {
    group.state = "Stable";
    const { current } = group;
    if (current?.how === "lost") current.end = current.how = null;
    if (!current || current.end !== null) return;
    current.assigned = event;
    closeRebalance(group, at, "assigned");
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
    if (event.cause === "gone") return;
    if (event.cause === "loaded") for (const name of namesOf(event.owned ?? [])) group.owners.set(name, lane);
    const current = event.cause === "assigned" ? group.current : null;
    if (current) current.changes.push(event);
    for (const name of namesOf(event.partitions_gained ?? [])) {
      const before = group.owners.get(name);
      group.owners.set(name, lane);
      if (!current) continue;
      if (!before) current.fresh += 1;
      else if (before === lane) current.back += 1;
      else current.moved += 1;
    }
  },
  offsets_committed(model, group, event, at) {
    const lane = event.member_id ? group.byMember.get(event.member_id) : null;
    if (lane) lane.commits.push(at);
  },
  group_loaded(model, group, event, at) {
    group.state = event.state;
    group.leader = event.leader ?? null;
    const state = { Stable: STABLE, PreparingRebalance: JOINING, CompletingRebalance: SYNCING }[event.state] ?? GONE;
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

const namesOf = (parts) => parts.flatMap((part) => part.partitions.map((partition) => `${part.topic}/${partition}`));

function culpritName(group, event) {
  if (event.culprits?.length > 1) return few(event.culprits.map((id) => group.nameOf(id)), 3);
  if (group.known.has(event.member_id)) return group.nameOf(event.member_id);
  return nameIn(event);
}

/** What an event calls a member of whom nothing else is known. */
const nameIn = (event) => shown(event.instance_id || event.client_id || event.member_id || "somebody");

/** Marks what is worth a word and is no rebalance. */
function mark(model, group, event, at) {
  if (event.kind === "member_left" && event.reason) {
    group.reasons.set(event.member_id, event.reason);
  }
  if (SILENT.has(event.kind)) return;
  const lane = group.byMember.get(event.member_id) ?? null;
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
    const cause = entry(REBALANCE_CAUSES, mark.rebalance.cause);
    return [cause ? cause[0] : "\u2022", BAD_CAUSES.has(mark.rebalance.cause)];
  }
  const known = entry(EVENT_MARKS, mark.event.kind);
  return known ? [known[0], known[1]] : ["\u2022", false];
}

/** A mark in one line. */
function titleOf(mark) {
  const { event, rebalance, group } = mark;
  if (rebalance) {
    const to = rebalance.generation === null ? "" : `, to generation ${rebalance.generation}`;
    return `Rebalance${to}: ${causeText(rebalance)}`;
  }
  const known = entry(EVENT_MARKS, event.kind);
  if (known) return known[2](event, mark.lane ? mark.lane.name : nameIn(event), mark);
  return shown(`${plain(event.kind)}${event.cause ? `: ${plain(event.cause)}` : ""}${group ? ` (${group.title})` : ""}`, 200);
}

function causeText(rebalance) {
  const known = entry(REBALANCE_CAUSES, rebalance.cause);
  return known ? known[1](rebalance.culpritName) : `${shown(plain(rebalance.cause)) || "no cause is given"}.`;
}

/** Between a rebalance's start and the assignment, or what there is of it. */
const lengthOf = (rebalance) => (rebalance.end === null ? null : rebalance.end - rebalance.start);
