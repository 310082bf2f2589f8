"""Every policy on every workload in virtual time, paired over seeds: ranks, a page and a fitness function."""
