"use strict";
(() => {
  const root = document.documentElement;
  const tip = document.getElementById("tip");
  const said = document.getElementById("said");
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  // Light or dark: the system's choice until the reader makes one.
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const kept = { // storage may be forbidden for local files
    get: () => { try { return localStorage.getItem("uraenas-theme"); } catch { return null; } },
    set: (theme) => { try { localStorage.setItem("uraenas-theme", theme); } catch { /* not kept */ } },
  };
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const nameTheme = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`);
  };
  if (["light", "dark"].includes(kept.get())) root.dataset.theme = kept.get();
  button.hidden = false;
  nameTheme();
  system.addEventListener("change", nameTheme);
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    kept.set(root.dataset.theme);
    nameTheme();
  });

  // Values: a mark's data-tip holds lines of "name<tab>value", a class in braces before a name is its colour.
  let current = null;
  let byKey = false; // what the keyboard has opened stays open while the page scrolls to it
  const fill = (words) => {
    tip.replaceChildren(...words.split("\n").map((line) => {
      const [, colour, rest] = line.match(/^(?:\{([\w-]+)\})?(.*)$/);
      const row = document.createElement("div");
      rest.split("\t").forEach((word, k) => {
        const part = document.createElement("span");
        part.textContent = word;
        if (colour && k === 0) {
          const swatch = document.createElement("i");
          swatch.className = `swatch ${colour}`;
          part.prepend(swatch);
        }
        row.append(part);
      });
      return row;
    }));
  };
  const place = (x, y) => {
    const box = tip.getBoundingClientRect();
    const left = x + 16 + box.width > innerWidth - 8 ? x - box.width - 16 : x + 16;
    tip.style.left = `${Math.max(8, Math.min(left, innerWidth - box.width - 8))}px`;
    tip.style.top = `${Math.max(8, Math.min(y + 16, innerHeight - box.height - 8))}px`;
  };
  const show = (mark, x, y) => {
    if (mark !== current) {
      current?.classList.remove("at");
      current = mark;
      current?.classList.add("at");
      if (current) fill(current.dataset.tip);
    }
    tip.hidden = !current;
    if (current) place(x, y);
  };
  const showAt = (mark) => {
    const box = mark.getBoundingClientRect();
    show(mark, box.left + box.width / 2, box.top + Math.min(box.height / 2, 60));
  };
  const point = (event) => {
    byKey = false;
    show(event.target.closest?.("[data-tip]") ?? null, event.clientX, event.clientY);
  };
  document.addEventListener("pointermove", point);
  document.addEventListener("pointerdown", point);
  document.addEventListener("scroll", () => (byKey && current ? showAt(current) : show(null)), { passive: true });

  // What is on the page, and what is unpacked later.
  const ofFigure = (svg) => {
    svg.setAttribute("aria-describedby", "keys");
    svg.addEventListener("keydown", (event) => {
      if (event.key === "Escape") return show(null);
      if (!event.ctrlKey && !event.metaKey && !event.altKey && "sp".includes(event.key.toLowerCase()))
        return (event.key.toLowerCase() === "s" ? saveSvg : savePng)(svg);
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      const marks = all("[data-tip]", svg);
      if (!step || !marks.length) return undefined;
      event.preventDefault();
      const next = marks[(marks.indexOf(current) + step + marks.length) % marks.length];
      byKey = true;
      showAt(next);
      said.textContent = next.dataset.tip.replace(/\{[\w-]+\}/g, "").replace(/\t/g, " ").replace(/\n/g, ", ");
      return undefined;
    });
    svg.addEventListener("blur", () => show(null));
  };

  // One set of figures at a time.
  const ofChoice = (choice) => {
    const choose = () => {
      const chosen = choice.querySelector("input:checked").value;
      all(".option", choice).forEach((option) => { option.hidden = option.dataset.option !== chosen; });
      hintAtScrolling();
    };
    choice.addEventListener("change", choose);
    choose();
  };

  // A pressed method stands out in every figure.
  let focused = null;
  const dim = (within = document) => {
    all("[data-focus]", within).forEach((one) => one.setAttribute("aria-pressed", String(one.dataset.focus === focused)));
    all("[data-method]", within)
      .forEach((one) => one.classList.toggle("dim", focused !== null && one.dataset.method !== focused));
  };
  const ofKey = (press) => press.addEventListener("click", () => {
    focused = press.getAttribute("aria-pressed") === "true" ? null : press.dataset.focus;
    dim();
  });

  // A table that is wider than the page says so.
  const hintAtScrolling = () => all(".scroll").forEach((box) => {
    box.classList.toggle("wide", box.scrollWidth > box.clientWidth + 1);
  });
  addEventListener("resize", hintAtScrolling);

  // Saving: a copy with its legend and with all styles written out, in light colours, as papers want it.
  const STYLES = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin",
    "opacity", "font-family", "font-size", "font-weight", "text-anchor", "image-rendering"];
  const copy = (svg) => {
    const before = root.style.colorScheme;
    root.style.colorScheme = "light";
    show(null);
    const twin = svg.cloneNode(true);
    const originals = all("*", svg);
    all("*", twin).forEach((part, k) => {
      const style = getComputedStyle(originals[k]);
      STYLES.forEach((name) => part.setAttribute(name, style.getPropertyValue(name)));
      ["class", "data-tip", "data-method"].forEach((name) => part.removeAttribute(name));
    });
    root.style.colorScheme = before;
    const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
    const below = height + Number(svg.dataset.legend);
    const lines = whose(svg).reduce((found, word) => {
      const last = found.at(-1) ?? "";
      return last && last.length + word.length < 54 ? [...found.slice(0, -1), `${last} ${word}`] : [...found, word];
    }, []);
    const whole = [width + 24, below + 17 * lines.length + 24];
    ["tabindex", "aria-describedby", "data-name", "data-legend"].forEach((name) => twin.removeAttribute(name));
    const attributes = { xmlns: "http://www.w3.org/2000/svg", width: whole[0], height: whole[1],
      viewBox: `-12 -12 ${whole[0]} ${whole[1]}` };
    Object.entries(attributes).forEach(([name, value]) => twin.setAttribute(name, value));
    const paper = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    Object.entries({ x: -12, y: -12, width: whole[0], height: whole[1], fill: "#fff" })
      .forEach(([name, value]) => paper.setAttribute(name, value));
    twin.prepend(paper);
    lines.forEach((words, k) => {
      const line = document.createElementNS("http://www.w3.org/2000/svg", "text");
      Object.entries({ x: 0, y: below + 14 + 17 * k, fill: "#56606c", "font-size": "12px", "font-family": "sans-serif" })
        .forEach(([name, value]) => line.setAttribute(name, value));
      line.textContent = words;
      twin.append(line);
    });
    return { text: new XMLSerializer().serializeToString(twin), size: whole };
  };
  // A saved figure says of which run it is, and is called so.
  const run = (svg) => svg.closest("[data-run]")?.dataset.run;
  const whose = (svg) => (run(svg) ? `Run: ${run(svg)}` : `Runs: ${document.getElementById("content").dataset.runs}`)
    .split(" ").flatMap((word) => word.match(/.{1,54}/gu) ?? []);
  const called = (svg) => `${run(svg) ?? "comparison"}-${svg.dataset.name}`.replace(/[^\w.-]+/g, "-");
  const download = (blob, name) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };
  const saveSvg = (svg) => download(new Blob([copy(svg).text], { type: "image/svg+xml" }), `${called(svg)}.svg`);
  const savePng = (svg) => {
    const { text, size } = copy(svg);
    const picture = new Image();
    picture.onload = () => {
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = size.map((side) => 3 * side);
      canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) => download(blob, `${called(svg)}.png`), "image/png");
    };
    picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  };
  const withTools = (figure) => {
    const svg = figure.querySelector("svg");
    const tools = document.createElement("div");
    tools.className = "tools";
    [["SVG", saveSvg], ["PNG", savePng]].forEach(([kind, save]) => {
      const one = document.createElement("button");
      one.type = "button";
      one.tabIndex = -1; // the keyboard stops once, at the figure, and has keys for both
      one.textContent = kind;
      one.setAttribute("aria-label", `Save this figure as ${kind}`);
      one.addEventListener("click", () => save(svg));
      tools.append(one);
    });
    figure.append(tools);
  };

  // The contents follow the reader; on a narrow screen they start closed.
  if (innerWidth < 640) document.querySelector(".contents details").open = false;
  const links = new Map(all(".contents a").map((link) => [link.hash.slice(1), link]));
  const watch = new IntersectionObserver((entries) => entries.forEach(({ target, isIntersecting }) => {
    if (!isIntersecting) return;
    links.forEach((link) => link.removeAttribute("aria-current"));
    links.get(target.id)?.setAttribute("aria-current", "true");
  }), { rootMargin: "-15% 0px -75% 0px" });

  const prepare = (within) => {
    all(".figure", within).forEach(withTools);
    all(".figure > svg", within).forEach(ofFigure);
    all(".choice", within).forEach(ofChoice);
    all("[data-focus]", within).forEach(ofKey);
    all("section[id]", within).forEach((section) => watch.observe(section));
    if (focused) dim(within);
    hintAtScrolling();
  };
  prepare(document);

  // Single runs of a comparison are packed, and unpacked when a reader opens them.
  const unpack = async (article) => {
    const packed = article.dataset.packed;
    if (!packed) return;
    delete article.dataset.packed;
    const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    article.innerHTML = await new Response(stream).text();
    prepare(article);
  };
  all("details.of-run").forEach((run) => {
    run.addEventListener("toggle", () => { if (run.open) unpack(run.querySelector("article")); });
  });
  const openAt = async () => {
    const run = document.getElementById(location.hash.slice(1).replace(/^(run\d+)-.*/, "$1-top"));
    if (!run?.matches("details.of-run")) return;
    run.open = true;
    await unpack(run.querySelector("article"));
    document.getElementById(location.hash.slice(1))?.scrollIntoView();
  };
  addEventListener("hashchange", openAt);
  openAt();

  // The page of a run in progress is read again, at the place where the reader is.
  const again = Number(document.body.dataset.refresh);
  if (again) setTimeout(() => location.reload(), 1000 * again);
})();
