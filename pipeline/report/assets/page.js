"use strict";
// Unpacks plotly, draws the charts in the reader's colours, and leads from a mark to the
// query that gave it.
(async () => {
  const specs = [...document.querySelectorAll("script[data-chart]")];
  const dark = matchMedia("(prefers-color-scheme: dark)");
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

  // What the page's look says about a chart, over what the chart says itself.
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

  // What is drawn is in the tables; one drawing, to measure texts with, is plotly's own.
  const hide = () => {
    for (const svg of document.querySelectorAll("svg")) svg.setAttribute("aria-hidden", "true");
  };

  const draw = async () => {
    for (const spec of specs) {
      const { data, layout } = JSON.parse(spec.textContent);
      const place = document.getElementById(spec.dataset.chart);
      await Plotly.react(place, data, dressed(layout, data), config);
      hide();
      for (const event of ["plotly_click", "plotly_afterplot"]) place.removeAllListeners(event);
      place.on("plotly_afterplot", hide);
      place.on("plotly_click", () => { location.hash = `q-${place.dataset.query}`; });
    }
    document.documentElement.dataset.drawn = String(specs.length);
  };

  await unpack();
  await draw();
  dark.addEventListener("change", draw);
  narrow.addEventListener("change", draw);
})();
