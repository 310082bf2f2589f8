"""The trees of queues of YARN's schedulers, and their preemption."""
