"""What a claimed difference is worth, by the noise between runs: `h2h check-claim`, `headtohead.check_claim`."""
