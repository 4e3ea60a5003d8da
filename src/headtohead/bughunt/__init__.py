"""Find the bugs: a small transformer with bugs that differ from student to student, its answer key, and its marking.

make("ada", "hunt", course="…")       writes the task
answer("ada", course="…")             the answer key, for the teacher
check("hunt", "ada", course="…")      marks a repaired model by what it does
"""

from headtohead.bughunt.grading import Grade, check
from headtohead.bughunt.hunts import Answer, Hunt, answer, hunt_of, make

__all__ = ["Answer", "Grade", "Hunt", "answer", "check", "hunt_of", "make"]
