"""The common style of all figures, and their output as SVG and PDF."""
