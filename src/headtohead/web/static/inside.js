// To be written.

export async function show(main) {
  main.textContent = "This page is not there yet.";
}
