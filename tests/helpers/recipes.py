"""Files that a user writes: a recipe, and a file of parts."""

# a study of two positions on mine.txt, a second long
RECIPE = """
from headtohead import Arm, Files, Study
mine = Study(
    question="Is Rope any good?",
    control=Arm.of("lm", Files(path="mine.txt")).settings(
        ["model.width=16", "model.layers=1", "model.block=16", "tokenizer=Byte", "train.batch=4", "train.steps=6"]
    ),
    vary={"model.position": ["Learned", "Rope"]},
    command="h2h run mine.py",
    takes="a second",
    expected="nothing much",
)
"""

# two fusions of the user's
GATE = """
from headtohead import Fusion, FusionHooks

class Gate(Fusion):
    def build(self, dims, layer):
        return FusionHooks()

class Other(Gate):
    pass
"""
