// The course's pages: exercises that check their answers, and explorers in the colours of the page.

/** What was typed as a number: "12", "-0.5", "1e-3", "4/3", "1,024"; NaN for anything else. */
function numberOf(text) {
  const plain = text.replace(/[−–]/g, "-").replace(/\s/g, "").replace(/,(?=\d{3}(\D|$))/g, "").replace(",", ".");
  const parts = plain.split("/").map((part) => (part === "" ? NaN : Number(part)));
  return parts.length > 2 ? NaN : parts.length === 2 ? parts[0] / parts[1] : parts[0];
}

/** An answer is right when it is within one part in a hundred, or the chosen one. */
function isRight(given, wanted) {
  const number = Number(wanted);
  if (Number.isNaN(number)) return given === wanted;
  return Math.abs(numberOf(given) - number) <= 0.01 * Math.max(Math.abs(number), 1e-9);
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.matches(".wg-exercise form")) return;
  event.preventDefault();
  const given = String(new FormData(form).get("answer") ?? "").trim();
  const output = form.querySelector("output");
  const right = isRight(given, form.dataset.answer);
  output.textContent = given === "" ? "Give an answer first." : right ? "Right." : "Not yet. Try again, or open the answer.";
  output.className = given === "" ? "" : right ? "wg-right" : "wg-wrong";
  if (right) form.parentElement.querySelector("details").open = true;
});

const frames = () => document.querySelectorAll(".wg-live iframe");

/** Tells an explorer the page's theme, behind the # of its address; `at` is what else is to stand there. */
function tellTheme(frame, at) {
  const theme = document.body.dataset.mdColorScheme === "slate" ? "dark" : "light";
  frame.contentWindow.location.replace(`${frame.src.split("#")[0]}#${at ? `${at}&` : ""}theme=${theme}`);
}

for (const frame of frames()) {
  const first = () => {
    frame.dataset.loaded = "yes";
    tellTheme(frame, new URL(frame.src).hash.slice(1));
  };
  frame.addEventListener("load", first, { once: true });
}
new MutationObserver(() => {
  for (const frame of frames()) if (frame.dataset.loaded) tellTheme(frame, "");
}).observe(document.body, { attributeFilter: ["data-md-color-scheme"] });
