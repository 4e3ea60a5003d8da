"""Published results tested again: figures next to the published ones, and verdicts on claims.

A recipe in recipes/published/ lists its figures and claims:

    shown = [Shown("doc000.decoder.obama", window, "Causal", "obama/perplexity")]
    claims = [Claim("000.1", Better(window, "Causal & Local(window=8)"), because="…")]
"""

from headtohead.claims.comparisons import (
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
from headtohead.claims.evidence import Claim
from headtohead.claims.measures import by_familiarity, entropy, frequencies, other_future, sentences, weight_on
from headtohead.claims.published_figures import Shown

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
