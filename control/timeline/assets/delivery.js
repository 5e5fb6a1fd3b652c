"use strict";
// The account of delivery: a sentence for each group, and its rows in a table.

/** The tab of the account. */
class Deliveries {
  constructor(section, model, chart) {
    Object.assign(this, { section, model, chart });
    this.sentences = make("ul", { class: "delivered" });
    section.append(this.sentences);
    const name = (id, group) => (id ? group.nameOf(id) : "");
    this.table = new Table(section, "Records sent again or skipped, and offsets that went back.", [
      { title: "Time", text: (row) => moment(row.at), by: (row) => row.at, isNumber: true, open: (row) => this.goTo(row.at) },
      { title: "Group", text: ({ group }) => group.title },
      { title: "Partition", text: (row) => `${shown(row.topic)} ${row.partition}`, by: (row) => `${row.topic} ${String(row.partition).padStart(10, "0")}` },
      { title: "What", text: (row) => DELIVERED[row.what] },
      { title: "Offsets", text: (row) => (row.what === "went_back" ? `${row.end} to ${row.first}` : `${row.first} to ${row.end - 1}`), by: (row) => row.first, isNumber: true },
      { title: "Records", text: (row) => (row.records === null ? "" : numbers.format(row.records)), by: (row) => row.records, isNumber: true },
      { title: "First reader", text: (row) => name(row.previous_reader, row.group) },
      { title: "Reader", text: (row) => name(row.reader, row.group) },
      { title: "Reason", isWide: true, text: (row) => meaning(REASON_TABLES[row.what], row.reason) },
    ], () => this.rows(), chart.isLive);
  }

  rows() {
    return this.model.groupsLike(this.chart.filter).flatMap((group) => group.deliveries);
  }

  count() {
    return this.model.groupsLike(this.chart.filter).reduce((sum, group) => sum + group.deliveries.length, 0);
  }

  show() {
    const told = this.model.groupsLike(this.chart.filter).filter((group) => group.delivered !== null);
    const items = told.map((group) => make("li", {}, make("strong", {}, group.title), `: ${group.delivered}.`));
    this.sentences.replaceChildren(...(items.length ? items : [make("li", {}, "No account of delivery in these events.")]));
    this.table.show();
  }

  goTo(at) {
    byId("tab-chart").click();
    const span = this.chart.to - this.chart.from;
    this.chart.unfollow();
    this.chart.view(at - span / 2, at + span / 2, { glide: true });
  }
}
