"""Files on disk: written completely or not at all, never through a link, and checked by their sha256."""
