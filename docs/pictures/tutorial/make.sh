#!/bin/sh
# Makes the pictures of docs/tutorial again, with the commands of its pages, in a store of its own. Four minutes.
set -eu
cd "$(dirname "$0")"
HEADTOHEAD_HOME=$(mktemp -d)
export HEADTOHEAD_HOME
trap 'rm -rf "$HEADTOHEAD_HOME"' EXIT
text="The people of our union and the Congress"
base="--set model.position=Rope --set model.layers=2 --steps 600"

# shellcheck disable=SC2086
{
    h2h train lm $base --set evaluate.snapshots=8
    h2h attend latest "$text" --out map.png
    h2h train lm $base --set 'model.pattern=Causal() & Local(4)'
    h2h attend latest "$text" --out window.png
    h2h train lm $base --set evaluate.snapshots=8 --seeds 6
    h2h attend latest "$text" --film --layer 0 --head 0 --out film.svg
    h2h heads latest --out heads.svg
    h2h train lm --steps 1 --set model.layers=1 --set evaluate.windows=20 --set 'model.position=Alibi(slope=0.5)'
    h2h attend latest "$text" --out untrained.png
}
