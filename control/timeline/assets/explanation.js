"use strict";
// The explanation of a rebalance: the sentence of its account, and the rows of it as tables.

const MOST_ROWS = 40;
const MOST_PIECES = 5; // of a duration: the longest

/** [title, ...elements] for the panel. */
function explainRebalance(panel, each) {
  const { account, group } = each;
  const before = group.rebalances[group.rebalances.indexOf(each) - 1];
  const isEvidence = (evidence) => begins(each, evidence) && !(before && begins(before, evidence));
  const title = each.generation === null ? `Rebalance of ${group.title}` : `Rebalance of ${group.title}, to generation ${each.generation}`;
  const parts = account ? [
    explainDuration(each, account),
    explainUnread(panel, each, account),
    explainWaits(panel, each, account),
    explainSteps(each, account),
    explainLeader(group, account),
    explainMembers(group, account),
    explainPartitions(group, account),
  ] : [explainUnderWay(each)];
  return [title, panel.when(each.at), account?.words ? null : explainCause(each), explainInWords(panel, group, isEvidence, each), ...parts, explainNeighbours(panel, each)];
}

const heading = (text) => make("h3", {}, text);
const paragraph = (text) => make("p", {}, text);
const headOf = (titles) => make("thead", {}, make("tr", {}, ...titles.map((title) => make("th", { scope: "col" }, title))));

/** A table of the first rows, and the number of the rest. */
function tableOf(titles, items, cellsOf, more, most = MOST_ROWS) {
  const rows = items.slice(0, most).map((item) => make("tr", {}, ...cellsOf(item).map((cell) => make("td", {}, cell))));
  const left = items.length - rows.length;
  return [
    make("table", {}, headOf(titles), make("tbody", {}, ...rows)),
    left > 0 ? make("p", { class: "when" }, `and ${count(left, more)}.`) : null,
  ];
}

function explainCause(each) {
  const { reason, previous_state: from } = each.account ?? each.event;
  return make("p", { class: "cause" }, causeText(each) + quoted(reason) + (from ? ` The group was ${from}.` : ""));
}

/** The sentence of a rebalance, from its account, and the findings that it or another event is evidence for. */
function explainInWords(panel, group, isEvidence, rebalance = null) {
  const { model, chart } = panel;
  const told = make("div", { class: "advice", hidden: true });
  const say = () => {
    const words = rebalance?.account?.words;
    const found = (model.findings.get(group.name) ?? []).filter((finding) => finding.evidence.some(isEvidence));
    told.replaceChildren(
      ...(words ? [paragraph(shown(words, 4000))] : []),
      ...found.map(({ title }) => make("p", { class: "found" }, `Finding: ${shown(title, 400)}`)));
    told.hidden = !told.childElementCount;
  };
  say();
  if (chart.isLive) askFindings(model, group.name).then(say);
  return told;
}

function explainUnderWay({ joined, end, group }) {
  if (end !== null) return [heading("Duration"), paragraph("The account of this rebalance is missing from the events.")];
  const late = (...states) => few(group.lanes.filter((lane) => states.includes(lane.state)).map((lane) => lane.name), 5);
  const text = group.isConsumer ? underWay(joined, late(JOINING), late(WAITING)) :
    joined !== null ? "In progress: the leader has not sent the assignment yet." :
    `In progress: members are still joining.${late(JOINING) ? ` The group waits for ${late(JOINING)}.` : ""}`;
  return [heading("Duration"), paragraph(text)];
}

/** The way of a consumer group to its target assignment. */
function underWay(computed, revoking, waiting) {
  if (computed === null) return "In progress: the target assignment is not computed yet.";
  const parts = [revoking && `${revoking} has partitions to give up`, waiting && `${waiting} waits for partitions of others`];
  return `In progress: members move to the target assignment.${parts.filter(Boolean).map((part) => ` ${capital(part)}.`).join("")}`;
}

function explainDuration({ group }, account) {
  const { join_ns: join, sync_ns: sync, outcome } = account;
  const bar = make("div", { class: "phases", "aria-hidden": "true" }, make("span", { class: "joined" }), make("span", { class: "synced" }));
  bar.children[0].style.flexGrow = String(Math.max(join / 1e6, 0.001));
  bar.children[1].style.flexGrow = String(sync / 1e6);
  const isConsumer = account.group_type === "consumer";
  const phases = isConsumer
    ? `Target assignment after ${duration(join / 1e6)}, all members had it after ${duration(account.duration_ns / 1e6)}.`
    : account.joined_ns === null
    ? `The join phase had taken ${duration(join / 1e6)}.`
    : `Join phase ${duration(join / 1e6)}, sync phase ${duration(sync / 1e6)}, ${duration(account.duration_ns / 1e6)} in total.`;
  const joinEnd = entry(WORDS.causes.join_completed, account.join_ended_by) ?? plain(account.join_ended_by);
  const end = account.join_ended_by && !isConsumer ? ` The join phase ended: ${joinEnd}.` : "";
  const pieceEnd = (piece) => (piece.member_id ? `${group.nameOf(piece.member_id)} (${plain(piece.ended_by)})` : plain(piece.ended_by));
  const missing = (piece) => (piece.missing.length ? `; missing: ${few(piece.missing.map((id) => group.nameOf(id)), 3)}` : "");
  const tookOf = (piece) => piece.until_ns - piece.since_ns;
  const longest = [...account.pieces].sort((a, b) => tookOf(b) - tookOf(a));
  const pieces = longest.length > 2
    ? tableOf(["Waited for", "Took", "Until"], longest,
      (piece) => [plain(piece.what), duration(tookOf(piece) / 1e6), pieceEnd(piece) + missing(piece)], "shorter wait", MOST_PIECES)
    : [];
  return [
    heading("Duration"),
    bar,
    paragraph(phases + end),
    outcome === "completed" ? null : paragraph(`${capital(plain(outcome))}. ${capital(meaning("outcomes", outcome))}.`),
    ...pieces,
  ];
}

function explainUnread(panel, { group }, account) {
  const rows = [...account.unread].sort((a, b) => (b.until_ns - b.since_ns) * b.count - (a.until_ns - a.since_ns) * a.count);
  if (!rows.length) return null;
  return [
    heading("Partitions without a reader"),
    tableOf(["Partitions", "For", "Last owner", "Next owner"], rows, (row) => [
      partsText(row.parts),
      duration((row.until_ns - row.since_ns) / 1e6),
      make("span", { title: meaning("unread_causes", row.cause) }, `${group.nameOf(row.member_id)} (${plain(row.cause)})`),
      row.reader ? group.nameOf(row.reader) : "\u2013",
    ], "more row"),
  ];
}

/** The steps of the members of a consumer group. */
function explainSteps({ group }, account) {
  const rows = [...(account.steps ?? [])].sort((a, b) => b.until_ns - b.since_ns - (a.until_ns - a.since_ns));
  if (!rows.length) return null;
  return [
    heading("Reconciliation"),
    tableOf(["Member", "Step", "Took", "Partitions of"], rows, (row) => [
      group.nameOf(row.member_id),
      make("span", { title: meaning("steps", row.what) }, `${row.what === "revoke" ? "gave up" : "waited for"} ${count(row.count, "partition")}`),
      duration((row.until_ns - row.since_ns) / 1e6),
      few(row.holders.map((id) => group.nameOf(id)), 3) || "\u2013",
    ], "more step"),
  ];
}

function explainWaits(panel, each, account) {
  const { group } = each;
  const waits = [...account.waits].sort((a, b) => b.waited_ns - a.waited_ns);
  if (!waits.length) return null;
  const [longest] = waits;
  const pauses = pausesOf(account);
  const cells = (wait) => {
    const bar = make("span", { class: "bar" });
    bar.style.width = `${Math.max(1, (wait.waited_ns / (longest.waited_ns || 1)) * 60)}px`;
    const lane = group.byMember.get(wait.member_id);
    return [
      lane ? panel.laneLink(lane, each.at) : group.nameOf(wait.member_id),
      wait.came ? duration(wait.waited_ns / 1e6) : "never",
      bar,
      duration(pauses.get(wait.member_id)),
    ];
  };
  return [
    heading("Members that the group waited for"),
    tableOf(["Member", "Rejoined after", make("span", { class: "hidden" }, "Compared"), "Paused"], waits, cells, "more member"),
  ];
}

function explainLeader(group, account) {
  if (!account.leader) return null;
  const why = account.leader_cause ? `: ${meaning("leader_causes", account.leader_cause)}` : "";
  const size = account.bytes ? `, ${numbers.format(account.bytes)} bytes of assignments` : "";
  const kind = { true: " (eager)", false: " (cooperative)" }[account.is_eager] ?? "";
  return [heading("Leader"), paragraph(`${group.nameOf(account.leader)}${why}. Assignor: ${shown(account.protocol ?? "unknown")}${kind}${size}.`)];
}

function explainMembers(group, account) {
  const { gained, lost, departures, returns = [], refused, latecomers } = account;
  const how = new Map(departures.map((row) => [row.member_id, row.how]));
  const named = (ids) => few(ids.map((id) => `${group.nameOf(id)}${how.has(id) ? ` (${plain(how.get(id))})` : ""}`), 8);
  const restarts = returns.filter((row) => row.is_restart);
  const lines = [
    gained.length ? `New in generation ${account.generation}: ${named(gained)}.` : null,
    restarts.length ? `Restarted: ${few(restarts.map((row) => `${group.nameOf(row.member_id)} (away for ${duration((row.until_ns - row.since_ns) / 1e6)})`), 8)}.` : null,
    lost.length ? `No longer in the group: ${named(lost)}.` : null,
    latecomers.length ? `Removed because they missed the join phase: ${named(latecomers)}.` : null,
    refused.length ? `Refused: ${few(refused.map((row) => `${shown(row.who)} (${plain(row.cause)})`), 8)}.` : null,
  ].filter(Boolean);
  return lines.length ? [heading("Members"), ...lines.map(paragraph)] : null;
}

function explainPartitions(group, account) {
  const { moves, given_up: givenUp } = account;
  if (!moves) return null;
  const rows = [
    ...moves.map((move) => [partsText(move.parts), move.source ? group.nameOf(move.source) : "\u2013", `${group.nameOf(move.target)}${move.is_return ? " (returned)" : ""}`]),
    ...givenUp.map((row) => [partsText(row.parts), group.nameOf(row.member_id), "\u2013"]),
  ];
  return rows.length ? [heading("Partitions"), tableOf(["Partitions", "From", "To"], rows, (row) => row, "more move")] : null;
}

function explainNeighbours(panel, each) {
  const { rebalances } = each.group;
  const index = rebalances.indexOf(each);
  const go = (to, text) => (rebalances[to] ? make("button", { type: "button", onclick: () => panel.goTo(rebalances[to]) }, text) : null);
  return make("p", { class: "pages" }, go(index - 1, "\u2190 previous"), go(index + 1, "next \u2192"), make("button", { type: "button", onclick: () => panel.zoomTo(each) }, "Zoom to it"));
}
