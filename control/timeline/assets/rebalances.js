"use strict";
// Texts about a rebalance, from its account (see docs/reference/events.md,
// `rebalance_account`). A rebalance in progress has no account yet: the page knows its
// start and the end of its join phase.

/** The cause in a sentence. */
function causeText({ account, event, group }) {
  const { cause, culprits = [], is_second_half: isSecondHalf } = account ?? event;
  const who = few(culprits.map((id) => group.nameOf(id)), 3) || nameIn(account ?? event);
  if (isSecondHalf) return `${who} rejoined after revoking partitions, so that they can be assigned: the second rebalance of the cooperative protocol.`;
  const known = entry(WORDS.rebalance_sentences, cause);
  if (!known) return `${shown(plain(cause)) || "Unknown cause"}.`;
  return `${(known.startsWith("{who}") ? known : capital(known)).replace("{who}", () => who)}.`;
}

/** Pauses in ms, by member id. A member without partitions has nothing to pause. */
function pausesOf({ pauses }) {
  const found = new Map();
  for (const { member_id: id, since_ns: since, until_ns: until, count: had } of pauses) {
    if (had !== 0) found.set(id, (found.get(id) ?? 0) + (until - since) / 1e6);
  }
  return found;
}

/** Seconds in three digits or more: "0.0235", "46.9", "1,204". */
const seconds = (ns) => numbers.format(ns < 1e11 ? Number((ns / 1e9).toPrecision(3)) : Math.round(ns / 1e9));

/** Partitions times the time without a reader. */
const partitionTime = (ns) => `${seconds(ns)} partition-seconds`;
