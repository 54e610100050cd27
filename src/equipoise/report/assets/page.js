"use strict";
// Names and files come from users: they enter the page as text only, never as markup.
(function () {
  const root = document.documentElement;
  const read = (id) => {
    const place = document.getElementById(id);
    return place ? JSON.parse(place.textContent) : null;
  };
  const make = (name, settings, ...children) => {
    const made = document.createElement(name);
    Object.assign(made, settings || {});
    made.append(...children.filter((child) => child !== null && child !== undefined));
    return made;
  };

  // --- light and dark: the system's choice until the reader makes one -----------------------
  const toggle = document.querySelector(".theme");
  const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);
  const name = () => {
    toggle.textContent = isDark() ? "Light" : "Dark";
    toggle.setAttribute("aria-label", "Change to " + (isDark() ? "light" : "dark") + " colours");
  };
  toggle.hidden = false;
  toggle.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    name();
  });
  prefersDark.addEventListener("change", name);
  name();

  // --- one of several panels ----------------------------------------------------------------
  for (const choice of document.querySelectorAll(".choice")) {
    const buttons = [...choice.querySelectorAll("button")];
    for (const button of buttons) {
      button.addEventListener("click", () => {
        for (const other of buttons) {
          other.setAttribute("aria-pressed", String(other === button));
          document.getElementById(other.dataset.panel).hidden = other !== button;
        }
      });
    }
  }

  // --- the gallery --------------------------------------------------------------------------
  const gallery = read("gallery-data");
  if (!gallery) return;
  const detail = document.getElementById("gallery-detail");
  const buttons = [...document.querySelectorAll(".anchor")];
  const label = (code) => gallery.labels[code];
  const number = (value) => {
    if (value === null) return "∞";
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size >= 1000) return Math.round(value).toLocaleString("en");
    return (size < 0.0005 ? value.toExponential(0) : String(Number(value.toPrecision(3)))).replaceAll("-", "−");
  };
  const share = (p) => (p > 0.995 && p < 1 ? "> 99" : p < 0.005 && p > 0 ? "< 1" : Math.round(100 * p)) + "\u202f%";
  const picture = (example) =>
    example.p ? make("img", { src: example.p, alt: "", className: gallery.pixel ? "pixel" : "" }) : null;

  const drawScore = (example) => {
    if (gallery.labels.length > 16) return null;
    const told = example.s.map((p, code) => label(code) + " " + share(p)).join(", ");
    const bars = make("div", { className: "score", title: told });
    bars.setAttribute("role", "img");
    bars.setAttribute("aria-label", "Score: " + told);
    bars.style.maxWidth = 1.2 * example.s.length + "rem";
    const largest = Math.max(...example.s, 1e-9);
    example.s.forEach((p, code) => {
      const bar = make("i", { className: code === example.y ? "own" : "" });
      bar.style.height = (100 * p) / largest + "%";
      bars.append(bar);
    });
    return bars;
  };
  const tellScore = (example) => {
    const order = example.s.map((p, code) => [p, code]).sort((a, b) => b[0] - a[0] || a[1] - b[1]);
    return order.slice(0, 3).map(([p, code]) => label(code) + " " + share(p)).join(", ");
  };

  const drawHead = (anchor, example) =>
    make("div", { className: "example" },
      picture(example),
      make("div", { className: "who" },
        make("span", { className: "label" }, "label ", make("b", { textContent: label(example.y) })),
        make("small", { textContent: "example " + anchor.i + " · environment " + gallery.environments[example.e] }),
        make("small", { textContent: "score: " + tellScore(example) }),
        drawScore(example)));

  const drawTexts = (anchor) => {
    const list = make("ul", { className: "matches" });
    for (const [i, code, distance] of anchor.m) {
      const example = gallery.examples[i];
      list.append(make("li", {},
        make("div", { className: "name", title: "example " + i + ", score: " + tellScore(example) },
          make("span", { textContent: label(code) }), make("small", { textContent: number(distance) })),
        make("blockquote", { textContent: example.t })));
    }
    return list;
  };

  const drawPictures = (anchor) => {
    const list = make("ul", { className: "matches" });
    const byLabel = new Map();
    for (const [i, code, distance] of anchor.m) {
      if (!byLabel.has(code)) byLabel.set(code, []);
      byLabel.get(code).push([i, distance]);
    }
    for (const [code, found] of byLabel) {
      const strip = make("div", { className: "strip" });
      for (const [i, distance] of found) {
        const example = gallery.examples[i];
        strip.append(make("figure", { title: "example " + i + ", score: " + tellScore(example) },
          picture(example), drawScore(example), make("figcaption", { textContent: number(distance) })));
      }
      const near = anchor.n[code];
      list.append(make("li", {},
        make("div", { className: "name" },
          make("span", { textContent: label(code) }),
          make("small", { textContent: near === 1 ? "1 match" : near + " near matches" })),
        strip));
    }
    return list;
  };

  const drawValues = (anchor, example) => {
    const table = make("table", { className: "values" });
    const head = make("tr", {}, make("th", { scope: "col", textContent: "" }), make("th", { scope: "col", textContent: "distance" }));
    for (const feature of gallery.features) {
      head.append(make("th", { scope: "col", title: feature }, make("span", { textContent: feature })));
    }
    const row = (title, distance, values, kind) => {
      const made = make("tr", { className: kind }, make("th", { scope: "row" }, make("span", { textContent: title })),
        make("td", { textContent: distance }));
      for (const value of values) made.append(make("td", { textContent: number(value) }));
      return made;
    };
    const body = make("tbody", {}, row(label(example.y), "anchor", example.v, "anchor-row"));
    for (const [i, code, distance] of anchor.m) {
      body.append(row(label(code), number(distance), gallery.examples[i].v, ""));
    }
    table.append(make("thead", {}, head), body);
    const scroll = make("div", { className: "scroll", tabIndex: 0 }, table);
    scroll.setAttribute("role", "region");
    scroll.setAttribute("aria-label", "Feature values of the anchor and its matches");
    return scroll;
  };

  const show = (button) => {
    for (const other of buttons) {
      other.setAttribute("aria-pressed", String(other === button));
      other.tabIndex = other === button ? 0 : -1;
    }
    const anchor = gallery.anchors[Number(button.dataset.anchor)];
    const example = gallery.examples[anchor.i];
    const parts = [drawHead(anchor, example)];
    if (example.t !== undefined) parts.push(make("blockquote", { textContent: example.t }));
    if (!anchor.m.length) parts.push(make("p", { className: "note", textContent: "This anchor has no match." }));
    else if (example.t !== undefined) parts.push(drawTexts(anchor));
    else if (gallery.features) parts.push(drawValues(anchor, example));
    else parts.push(drawPictures(anchor));
    detail.replaceChildren(...parts);
  };
  buttons.forEach((button, place) => {
    button.addEventListener("click", () => show(button));
    button.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      const target = event.key === "Home" ? 0 : event.key === "End" ? buttons.length - 1 : place + (step || 0);
      if (target === place && !["Home", "End"].includes(event.key)) return;
      event.preventDefault();
      const next = buttons[(target + buttons.length) % buttons.length];
      next.focus();
      show(next);
    });
  });
  if (buttons.length) show(buttons[0]);
})();
