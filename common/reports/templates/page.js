"use strict";
(() => {
  const make = (name, attributes) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    return element;
  };
  const indices = (text = "") =>
    text.split(",").filter(Boolean).flatMap((part) => {
      const [first, last = first] = part.split("-").map(Number);
      return Array.from({ length: last - first + 1 }, (_, step) => first + step);
    });

  const at = ([log, base, slope], place) => (log ? 10 ** (base + slope * place) : base + slope * place);
  // A value in as many digits as a tenth of a point of the drawing can tell.
  function said(axis, place) {
    const value = at(axis, place);
    const unit = Math.ceil(Math.log10(Math.abs(at(axis, place + 0.05) - at(axis, place - 0.05)) / 2));
    if (Math.abs(value) < 10 ** unit / 2) return "0";
    const digits = Math.floor(Math.log10(Math.abs(value)) + 1e-9) - unit;
    const [head, power] = value.toExponential(Math.min(Math.max(digits, 0), 8)).split("e");
    const raised = power.replace(/./g, (sign) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(sign)] ?? "");
    return (Math.abs(power) < 5 ? `${Number(`${head}e${power}`)}` : `${Number(head)} × 10${raised}`).replace("-", "−");
  }

  // What a link leads to inside something folded is unfolded.
  const unfold = () => {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const folded = target && target.closest("details:not([open])");
    if (!folded) return;
    folded.open = true;
    target.scrollIntoView();
  };
  addEventListener("hashchange", unfold);
  unfold();

  const tip = document.createElement("div");
  tip.className = "tip";
  tip.setAttribute("role", "status");
  document.body.append(tip);
  let rings = [], near = [];
  function hide() {
    tip.textContent = "";
    rings.forEach((ring) => ring.remove());
    near.forEach((artist) => artist.classList.remove("near"));
    rings = near = [];
  }

  function enhance(svg) {
    const plot = JSON.parse(svg.dataset.plot);
    const children = [...svg.children];
    const artists = [...svg.querySelectorAll("[clip-path]")];
    const clips = [...new Set(artists.map((artist) => artist.getAttribute("clip-path")))];
    const seeds = plot.seeds?.split(" ");
    const arms = plot.arms
      .map(([name, first, last, own, rest]) => ({ name, first, last, own: indices(own), all: indices(own).concat(indices(rest)) }))
      .filter(({ all }) => all.length);
    const numbers = (element, ...names) => names.map((name) => Number(element.getAttribute(name)));
    let known;

    function points() {
      known ??= indices(plot.points).flatMap((index) => {
        const artist = artists[index];
        const clip = artist.getAttribute("clip-path");
        const axes = plot.axes[clips.indexOf(clip)];
        const box = document.getElementById(clip.slice(5, -1)).firstElementChild;
        const [left, top, width, height] = numbers(box, "x", "y", "width", "height");
        const arm = arms.find(({ own }) => own.includes(index));
        const runs = plot.runs?.[index]?.split(" ") ?? [];
        const places =
          artist.localName === "path"
            ? [...artist.getAttribute("d").matchAll(/[ML](\S+) ([^ML]+)/g)].map((found) => [Number(found[1]), Number(found[2])])
            : [...artist.children].map((mark) => numbers(mark, "x", "y"));
        return places
          .map(([x, y], number) => ({ x, y, artist, arm, axes, run: runs[number], seed: artist.dataset.seed ?? seeds?.[runs[number]] }))
          .filter(({ x, y }) => Math.abs(2 * (x - left) - width) < width + 0.2 && Math.abs(2 * (y - top) - height) < height + 0.2);
      });
      return known.filter(({ artist }) => !artist.classList.contains("off"));
    }

    function show(point) {
      hide();
      const { x, y, artist, arm, axes, run, seed } = point;
      const head = [arm?.name, seed && `seed ${seed}`].filter(Boolean).join(", ");
      const values = axes.map((axis, which) => axis && `${axis[3] || "xy"[which]}: ${said(axis, which ? y : x)}`);
      tip.append(...[head, ...values].filter(Boolean).map((line) => Object.assign(document.createElement("div"), { textContent: line })));
      const same = run ? points().filter((other) => other.run === run) : [point];
      rings = same.map((other) => make("circle", { class: "ring", cx: other.x, cy: other.y, r: 6 }));
      svg.append(...rings);
      if (artist.localName === "path") near = seed ? artists.filter(({ dataset }) => dataset.seed === seed) : [artist];
      near.forEach((line) => line.classList.add("near"));
      const place = new DOMPoint(x, y).matrixTransform(svg.getScreenCTM());
      const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
      const high = tip.offsetHeight + 12;
      tip.style.left = `${Math.max(8, Math.min(place.x + 12, room)) + scrollX}px`;
      tip.style.top = `${place.y + scrollY + (place.y > high ? -high : 16)}px`;
    }

    function seek(event) {
      const screen = svg.getScreenCTM();
      const pointer = new DOMPoint(event.clientX, event.clientY).matrixTransform(screen.inverse());
      let best, least = 24 / screen.a;
      for (const point of points()) {
        const far = Math.hypot(point.x - pointer.x, point.y - pointer.y);
        if (far < least) [best, least] = [point, far];
      }
      best ? show(best) : hide();
    }
    for (const name of ["pointermove", "pointerdown"]) svg.addEventListener(name, seek);
    svg.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && hide());

    if (arms.length < 2) return;
    const drawing = make("g", { role: "img", "aria-label": svg.getAttribute("aria-label") });
    drawing.append(...children);
    svg.append(drawing);
    svg.setAttribute("role", "group");
    const off = new Set();
    const keys = arms.map((arm, number) => {
      const key = make("g", { class: "key", role: "button", tabindex: number && -1, "aria-pressed": true, "aria-label": arm.name });
      key.append(...children.slice(arm.first, arm.last + 1));
      svg.append(key);
      const own = () => points().filter((point) => point.arm === arm);
      let step = -1;
      const walk = (by) => {
        step = Math.max(0, Math.min(step + by, own().length - 1));
        if (own().length) show(own()[step]);
      };
      const light = (on) => {
        svg.classList.toggle("one", on && !off.has(arm));
        arm.all.forEach((index) => artists[index].classList.toggle("lit", on));
      };
      const toggle = () => {
        off.delete(arm) || off.add(arm);
        key.setAttribute("aria-pressed", !off.has(arm));
        for (const index of arm.all)
          artists[index].classList.toggle("off", arms.every((other) => off.has(other) || !other.all.includes(index)));
        light(true);
        hide();
      };
      const moves = {
        Enter: toggle,
        " ": toggle,
        ArrowDown: () => keys[(number + 1) % keys.length].focus(),
        ArrowUp: () => keys.at(number - 1).focus(),
        ArrowRight: () => walk(1),
        ArrowLeft: () => walk(-1),
      };
      const on = {
        click: toggle,
        keydown: (event) => {
          if (!moves[event.key] || event.altKey) return;
          event.preventDefault();
          moves[event.key]();
        },
        focus: () => {
          keys.forEach((other) => other.setAttribute("tabindex", other === key ? 0 : -1));
          light(true);
        },
        pointerenter: (event) => light(event.pointerType === "mouse"),
        pointerleave: () => light(false),
        blur: () => {
          light(false);
          hide();
        },
      };
      for (const name in on) key.addEventListener(name, on[name]);
      return key;
    });
  }

  document.querySelectorAll("svg[data-plot]").forEach(enhance);
  document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
  document.addEventListener("pointerdown", (event) => event.target.closest("svg[data-plot]") || hide());
})();
