// Commands that pages have started: what runs, with buttons to stop and to continue.

import { address } from "./app.js";
import { ask, on, tell } from "./api.js";
import { button, h, replace, toast } from "./dom.js";

const EVERY = 2000; // milliseconds between two looks while something changes

async function stop(job, after) {
  try {
    await tell("api/jobs/stop", { id: job.id });
    toast("It stops after saving. The same command continues it.");
  } catch (error) {
    toast(error.message, "error");
  }
  after();
}

const stopButton = (job, after) => button("Stop", () => stop(job, after), { class: "small", "aria-label": `Stop ${job.study || job.command.join(" ")}` });

// Ask for the jobs now, and again when the store changes; returns what ends it.
function followJobs(draw) {
  let waiting = null;
  let ended = false;
  const look = async () => {
    waiting = null;
    try {
      const { jobs } = await ask("api/jobs");
      if (!ended) draw(jobs, look);
    } catch {
      // the frame says that the server does not answer
    }
  };
  const later = () => {
    if (!waiting && !ended) waiting = setTimeout(look, EVERY);
  };
  const ends = [on("progress", later), on("study", later), on("connected", later)];
  look();
  return () => {
    ended = true;
    clearTimeout(waiting);
    for (const end of ends) end();
  };
}

// A list of the jobs that run; empty if none does.
export function runningJobs(place, readOnly) {
  return followJobs((jobs, look) => {
    const running = jobs.filter((job) => job.running);
    replace(place, running.length ? h("h2", null, "Running now") : null,
      running.length ? h("ul", { class: "jobs" }, running.map((job) => h("li", null,
        job.ready ? h("a", { href: address("study", job.study) }, job.study) : h("strong", null, job.study || "a command"), readOnly ? null : stopButton(job, look),
        h("code", null, `h2h ${job.command.join(" ")}`)))) : null);
  });
}
