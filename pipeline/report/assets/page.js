"use strict";
// Unpacks plotly and draws the charts in the reader's colours: those of a closed part as it
// opens. On paper they are as wide as the sheet, and light.
(async () => {
  const SHEET_PX = 700; // A4, without its margins, at 96 pixels per inch
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const narrow = matchMedia("(max-width: 520px)");
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  const unpack = async () => {
    const packed = atob(document.getElementById("plotly").textContent.trim());
    const bytes = Uint8Array.from(packed, (sign) => sign.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
  };

  const draw = async (width) => {
    const axis = (own) => ({ ...own, gridcolor: colour("line"), linecolor: colour("soft"), fixedrange: narrow.matches });
    for (const spec of document.querySelectorAll("script[data-chart]")) {
      // Charts in closed parts have no width.
      if (spec.closest("details:not([open])")) continue;
      const { data, layout } = JSON.parse(spec.textContent);
      const place = document.getElementById(spec.dataset.chart);
      place.style.height = `${layout.height}px`;
      const dressed = {
        ...layout,
        ...(width ? { width } : {}),
        paper_bgcolor: "rgba(0,0,0,0)",
        plot_bgcolor: "rgba(0,0,0,0)",
        font: { family: "system-ui, sans-serif", size: 12, color: colour("ink") },
        hoverlabel: { bgcolor: colour("raised"), bordercolor: colour("soft"), font: { color: colour("ink") } },
        // A finger that goes over a chart scrolls the page.
        dragmode: narrow.matches ? false : "zoom",
        xaxis: axis(layout.xaxis),
        yaxis: axis(layout.yaxis),
      };
      const config = { displayModeBar: false, responsive: true, showTips: false };
      Plotly.react(place, data, dressed, config);
    }
    // For screen readers the tables have the numbers.
    for (const svg of document.querySelectorAll("svg")) svg.setAttribute("aria-hidden", "true");
    document.documentElement.dataset.drawn = "";
  };

  // A link to a closed part opens it.
  const reveal = () => {
    const part = document.getElementById(location.hash.slice(1));
    if (part) part.open = true;
  };

  await unpack();
  reveal();
  await draw();
  for (const query of [dark, narrow]) query.addEventListener("change", () => draw());
  addEventListener("hashchange", reveal);
  addEventListener("beforeprint", () => {
    document.documentElement.dataset.printed = "";
    draw(SHEET_PX);
  });
  addEventListener("afterprint", () => {
    delete document.documentElement.dataset.printed;
    draw();
  });
  for (const part of document.querySelectorAll("details")) part.addEventListener("toggle", () => draw());
})();
