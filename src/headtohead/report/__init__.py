"""Reports: what the store holds, as a page of its own. Imports no torch."""
