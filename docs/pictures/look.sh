#!/bin/sh
# The pictures of README.md and docs/explanation/looking.md, made anew: sh docs/pictures/look.sh (two minutes).
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
HEADTOHEAD_HOME=$(mktemp -d)
export HEADTOHEAD_HOME
h2h train lm --seeds 6 --steps 300 --set evaluate.snapshots=20 --set evaluate.windows=100 >/dev/null
h2h attend latest "I have the honor to report that the people of the United States are at peace." --layer 0 --layer 3 --out "$here/map.png" >/dev/null
h2h attend latest "I have the honor to report that the people of the United States are at peace." --film --layer 1 --head 0 --out "$here/film.png" >/dev/null
h2h attend latest --evolution --out "$here/evolution.png" >/dev/null
h2h heads latest --out "$here/heads.png" >/dev/null
rm -r "$HEADTOHEAD_HOME"
