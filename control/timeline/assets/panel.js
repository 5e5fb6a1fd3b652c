"use strict";
// The explanation of the chosen mark: a rebalance, an event, or a member at a moment.

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
    else if (marks[0].rebalance) this.fill(...explainRebalance(this, marks[0].rebalance));
    else this.fill(...this.event(marks[0]));
  }

  remember(opener) {
    this.opener?.removeAttribute("aria-expanded");
    this.opener = opener;
    if (opener.classList.contains("mark")) opener.setAttribute("aria-expanded", "true");
  }

  fill(title, ...content) {
    this.title.textContent = title;
    this.body.replaceChildren(...content.flat(Infinity).filter(Boolean));
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

  goTo(rebalance) {
    this.open([{ rebalance }]);
    if (rebalance.at < this.chart.from || rebalance.at > this.chart.to) {
      const span = this.chart.to - this.chart.from;
      this.chart.unfollow();
      this.chart.view(rebalance.at - span / 2, rebalance.at + span / 2, { glide: true });
    }
  }

  zoomTo(each) {
    const end = each.end ?? this.chart.now;
    const span = Math.max(end - each.at, 1);
    this.chart.unfollow();
    this.chart.view(each.at - span * 0.6, end + span * 0.6, { glide: true });
  }

  // -- other things

  event(mark) {
    const { event, group, lane } = mark;
    const facts = Object.entries(event).filter(([name, value]) => value !== null && !FACTS_SHOWN.has(name));
    return [
      `${capital(plain(event.kind))}${group ? ` in ${group.title}` : ""}`,
      this.when(mark.at),
      make("p", { class: "cause" }, titleOf(mark)),
      event.reason && event.kind !== "member_left" ? make("p", {}, quoted(event.reason).trim()) : null,
      lane ? make("p", {}, this.laneLink(lane, mark.at)) : null,
      group ? explainInWords(this, group, ({ sequence, time_ns: time }) => sequence === event.sequence && time === event.time_ns) : null,
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
    const lasted = since === null ? "" : ` This lasted ${duration((until ?? this.chart.now) - since)}${until === null ? " so far" : ""}.`;
    const rebalance = this.rebalanceAt(lane.group, at);
    const heard = lane.heard === null ? null : `${moment(lane.heard)} (${duration(Math.max(0, this.chart.now - lane.heard))} before ${this.chart.isLive ? "now" : "the end"})`;
    return [
      lane.name,
      this.when(at),
      make("p", { class: "cause" }, `${capital(name)}. ${STATE_SAYS[name]}${lasted}`),
      state !== STABLE && state !== GONE && rebalance
        ? make("p", {}, "In a rebalance: ", make("button", { type: "button", class: "link", onclick: () => this.goTo(rebalance) }, causeText(rebalance)))
        : null,
      make("h3", {}, "Partitions"),
      make("p", {}, owned?.count ? `${partsText(owned.parts)} (${count(owned.count, "partition")})` : "None."),
      make("h3", {}, "The member"),
      this.facts([
        ["group", lane.group.title],
        ["member id", shownInFull(lane.memberId)],
        ["earlier ids", few(lane.ids.slice(0, -1).map(({ memberId }) => shown(memberId)), 3)],
        ["client id", lane.clientId && shownInFull(lane.clientId)],
        ["group.instance.id", lane.instanceId && shownInFull(lane.instanceId)],
        ["host", lane.host],
        ["first seen", moment(lane.first)],
        ["last request", heard],
        ["paused", lane.pausedMs ? `${duration(lane.pausedMs)} in rebalances` : null],
      ].filter(([, value]) => value)),
      lane.marks.length ? [make("h3", {}, "Events"), this.list(lane.marks)] : null,
    ];
  }

  rebalanceAt(group, at) {
    return group.rebalances[lastAtOrBefore(group.rebalances, at)] ?? null;
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
    return [title, this.when(marks[0].at), this.list(marks), make("p", {}, make("button", { type: "button", onclick: zoom }, "Zoom to these"))];
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

const FACTS_SHOWN = new Set(["schema", "labels", "time_ns", "wall_ns", "kind"]);
const KEYS = [
  ["\u2191 \u2193", "row above, row below"],
  ["\u2190 \u2192", "previous mark, next mark in this row"],
  ["Enter", "explain the mark or the member; open or close a group"],
  ["Esc", "close the explanation"],
  ["+ \u2212", "zoom in, zoom out"],
  ["Shift \u2190 \u2192", "earlier, later"],
  ["0", "show the whole time"],
  ["[ ]", "smaller rows, larger rows"],
  ["F", "follow new events (live)"],
  ["Home End", "first row, last row"],
  ["Page \u2191 \u2193", "ten rows up, ten rows down"],
  ["mouse", "drag to move; wheel to scroll; Ctrl and wheel, or wheel on the axis, to zoom; Shift and wheel to move in time; double click to zoom in; drag the strip at the top to move the window"],
  ["touch", "one finger to move, two to zoom, tap to explain"],
];
