"use strict";
// The same facts as tables: for screen readers, and to read and search.

const PAGE_ROWS = 100;

const classOf = ({ isNumber, isWide }) => (isNumber ? "number" : isWide ? "wide" : null);

/** A table of items, in pages, sorted by any of its columns. */
class Table {
  /** columns: {title, text(item), by(item)?, isNumber?, isWide?, open?(item, button)} */
  constructor(section, caption, columns, items, isNewestFirst = false, note = () => "") {
    Object.assign(this, { section, columns, items, note, page: 0, sorted: 0, isDown: isNewestFirst });
    this.body = make("tbody");
    this.caption = make("caption", {}, caption);
    this.heads = columns.map((column, i) =>
      make("th", { scope: "col", class: classOf(column) }, make("button", { type: "button", onclick: () => this.sort(i) }, column.title)));
    this.pages = make("nav", { class: "pages", "aria-label": "Pages" });
    section.append(make("table", {}, this.caption, make("thead", {}, make("tr", {}, ...this.heads)), this.body), this.pages);
    this.title = caption;
  }

  sort(index) {
    this.isDown = this.sorted === index ? !this.isDown : false;
    this.sorted = index;
    this.page = 0;
    this.show();
  }

  show() {
    const by = this.columns[this.sorted].by ?? this.columns[this.sorted].text;
    const all = this.items().map((item) => [by(item), item]);
    all.sort(([a], [b]) => (a === b ? 0 : a === null || a === undefined ? 1 : b === null || b === undefined ? -1 : a < b ? -1 : 1));
    if (this.isDown) all.reverse();
    const last = Math.max(0, Math.ceil(all.length / PAGE_ROWS) - 1);
    this.page = clamp(this.page, 0, last);
    const shown = all.slice(this.page * PAGE_ROWS, (this.page + 1) * PAGE_ROWS);
    this.heads.forEach((head, i) => {
      if (i === this.sorted) head.setAttribute("aria-sort", this.isDown ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    this.body.replaceChildren(...shown.map(([, item]) => this.row(item)));
    this.caption.textContent = [this.title, all.length ? `${numbers.format(all.length)} in total.` : "None yet.", this.note()].join(" ").trim();
    this.showPages(last);
  }

  row(item) {
    return make("tr", {}, ...this.columns.map((column, i) => {
      const text = column.text(item);
      const content = column.open ? make("button", { type: "button", class: "link", onclick: (event) => column.open(item, event.currentTarget) }, text) : text;
      return make(i === 0 ? "th" : "td", { scope: i === 0 ? "row" : null, class: classOf(column) }, content);
    }));
  }

  showPages(last) {
    this.pages.hidden = last === 0;
    const step = (by, text) => {
      const button = make("button", { type: "button", onclick: () => this.turn(by) }, text);
      button.disabled = this.page + by < 0 || this.page + by > last;
      return button;
    };
    this.pages.replaceChildren(step(-1, "Previous"), make("span", {}, `Page ${this.page + 1} of ${last + 1}`), step(1, "Next"));
  }

  turn(by) {
    this.page += by;
    this.show();
    this.section.scrollTop = 0;
    const button = this.pages.querySelectorAll("button")[by < 0 ? 0 : 1];
    (button.disabled ? this.section : button).focus();
  }
}

/** The tables of the page, by the names of their tabs. */
function makeTables(model, chart, panel) {
  const groups = () => model.groupsLike(chart.filter);
  const matches = (lane) => !chart.filter.find || lane.isLike(chart.filter.find);
  const rebalances = () => groups().flatMap((group) => group.rebalances);
  const lanes = () => groups().flatMap((group) => group.lanes.filter(matches));
  const marks = () => model.marksLike(chart.filter);
  const membersText = ({ account, group }) => {
    const signed = (sign, ids = []) => (ids.length ? `${sign} ${few(ids.map((id) => group.nameOf(id)), 3)}` : null);
    return [signed("+", account?.gained), signed("\u2212", account?.lost)].filter(Boolean).join("; ");
  };
  const explain = (each, button) => panel.open([{ rebalance: each }], button);
  const longest = ({ account }) => account?.waits.reduce((most, wait) => (most?.waited_ns >= wait.waited_ns ? most : wait), undefined);
  const waitedFor = (each) => {
    const wait = longest(each);
    return wait ? `${each.group.nameOf(wait.member_id)}: ${wait.came ? duration(wait.waited_ns / 1e6) : "did not rejoin"}` : "";
  };
  const endOf = ({ account, end }) => {
    if (!account) return end === null ? "under way" : "";
    return plain(account.outcome === "completed" ? account.join_ended_by : account.outcome);
  };
  const reasonOf = ({ account, event }) => quoted((account ?? event).reason);
  const state = (lane) => (lane.pending ? "pending" : lane.stateName(chart));
  /** Downtime by group, the most first: rebalances are not all of it. */
  const unread = () => {
    const told = groups().filter((group) => group.unreadNs).sort((a, b) => b.unreadNs - a.unreadNs);
    const rows = few(told.map((group) => `${group.title} ${seconds(group.unreadNs)}`), 10);
    return told.length ? `Partitions had no reader, in partition-seconds, with or without a rebalance: ${rows}.` : "";
  };
  const isNewestFirst = chart.isLive;
  return {
    rebalances: new Table(byId("view-rebalances"), "Rebalances.", [
      { title: "Start", text: (each) => moment(each.at), by: (each) => each.at, isNumber: true, open: explain },
      { title: "Group", text: (each) => each.group.title },
      { title: "Generation", text: (each) => `${each.generation ?? ""}`, by: (each) => each.generation, isNumber: true },
      { title: "Cause", isWide: true, text: (each) => causeText(each) + reasonOf(each) },
      { title: "Duration", text: ({ account }) => duration(account?.duration_ns / 1e6), by: ({ account }) => account?.duration_ns, isNumber: true },
      { title: "Waited longest for", text: waitedFor, by: (each) => longest(each)?.waited_ns },
      { title: "Ended by", text: endOf },
      { title: "Members", text: membersText, by: ({ account }) => account && account.gained.length + account.lost.length },
      { title: "Moved", text: ({ account }) => (account ? numbers.format(account.moved_count) : ""), by: ({ account }) => account?.moved_count, isNumber: true },
      { title: "Paused", text: ({ account }) => (account?.paused_ns ? duration(account.paused_ns / 1e6) : ""), by: ({ account }) => account?.paused_ns, isNumber: true },
      { title: "Unread, partition-s", text: ({ account }) => (account ? seconds(account.unread_ns) : ""), by: ({ account }) => account?.unread_ns, isNumber: true },
    ], rebalances, isNewestFirst, unread),
    members: new Table(byId("view-members"), "Members.", [
      { title: "Member", text: (lane) => lane.name, open: (lane, button) => panel.open([{ lane, at: chart.now, isMoment: true }], button) },
      { title: "Group", text: (lane) => lane.group.title },
      { title: "State", text: state },
      { title: "Partitions", text: (lane) => few((lane.owned[lane.owned.length - 1]?.parts ?? []).map((part) => partsText([part])), 3), by: (lane) => lane.owned[lane.owned.length - 1]?.count ?? 0 },
      { title: "First seen", text: (lane) => moment(lane.first), by: (lane) => lane.first, isNumber: true },
      { title: "Last request", text: (lane) => (lane.heard === null ? "" : moment(lane.heard)), by: (lane) => lane.heard, isNumber: true },
      { title: "Paused", text: (lane) => (lane.pausedMs ? duration(lane.pausedMs) : ""), by: (lane) => lane.pausedMs, isNumber: true },
      { title: "Client id", text: (lane) => shown(lane.clientId ?? "") },
      { title: "Host", text: (lane) => lane.host ?? "" },
    ], lanes),
    marks: new Table(byId("view-marks"), "Other events.", [
      { title: "Time", text: (mark) => moment(mark.at), by: (mark) => mark.at, isNumber: true, open: (mark, button) => panel.open([mark], button) },
      { title: "Group", text: (mark) => mark.group?.title ?? "" },
      { title: "Event", text: titleOf },
    ], marks, isNewestFirst),
  };
}
