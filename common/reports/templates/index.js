"use strict";
(() => {
  const form = document.querySelector("form.filters");
  // "Fig. 4d", "figure 4d" and the name fig4d are one word, "generalize" is "generalise".
  const plain = (text) =>
    text
      .normalize("NFKC")
      .toLowerCase()
      .replace(/iz/g, "is")
      .replace(/\bfig(?:ure|s)?\.?\s*(?=\d)/g, "fig")
      .replace(/\b(table|theorem|claim|lemma|equation)\s+(?=\d)/g, "$1");
  // What readers call the signs and names in statements.
  const OTHERWISE = [
    ["tr h", "trace hessian"],
    ["tr g", "trace gauss-newton"],
    ["λ1", "sharpness largest eigenvalue"],
    ["γ", "weight decay"],
    ["b = ", "batch"],
    ["residual network", "resnet"],
    ["wide residual network", "wrn"],
    ["noise injection", "nso"],
    ["two-sided noise", "nso"],
  ];
  const entries = [...document.querySelectorAll(".entry")].map((element) => {
    const said = plain(`${element.textContent} ${element.dataset.words}`);
    const otherwise = OTHERWISE.filter(([sign]) => said.includes(sign)).map(([, words]) => words);
    return { element, text: [said, ...otherwise].join(" ") };
  });
  const output = form.querySelector("output");
  const none = document.querySelector(".none-left");

  // A short word stands alone; a number ends where it ends: "fig1" is not in "fig16".
  const holds = (text, part) =>
    /^[a-z]{2,3}$/.test(part)
      ? new RegExp(`\\b${part}\\b`).test(text)
      : /^[a-z]*\d+$/.test(part)
        ? new RegExp(`(?<![a-z\\d])${part}(?!\\d)`).test(text)
        : text.includes(part);
  const stem = (word) => (word.length > 6 ? word.slice(0, -3) : word);
  // How many of the words each entry has, and how many it needs: all; where no entry has all, of their stems the most.
  function found(words) {
    const count = (parts) => entries.map(({ text }) => parts.filter((part) => holds(text, part)).length);
    const all = count(words);
    if (all.includes(words.length)) return [all, words.length];
    const some = count(words.map(stem));
    const most = Math.max(...some);
    return [some, 2 * most > words.length && most > 1 ? most : words.length + 1];
  }

  function apply() {
    const words = plain(form.elements.words.value).split(/\s+/).filter(Boolean);
    const [counts, needed] = found(words);
    const verdicts = [...form.querySelectorAll("input[name=verdict]:checked")].map((box) => box.value);
    const paper = form.elements.paper.value;
    const fragile = form.elements.fragile.checked;
    let shown = 0;
    for (const [number, { element }] of entries.entries()) {
      const fits =
        counts[number] >= needed &&
        (!verdicts.length || verdicts.includes(element.dataset.verdict)) &&
        (!fragile || "fragile" in element.dataset) &&
        (!paper || paper === element.dataset.paper);
      element.hidden = !fits;
      shown += fits;
    }
    const how = shown && needed < words.length ? `, with ${needed} of the ${words.length} words` : "";
    output.textContent = (shown === entries.length ? `${shown} claims` : `${shown} of ${entries.length} claims`) + how;
    none.hidden = shown > 0;
  }

  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  apply();
})();
