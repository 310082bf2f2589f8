"""The Ray actors: JobTracker, NameNode and TaskTrackers, each with a service object for the current run.

Actors outlive runs. Masters read a run's configuration from a folder on the driver's host, also after a
restart; TaskTrackers may be elsewhere and get it at the start. Each has its own module, so that its process
imports little and the cluster starts fast.
"""
