async () => {
  const root = document.documentElement;
  for (const details of document.querySelectorAll("details")) details.open = true;
  for (const form of document.querySelectorAll("form")) form.hidden = false;
  const pictures = [...document.querySelectorAll("img")];
  for (const picture of pictures) picture.loading = "eager";
  await Promise.all(pictures.map((picture) => picture.decode().catch(() => null)));

  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const rgba = (colour) => {
    if (!known.has(colour)) {
      pen.clearRect(0, 0, 1, 1);
      pen.fillStyle = colour;
      pen.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
      known.set(colour, [r, g, b, a / 255]);
    }
    return known.get(colour);
  };
  const over = ([r, g, b, a], below) => [r, g, b].map((part, i) => part * a + below[i] * (1 - a)).concat(1);
  const behind = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.push(rgba(getComputedStyle(at).backgroundColor));
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    return layers.reverse().reduce((below, layer) => over(layer, below), dark ? [0, 0, 0, 1] : [255, 255, 255, 1]);
  };
  const luminance = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const contrast = (text, ground) => {
    const [light, dark] = [luminance(over(text, ground)), luminance(ground)].sort((a, b) => b - a);
    return (light + 0.05) / (dark + 0.05);
  };
  const seen = (element) => {
    const box = element.getBoundingClientRect();
    return box.width > 1 && box.height > 1 && element.checkVisibility({ visibilityProperty: true });
  };

  const faint = [];
  const check = (element, colour, text) => {
    const value = contrast(rgba(colour), behind(element));
    if (value < 4.5) faint.push(`${value.toFixed(2)}: ${text.trim().slice(0, 60)} (${colour})`);
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = walker.currentNode.textContent;
    if (!text.trim() || element.closest("script, style, title, option, .skip, .visually-hidden") || !seen(element)) continue;
    const style = getComputedStyle(element);
    const drawn = element.closest("svg");
    if (drawn?.querySelector("image") && style.fill === "rgb(0, 0, 0)") continue; // text on a picture stays black
    check(element, drawn ? style.fill : style.color, text);
  }
  for (const field of document.querySelectorAll("[placeholder]"))
    check(field, getComputedStyle(field, "::placeholder").color, field.placeholder);
  for (const drawing of document.querySelectorAll(".drawing"))
    for (const name of ["--figure-ink", "--figure-muted"])
      check(drawing, getComputedStyle(drawing).getPropertyValue(name), `${name} of a figure`);

  const figures = [...document.querySelectorAll(".drawing")].map((drawing) => {
    const inside = drawing.querySelector("svg, img");
    const box = inside?.getBoundingClientRect();
    const drawn = inside?.matches("img") ? inside.naturalWidth > 0 : (inside?.querySelectorAll("path, use, image").length ?? 0) > 0;
    return { name: drawing.getAttribute("aria-label"), width: box?.width ?? 0, height: box?.height ?? 0, drawn };
  });

  const label = (element) =>
    element.getAttribute("aria-label") || element.alt || element.textContent.trim() || [...(element.labels ?? [])].map((one) => one.textContent.trim()).join("");
  const named = "a[href], button, input, select, summary, img, [role=img], [tabindex]";
  const nameless = [...document.querySelectorAll(named)].filter((element) => !label(element)).map((element) => element.outerHTML.slice(0, 80));

  return {
    width: root.scrollWidth,
    figures,
    faint,
    nameless,
    links: [...new Set([...document.querySelectorAll("a[href]")].map((link) => link.href))],
  };
}
