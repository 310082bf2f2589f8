"""The Ray actors: JobTracker, NameNode and TaskTrackers, each with its service of the current run.

Actors outlive single runs. The masters find the current run in a control folder of the driver's host, also after Ray
has restarted them; a TaskTracker, which may be on another host, receives it when it starts. Each actor has a module
of its own: all start at once, and a cluster is up as soon as each has imported what it needs.
"""
