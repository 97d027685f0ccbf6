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
    ["sharpness-aware", "sam"],
    ["sam ", "sharpness-aware minimisation"],
    ["η tr ", "penalty regulariser regularisation"],
    ["plain step", "cost"],
    ["shuffled", "random labels"],
    ["random classes", "random labels"],
    ["largest possible", "vacuous"],
    ["largest there is", "vacuous"],
    ["says nothing", "vacuous"],
    ["say nothing", "vacuous"],
    ["pac-bayes", "generalisation bound"],
    ["learning rate", "step size"],
    ["rescal", "reparametrisation invariance"],
    ["same loss", "equal loss"],
    ["gap", "generalisation"],
    ["test accuracy", "generalisation"],
    ["on fresh data", "generalisation"],
  ];
  const read = (element) => {
    const said = plain(`${element.textContent} ${element.dataset.words ?? ""}`);
    const otherwise = OTHERWISE.filter(([sign]) => said.includes(sign)).map(([, words]) => words);
    return { element, text: [said, ...otherwise].join(" ") };
  };
  const ledger = document.querySelector(".ledger");
  const entries = [...document.querySelectorAll(".entry")].map(read);
  const findings = [...document.querySelectorAll(".answer")].map(read);
  const answers = document.querySelector(".answers");
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
  // How many of the words each has, and how many it needs: all; where none has all, of their stems the most. The last
  // is what its words weigh: a rare one more.
  function found(all, words) {
    const weigh = (parts) => {
      const has = parts.map((part) => all.map(({ text }) => holds(text, part)));
      const weight = has.map((of) => Math.log(1 + all.length / (1 + of.filter(Boolean).length)));
      const sum = (values) => all.map((_, at) => has.reduce((total, of, part) => total + of[at] * values[part], 0));
      return [sum(parts.map(() => 1)), sum(weight)];
    };
    const [full, heavy] = weigh(words);
    if (full.includes(words.length)) return [full, words.length, heavy];
    const [some, weights] = weigh(words.map(stem));
    const most = Math.max(...some);
    return [some, 2 * most > words.length && most > 1 ? most : words.length + 1, weights];
  }

  function apply() {
    const words = plain(form.elements.words.value).split(/\s+/).filter(Boolean);
    const [counts, needed, weights] = found(entries, words);
    const verdicts = [...form.querySelectorAll("input[name=verdict]:checked")].map((box) => box.value);
    const paper = form.elements.paper.value;
    const whose = form.elements.whose.value;
    const fragile = form.elements.fragile.checked;
    let [shown, counted] = [0, 0];
    for (const [number, { element }] of entries.entries()) {
      const fits =
        counts[number] >= needed &&
        (!verdicts.length || verdicts.includes(element.dataset.verdict)) &&
        (!fragile || "fragile" in element.dataset) &&
        (!paper || paper === element.dataset.paper) &&
        (!whose || whose === element.dataset.whose);
      element.hidden = !fits;
      shown += fits;
      counted += fits && element.dataset.whose === "claim";
    }
    // In the order of the papers; where words are left out, what has the rarer ones comes first.
    const order = [...entries.keys()];
    if (needed < words.length) order.sort((one, other) => weights[other] - weights[one] || one - other);
    ledger.append(...order.map((number) => entries[number].element));
    const [said, asked] = words.length ? found(findings, words) : [[], 1];
    for (const [number, { element }] of findings.entries())
      element.hidden = !(said[number] >= asked && !verdicts.length && !fragile && (!paper || paper === element.dataset.paper));
    answers.hidden = findings.every(({ element }) => element.hidden);
    const how = shown && needed < words.length ? `, with ${needed} of the ${words.length} words` : "";
    const all = shown === entries.length ? `${shown} claims` : `${shown} of ${entries.length} claims`;
    output.textContent = `${all}${how}${whose || !shown ? "" : `, ${counted} of them documents' empirical ones`}`;
    none.hidden = shown > 0;
  }

  // A count at the head of the page leads to the claims that it counts.
  for (const count of document.querySelectorAll(".legend a"))
    count.addEventListener("click", () => {
      form.reset();
      form.elements.whose.value = "claim";
      for (const box of form.elements.verdict) box.checked = box.value === count.dataset.verdict;
      apply();
    });
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  apply();
})();
