// The recording of the demo can be stopped and played again; tables and pictures that scroll are reached by keyboard.
const recording = document.querySelector('img[src$="demo.svg"]');
if (recording) {
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const address = recording.getAttribute("src"), end = 24000; // in milliseconds: a little longer than it plays
  const frame = recording.parentElement, button = document.createElement("button");
  frame.classList.add("recording");
  let timer, plays = 0;
  const show = (playing) => {
    clearTimeout(timer);
    recording.src = playing ? `${address}?${plays++}` : `${address}#still`;
    button.textContent = playing ? "Stop the recording" : "Play the recording";
    button.onclick = () => show(!playing);
    if (playing) timer = setTimeout(() => { button.textContent = "Play the recording"; button.onclick = () => show(true); }, end);
  };
  frame.after(button);
  show(!still);
}
document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
const reach = () => {
  for (const box of document.querySelectorAll(".recording, .md-typeset__scrollwrap, .md-typeset pre")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  }
};
addEventListener("load", reach);
addEventListener("resize", reach);
