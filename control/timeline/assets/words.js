"use strict";
// Signs of causes, and sentences about events. `WORDS` has the words of the schema;
// `page.py` puts them into the page.

const STATES = ["gone", "joining", "waiting", "syncing", "stable", "silent"];
const [GONE, JOINING, WAITING, SYNCING, STABLE, SILENT] = STATES.keys();

const STATE_SAYS = {
  gone: "It is not in the group.",
  joining: "The group is rebalancing and waits for this member's JoinGroup; in a consumer group, the member has to give up partitions.",
  waiting: "It has joined and waits for the answer: other members have not joined yet; in a consumer group, others hold partitions of its target.",
  syncing: "The join phase is over, or it has joined a consumer group; the member has no assignment yet.",
  stable: "It has its assignment.",
  silent: "The broker heard nothing from it, and its session had not expired yet: its partitions had no reader.",
};

/** The sign of a rebalance's mark, by cause. */
const REBALANCE_SIGNS = {
  member_joined: "+",
  member_left: "\u2212",
  session_expired: "\u00d7",
  metadata_changed: "\u2260",
  leader_rejoined: "\u2605",
  static_member_replaced: "\u21c4",
  sync_timeout: "\u29d6",
  assignment_not_stored: "\u2298",
  group_over_max_size: "\u2265",
  member_kicked: "\u2297",
  requested: "\u21bb",
  topics_changed: "\u2261",
  revocation_timeout: "\u29d6",
};
const BAD_CAUSES = new Set(["session_expired", "sync_timeout", "assignment_not_stored", "group_over_max_size", "revocation_timeout"]);

const plain = (word) => String(word ?? "").replaceAll("_", " ");
const quoted = (reason) => (reason && !reason.startsWith(WORDS.id_given) ? ` Its reason: \u201c${shown(reason, 400)}\u201d.` : "");
const capital = (text) => `${text[0].toUpperCase()}${text.slice(1)}`;

/** The meaning of a word; the word itself, if the table is of an older version. */
const meaning = (table, word) => entry(WORDS[table], word) ?? plain(word);

/** The meaning of an event's cause. */
const causeOf = (event) => entry(entry(WORDS.causes, event.kind) ?? {}, event.cause) ?? plain(event.cause);

/** A command of a test or an operator. `who`: the name of a member, or of the group. */
function commandText(event, who) {
  const [state, reason] = [event.held_in, quoted(event.reason)];
  if (event.cause === "hold") return `A test holds the group in ${state}.`;
  if (event.cause === "release") return `A test releases the group, which was held in ${state}.`;
  if (event.cause === "rebalance") return `A test asked for a rebalance.${reason}`;
  if (event.cause === "limit") return event.max_size ? `A test limits the group to ${count(event.max_size, "member")}.` : "A test removes the limit of the group.";
  return `Command of a test for ${who}: ${causeOf(event)}.${reason}`;
}

/** A strike of the fault plan. `who`: the name of a member, or of a client. */
function faultText(event, who) {
  const isNamed = event.fault !== `fault ${event.fault_id}`;
  const rule = isNamed ? `Fault \u201c${shown(event.fault)}\u201d` : capital(event.fault);
  const struck = event.api ? `the ${event.api} of ${who}` : `a connection of ${who}`;
  return `${rule} struck ${struck}: ${causeOf(event).replace("`error`", event.error)}.`;
}

/** The shards of a mark: see `markShard`. */
function shardsOf({ shards: { partitions } }) {
  const numbersOf = ranges([...partitions].sort((a, b) => a - b));
  return `partition${partitions.length === 1 ? "" : "s"} ${numbersOf} of __consumer_offsets`;
}

/** A transaction that was open for long, or did not end well; the last event that names its partitions. */
function transactionText({ event, at, end, decided, isBad }) {
  const who = `${shown(event.transactional_id)}${event.client_id ? ` (client ${shown(event.client_id)})` : ""}`;
  const parts = partsText((event.partitions ?? []).filter(({ topic }) => topic !== "__consumer_offsets"));
  const groups = event.group_ids?.length ? `offsets of ${few(event.group_ids.map((id) => shown(id)), 3)}` : "";
  const what = [parts, groups].filter(Boolean).join(", ") || "no partitions";
  if (end === null) return `The transaction of ${who} is open: read_committed consumers get no record behind it in ${what}.`;
  const how = decided ? meaning("transaction_ends", decided) : "its end is missing from the events";
  return `The transaction of ${who} with ${what} was ${isBad ? "aborted" : "open"} after ${duration(end - at)}: ${how}.`.replace("open after", "open for");
}

/** Words for rows of the account of delivery, and the tables of their reasons. */
const DELIVERED = {
  again_certain: "handled before, sent again",
  again_possible: "sent again, perhaps handled before",
  skipped: "skipped",
  went_back: "committed offset went back",
};
const REASON_TABLES = { again_certain: "again_reasons", again_possible: "again_reasons", skipped: "skip_reasons", went_back: "went_back" };

/** Offsets of partitions that went back: "orders 0 from 9 to 4". */
const rewindsText = (rewinds) => few(rewinds.map((row) => `${shown(row.topic)} ${row.partition} from ${row.previous_offset} to ${row.offset}`), 3);

/** Marks of other events, by kind: a sign, true if it is a problem, and a sentence. */
const EVENT_MARKS = {
  member_refused: ["!", true, (e, who) => `${who} was refused: ${causeOf(e)} (${e.error}).`],
  member_fenced: ["!", true, (e, who) => `A heartbeat of ${who} was refused: ${e.error === "FENCED_MEMBER_EPOCH" ? "its epoch is not the member's" : "another process has its instance id"} (${e.error}).`],
  member_left: ["\u2212", false, (e, who) =>
    e.cause === "removed"
      ? `An admin removed ${who} from the group.`
      : `${who} left the group.${e.reason ? quoted(e.reason) : " It gave no reason."}`],
  member_expired: ["\u00d7", true, (e, who) => `${who}'s session expired: ${e.cause === "commanded" ? causeOf(e) : `the broker had heard nothing from it for ${e.silent_ns ? duration(e.silent_ns / 1e6) : "its session timeout"}`}.`],
  member_kicked: ["\u00d7", true, (e, who) => e.cause === "commanded" ? `A test removed ${who}.` : `The broker removed ${who}: ${causeOf(e)}.`],
  commanded: ["\u2691", false, (e, who) => commandText(e, who)],
  fault_struck: ["\u21af", false, (e, who) => faultText(e, who)],
  member_replaced: ["\u21c4", false, (e, who) => `The static member ${who} rejoined with a new member id; ${shown(e.replaced_member_id ?? "the old one")} is fenced (KIP-345).`],
  member_disconnected: ["\u2300", false, (e, who) => `The connection of ${who} is closed: ${causeOf(e)}.`],
  unread_account: ["\u2300", true, (e) => `${capital(partsText(e.unread.filter(isDowntime).flatMap((row) => row.parts)))} had no reader for ${seconds(e.unread_ns)} partition-seconds outside of rebalances: ${causeOf(e)}.`],
  pending_member_expired: ["\u00d7", true, (e, who) => `Pending member ${who} did not join in time.`],
  commit_refused: ["!", true, (e, who) => `A commit of ${who} was refused: ${e.error}.`],
  offsets_went_back: ["\u21b6", true, (e, who) => `The committed offset went back: ${rewindsText(e.rewinds)}. It was ${causeOf(e)}${e.client_id ? `: ${who}` : ""}.`],
  offsets_expired: ["o", false, (e) => `Offsets expired: ${partsText(e.expired ?? [])}.`],
  offsets_deleted: ["o", false, (e) => `Offsets were deleted${e.cause === "topic_deleted" ? " with their topic" : " by an admin"}: ${partsText(e.deleted ?? [])}.`],
  group_converted: ["\u21cb", false, (e, who) => `The group moved to the ${e.group_type} protocol${e.member_id ? ` by ${who}` : ""}: ${causeOf(e)}.`],
  group_loaded: ["\u21e9", false, (e) => `Node ${e.node} loaded the group from its log: ${e.state}, ${count((e.members ?? []).length, "member")}.`],
  shard_loaded: ["\u21e9", false, (e, _, mark) => `Node ${e.node} coordinates ${shardsOf(mark)}: ${count(mark.shards.groups, "group")} found.`],
  shard_unloaded: ["\u21e7", false, (e, _, mark) => `Node ${e.node} no longer coordinates ${shardsOf(mark)}: ${causeOf(e)}.`],
  transaction_state: ["T", false, (_, who, mark) => transactionText(mark.transaction)],
  transaction_fenced: ["\u2298", true, (e) => `A request of producer ${e.producer_id}${e.transactional_id ? ` of ${shown(e.transactional_id)}` : ""} was refused (${e.error}): its epoch is ${e.producer_epoch}, the current one ${e.current_epoch}.`],
  clock_advanced: ["\u23e9", false, (e) => `A test moved the clock ahead by ${duration((e.until_ns - e.time_ns) / 1e6)}${e.credits_heartbeats ? "" : "; no member counted as heard from meanwhile"}.`],
  node_started: ["\u25b6", false, (e) => `Node ${e.node} accepts connections (run ${e.run}).`],
  node_stopped: ["\u25a0", true, (e) => `Node ${e.node} no longer accepts connections.`],
  events_lost: ["?", true, (e) => `Events ${numbers.format(e.first)} to ${numbers.format(e.last)} are missing: the reader was too slow.`],
};
/** False after the end of a group's work, and while it has no members. */
const isDowntime = (row) => row.cause !== "group_empty" && row.cause !== "work_ended";

/** Kinds without a mark. An unknown kind (of a later version) gets one, with its name. */
const UNMARKED = new Set([
  "member_id_given", "member_joined", "leader_chosen", "heartbeat", "group_state", "rebalance_started", "rebalance_account",
  "join_completed", "assignment_made", "member_synced", "member_reconciled", "partitions_changed", "offsets_committed", "offsets_unchecked", "window_opened",
  "transaction_ended_in_partition", "finding", "delivery_account",
]);
