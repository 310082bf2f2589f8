"""Compiled policies: the order of jobs, the choice of a map, and the answer to the offer of a free slot."""
