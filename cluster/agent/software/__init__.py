"""The limits of attempts on hosts without control groups: what they use is sampled, and who has too much is stopped."""
