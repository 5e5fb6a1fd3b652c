"use strict";
// What causes mean, in words. The words in the events are the schema's.

const STATES = ["gone", "joining", "waiting", "syncing", "stable"];
const [GONE, JOINING, WAITING, SYNCING, STABLE] = STATES.keys();

const STATE_SAYS = {
  gone: "It is not in the group.",
  joining: "The group rebalances, and others wait for this member to join again.",
  waiting: "It has joined, and waits for the others: its JoinGroup is not answered yet.",
  syncing: "The join phase is over, and it has no assignment yet.",
  stable: "It has its assignment.",
};

/** Of a rebalance: a sign for its mark, and a sentence about `who`. */
const REBALANCE_CAUSES = {
  member_joined: ["+", (who) => `${who} joined the group.`],
  member_left: ["\u2212", (who) => `${who} left the group.`],
  session_expired: ["\u00d7", (who) => `${who} was not heard of for its session timeout.`],
  metadata_changed: ["\u2260", (who) => `${who} joined again with other protocols or subscriptions.`],
  leader_rejoined: ["\u2605", (who) => `The leader ${who} joined again: what it divides may have changed.`],
  static_member_replaced: ["\u21c4", (who) => `The static member ${who} came back, and a new assignment was necessary.`],
  sync_timeout: ["\u29d6", (who) => `${who} did not fetch its assignment in time.`],
  group_over_max_size: ["\u2265", () => "The group was loaded with more members than group.max.size allows (KIP-389)."],
};
const BAD_CAUSES = new Set(["session_expired", "sync_timeout", "group_over_max_size"]);

const ENDED = {
  all_joined: "Nobody was missing any more: that ended the join phase.",
  rebalance_timeout: "The longest rebalance timeout of a member ended the join phase.",
  initial_delay: "The initial delay ended the join phase (group.initial.rebalance.delay.ms, KIP-134).",
  nobody_left: "No member is left: the group is empty.",
};
const ENDED_SHORT = {
  all_joined: "all joined",
  rebalance_timeout: "rebalance timeout",
  initial_delay: "initial delay",
  nobody_left: "nobody left",
};

const REFUSED = {
  full: "the group is full: group.max.size is reached (KIP-389)",
  fenced: "another process has its group.instance.id (KIP-345)",
  inconsistent: "its protocols do not fit the group's",
  unknown: "its member id is none of the group's",
  invalid: "the request cannot be",
};
const KICKED = {
  did_not_join_in_time: "it missed the join phase",
  did_not_sync_in_time: "it did not fetch its assignment in time",
  full: "it came late, and others had taken its room (KIP-389)",
  group_over_max_size: "the group was larger than group.max.size (KIP-389)",
};

const UNLOADED = {
  moved: "another node does",
  stopped: "the node stops",
  failed: "its log failed",
  deleted: "__consumer_offsets was deleted",
};

const plain = (word) => String(word ?? "").replaceAll("_", " ");
const quoted = (reason) => (reason ? ` It said: \u201c${shown(reason, 400)}\u201d.` : "");

/** Of one or more shards, of which a mark is: see `shardMark`. */
function shardsOf({ shards: { partitions } }) {
  const numbersOf = ranges([...partitions].sort((a, b) => a - b));
  return `partition${partitions.length === 1 ? "" : "s"} ${numbersOf} of __consumer_offsets`;
}

/** Marks that are no rebalances: by kind, a sign, whether it is bad, and a sentence. */
const EVENT_MARKS = {
  member_refused: ["!", true, (e, who) => `${who} was refused: ${entry(REFUSED, e.cause) ?? plain(e.cause)} (${e.error}).`],
  member_left: ["\u2212", false, (e, who) =>
    e.cause === "removed"
      ? `An admin took ${who} out of the group.`
      : `${who} left the group.${e.reason ? quoted(e.reason) : " It gave no reason."}`],
  member_expired: ["\u00d7", true, (e, who) => `${who} was not heard of for ${e.silent_ns ? duration(e.silent_ns / 1e6) : "its session timeout"}, and is out of the group.`],
  member_kicked: ["\u00d7", true, (e, who) => `The broker took ${who} out: ${entry(KICKED, e.cause) ?? plain(e.cause)}.`],
  member_replaced: ["\u21c4", false, (e, who) => `The static member ${who} came back under a new id; ${shown(e.replaced_member_id ?? "the old one")} is fenced (KIP-345).`],
  pending_member_expired: ["\u00d7", true, (e, who) => `${who} did not use the id that it was given in time.`],
  commit_refused: ["!", true, (e, who) => `A commit of ${who} was refused: ${e.error}.`],
  offsets_expired: ["o", false, (e) => `Offsets were kept long enough, and expired: ${partsText(e.expired ?? [])}.`],
  offsets_deleted: ["o", false, (e) => `Offsets were deleted${e.cause === "topic_deleted" ? " with their topic" : " by an admin"}: ${partsText(e.deleted ?? [])}.`],
  group_loaded: ["\u21e9", false, (e) => `Node ${e.node} read the group from its log: ${e.state}, ${count((e.members ?? []).length, "member")}.`],
  shard_loaded: ["\u21e9", false, (e, _, mark) => `Node ${e.node} coordinates ${shardsOf(mark)}: ${count(mark.shards.groups, "group")} found.`],
  shard_unloaded: ["\u21e7", false, (e, _, mark) => `Node ${e.node} does not coordinate ${shardsOf(mark)} any more: ${entry(UNLOADED, e.cause) ?? plain(e.cause)}.`],
  node_started: ["\u25b6", false, (e) => `Node ${e.node} accepts connections (run ${e.run}).`],
  node_stopped: ["\u25a0", true, (e) => `Node ${e.node} does not accept connections any more.`],
  events_lost: ["?", true, (e) => `Events ${numbers.format(e.first)} to ${numbers.format(e.last)} are missing here: whoever read them was too slow.`],
};
/** Steps that later versions add (faults, verbs of control) are shown by their names. */
const SILENT = new Set([
  "member_id_given", "member_joined", "leader_chosen", "heartbeat", "group_state", "rebalance_started",
  "join_completed", "assignment_made", "member_synced", "partitions_changed", "offsets_committed", "window_opened",
]);
