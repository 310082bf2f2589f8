"""Users of a cluster that stays up: their tokens, their rights and their quotas."""
