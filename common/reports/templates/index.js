"use strict";
(() => {
  const form = document.querySelector("form.filters");
  const plain = (text) => text.normalize("NFKC").toLowerCase();
  const entries = [...document.querySelectorAll(".entry")].map((element) => ({
    element,
    text: plain(element.textContent),
  }));
  const output = form.querySelector("output");
  const none = document.querySelector(".none-left");

  function apply() {
    const words = plain(form.elements.words.value).split(/\s+/).filter(Boolean);
    const verdicts = [...form.querySelectorAll("input[name=verdict]:checked")].map((box) => box.value);
    const paper = form.elements.paper.value;
    const fragile = form.elements.fragile.checked;
    let shown = 0;
    for (const { element, text } of entries) {
      const fits =
        words.every((word) => text.includes(word)) &&
        (!verdicts.length || verdicts.includes(element.dataset.verdict)) &&
        (!fragile || "fragile" in element.dataset) &&
        (!paper || paper === element.dataset.paper);
      element.hidden = !fits;
      shown += fits;
    }
    output.textContent = shown === entries.length ? `${shown} claims` : `${shown} of ${entries.length} claims`;
    none.hidden = shown > 0;
  }

  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  apply();
})();
