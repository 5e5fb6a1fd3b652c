"use strict";
// The rows and their places: one for the broker, one per group, one per member (lane).

const GROUP_HEIGHT = 30;
const ROW_HEIGHTS = [3, 6, 12, 18, 24, 34, 48];
const LABELLED = 12; // rows of at least this height have labels and marks

/** The rows that pass the filters, one below the other. */
function layRows(model, filter, rowHeight) {
  const rows = [];
  let top = 0;
  const add = (row, height) => {
    rows.push({ ...row, top, height, index: rows.length });
    top += height;
  };
  if (model.brokerMarks.length && !filter.group) add({ kind: "broker", group: null, lane: null }, GROUP_HEIGHT);
  for (const group of model.groupsLike(filter)) {
    const isShown = (lane) => (!filter.find || lane.isLike(filter.find)) && !(filter.hidesGone && lane.state === GONE);
    const lanes = filter.find || filter.hidesGone ? group.lanes.filter(isShown) : group.lanes;
    if (filter.find && !lanes.length) continue;
    add({ kind: "group", group, lane: null, isOneOfNodes: model.nodes.size > 1 }, GROUP_HEIGHT);
    if (group.isOpen) for (const lane of lanes) add({ kind: "lane", group, lane }, rowHeight);
    top += 6;
  }
  return { rows, height: top };
}

/** The marks of a row, ascending in time. */
function marksOf(row, model) {
  if (row.kind === "broker") return model.brokerMarks;
  return row.kind === "group" ? row.group.marks : row.lane.marks;
}

/** A row for screen readers. */
function describeRow(row, chart) {
  if (row.kind === "broker") return "Broker";
  if (row.kind === "group") {
    const { group } = row;
    const generation = group.generation === null ? "" : `, generation ${group.generation}`;
    const held = group.held ? ", held by a test" : "";
    return `Group ${group.title}: ${group.state ?? "state unknown"}${held}${generation}, ${count(group.alive, "member")}, ${count(group.rebalances.length, "rebalance")}${row.isOneOfNodes ? `, ${nodeOf(group)}` : ""}`;
  }
  const { lane } = row;
  const owned = lane.ownedAt(chart.now);
  const parts = owned?.count ? `, owns ${textsOf(owned)[0]}` : "";
  const leads = row.group.leader === lane.memberId ? ", leader" : "";
  return `Member ${lane.name} of ${row.group.title}: ${lane.pending ? "pending, has not joined" : lane.stateName(chart)}${leads}${parts}`;
}

/** The node that coordinates the group, or did last. */
const nodeOf = (group) => `node ${group.node}`;

/** The short text beside a row's name. */
function noteOf(row) {
  if (row.kind === "group") {
    const { group } = row;
    return [group.state, group.generation === null ? null : `gen ${group.generation}`, row.isOneOfNodes ? nodeOf(group) : null, count(group.alive, "member")].filter(Boolean).join(" \u00b7 ");
  }
  if (row.kind === "lane") {
    const owned = row.lane.owned[row.lane.owned.length - 1];
    return owned?.count && row.lane.state !== GONE ? count(owned.count, "partition") : "";
  }
  return "";
}
