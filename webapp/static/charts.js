// Draws a chart with Plotly on the first press of its button.  The page is complete without this
// file: the button is hidden in the HTML and shown here.  Plotly is loaded once, from this server.
"use strict";

(() => {
  const plotlyAddress = document.currentScript.dataset.plotly;
  let loading = null;

  function loadPlotly() {
    loading ??= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = plotlyAddress;
      script.onload = () => resolve(window.Plotly);
      script.onerror = () => reject(new Error("plotly.min.js could not be loaded"));
      document.head.append(script);
    });
    return loading;
  }

  // The page's own colours, so that the chart follows light and dark.
  function paint(figure, box) {
    const style = getComputedStyle(box);
    const colour = (name) => style.getPropertyValue(name).trim();
    const { layout } = figure;
    layout.modebar = { bgcolor: "transparent", color: colour("--muted"), activecolor: colour("--ink") };
    layout.font = { ...layout.font, color: colour("--ink"), family: style.fontFamily, size: 12 };
    for (const axis of ["xaxis", "yaxis"]) {
      layout[axis].gridcolor = colour("--rule");
    }
    for (const shape of layout.shapes) {
      if (shape.fillcolor) shape.fillcolor = colour("--ink");
      else shape.line.color = colour("--ink");
    }
    for (const trace of figure.data) {
      const series = colour(`--series-${trace.meta.slot}`);
      if (trace.marker) trace.marker.color = series;
      if (trace.line) trace.line.color = series;
      for (const bars of [trace.error_x, trace.error_y]) if (bars) bars.color = series;
    }
    return figure;
  }

  async function draw(button, box) {
    const [Plotly, answer] = await Promise.all([
      loadPlotly(),
      fetch(button.dataset.figureUrl, { headers: { Accept: "application/json" } }),
    ]);
    if (!answer.ok) throw new Error(`the chart's data could not be loaded (${answer.status})`);
    const figure = await answer.json();
    // The figure has a caption of its own on the page, and phones have no room for two titles.
    figure.layout.title = undefined;
    figure.layout.margin = { l: 56, r: 12, t: 72, b: 48 };
    const show = () =>
      Plotly.react(box, paint(figure, box).data, figure.layout, {
        displaylogo: false,
        responsive: true,
        modeBarButtonsToRemove: ["sendChartToCloud", "lasso2d", "select2d"],
      });
    await show();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  }

  async function press(button) {
    const chart = button.closest(".chart");
    const box = chart.querySelector(".chart__plotly");
    const drawing = chart.querySelector(".chart__drawing");
    if (box.dataset.state !== "drawn") {
      button.disabled = true;
      box.hidden = false;
      try {
        await draw(button, box);
        box.dataset.state = "drawn";
      } catch (error) {
        box.dataset.state = "failed";
        box.textContent = `The interactive chart did not work: ${error.message}.`;
        return;
      } finally {
        button.disabled = false;
      }
    } else {
      box.hidden = !box.hidden;
    }
    drawing.hidden = !box.hidden;
    button.setAttribute("aria-pressed", String(!box.hidden));
  }

  // The standalone drawing, at twice its size, as a picture to save.
  async function savePng(button) {
    const answer = await fetch(button.dataset.pngOf);
    if (!answer.ok) throw new Error(`the drawing could not be loaded (${answer.status})`);
    const text = await answer.text();
    const [, , width, height] = text.match(/viewBox="([^"]*)"/)[1].split(" ").map(Number);
    const sized = text.replace("<svg ", `<svg width="${width}" height="${height}" `);
    const picture = new Image();
    const source = URL.createObjectURL(new Blob([sized], { type: "image/svg+xml" }));
    picture.src = source;
    await picture.decode();
    const canvas = document.createElement("canvas");
    canvas.width = width * 2;
    canvas.height = height * 2;
    canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
    URL.revokeObjectURL(source);
    const blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = button.dataset.pngOf.split("?")[0].split("/").pop().replace(/svg$/, "png");
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  for (const button of document.querySelectorAll("button[data-png-of]")) {
    button.hidden = false;
    button.addEventListener("click", () =>
      savePng(button).catch((error) => (button.textContent = `PNG: ${error.message}`)),
    );
  }
  for (const button of document.querySelectorAll("button[data-figure-url]")) {
    button.hidden = false;
    button.addEventListener("click", () => press(button));
  }
})();
