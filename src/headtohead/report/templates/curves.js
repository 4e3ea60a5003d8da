// Learning curves: a mouse, a finger or the arrow keys choose a step; a drag or the sliders choose from where to where;
// boxes choose the arms. The chart itself is Altair's; its parameters are set here.
async function curves(box) {
  const told = JSON.parse(box.querySelector("script").textContent);
  const find = what => box.querySelector(what);
  const plot = find(".chart"), readout = find(".readout"), from = find(".from"), to = find(".to");
  const looks = told.spec.data.values;
  const names = new Map(told.arms.map(arm => [arm.key, arm.name]));
  box.hidden = false;  // before it is drawn: it is as wide as its place
  const { view } = await vegaEmbed(plot, told.spec, {
    mode: "vega-lite", renderer: "svg", actions: false, tooltip: false,
    logLevel: 1,  // errors alone: that nothing is drawn where nothing was chosen is no warning
  });

  const shown = () => [...box.querySelectorAll(".arm:checked")].map(input => input.value);
  const range = () => [Number(from.value), Number(to.value)].map(n => told.steps[n]);
  const number = x => x.toFixed(told.digits) + told.unit;

  function tell(step) {
    readout.replaceChildren();
    if (step === null) return;
    const lines = looks.filter(look => look.step === step && shown().includes(look.arm));
    const parts = lines.map(look => {
      const spread = look.low === look.high ? "" : ` (${number(look.low)} … ${number(look.high)})`;
      return `${names.get(look.arm)} ${number(look.mean)}${spread}`;
    });
    for (const part of [`step ${step.toLocaleString("en")}:`, ...parts]) {
      const span = document.createElement("span");
      span.textContent = part;
      readout.append(span, " ");
    }
  }

  let at = null;
  function look(step) {
    if (step === at) return;
    at = step;
    view.signal("at", step).run();
    tell(step);
  }

  function update() {
    const [first, last] = range();
    view.signal("shown", shown()).signal("bands", find(".bands").checked);
    view.signal("firstStep", first).signal("lastStep", last).run();
    find(".span").textContent = `steps ${first.toLocaleString("en")} to ${last.toLocaleString("en")}`;
    for (const slider of [from, to]) slider.setAttribute("aria-valuetext", `step ${told.steps[slider.value]}`);
    tell(at);
  }

  function zoom(first, last) {
    const inside = told.steps.map((step, n) => n).filter(n => told.steps[n] >= first && told.steps[n] <= last);
    if (inside.length < 2) return;  // nothing would be left to draw
    from.value = inside[0];
    to.value = inside.at(-1);
    update();
  }

  // the step under the pointer, as a number and as the nearest one that was looked at
  const exact = event => {
    const left = find(".chart svg").getBoundingClientRect().left + view.padding().left + view.origin()[0];
    return view.scale("x").invert(event.clientX - left);
  };
  const nearest = x => told.steps.reduce((best, step) => (Math.abs(step - x) < Math.abs(best - x) ? step : best));

  let start = null;
  plot.addEventListener("pointerdown", event => {
    if (event.pointerType === "mouse") start = exact(event);
    else look(nearest(exact(event)));
  });
  plot.addEventListener("pointermove", event => {
    const x = exact(event), [first, last] = range();
    if (start !== null) view.signal("dragFrom", start).signal("dragTo", Math.min(Math.max(x, first), last));
    look(nearest(Math.min(Math.max(x, first), last)));
    if (start !== null) view.run();
  });
  window.addEventListener("pointerup", event => {
    if (start === null) return;
    const ends = [start, exact(event)].sort((a, b) => a - b);
    start = null;
    view.signal("dragFrom", null).signal("dragTo", null).run();
    const [first, last] = range();
    if (ends[1] - ends[0] > 0.02 * (last - first)) zoom(...ends);
  });
  plot.addEventListener("pointerleave", event => {  // a finger that is lifted has read its step
    if (start === null && event.pointerType === "mouse") look(null);
  });
  plot.addEventListener("keydown", event => {
    const [first, last] = range();
    const steps = told.steps.filter(step => step >= first && step <= last), n = steps.indexOf(at);
    const to = { ArrowRight: n + 1, ArrowLeft: n < 0 ? steps.length - 1 : n - 1, Home: 0, End: steps.length - 1 }[event.key];
    if (event.key === "Escape") look(null);
    if (to === undefined) return;
    event.preventDefault();
    look(steps[Math.min(Math.max(to, 0), steps.length - 1)]);
  });

  for (const input of box.querySelectorAll("input")) input.addEventListener("input", event => {
    if (event.target === from) from.value = Math.min(from.value, to.value - 1);
    if (event.target === to) to.value = Math.max(to.value, Number(from.value) + 1);
    update();
  });
  find(".whole").addEventListener("click", () => zoom(told.steps[0], told.steps.at(-1)));
  for (const button of box.querySelectorAll("[data-arms]")) button.addEventListener("click", () => {
    for (const input of box.querySelectorAll(".arm")) input.checked = button.dataset.arms === "all";
    update();
  });
  update();
}

// what is wider than its place says so
function hint() {
  for (const box of document.querySelectorAll(".wide")) {
    box.classList.remove("more");
    box.classList.toggle("more", box.scrollWidth > box.clientWidth + 1);
  }
}

async function start() {
  if (window.vegaEmbed) {
    await Promise.all([...document.querySelectorAll(".interactive")].map(curves));
    document.body.classList.add("live");
    window.dispatchEvent(new Event("resize"));  // its place may have become another one
  }
  for (const button of document.querySelectorAll("button.copy")) {
    button.hidden = false;
    button.addEventListener("click", () => copy(button));
  }
  hint();
  window.addEventListener("resize", hint);
  document.addEventListener("toggle", hint, true);
  document.body.dataset.ready = "yes";
}

async function copy(button) {
  const text = document.getElementById(button.dataset.of);
  const said = document.getElementById("copied");
  try {
    await navigator.clipboard.writeText(text.textContent);
  } catch {  // not allowed or not available: the older call needs no permission
    getSelection().selectAllChildren(text);
    document.execCommand("copy");
    getSelection().removeAllRanges();
  }
  button.textContent = "Copied";
  said.textContent = `${text.getAttribute("aria-label")} copied`;
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
}

start();
