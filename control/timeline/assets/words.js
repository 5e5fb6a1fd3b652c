"use strict";
// Signs of causes, and sentences about events. `WORDS` has the words themselves: the
// page is put together with the schema's table.

const STATES = ["gone", "joining", "waiting", "syncing", "stable", "silent"];
const [GONE, JOINING, WAITING, SYNCING, STABLE, SILENT] = STATES.keys();

const STATE_SAYS = {
  gone: "It is not in the group.",
  joining: "The group is rebalancing and waits for this member's JoinGroup.",
  waiting: "It has joined, and its JoinGroup is not answered yet: other members are missing.",
  syncing: "The join phase is over, and it has no assignment yet.",
  stable: "It has its assignment.",
  silent: "The broker heard nothing from it, and its session had not expired yet: its partitions were not read.",
};

/** Of a rebalance: the sign of its mark, by cause. */
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
};
const BAD_CAUSES = new Set(["session_expired", "sync_timeout", "assignment_not_stored", "group_over_max_size"]);

const plain = (word) => String(word ?? "").replaceAll("_", " ");
const quoted = (reason) => (reason ? ` Its reason: \u201c${shown(reason, 400)}\u201d.` : "");
const capital = (text) => `${text[0].toUpperCase()}${text.slice(1)}`;

/** The meaning of a word; the word itself, if the table is of an older version. */
const meaning = (table, word) => entry(WORDS[table], word) ?? plain(word);

/** The meaning of an event's cause. */
const causeOf = (event) => entry(entry(WORDS.causes, event.kind) ?? {}, event.cause) ?? plain(event.cause);

/** Of one or more shards, of which a mark is: see `markShard`. */
function shardsOf({ shards: { partitions } }) {
  const numbersOf = ranges([...partitions].sort((a, b) => a - b));
  return `partition${partitions.length === 1 ? "" : "s"} ${numbersOf} of __consumer_offsets`;
}

/** Marks that are no rebalances: by kind, a sign, whether it is bad, and a sentence. */
const EVENT_MARKS = {
  member_refused: ["!", true, (e, who) => `${who} was refused: ${causeOf(e)} (${e.error}).`],
  member_left: ["\u2212", false, (e, who) =>
    e.cause === "removed"
      ? `An admin removed ${who} from the group.`
      : `${who} left the group.${e.reason ? quoted(e.reason) : " It gave no reason."}`],
  member_expired: ["\u00d7", true, (e, who) => `The session of ${who} expired: the broker had heard nothing from it for ${e.silent_ns ? duration(e.silent_ns / 1e6) : "its session timeout"}.`],
  member_kicked: ["\u00d7", true, (e, who) => `The broker removed ${who}: ${causeOf(e)}.`],
  member_replaced: ["\u21c4", false, (e, who) => `The static member ${who} came back under a new id; ${shown(e.replaced_member_id ?? "the old one")} is fenced (KIP-345).`],
  pending_member_expired: ["\u00d7", true, (e, who) => `${who} did not join in time with the member id that it was given.`],
  commit_refused: ["!", true, (e, who) => `A commit of ${who} was refused: ${e.error}.`],
  offsets_expired: ["o", false, (e) => `Offsets expired: ${partsText(e.expired ?? [])}.`],
  offsets_deleted: ["o", false, (e) => `Offsets were deleted${e.cause === "topic_deleted" ? " with their topic" : " by an admin"}: ${partsText(e.deleted ?? [])}.`],
  group_loaded: ["\u21e9", false, (e) => `Node ${e.node} read the group from its log: ${e.state}, ${count((e.members ?? []).length, "member")}.`],
  shard_loaded: ["\u21e9", false, (e, _, mark) => `Node ${e.node} coordinates ${shardsOf(mark)}: ${count(mark.shards.groups, "group")} found.`],
  shard_unloaded: ["\u21e7", false, (e, _, mark) => `Node ${e.node} no longer coordinates ${shardsOf(mark)}: ${causeOf(e)}.`],
  node_started: ["\u25b6", false, (e) => `Node ${e.node} accepts connections (run ${e.run}).`],
  node_stopped: ["\u25a0", true, (e) => `Node ${e.node} no longer accepts connections.`],
  events_lost: ["?", true, (e) => `Events ${numbers.format(e.first)} to ${numbers.format(e.last)} are missing here: their reader was too slow.`],
};
/** Kinds that have no mark. A kind of a later version has one, with its name. */
const UNMARKED = new Set([
  "member_id_given", "member_joined", "leader_chosen", "heartbeat", "group_state", "rebalance_started", "rebalance_account",
  "join_completed", "assignment_made", "member_synced", "partitions_changed", "offsets_committed", "window_opened",
]);
