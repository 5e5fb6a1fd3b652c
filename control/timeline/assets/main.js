"use strict";
// Puts the parts together.

(() => {
  const root = document.documentElement;
  const isLive = root.dataset.mode === "live";
  const model = new Model();
  let panel = null;
  const follow = byId("follow");
  const chart = new Chart(model, {
    open: (marks, opener) => panel.open(marks, opener),
    changed: () => follow.setAttribute("aria-pressed", String(chart.isFollowing)),
  });
  chart.isLive = isLive;
  panel = new Panel(model, chart);
  const findings = new Findings(byId("view-findings"), model, chart, panel);
  const deliveries = new Deliveries(byId("view-delivery"), model, chart);
  const tables = { ...makeTables(model, chart, panel), findings, delivery: deliveries };

  // -- colours

  const themes = ["auto", "light", "dark"];
  const systemDark = matchMedia("(prefers-color-scheme: dark)");
  let theme = stored("kohort-theme") ?? "auto";
  if (!themes.includes(theme)) theme = "auto";
  function paint() {
    root.dataset.theme = theme === "auto" ? (systemDark.matches ? "dark" : "light") : theme;
    const button = byId("theme");
    button.textContent = { auto: "Auto", light: "Light", dark: "Dark" }[theme];
    button.setAttribute("aria-label", `Colours: ${{ auto: "as the system", light: "light", dark: "dark" }[theme]}`);
    chart.recolour();
  }
  systemDark.addEventListener("change", paint);
  byId("theme").addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    store("kohort-theme", theme);
    paint();
  });

  function stored(key) {
    try {
      return localStorage.getItem(key);
    } catch {
      return null; // a file, or a browser that keeps nothing
    }
  }
  function store(key, value) {
    try {
      localStorage.setItem(key, value);
    } catch {
      // as above
    }
  }

  // -- views

  const tabs = [...document.querySelectorAll('[role="tab"]')];
  const viewOf = (tab) => byId(tab.getAttribute("aria-controls"));
  let current = tabs[0];
  function choose(tab) {
    current = tab;
    for (const each of tabs) {
      each.setAttribute("aria-selected", String(each === tab));
      each.tabIndex = each === tab ? 0 : -1;
      viewOf(each).hidden = each !== tab;
    }
    showTable();
    chart.redraw();
  }
  tabs.forEach((tab, i) => {
    tab.addEventListener("click", () => choose(tab));
    tab.addEventListener("keydown", (event) => {
      const to = { ArrowRight: i + 1, ArrowLeft: i - 1 + tabs.length, Home: 0, End: tabs.length - 1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      choose(tabs[to % tabs.length]);
      current.focus();
    });
  });
  function showTable() {
    const table = tables[current.id.replace("tab-", "")];
    table?.show();
    if (table === findings && isLive) findings.ask();
  }
  function showCounts() {
    const groups = model.groupsLike(chart.filter);
    const sum = (by) => groups.reduce((all, group) => all + by(group), 0);
    const counts = { rebalances: sum((group) => group.rebalances.length), members: sum((group) => group.lanes.length), marks: model.countMarks(chart.filter), findings: findings.count(), delivery: deliveries.count() };
    for (const [name, value] of Object.entries(counts)) set(byId(`tab-${name}`).querySelector(".count"), "textContent", value === null ? "" : numbers.format(value));
    byId("tab-findings").classList.toggle("some", counts.findings > 0);
  }

  // -- filters

  const select = byId("group");
  let offered = null;
  function offerGroups() {
    const names = [...model.groups.keys()].sort();
    const wanted = chart.filter.group;
    if (wanted && !model.groups.has(wanted)) names.push(wanted); // it may come
    if (JSON.stringify(names) === offered) return;
    offered = JSON.stringify(names);
    select.replaceChildren(make("option", { value: "" }, "all groups"), ...names.map((name) => make("option", { value: name }, shown(name))));
    select.value = wanted;
  }
  function filter() {
    chart.layout();
    showCounts();
    showTable();
  }
  select.addEventListener("change", () => {
    chart.filter.group = select.value;
    history.replaceState(null, "", select.value ? `#group=${encodeURIComponent(select.value.toWellFormed())}` : "#");
    filter();
  });
  byId("find").addEventListener("input", (event) => {
    chart.filter.find = event.target.value.trim().toLowerCase();
    filter();
  });
  byId("hide-gone").addEventListener("click", (event) => {
    chart.filter.hidesGone = !chart.filter.hidesGone;
    event.currentTarget.setAttribute("aria-pressed", String(chart.filter.hidesGone));
    filter();
  });
  chart.filter.group = linkedGroup(location.hash);
  function linkedGroup(hash) {
    try {
      return decodeURIComponent(/^#group=(.+)$/.exec(hash)?.[1] ?? "");
    } catch {
      return ""; // no address of ours
    }
  }

  // -- the chart's buttons, keys, mouse

  const glide = { glide: true };
  const buttons = {
    "zoom-in": () => chart.zoom(0.5, undefined, glide),
    "zoom-out": () => chart.zoom(2, undefined, glide),
    fit: () => chart.fit(glide),
    "rows-less": () => chart.setRowHeight(-1),
    "rows-more": () => chart.setRowHeight(1),
    follow: () => (chart.isFollowing ? chart.unfollow() : chart.follow()),
  };
  for (const [id, action] of Object.entries(buttons)) byId(id).addEventListener("click", action);
  byId("help").addEventListener("click", (event) => {
    panel.remember(event.currentTarget);
    panel.help();
  });
  chart.element.addEventListener("keydown", (event) => {
    if (pressKey(chart, panel, event)) event.preventDefault();
  });
  chart.element.addEventListener("focus", () => chart.goToRow(chart.active));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && panel.isOpen) {
      event.preventDefault();
      panel.close();
    }
  });
  takePointers(chart, chart.scroller, (event) => {
    const rect = chart.element.getBoundingClientRect();
    const { row, time } = chart.at(event.clientX - rect.left, event.clientY - rect.top);
    if (row?.kind !== "lane" || event.clientX - rect.left < chart.labels || time > chart.now) return;
    chart.active = row.index;
    chart.draw();
    panel.open([{ lane: row.lane, at: time, isMoment: true }], chart.elements.labelOf(row));
  });
  takeWheel(chart, chart.scroller);
  takeWheel(chart, byId("canvas"));
  takeWheel(chart, byId("overview"));
  takeOverview(chart, byId("overview"));
  chart.scroller.addEventListener("dblclick", (event) => {
    const left = chart.element.getBoundingClientRect().left;
    chart.zoom(0.4, chart.timeAt(event.clientX - left), glide);
  });
  const tip = byId("tip");
  chart.scroller.addEventListener("pointermove", (event) => showTip(chart, tip, event));
  chart.scroller.addEventListener("pointerleave", () => { tip.hidden = true; });

  // -- status, and the line about the events

  function setStatus(status, text = status) {
    const element = byId("status");
    if (status !== element.dataset.status && element.dataset.status !== "loading") say(text);
    element.dataset.status = status;
    set(element, "textContent", text);
  }
  function say(text) {
    byId("say").textContent = text;
  }
  function about() {
    const labels = [...model.runs.values()].flatMap(({ labels }) => Object.entries(labels)).map(([name, value]) => shown(`${name}: ${value}`));
    const facts = [
      isLive ? null : root.dataset.source,
      count(model.events, "event"),
      count(model.groups.size, "group"),
      count(model.lanes, "member"),
      duration(model.end),
      ...new Set(labels),
    ];
    set(byId("about"), "textContent", facts.filter(Boolean).join(" \u00b7 "));
  }
  function changed() {
    offerGroups();
    about();
    showCounts();
    if (chart.filter.hidesGone) chart.layout();
    else chart.redraw();
  }

  // -- a file

  async function showFile() {
    const bad = await readPage(model, (text) => setStatus("loading", text));
    for (const [group, found] of Object.entries(JSON.parse(byId("found").textContent))) model.findings.set(group, found);
    if (model.lanes > 60) chart.rowHeight = 18;
    chart.now = model.end;
    chart.fit();
    setStatus(bad ? "lost" : "file", bad ? `${count(bad, "line")} could not be read` : "file");
    say(`${count(model.events, "event")} of ${count(model.groups.size, "group")} are shown.`);
    changed();
    chart.layout();
  }

  // -- a broker

  const OPENS_WITH_MS = 60_000; // and with as much more as the last incident takes
  const MOST_ASKED = 20; // groups; of more, the findings are asked for in their tab

  /** The last moment of a finding, or else of the last rebalance; null: there is none. */
  function lastIncident() {
    const groups = [...model.groups.values()];
    const told = groups.flatMap((group) => (model.findings.get(group.name) ?? []).flatMap(({ evidence }) => evidence))
      .map((each) => model.time(each.time_ns));
    const moments = told.length ? told : groups.map((group) => group.current?.at ?? null).filter((at) => at !== null);
    return moments.length ? moments.reduce((one, other) => Math.max(one, other)) : null;
  }
  /** Shows a page that has read what the broker remembers: the last incident is in view. */
  async function openAtIncident() {
    if (model.groups.size <= MOST_ASKED) await findings.ask();
    showCounts();
    const at = lastIncident();
    if (at === null || !chart.isFollowing) return;
    const span = Math.max(OPENS_WITH_MS, (chart.now - at) * 1.25);
    chart.view(chart.now - span, chart.now);
  }
  function showLive() {
    let said = 0;
    let isNew = false;
    chart.to = OPENS_WITH_MS;
    chart.isFollowing = true;
    follow.hidden = false;
    let calmSince = Infinity; // no event waits
    let isOpened = false;
    const source = new LiveSource(model, root.dataset.source, { changed: () => { isNew = true; }, status: setStatus });
    setInterval(() => {
      if (!current.id.endsWith("chart") && !viewOf(current).contains(document.activeElement)) showTable();
      if (model.rebalances > said) say(lastWords());
      said = model.rebalances;
    }, 2000);
    // All that is new is drawn together, and now when it has moved by a pixel.
    let drawn = 0;
    let told = 0;
    const calm = matchMedia("(prefers-reduced-motion: reduce)");
    setInterval(() => {
      const time = performance.now();
      chart.start = model.start;
      chart.now = Math.max(model.end, source.now());
      calmSince = model.groups.size && !source.waiting.length ? Math.min(calmSince, time) : Infinity;
      if (!isOpened && time - calmSince > 300) {
        isOpened = true; // all that the broker remembers is read
        openAtIncident();
      }
      if (document.hidden || (!isNew && time - drawn < (calm.matches ? 1000 : clamp(1 / chart.scale, 0, 1000)))) return;
      drawn = time;
      isNew = false;
      if (time - told > 250) {
        told = time;
        changed();
      } else chart.redraw();
    }, GATHER_MS);
  }
  function lastWords() {
    let last = null;
    for (const group of model.groups.values()) if (group.current && (!last || group.current.at > last.at)) last = group.current;
    return last ? `Rebalance of ${last.group.title}: ${causeText(last)}` : "";
  }

  paint();
  window.kohort = Object.freeze({ model, chart, panel }); // for the console, and for tests
  if (isLive) showLive();
  else {
    showFile().catch((error) => {
      setStatus("lost", "this page cannot show its events");
      console.error(error);
    });
  }
})();
