"""The workbench in a browser: `h2h serve`. The server calls the same functions as the command line and Python."""
