"""Reports of studies: the page, its figures, tables to paste. Imports no torch."""
