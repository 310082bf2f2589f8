"""The Ray actors: JobTracker, NameNode and TaskTrackers. Each actor has a service object for the current run.

An actor stays alive for several runs. The masters (JobTracker and NameNode) read the current run's
configuration from a folder on the host of the driver (the process of the command), also after Ray has
restarted them. TaskTrackers may be on other hosts and receive the configuration when the run starts. Each
actor has its own module, so that each process imports only the code that it needs and the cluster starts
fast.
"""
