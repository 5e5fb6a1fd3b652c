"use strict";
// The findings of `kohort why`: known problems, with advice and evidence.

const MOST_EVIDENCE = 20;

/** True if the rebalance begins with the event of the evidence, or right after it: a member went. */
const begins = ({ event, account }, { sequence, time_ns: time }) =>
  sequence !== null && sequence <= event.sequence && time === (account ? account.started_ns : event.time_ns);

/** The setting that would have helped, and what it would have saved. */
const settingText = ({ setting, current, suggested, saving_ns: saving }) => {
  const saves = saving > 0 ? `: about ${numbers.format(Math.round(saving / 1e8) / 10)} partition-seconds without a reader less` : "";
  return `${setting}: ${shown(suggested, 200)}${current === null ? "" : ` (it was ${shown(current, 200)})`}${saves}`;
};

/** All findings as cards. */
class Findings {
  constructor(section, model, chart, panel) {
    Object.assign(this, { section, model, chart, panel, asked: new Map() });
    this.list = make("div", { class: "findings" });
    section.append(this.list);
  }

  get groups() {
    return this.model.groupsLike(this.chart.filter);
  }

  /** Number of findings; null: no broker was asked yet. */
  count() {
    const known = this.groups.map((group) => this.model.findings.get(group.name)).filter(Boolean);
    return this.chart.isLive && !known.length ? null : known.flat().length;
  }

  show() {
    const cards = this.groups.flatMap((group) => (this.model.findings.get(group.name) ?? []).map((finding) => this.card(group, finding)));
    const none = make("p", { class: "when" }, "No known problem in these events.");
    this.list.replaceChildren(...(cards.length ? cards : [none]));
  }

  /** Asks a broker about the groups that have rebalanced since the last time; shows the answers. */
  async ask() {
    for (const group of this.groups) {
      const settled = group.rebalances.filter(({ account }) => account).length + group.rebalances.length;
      if (this.asked.get(group.name) === settled) continue;
      this.asked.set(group.name, settled);
      await askFindings(this.model, group.name);
    }
    this.show();
  }

  card(group, finding) {
    const items = finding.evidence.slice(0, MOST_EVIDENCE).map((each) =>
      make("li", {}, make("button", { type: "button", class: "link", onclick: (event) => this.goTo(group, each, event.currentTarget) }, shown(each.text, 400))));
    const left = finding.evidence_count - items.length;
    if (left > 0) items.push(make("li", {}, `and ${numbers.format(left)} more`));
    return make("article", {},
      make("h3", {}, shown(finding.title, 400), make("span", { class: "count" }, ` ${group.title}`)),
      make("p", {}, shown(finding.advice, 2000)),
      ...(finding.setting ? [make("p", { class: "when" }, settingText(finding))] : []),
      make("ul", {}, ...items));
  }

  /** Opens the rebalance that the evidence is about, or shows its moment in the chart. */
  goTo(group, evidence, opener) {
    const rebalance = group.rebalances.find((each) => begins(each, evidence));
    if (rebalance) {
      this.panel.open([{ rebalance }], opener);
      return;
    }
    const at = this.model.time(evidence.time_ns);
    byId("tab-chart").click();
    const span = this.chart.to - this.chart.from;
    this.chart.unfollow();
    this.chart.view(at - span / 2, at + span / 2, { glide: true });
  }
}
