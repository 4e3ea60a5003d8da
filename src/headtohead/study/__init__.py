"""Studies: from a question to a verdict.

study.py      a question, a control, what is varied, the seeds, the metric
recipes.py    studies by name: Python files, the recipes of the package, `--vary` on the command line
layout.py     which runs a study takes
tuning.py     the same grid for every arm, chosen by the validation set
execution.py  train what the store lacks, and write study.json
plan.py       how many pairs, how many minutes
workflow.py   all of it: audit, training, outcome, report
"""
