#!/bin/sh
# From a CSV file to predictions, a comparison of models, a check of the approximation and a report,
# with the command line alone. Usage: newcomer.sh [folder]. Takes half a minute.
set -eu

folder=${1:-newcomer}
mkdir -p "$folder"
cd "$folder"

step() { printf '\n\033[1m$ %s\033[0m\n' "$*"; "$@"; }

# Harvests of 40 fields by rain and soil; four of them were mistyped. Six more are to be predicted.
python - <<'PYTHON'
import csv
import math
import random

random.seed(4)


def field(number):
    rain, soil = random.uniform(20, 120), random.choice(["clay", "sand"])
    harvest = 50 + 12 * math.sin(rain / 15) + 8 * (soil == "clay") + random.gauss(0, 2)
    return [number, round(rain, 1), soil, round(harvest, 1)]


head = ["id", "rain", "soil", "harvest"]
rows = [field(number) for number in range(1, 47)]
for row, error in zip((3, 10, 24, 33), (40, -30, 35, -25)):
    rows[row][-1] = round(rows[row][-1] + error, 1)
with open("fields.csv", "w", newline="") as file:
    csv.writer(file).writerows([head, *rows[:40]])
with open("new.csv", "w", newline="") as file:
    csv.writer(file).writerows([head[:-1], *(row[:-1] for row in rows[40:])])
PYTHON

# Learn a model. Nothing is said about the noise: the command finds that some rows are far off.
step cavity fit fields.csv --target harvest --drop id --restarts 0 --out fields.cavity

# Predict harvests with intervals that hold with probability 0.9.
step cavity predict fields.cavity new.csv --interval 0.9 --out predicted.csv
cat predicted.csv

# Was the robust noise model a good choice?
step cavity compare fields.csv --target harvest --drop id --likelihood gaussian --likelihood student-t \
    --kernel "1.0*SE(ard)" --folds 2 --restarts 0

# Can the approximation be trusted? It is held against sampling for a few seconds; where that is too short for a
# verdict, the command says so and how long it would take.
step cavity assess fields.cavity fields.csv --max-time 5 --inference ep

# Everything in one file to look at or to send.
step cavity report fields.cavity fields.csv --out report.html
