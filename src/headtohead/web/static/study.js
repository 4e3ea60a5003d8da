export async function show(main, at) { main.textContent = at.name; }
