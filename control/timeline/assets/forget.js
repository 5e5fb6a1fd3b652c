"use strict";
// A page that is left open forgets the oldest events: its memory is bounded.

const MOST_EVENTS = 300_000;
const STEP = 1000; // events between two looks at how many there are

/** Forgets the older half of the events, once there are too many. */
function trim(model) {
  if (model.events - model.counted >= STEP) {
    model.counted = model.events;
    model.arrivals.push(model.last);
  }
  if (model.arrivals.length * STEP < MOST_EVENTS) return;
  forgetBefore(model, model.arrivals[model.arrivals.length >> 1]);
  model.arrivals.splice(0, model.arrivals.length >> 1);
}

/** Forgets the time before a moment, but no state that still holds. */
function forgetBefore(model, before) {
  const isLater = ({ at }) => at >= before;
  model.start = before;
  model.marks = model.marks.filter(isLater);
  model.gaps = model.gaps.filter(isLater);
  for (const [what, mark] of model.shards) if (!isLater(mark)) model.shards.delete(what);
  for (const [source, at] of model.lastOf) {
    if (at >= before || source.startsWith(`${model.run.id}/`)) continue;
    model.lastOf.delete(source);
    model.seen.delete(source);
  }
  for (const group of model.groups.values()) {
    forgetOfGroup(group, before);
    if (!group.lanes.length && group.last < before) model.groups.delete(group.name);
  }
  model.shape += 1;
}

function forgetOfGroup(group, before) {
  const isGone = (lane) => lane.state === GONE && (lane.times[lane.times.length - 1] ?? lane.first) < before;
  const gone = new Set(group.lanes.filter(isGone));
  group.lanes = group.lanes.filter((lane) => !gone.has(lane));
  group.isNamed = false;
  for (const base of group.shared) if (!group.lanes.some((lane) => lane.base === base)) group.shared.delete(base);
  for (const table of [group.byMember, group.known]) {
    for (const [key, lane] of table) if (gone.has(lane)) table.delete(key);
  }
  for (const [id, lane] of group.known) if (lane.memberId !== id && lane.first < before) group.known.delete(id);
  keepFrom(before, group.generations, group.generations);
  group.holds = group.holds.filter(({ end }) => end === null || end >= before);
  group.unread = group.unread.filter(({ end }) => end >= before);
  group.deliveries = group.deliveries.filter(({ at }) => at >= before);
  const isOver = (each) => each.at < before && each.end !== null;
  group.rebalances = group.rebalances.filter((each) => !isOver(each));
  group.marks = group.marks.filter((mark) => (mark.rebalance ? !isOver(mark.rebalance) : mark.at >= before));
  for (const lane of group.lanes) forgetOfLane(lane, before);
}

function forgetOfLane(lane, before) {
  keepFrom(before, lane.times, lane.times, lane.states);
  keepFrom(before, lane.owned, lane.owned);
  keepFrom(before, lane.beats, lane.beats);
  keepFrom(before, lane.commits, lane.commits);
  lane.marks = lane.marks.filter((mark) => mark.at >= before);
}

/** Drops the items before the last of ascending `times` that is not after a moment. */
function keepFrom(before, times, ...lists) {
  const dropped = Math.max(0, lastAtOrBefore(times, before));
  for (const list of lists) list.splice(0, dropped);
}
