"""Random clusters that match a paper's printed values, and the shares of them on which each claim holds."""
