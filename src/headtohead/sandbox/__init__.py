"""Run code that is not trusted, such as a student's, in a process of its own with limits.

`Nursery` keeps one process with torch imported and forks it for each piece of work, so that a start takes milliseconds.
The child limits itself before it reads foreign code: time, memory, files, system calls. What a platform cannot limit is
listed by `protections()`.
"""

from headtohead.sandbox.limits import Limits
from headtohead.sandbox.nursery import Ended, Nursery, Work
from headtohead.sandbox.protect import protections

__all__ = ["Ended", "Limits", "Nursery", "Work", "protections"]
