const field = document.getElementById("text");
document.getElementById("find").hidden = false;
field.addEventListener("input", () => {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of document.querySelectorAll("tr.run")) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
  }
});
