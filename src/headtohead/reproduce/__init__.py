"""Published results re-tested: figures side by side, and a ledger of what was claimed and what holds.

A recipe in recipes/published/ says what it shows and which claims it decides:

    shown = [Shown("doc000.decoder.obama", window, "Causal", "obama/perplexity")]
    claims = [Claim("000.1", Better(window, "Causal & Local(window=8)"), because="…")]
"""

from headtohead.reproduce.evidence import Claim
from headtohead.reproduce.kinds import (
    Alike,
    Audited,
    AuditedModule,
    Better,
    Closer,
    Interaction,
    Moves,
    Near,
    Not,
    NotBetter,
    Sooner,
)
from headtohead.reproduce.measures import by_familiarity, entropy, frequencies, other_future, sentences, weight_on
from headtohead.reproduce.tables import Shown

__all__ = [
    "Alike",
    "Audited",
    "AuditedModule",
    "Better",
    "Claim",
    "Closer",
    "Interaction",
    "Moves",
    "Near",
    "Not",
    "NotBetter",
    "Shown",
    "Sooner",
    "by_familiarity",
    "entropy",
    "frequencies",
    "other_future",
    "sentences",
    "weight_on",
]
