"""The Ray actors: JobTracker, NameNode and TaskTrackers. Each actor has a service object for the current run.

Actors outlive single runs. The masters find the current run in a control folder of the driver's host, also
after Ray has restarted them. A TaskTracker may be on another host and receives the run when it starts. Each
actor has its own module, so that each process imports only its own needs and the cluster starts fast.
"""
