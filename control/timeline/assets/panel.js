"use strict";
// The explanation of what was chosen: a rebalance, an event, or a member at a moment.

class Panel {
  constructor(model, chart) {
    this.model = model;
    this.chart = chart;
    this.element = byId("panel");
    this.title = byId("panel-title");
    this.body = byId("panel-body");
    this.opener = null;
    byId("panel-close").addEventListener("click", () => this.close());
  }

  get isOpen() {
    return !this.element.hidden;
  }

  /** Explains marks; focus comes back to `opener` in the end. */
  open(marks, opener = null) {
    if (opener && !this.element.contains(opener)) this.remember(opener);
    if (marks.length > 1) this.fill(...this.several(marks));
    else if (marks[0].isMoment) this.fill(...this.member(marks[0].lane, marks[0].at));
    else if (marks[0].rebalance) this.fill(...this.rebalance(marks[0].rebalance));
    else this.fill(...this.event(marks[0]));
  }

  remember(opener) {
    this.opener?.removeAttribute("aria-expanded");
    this.opener = opener;
    if (opener.classList.contains("mark")) opener.setAttribute("aria-expanded", "true");
  }

  fill(title, ...content) {
    this.title.textContent = title;
    this.body.replaceChildren(...content.flat().filter(Boolean));
    this.element.hidden = false;
    this.element.scrollTop = 0;
    this.title.focus({ preventScroll: true });
  }

  close() {
    if (!this.isOpen) return;
    this.element.hidden = true;
    const { opener } = this;
    this.opener = null;
    if (!opener) return;
    opener.removeAttribute("aria-expanded");
    if (opener.isConnected && !opener.hidden) opener.focus({ preventScroll: true });
    else this.chart.goToRow(this.chart.active);
  }

  when(at) {
    return make("p", { class: "when" }, `${moment(at)} after the first event \u00b7 ${clockTime(this.model.clockAt(at))}`);
  }

  // -- a rebalance

  rebalance(each) {
    const title = each.generation === null ? `Rebalance of ${each.group.title}` : `Rebalance of ${each.group.title}, to generation ${each.generation}`;
    return [
      title,
      this.when(each.start),
      this.causes(each),
      this.told(each),
      this.phases(each),
      this.waits(each),
      this.members(each),
      this.partitions(each),
      this.neighbours(each),
    ];
  }

  causes(each) {
    const from = each.from ? ` The group was ${each.from}.` : "";
    const windows = each.windows.length
      ? ` It waited for more members in ${count(each.windows.length, "window")} of ${each.windows.map(({ event }) => duration(event.delay_ms)).join(" and ")} (KIP-134).`
      : "";
    return make("p", { class: "cause" }, causeText(each) + quoted(each.reason) + from + windows);
  }

  /** What `kohort why` says of it, where the page was given that. */
  told(each) {
    const told = make("div", { class: "advice", hidden: true });
    const say = () => {
      const sentences = this.model.explanations.get(each.key) ?? [];
      told.replaceChildren(...sentences.map((text) => make("p", {}, shown(text, 4000))));
      told.hidden = !sentences.length;
    };
    say();
    if (this.chart.isLive) askWhy(this.model, each.group.name).then(say);
    return told;
  }

  phases(each) {
    const { start, joined, end, completed, assigned } = each;
    if (joined === null) {
      const still = end === null ? "Members are still joining." : each.how === "lost" ? LOST : "Another rebalance began, or the broker stopped, before all had joined.";
      return [make("h3", {}, "How long"), make("p", {}, still)];
    }
    const joinMs = completed?.duration_ns !== undefined ? completed.duration_ns / 1e6 : joined - start;
    const divideMs = assigned ? assigned.duration_ns / 1e6 : end === null ? null : end - joined;
    const bar = make("div", { class: "phases", "aria-hidden": "true" }, make("span", { class: "joined" }), make("span", { class: "divided" }));
    bar.children[0].style.flexGrow = String(Math.max(joinMs, 0.001));
    bar.children[1].style.flexGrow = String(divideMs ?? 0);
    const after = {
      assigned: `, the assignment ${duration(divideMs)}: ${duration(joinMs + (divideMs ?? 0))} in all.`,
      empty: ".",
      cut: ". Another rebalance began before there was an assignment.",
      lost: `. ${LOST}`,
    }[each.how] ?? ". There is no assignment yet.";
    return [
      make("h3", {}, "How long"),
      bar,
      make("p", {}, `The join phase took ${duration(joinMs)}${after} ${entry(ENDED, completed?.cause) ?? ""}`),
      assigned ? make("p", {}, `The leader ${each.group.nameOf(assigned.leader)} divided by ${shown(assigned.protocol)}: ${numbers.format(assigned.bytes)} bytes of assignments.`) : null,
    ];
  }

  waits(each) {
    const waits = [...(each.completed?.waits ?? [])].sort((a, b) => b.waited_ns - a.waited_ns);
    if (!waits.length) return null;
    const [longest] = waits;
    const absent = waits.filter((wait) => !wait.came);
    const name = (wait) => each.group.nameOf(wait.member_id);
    const text = absent.length
      ? `${few(absent.map(name))} did not come: the others waited ${duration(absent[0].waited_ns / 1e6)}.`
      : `${name(longest)} came last, ${duration(longest.waited_ns / 1e6)} after the rebalance began.`;
    const rows = waits.slice(0, 50).map((wait) => {
      const bar = make("span", { class: "bar" });
      bar.style.width = `${Math.max(1, (wait.waited_ns / (longest.waited_ns || 1)) * 70)}px`;
      const lane = each.group.byMember.get(wait.member_id);
      const unsettled = lane && each.end !== null ? lane.unsettled(each.start, this.settled(lane, each)) : null;
      return make("tr", {},
        make("td", {}, lane ? this.laneLink(lane, each.start) : name(wait)),
        make("td", { class: "number" }, wait.came ? duration(wait.waited_ns / 1e6) : "never"),
        make("td", {}, bar),
        make("td", { class: "number" }, wait.came && unsettled !== null ? duration(unsettled) : ""));
    });
    const head = ["Member", "Joined after", "Compared", "Assigned after"].map((title, i) =>
      make("th", { scope: "col", class: i % 2 ? "number" : null }, i === 2 ? make("span", { class: "hidden" }, title) : title));
    return [
      make("h3", {}, "Who was waited for"),
      make("p", {}, text),
      make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows)),
      waits.length > 50 ? make("p", { class: "when" }, `${numbers.format(waits.length - 50)} more came sooner.`) : null,
    ];
  }

  /** When a member had its assignment of a rebalance. */
  settled(lane, each) {
    const next = each.group.rebalances[each.number]?.start ?? this.chart.now;
    for (let i = Math.max(0, lastAtOrBefore(lane.times, each.joined ?? each.start)); i < lane.times.length; i += 1) {
      if (lane.times[i] >= each.start && (lane.states[i] === STABLE || lane.states[i] === GONE)) return Math.min(next, lane.times[i]);
    }
    return next;
  }

  members(each) {
    const { gained = [], lost = [] } = each.completed ?? {};
    if (!gained.length && !lost.length) return null;
    const names = (ids) => few(ids.map((id) => each.group.nameOf(id)), 8);
    return [
      make("h3", {}, "Members"),
      gained.length ? make("p", {}, `New in generation ${each.generation}: ${names(gained)}.`) : null,
      lost.length ? make("p", {}, `Not in it any more: ${names(lost)}.`) : null,
    ];
  }

  partitions(each) {
    const { changes, moved, back, fresh } = each;
    if (!changes.length) return each.how === "assigned" ? [make("h3", {}, "Partitions"), make("p", {}, "Nobody's partitions changed.")] : null;
    const said = [
      moved ? `${count(moved, "partition")} moved to another member` : null,
      back ? `${numbers.format(back)} came back to who had owned ${back === 1 ? "it" : "them"}` : null,
      fresh ? `${count(fresh, "partition")} had no owner before` : null,
    ].filter(Boolean).join(", ");
    const rows = changes.slice(0, 40).map((event) =>
      make("tr", {},
        make("td", {}, each.group.nameOf(event.member_id)),
        make("td", {}, partsText(event.partitions_gained ?? []) || "\u2013"),
        make("td", {}, partsText(event.partitions_lost ?? []) || "\u2013")));
    const head = ["Member", "Gained", "Lost"].map((title) => make("th", { scope: "col" }, title));
    return [
      make("h3", {}, "Partitions"),
      said ? make("p", {}, `${said}.`) : null,
      make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows)),
      changes.length > 40 ? make("p", { class: "when" }, `and ${count(changes.length - 40, "more member")}.`) : null,
    ];
  }

  neighbours(each) {
    const { rebalances } = each.group;
    const go = (index, text) =>
      rebalances[index]
        ? make("button", { type: "button", onclick: () => this.goTo(rebalances[index]) }, text)
        : null;
    return make("p", { class: "pages" }, go(each.number - 2, "\u2190 before"), go(each.number, "next \u2192"), make("button", { type: "button", onclick: () => this.zoomTo(each) }, "Zoom to it"));
  }

  goTo(rebalance) {
    this.open([{ rebalance }]);
    if (rebalance.start < this.chart.from || rebalance.start > this.chart.to) {
      const span = this.chart.to - this.chart.from;
      this.chart.unfollow();
      this.chart.view(rebalance.start - span / 2, rebalance.start + span / 2, { glide: true });
    }
  }

  zoomTo(each) {
    const end = each.end ?? this.chart.now;
    const span = Math.max(end - each.start, 1);
    this.chart.unfollow();
    this.chart.view(each.start - span * 0.6, end + span * 0.6, { glide: true });
  }

  // -- other things

  event(mark) {
    const { event, group, lane } = mark;
    const facts = Object.entries(event).filter(([name, value]) => value !== null && !FACTS_SHOWN.has(name));
    return [
      `${plain(event.kind)[0].toUpperCase()}${plain(event.kind).slice(1)}${group ? ` in ${group.title}` : ""}`,
      this.when(mark.at),
      make("p", { class: "cause" }, titleOf(mark)),
      event.reason && event.kind !== "member_left" ? make("p", {}, quoted(event.reason).trim()) : null,
      lane ? make("p", {}, this.laneLink(lane, mark.at)) : null,
      make("h3", {}, mark.shards?.partitions.length > 1 ? `The first of ${numbers.format(mark.shards.partitions.length)} events` : "The event"),
      this.facts(facts.map(([name, value]) => [name, shownInFull(typeof value === "object" ? JSON.stringify(value) : String(value))])),
    ];
  }

  member(lane, at) {
    const index = lastAtOrBefore(lane.times, at);
    const state = index < 0 ? GONE : lane.states[index];
    const since = index < 0 ? null : lane.times[index];
    const until = index + 1 < lane.times.length ? lane.times[index + 1] : null;
    const owned = lane.ownedAt(at);
    const name = STATES[state];
    const lasted = since === null ? "" : ` It was so for ${duration((until ?? this.chart.now) - since)}${until === null ? ", and still is" : ""}.`;
    const rebalance = this.rebalanceAt(lane.group, at);
    const heard = lane.heard === null ? null : `${moment(lane.heard)} (${duration(Math.max(0, this.chart.now - lane.heard))} ago)`;
    return [
      lane.name,
      this.when(at),
      make("p", { class: "cause" }, `${name[0].toUpperCase()}${name.slice(1)}. ${STATE_SAYS[name]}${lasted}`),
      state !== STABLE && state !== GONE && rebalance
        ? make("p", {}, "In a rebalance: ", make("button", { type: "button", class: "link", onclick: () => this.goTo(rebalance) }, causeText(rebalance)))
        : null,
      make("h3", {}, "Partitions"),
      make("p", {}, owned?.count ? `${partsText(owned.parts)} (${count(owned.count, "partition")})` : "None."),
      make("h3", {}, "The member"),
      this.facts([
        ["group", lane.group.title],
        ["member id", shownInFull(lane.memberId)],
        ["client id", lane.clientId && shownInFull(lane.clientId)],
        ["group.instance.id", lane.instanceId && shownInFull(lane.instanceId)],
        ["host", lane.host],
        ["first seen", moment(lane.first)],
        ["last heard of", heard],
        ["neither stable nor gone", duration(lane.unsettled(0, this.chart.now))],
      ].filter(([, value]) => value)),
      lane.marks.length ? [make("h3", {}, "What happened to it"), this.list(lane.marks)] : null,
    ];
  }

  rebalanceAt(group, at) {
    const index = firstReaching(group.rebalances, at);
    return index < 0 ? null : group.rebalances[index];
  }

  several(marks) {
    const title = marks[0].group ? `${count(marks.length, "event")} of ${marks[0].group.title}` : count(marks.length, "event");
    const zoom = () => {
      const [from, to] = [marks[0].at, marks[marks.length - 1].at];
      const margin = Math.max((to - from) * 0.1, 0.5);
      this.chart.unfollow();
      this.chart.view(from - margin, to + margin, { glide: true });
      this.close();
    };
    return [title, this.when(marks[0].at), this.list(marks), make("p", {}, make("button", { type: "button", onclick: zoom }, "Zoom to them"))];
  }

  list(marks) {
    const items = marks.slice(0, 100).map((mark) =>
      make("li", {}, `${moment(mark.at)} `, make("button", { type: "button", class: "link", onclick: () => this.open([mark]) }, titleOf(mark))));
    if (marks.length > 100) items.push(make("li", {}, `and ${numbers.format(marks.length - 100)} more`));
    return make("ul", {}, ...items);
  }

  laneLink(lane, at) {
    return make("button", { type: "button", class: "link", onclick: () => this.open([{ lane, at, isMoment: true }]) }, lane.name);
  }

  facts(pairs) {
    return make("dl", { class: "keys" }, ...pairs.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
  }

  help() {
    this.fill("Keys and gestures", this.facts(KEYS));
  }
}

const LOST = "Events are missing: what became of it is not known.";
const FACTS_SHOWN = new Set(["schema", "labels", "time_ns", "wall_ns", "kind"]);
const KEYS = [
  ["\u2191 \u2193", "the row above, the row below"],
  ["\u2190 \u2192", "the mark before, the next mark of this row"],
  ["Enter", "explains the mark or the member; opens and closes a group"],
  ["Esc", "closes the explanation"],
  ["+ \u2212", "zoom in, zoom out"],
  ["Shift \u2190 \u2192", "earlier, later"],
  ["0", "all of the time"],
  ["[ ]", "lower rows, higher rows"],
  ["F", "follow what happens (live)"],
  ["Home End", "first row, last row"],
  ["Page \u2191 \u2193", "ten rows up, ten rows down"],
  ["mouse", "drag to move; wheel to scroll rows, with Ctrl or on the axis to zoom, with Shift to move in time; double click zooms in; the strip at the top moves the window"],
  ["touch", "one finger moves, two zoom, a tap explains"],
];
