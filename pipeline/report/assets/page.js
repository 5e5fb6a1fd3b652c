"use strict";
// Unpacks plotly, draws the charts in the reader's colours, and leads from a mark to the
// query that gave it. On paper all parts are open, and the charts are light and as wide as
// the sheet.
(async () => {
  const specs = [...document.querySelectorAll("script[data-chart]")];
  const dark = matchMedia("(prefers-color-scheme: dark)");
  // A4, landscape, without its margins, at 96 pixels per inch.
  const SHEET_PX = 1030;
  const narrow = matchMedia("(max-width: 520px)");
  const colour = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  const unpack = async () => {
    const packed = atob(document.getElementById("plotly").textContent.trim());
    const bytes = Uint8Array.from(packed, (sign) => sign.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
  };

  // The layout of a chart, with the page's colours and fonts on top.
  const dressed = (layout, data) => {
    const axis = (own) => ({
      ...own,
      gridcolor: colour("line"),
      zerolinecolor: colour("line"),
      linecolor: colour("soft"),
      fixedrange: narrow.matches,
    });
    return {
      ...layout,
      // There the legend is a line for each.
      height: layout.height + (narrow.matches ? 18 * data.length : 0),
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, sans-serif", size: narrow.matches ? 11 : 12.5, color: colour("ink") },
      hoverlabel: { bgcolor: colour("raised"), bordercolor: colour("soft"), font: { color: colour("ink") }, align: "left" },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("soft"), activecolor: colour("accent") },
      // A finger that goes over a chart scrolls the page.
      dragmode: narrow.matches ? false : "zoom",
      xaxis: axis(layout.xaxis),
      yaxis: axis(layout.yaxis),
    };
  };

  const config = {
    displaylogo: false,
    responsive: true,
    showTips: false,
    modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"],
    toImageButtonOptions: { format: "svg" },
  };

  // Hides the drawings from screen readers: tables have the same numbers. One drawing is
  // plotly's own, to measure texts.
  const hide = () => {
    for (const svg of document.querySelectorAll("svg")) svg.setAttribute("aria-hidden", "true");
  };

  // Charts in closed parts have no width: they are drawn when their part opens.
  const isSeen = (place) => !place.closest("details:not([open])");

  const draw = async (some = specs) => {
    for (const spec of some) {
      const place = document.getElementById(spec.dataset.chart);
      if (!isSeen(place)) continue;
      const { data, layout } = JSON.parse(spec.textContent);
      await Plotly.react(place, data, dressed(layout, data), config);
      hide();
      for (const event of ["plotly_click", "plotly_afterplot"]) place.removeAllListeners(event);
      place.on("plotly_afterplot", hide);
      place.on("plotly_click", () => { location.hash = `q-${place.dataset.query}`; });
    }
    document.documentElement.dataset.drawn = String(specs.length);
  };

  // A link to a closed part opens it.
  const reveal = () => {
    const part = document.getElementById(location.hash.slice(1))?.closest("details");
    if (part) part.open = true;
  };

  // The browser makes the pages as soon as the listener returns; without images and maps
  // plotly draws before its promise is awaited.
  const parts = [...document.querySelectorAll("details.group")];
  let closed = [];
  const print = () => {
    closed = parts.filter((part) => !part.open);
    for (const part of closed) part.open = true;
    document.documentElement.dataset.printed = "";
    for (const spec of specs) {
      const { data, layout } = JSON.parse(spec.textContent);
      const place = document.getElementById(spec.dataset.chart);
      Plotly.react(place, data, { ...dressed(layout, data), width: SHEET_PX }, config);
    }
  };
  const printed = () => {
    delete document.documentElement.dataset.printed;
    for (const part of closed) part.open = false;
    draw();
  };

  await unpack();
  reveal();
  await draw();
  dark.addEventListener("change", () => draw());
  narrow.addEventListener("change", () => draw());
  addEventListener("hashchange", reveal);
  addEventListener("beforeprint", print);
  addEventListener("afterprint", printed);
  for (const part of parts) {
    part.addEventListener("toggle", () => {
      const isPrinted = "printed" in document.documentElement.dataset;
      if (!isPrinted) draw(part.querySelectorAll("script[data-chart]"));
    });
  }
})();
