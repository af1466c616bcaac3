// Exercises: an answer is right when it is within one part in a hundred, or the chosen one.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.matches(".wg-exercise form")) return;
  event.preventDefault();
  const given = String(new FormData(form).get("answer") ?? "").trim().replace("−", "-").replace(",", ".");
  const wanted = form.dataset.answer;
  const number = Number(wanted);
  const right = Number.isNaN(number)
    ? given === wanted
    : given !== "" && Math.abs(Number(given) - number) <= 0.01 * Math.max(Math.abs(number), 1e-9);
  const output = form.querySelector("output");
  output.textContent = given === "" ? "Give an answer first." : right ? "Right." : "Not yet. Try again, or open the answer.";
  output.className = right ? "wg-right" : "wg-wrong";
});
